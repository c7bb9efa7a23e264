"""Layer-wise scales: initial values and learning rates multiplied by role or by layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import check_positive
from headstart.core.roles import Parameter, Role
from headstart.methods.method import Method
from headstart.optimizers import Optimizer, by_role

# Pairs of a role, or the number of a layer (0 is next to the input), and a factor.
Factors = tuple[tuple[Role | int, float], ...]


@dataclass(frozen=True)
class LayerScale(Method):
    """Multiply the initial values of the roles or layers in `init`, and the learning rates of those in `rate`.

    A key is a Role, or the number of a layer for its weights and bias; where both apply the factors multiply. A factor
    of 1 is the untouched run. Reference: Less Data, Faster Training, Section 5.2.1.
    """

    init: Factors | Mapping[Role | int, float] = ()
    rate: Factors | Mapping[Role | int, float] = ()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("init", "rate"):
            object.__setattr__(self, name, _factors(name, getattr(self, name)))

    @classmethod
    def alpha(cls, alpha: float) -> "LayerScale":
        """The alpha-scaling of a two-layer network: W_0 / alpha and alpha a_0; biases stay.

        For ReLU without biases this is the standard start with learning rates (alpha^2 eta, eta / alpha^2), exactly.
        """
        check_positive("LayerScale", "alpha", alpha)
        return cls(init={Role.INPUT: 1 / alpha, Role.READOUT: alpha})

    def init_scale(self, parameter: Parameter) -> float:
        """The factors of the parameter's role and layer."""
        return _factor(self.init, parameter)

    def rate_scale(self, parameter: Parameter, optimizer: Optimizer) -> float:
        """The factors of the parameter's role and layer."""
        return _factor(self.rate, parameter)


def _factors(name: str, values: Factors | Mapping[Role | int, float]) -> Factors:
    """Layers first, then roles, each in order: hashable, whatever order they were given in."""
    pairs = list(values.items()) if isinstance(values, Mapping) else values
    layers, roles = [], pairs
    if isinstance(pairs, tuple | list):
        layers = [(key, value) for key, value in pairs if type(key) is int and key >= 0]
        roles = [pair for pair in pairs if pair not in layers]
    checked = by_role("LayerScale", name, roles)  # type: ignore[arg-type]
    # The numbers of layers are checked as those of roles are, under the name of some role.
    numbers = [by_role("LayerScale", name, {Role.HIDDEN: value})[0][1] for _, value in layers]
    return tuple(sorted(zip((key for key, _ in layers), numbers, strict=True))) + checked


def _factor(factors: Factors | Mapping[Role | int, float], parameter: Parameter) -> float:
    known = dict(factors)
    return known.get(parameter.role, 1.0) * known.get(parameter.layer, 1.0)
