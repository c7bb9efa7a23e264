"""The maximal update parametrisation: scales and rates that make feature learning independent of the width."""

from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import check_positive
from headstart.core.roles import Parameter, Role
from headstart.methods.method import Method
from headstart.optimizers import Optimizer

# Roles whose fan-in is the width, so that it grows with it.
_MATRICES = frozenset({Role.HIDDEN, Role.QUERY, Role.KEY, Role.VALUE, Role.PROJECTION})


@dataclass(frozen=True)
class MuP(Method):
    """muP relative to a base width; at the base width it is the standard parametrisation exactly.

    With r = width / base_width the ratio of widths, the factors on the standard initial values and learning rates are

        role                      initial values    SGD rate    Adam rate
        input, embedding, norm    1                 r           1
        bias                      sqrt(r) or 1      r or 1      1
        hidden, attention         1                 1           1/r
        readout                   1/sqrt(r)         1/r         1/r

    so that a readout's standard deviation falls as 1/width. A bias after a layer whose fan-in is the width is drawn by
    PyTorch with standard deviation 1/sqrt(width); sqrt(r) undoes that. The bias of a single output keeps its rate.

    A two-layer network with the default base width 1 has readouts of standard deviation proportional to 1/m, and SGD
    rates eta m and eta / m. Reference: Yang and Hu, Tensor Programs IV (2021), Table 1; Yang et al., Tensor Programs V
    (2022), Table 3.
    """

    base_width: float = 1.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("MuP", "base_width", self.base_width)

    def init_scale(self, parameter: Parameter) -> float:
        """The factor on the initial values."""
        if parameter.role is Role.READOUT:
            return (parameter.fan_in / self.base_width) ** -0.5
        if parameter.role is Role.BIAS and parameter.layer > 0:
            return (parameter.fan_in / self.base_width) ** 0.5
        return 1.0

    def rate_scale(self, parameter: Parameter, optimizer: Optimizer) -> float:
        """The factor on the learning rate."""
        adaptive = optimizer.adaptive
        if parameter.role is Role.READOUT:
            return self.base_width / parameter.fan_in
        if parameter.role in _MATRICES:
            return self.base_width / parameter.fan_in if adaptive else 1.0
        num = parameter.shape[0] if parameter.role in (Role.INPUT, Role.BIAS) else parameter.shape[-1]
        return 1.0 if adaptive or num == 1 else num / self.base_width
