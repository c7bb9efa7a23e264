"""What a parameter does in its network. Scales, rates and plans address parameters by Role, never by name."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The job of a parameter, independent of the architecture that holds it."""

    INPUT = "input"
    HIDDEN = "hidden"
    READOUT = "readout"
    BIAS = "bias"
    EMBEDDING = "embedding"
    POSITION = "position"
    QUERY = "query"
    KEY = "key"
    VALUE = "value"
    PROJECTION = "projection"
    NORM = "norm"


@dataclass(frozen=True)
class Parameter:
    """One tensor of a model: its name in the module, Role, layer (0 is next to the input), shape and fan-in.

    `flops` is what its uses in one training sample cost; None: it is used once, see `flops_per_sample`. A `fixed`
    parameter keeps its initial values.
    """

    name: str
    role: Role
    layer: int
    shape: tuple[int, ...]
    fan_in: int
    flops: int | None = None
    fixed: bool = False
