"""Scales: initial values and learning rates multiplied by role or by layer, or all initial values at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import HeadstartError, check_nonnegative, check_positive
from headstart.core.roles import Parameter, Role
from headstart.methods.method import Method
from headstart.optimizers import Optimizer

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
        """The alpha-scaling of a two-layer network: W_0 / alpha, b_0 / alpha and alpha a_0, as `balance_layers` does.

        For ReLU this is the standard start, the same function, with learning rates alpha^2 eta for the first layer and
        eta / alpha^2 for the readout, exactly.
        """
        check_positive("LayerScale", "alpha", alpha)
        return cls(init={0: 1 / alpha, Role.READOUT: alpha})

    @classmethod
    def query_key(cls, rate: float = 1.0, init: float = 1.0) -> "LayerScale":
        """Factors on the learning rate and the initial values of W_q and W_k, in all layers.

        Without biases the logits q . k begin init^2 times as large. Normalising q and k is a part of the model:
        `Transformer(qk_norm=True)`. Reference: Less Data, Faster Training, Section 5.2.2.
        """
        check_positive("LayerScale", "rate", rate)
        check_positive("LayerScale", "init", init)
        roles = (Role.QUERY, Role.KEY)
        return cls(init=dict.fromkeys(roles, init), rate=dict.fromkeys(roles, rate))

    def check_parameters(self, parameters: Sequence[Parameter]) -> None:
        """The model must have one of the roles or layers whose factor is not 1."""
        there = {p.role for p in parameters} | {p.layer for p in parameters}
        wanted = [key for factors in (self.init, self.rate) for key, factor in dict(factors).items() if factor != 1]
        if wanted and not there & set(wanted):
            own = ", ".join(dict.fromkeys(str(p.role) for p in parameters))
            raise HeadstartError(
                f"LayerScale(...) of {', '.join(sorted({str(key) for key in wanted}))}: the model has none of them; "
                f"its roles are {own}, its layers 0 to {max(p.layer for p in parameters)}"
            )

    def init_scale(self, parameter: Parameter) -> float:
        """The factors of the parameter's role and layer."""
        return _factor(self.init, parameter)

    def rate_scale(self, parameter: Parameter, optimizer: Optimizer) -> float:
        """The factors of the parameter's role and layer."""
        return _factor(self.rate, parameter)


@dataclass(frozen=True)
class InitScale(Method):
    """Multiply all initial values that are trained by one factor: the size of a network at its start.

    Norms begin at 1 whatever the factor, and a table that is given stays as it is. A factor of 1 is the untouched run.
    Reference: Liu et al., Omnigrok: grokking beyond algorithmic data (2023), whose alpha it is.
    """

    factor: float

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("InitScale", "factor", self.factor)

    def init_scale(self, parameter: Parameter) -> float:
        """The factor, but for norms and what is fixed."""
        return 1.0 if parameter.fixed or parameter.role is Role.NORM else self.factor


def _factors(name: str, values: Factors | Mapping[Role | int, float]) -> Factors:
    """Layers first, then roles, each in order: hashable, whatever order they were given in."""
    if not isinstance(values, Mapping | tuple | list):
        raise HeadstartError(f"LayerScale({name}={values!r}): give factors by Role or by number of layer")
    pairs = list(values.items() if isinstance(values, Mapping) else values)
    layers: list[tuple[int, float]] = []
    roles: list[tuple[Role, float]] = []
    for key, value in pairs:
        check_nonnegative("LayerScale", f"{name}[{str(key)!r}]", value)
        if type(key) is int and key >= 0:
            layers.append((key, float(value)))
        elif key in list(Role):
            roles.append((Role(key), float(value)))
        else:
            raise HeadstartError(f"LayerScale({name}={{{key!r}: ...}}): roles are {', '.join(Role)}, layers 0, 1, ..")
    if len({key for key, _ in pairs}) < len(pairs):
        raise HeadstartError(f"LayerScale({name}={values!r}): each role or layer may appear once")
    return (*sorted(layers), *sorted(roles))


def _factor(factors: Factors | Mapping[Role | int, float], parameter: Parameter) -> float:
    known = dict(factors)
    return known.get(parameter.role, 1.0) * known.get(parameter.layer, 1.0)
