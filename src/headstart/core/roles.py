"""What a parameter does in its network. Scales, rates and plans address parameters by Role, never by name."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headstart.core.errors import HeadstartError


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


def checked_roles(owner: str, roles: object) -> tuple[Role, ...]:
    """Roles given as one, or as several in any order, sorted; raises where one is none."""
    given: list[Any] = [roles] if isinstance(roles, str) or not isinstance(roles, Iterable) else list(roles)
    for role in given:
        if role not in list(Role):
            raise HeadstartError(f"{owner}(roles={roles!r}): roles are {', '.join(Role)}")
    return tuple(sorted({Role(role) for role in given}))


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
