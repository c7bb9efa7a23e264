"""Learning rates and initial scales by layer, name or role, for any torch module."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.roles import Parameter, Role
from headstart.methods.module_roles import fused_attention, module_parameters
from headstart.methods.mup import MuP
from headstart.optimizers import SGD, AdamW

if TYPE_CHECKING:
    import torch

_GROUPS_OF_ROLES = {
    "first": (Role.INPUT, Role.EMBEDDING),
    "query_key": (Role.QUERY, Role.KEY),
    **{str(role): (role,) for role in Role},
}


@dataclass(frozen=True)
class Scale:
    """Factors on a parameter's learning rate and on its initial values. 1 and 1 is the untouched parameter."""

    rate: float = 1.0
    init: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rate", "init"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise HeadstartError(f"Scale({name}={value!r}): give a finite number of at least 0")


Rules = Mapping[str | int | Role, Scale | float]


def param_groups(model: "torch.nn.Module", rules: Rules, lr: float) -> list[dict[str, Any]]:
    """Parameter groups for any torch optimizer, with the rules' factors on `lr`; initial values are scaled in place.

        optimizer = torch.optim.AdamW(hs.param_groups(model, {"query_key": 3.6, "readout": Scale(init=2)}, lr=1e-3))

    A rule is for a role ("first", "hidden", "readout", "query_key", or a `Role`), for a layer by its number (0 is next
    to the input, -1 the last), or for names by a pattern ("encoder.*.weight"). A number is a factor on the rate.
    Factors of several rules for one parameter multiply. Call it once, on the freshly built model: a factor on the
    initial values multiplies what it finds. Parameters that need no gradient are left out.
    """
    check_positive("param_groups", "lr", lr)
    return _applied(model, parameter_scales(model, rules), lr)


def parameter_scales(model: "torch.nn.Module", rules: Rules) -> dict[str, Scale]:
    """The factors of every parameter of the model by its name."""
    parameters = module_parameters(model)
    scales = {p.name: Scale() for p in parameters}
    for key, value in rules.items():
        scale = value if isinstance(value, Scale) else Scale(rate=value)
        matched = _matched(parameters, key)
        if not matched:
            raise HeadstartError(_no_match(parameters, key))
        for p in matched:
            before = scales[p.name]
            scales[p.name] = Scale(before.rate * scale.rate, before.init * scale.init)
    return scales


def _matched(parameters: tuple[Parameter, ...], key: str | int | Role) -> list[Parameter]:
    if isinstance(key, int):
        last = max((p.layer for p in parameters), default=-1)
        layer = key if key >= 0 else last + 1 + key
        return [p for p in parameters if p.layer == layer and p.role is not Role.NORM]
    if key in _GROUPS_OF_ROLES:
        return [p for p in parameters if p.role in _GROUPS_OF_ROLES[key]]
    return [p for p in parameters if fnmatchcase(p.name, key)]


def _no_match(parameters: tuple[Parameter, ...], key: str | int | Role) -> str:
    names = [p.name for p in parameters]
    fused = fused_attention(names)
    if key in ("query_key", Role.QUERY, Role.KEY) and fused:
        return (
            f"param_groups: no parameter has the role {str(key)!r}: {fused[0]} holds queries, keys and values in one "
            "tensor, which has one rate; use a model with separate projections"
        )
    roles = ", ".join(dict.fromkeys(str(p.role) for p in parameters))
    return (
        f"param_groups: the rule for {key!r} matches no parameter; the roles here are {roles}, the layers 0 .. "
        f"{max((p.layer for p in parameters), default=0)}, and names look like {', '.join(names[:3])}"
    )


def mup_groups(
    model: "torch.nn.Module", base: "torch.nn.Module", lr: float, optimizer: Literal["adam", "sgd"] = "adam"
) -> list[dict[str, Any]]:
    """Parameter groups in the maximal update parametrisation: a rate tuned on `base` serves the wider `model`.

    `base` is the same architecture at the width where `lr` was tuned; axes whose lengths differ are widths. The
    factors are those of `MuP`, with the ratio of each parameter's own axes; initial values (PyTorch's, with standard
    deviation 1/sqrt(fan_in)) are scaled in place. With `base` as wide as `model` nothing changes. Attention logits
    must be scaled by 1/d_head in the model itself. Reference: Yang et al., Tensor Programs V (2022), Table 3.
    """
    check_positive("mup_groups", "lr", lr)
    if optimizer not in ("adam", "sgd"):
        raise HeadstartError(f"mup_groups(optimizer={optimizer!r}): choose 'adam' (any adaptive one) or 'sgd'")
    bases = {p.name: p for p in module_parameters(base)}
    parameters = module_parameters(model)
    if [p.name for p in parameters] != list(bases):
        differ = sorted({p.name for p in parameters} ^ set(bases))
        raise HeadstartError(f"mup_groups(base=...): base and model must have the same parameters; {differ[:3]} differ")
    scales = {p.name: _mup_scale(p, bases[p.name], optimizer == "adam") for p in parameters}
    return _applied(model, scales, lr)


def _mup_scale(wide: Parameter, base: Parameter, adaptive: bool) -> Scale:
    """The factors of `MuP` for a parameter whose role is told by which of its axes grew."""
    role = wide.role
    if len(wide.shape) > 1 and role not in (Role.EMBEDDING, Role.POSITION):
        grew_in, grew_out = wide.fan_in != base.fan_in, wide.shape[0] != base.shape[0]
        if not grew_in and not grew_out:
            return Scale()
        role = Role.INPUT if not grew_in else Role.HIDDEN if grew_out else Role.READOUT
    known = replace(wide, role=role)
    # MuP measures widths against the base of the axis it looks at: the fan-in of what reads from the width, else the
    # fan-out.
    by_in = MuP(float(base.fan_in))
    by_out = MuP(float(base.shape[-1] if role in (Role.EMBEDDING, Role.POSITION) else base.shape[0]))
    rate_of = by_in if role in (Role.HIDDEN, Role.READOUT) else by_out
    return Scale(rate_of.rate_scale(known, AdamW(1.0) if adaptive else SGD(1.0)), by_in.init_scale(known))


def balance_layers(model: "torch.nn.Module", alpha: float) -> None:
    """Divide the first layer by `alpha` and multiply the readout by it, in place: W0 / alpha, alpha a0.

    A bias of the first layer goes with its weights, so a two-layer ReLU network computes the same function and learns
    as with rates (lr alpha^2, lr / alpha^2). `alpha=1` changes nothing.
    Reference: Less Data, Faster Training, Section 5.2.1.
    """
    check_positive("balance_layers", "alpha", alpha)
    parameters = module_parameters(model)
    first = {p.layer for p in _matched(parameters, "first")}
    readout = [p for p in parameters if p.role is Role.READOUT]
    if not first or not readout:
        raise HeadstartError("balance_layers(model=...): the model needs a first layer and a readout of its own")
    factors: dict[str | int | Role, Scale | float] = {p.name: Scale(init=alpha) for p in readout}
    for p in parameters:
        if p.layer in first and p.role in (Role.INPUT, Role.EMBEDDING, Role.BIAS):
            factors[p.name] = Scale(init=1 / alpha)
    param_groups(model, factors, lr=1.0)


def _applied(model: "torch.nn.Module", scales: Mapping[str, Scale], lr: float) -> list[dict[str, Any]]:
    """Initial values scaled in place; one group for every factor on the rate, in the order they first appear."""
    import torch

    groups: dict[float, dict[str, Any]] = {}
    for name, parameter in model.named_parameters():
        scale = scales[name]
        if scale.init != 1.0:
            with torch.no_grad():
                parameter.mul_(scale.init)
        if parameter.requires_grad:
            group = groups.setdefault(scale.rate, {"params": [], "lr": lr * scale.rate, "names": []})
            group["params"].append(parameter)
            group["names"].append(name)
    return list(groups.values())
