"""Layer-wise scales: initial values and learning rates multiplied by role."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headstart.core.roles import Parameter, Role
from headstart.methods.method import Method
from headstart.optimizers import Rates, by_role


@dataclass(frozen=True)
class LayerScale(Method):
    """Multiply the initial values of the roles in `init`, and the learning rates of those in `rate`.

    A factor of 1 is the untouched run. Reference: Less Data, Faster Training, Section 5.2.1.
    """

    init: Rates | Mapping[Role, float] = ()
    rate: Rates | Mapping[Role, float] = ()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "init", by_role("LayerScale", "init", self.init))
        object.__setattr__(self, "rate", by_role("LayerScale", "rate", self.rate))

    def init_scale(self, parameter: Parameter) -> float:
        """The factor of the parameter's role."""
        return dict(self.init).get(parameter.role, 1.0)

    def rate_scale(self, parameter: Parameter) -> float:
        """The factor of the parameter's role."""
        return dict(self.rate).get(parameter.role, 1.0)
