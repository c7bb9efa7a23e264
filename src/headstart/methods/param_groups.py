"""Learning rates and initial scales by layer, name or role, for any torch module."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError, check_nonnegative, check_positive
from headstart.core.roles import Role
from headstart.methods.find_roles import roles as roles_of
from headstart.methods.module_roles import Found, Roles

if TYPE_CHECKING:
    import torch

FIRST = frozenset({Role.INPUT, Role.EMBEDDING})
_GROUPS_OF_ROLES = {
    "first": FIRST,
    "query_key": frozenset({Role.QUERY, Role.KEY}),
    **{str(role): frozenset({role}) for role in Role},
}


@dataclass(frozen=True)
class Scale:
    """Factors on a parameter's learning rate and on its initial values. 1 and 1 is the untouched parameter."""

    rate: float = 1.0
    init: float = 1.0

    def __post_init__(self) -> None:
        check_nonnegative("Scale", "rate", self.rate)
        check_nonnegative("Scale", "init", self.init)


Rules = Mapping[str | int | Role, Scale | float]
GivenRoles = Mapping[str, Role | str]


def param_groups(
    model: "torch.nn.Module", rules: Rules, lr: float, roles: GivenRoles | None = None
) -> list[dict[str, Any]]:
    """Parameter groups for any torch optimizer, with the rules' factors on `lr`; initial values are scaled in place.

        optimizer = torch.optim.AdamW(hs.param_groups(model, {"query_key": 3.6, "readout": Scale(init=2)}, lr=1e-3))

    A rule is for a role ("first", "hidden", "readout", "query_key", or a `Role`), for a layer by its number (0 is next
    to the input, -1 the last), or for names by a pattern ("encoder.*.weight"). A number is a factor on the rate.
    Factors of several rules for one parameter multiply. Call it once, on the freshly built model: a factor on the
    initial values multiplies what it finds. Parameters that need no gradient are left out.

    `hs.roles(model)` shows the roles. A rule for a part of what one tensor does (the readout of a head tied to the
    embedding, the queries of a fused matrix) is refused, as is one for a role that a tensor may or may not have; give a
    rule for that tensor's name, or say in `roles` what it is.
    """
    check_positive("param_groups", "lr", lr)
    return applied(model, parameter_scales(model, rules, roles), lr)


def parameter_scales(model: "torch.nn.Module", rules: Rules, roles: GivenRoles | None = None) -> dict[str, Scale]:
    """The factors of every parameter of the model by its name."""
    if not isinstance(rules, Mapping):
        raise HeadstartError(f"param_groups(rules={rules!r}): give a mapping of roles, layers or names to factors")
    found = roles_of(model, roles)
    scales = {one.name: Scale() for one in found}
    by_name = {key: _named(found, str(key)) for key in rules if _is_pattern(key)}
    settled = {one.name for matched in by_name.values() for one in matched}
    for key, value in rules.items():
        scale = value if isinstance(value, Scale) else _rate(key, value)
        matched = by_name[key] if _is_pattern(key) else _matched(found, key, settled)
        if not matched:
            raise HeadstartError(_no_match(found, key))
        for one in matched:
            before = scales[one.name]
            scales[one.name] = Scale(before.rate * scale.rate, before.init * scale.init)
    return scales


def _rate(key: Any, value: Any) -> Scale:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise HeadstartError(f"param_groups(rules={{{key!r}: {value!r}}}): give a factor on the rate, or a Scale")
    return Scale(rate=value)


def _is_pattern(key: Any) -> bool:
    return isinstance(key, str) and key not in _GROUPS_OF_ROLES


def _named(found: Roles, pattern: str) -> list[Found]:
    return [one for one in found if fnmatchcase(one.name, pattern)]


def _matched(found: Roles, key: Any, settled: set[str]) -> list[Found]:
    """The parameters with a role or of a layer. Those that have a rule by name need not be told apart."""
    whole = [one for one in found if one.known and len(one.roles) == 1 and len(one.layers) == 1]
    others = [one for one in found if one not in whole and one.name not in settled]
    if isinstance(key, str):
        wanted = _GROUPS_OF_ROLES[key]
        return [one for one in [*whole, *others] if one.is_only(wanted)]
    if isinstance(key, bool) or not isinstance(key, int):
        raise HeadstartError(f"param_groups(rules={{{key!r}: ...}}): a rule is for a role, a layer's number or a name")
    layer = key if key >= 0 else max((max(one.layers) for one in found), default=-1) + 1 + key
    for one in others:
        if layer in one.layers and len(one.layers) > 1:
            raise HeadstartError(
                f"param_groups: {one.name} is in layers {' and '.join(map(str, one.layers))} ({one.why}), one tensor "
                f"with one rate; give a rule for its name, {one.name!r}"
            )
    return [one for one in found if one.layers == (layer,) and Role.NORM not in one.roles]


def _no_match(found: Roles, key: Any) -> str:
    its_roles = ", ".join(role for role in Role if any(role in one.roles for one in found if one.known))
    names = ", ".join(one.name for one in found.parameters[:3])
    layers = max((max(one.layers) for one in found), default=0)
    return (
        f"param_groups: the rule for {key!r} matches no parameter; the roles here are {its_roles}, the layers 0 .. "
        f"{layers}, and names look like {names}; hs.roles(model) shows them all"
    )


def applied(model: "torch.nn.Module", scales: Mapping[str, Scale], lr: float) -> list[dict[str, Any]]:
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
