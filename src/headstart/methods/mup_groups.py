"""The maximal update parametrisation for any torch module, relative to a narrow copy of it."""

import math
from typing import TYPE_CHECKING, Any, Literal

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.roles import Parameter, Role
from headstart.methods.find_roles import roles as roles_of
from headstart.methods.module_roles import TABLES, UNKNOWN_VECTOR, Found
from headstart.methods.mup import MuP
from headstart.methods.param_groups import GivenRoles, Scale, applied
from headstart.optimizers import SGD, AdamW

if TYPE_CHECKING:
    import torch


def mup_groups(
    model: "torch.nn.Module",
    base: "torch.nn.Module",
    lr: float,
    optimizer: Literal["adam", "sgd"] = "adam",
    roles: GivenRoles | None = None,
) -> list[dict[str, Any]]:
    """Parameter groups in the maximal update parametrisation: a rate tuned on `base` serves the wider `model`.

    `base` is the same architecture at the width where `lr` was tuned, freshly built; axes whose lengths differ are
    widths. The factors are those of `MuP`, with the ratio r of each parameter's own axes; initial values are scaled in
    place, those drawn with standard deviation 1/sqrt(fan_in) and those drawn with one constant (as `base` beside
    `model` shows) alike. With `base` as wide as `model` nothing changes.

    A head tied to the embedding keeps the embedding's scales and rates, and its input is divided by r, as in the
    authors' `MuSharedReadout`. That is a hook of the head's forward pass, not a part of `state_dict`: call `mup_groups`
    before weights are loaded into a new model. Attention logits must be scaled by 1/d_head in the model itself. What a
    tensor of no known layer does is to be said in `roles`, see `hs.roles`.
    Reference: Yang et al., Tensor Programs V (2022), Table 3 and Appendix B.
    """
    check_positive("mup_groups", "lr", lr)
    if optimizer not in ("adam", "sgd"):
        raise HeadstartError(f"mup_groups(optimizer={optimizer!r}): choose 'adam' (any adaptive one) or 'sgd'")
    if any(type(part).__name__ == "LowRankHead" for part in model.modules()):
        raise HeadstartError(
            "mup_groups(model=...): its head is tied to a LowRankEmbedding, where no tensor of the head has a width; "
            "use transfer_embedding(..., merge=True), or keep_tied=False"
        )
    bases = {one.name: one for one in roles_of(base, roles)}
    parameters = list(roles_of(model, roles))
    if [one.name for one in parameters] != list(bases):
        differ = sorted({one.name for one in parameters} ^ set(bases))
        raise HeadstartError(f"mup_groups(base=...): base and model must have the same parameters; {differ[:3]} differ")
    narrow = [bases[one.name] for one in parameters]
    if roles is None and not any(map(_reads, parameters, narrow)) and any(map(_grew, parameters, narrow)):
        raise HeadstartError(
            "mup_groups(model=...): no parameter reads the output from the width. If the head uses the embedding's "
            "tensor within forward, divide its logits by width / base width there and give roles={'<the embedding>': "
            "'embedding'}; if the head is elsewhere, give roles={}"
        )
    values, base_values = dict(model.named_parameters()), dict(base.named_parameters())
    scales = {}
    for one, thin in zip(parameters, narrow, strict=True):
        constant = _is_constant(one, thin, values[one.name], base_values[one.name])
        scales[one.name] = _scale(one, thin, optimizer == "adam", constant)
        if _is_tied(one) and _grew(one, thin):
            for name in one.readers:
                _divide_input(model.get_submodule(name), one.shape[-1] / thin.shape[-1])
    return applied(model, scales, lr)


def _grew(wide: Found, narrow: Found) -> bool:
    return wide.shape != narrow.shape


def _is_tied(found: Found) -> bool:
    return found.roles >= {Role.EMBEDDING, Role.READOUT} and found.known


def _reads(wide: Found, narrow: Found) -> bool:
    """Whether it reads the output from the width, alone or tied to the embedding."""
    return _is_tied(wide) or _role(wide, narrow) is Role.READOUT


def _fans(wide: Found, narrow: Found) -> tuple[tuple[int, int], tuple[int, int]]:
    """((fan-in, that of the base), (fan-out, that of the base)); of a bare tensor whose role is given, by that."""
    fans = (wide.fan_in, narrow.fan_in), (wide.fan_out, narrow.fan_out)
    grown = [(a, b) for a, b in zip(wide.shape, narrow.shape, strict=True) if a != b]
    if wide.bare and len(grown) == 1 and wide.roles == {Role.INPUT}:
        return (1, 1), grown[0]
    if wide.bare and len(grown) == 1 and wide.roles == {Role.READOUT}:
        return grown[0], (1, 1)
    return fans


def _role(wide: Found, narrow: Found) -> Role:
    """What muP sees in it: a table, a vector, or a matrix told by which of its axes grew."""
    if _is_tied(wide):
        return Role.EMBEDDING
    if wide.roles == UNKNOWN_VECTOR:
        return Role.NORM
    if len(wide.roles) == 1 and (len(wide.shape) < 2 or wide.roles <= TABLES | {Role.NORM, Role.BIAS}):
        return next(iter(wide.roles))
    if not wide.known and sum(a != b for a, b in zip(wide.shape, narrow.shape, strict=True)) == 1:
        wide.is_only({Role.READOUT})  # raises: an input has other factors than a readout
    (fan_in, base_in), (fan_out, base_out) = _fans(wide, narrow)
    if fan_in == base_in:
        return Role.INPUT
    return Role.READOUT if fan_out == base_out else Role.HIDDEN


def _is_constant(wide: Found, narrow: Found, values: "torch.Tensor", base_values: "torch.Tensor") -> bool:
    """Whether the initial values of a matrix have one standard deviation at every width, not 1/sqrt(fan_in)."""
    (fan_in, base_in), _ = _fans(wide, narrow)
    if values.ndim < 2 or fan_in == base_in:
        return False
    std, base_std = float(values.detach().float().std()), float(base_values.detach().float().std())
    if not std or not base_std:
        return False
    log_ratio, expected = math.log(std / base_std), -0.5 * math.log(fan_in / base_in)
    return abs(log_ratio) < abs(log_ratio - expected)


def _scale(wide: Found, narrow: Found, adaptive: bool, constant: bool) -> Scale:
    """The factors of `MuP`, which measures a width against the base of the axis it looks at."""
    if not _grew(wide, narrow) and Role.BIAS not in wide.roles:
        return Scale()
    role = _role(wide, narrow)
    (fan_in, base_in), (fan_out, base_out) = _fans(wide, narrow)
    known = Parameter(wide.name, role, wide.layers[0], (fan_out,), fan_in)
    by_in, by_out = MuP(float(base_in)), MuP(float(base_out))
    reads = role in (Role.HIDDEN, Role.READOUT)
    rate = (by_in if reads else by_out).rate_scale(known, AdamW(1.0) if adaptive else SGD(1.0))
    init = by_in.init_scale(known)
    return Scale(rate, init * (fan_in / base_in) ** -0.5 if constant and reads else init)


class DividedInput:
    """A hook before a module's forward pass: its first argument divided by a number."""

    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments the module gets."""
        return (args[0] / self.by, *args[1:])


def _divide_input(module: "torch.nn.Module", by: float) -> None:
    """Once, however often it is asked for."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, DividedInput):
            hook.by = by
            return
    module.register_forward_pre_hook(DividedInput(by))
