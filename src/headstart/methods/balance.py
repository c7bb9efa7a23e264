"""The balance of a network's first layer and its readout, at the same function."""

import copy
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.roles import Role
from headstart.methods.find_roles import roles as roles_of
from headstart.methods.module_roles import Roles
from headstart.methods.param_groups import FIRST, GivenRoles, Scale, applied

if TYPE_CHECKING:
    import torch

# Layers through which a factor passes: f(c x) = c f(x) for every c > 0.
_HOMOGENEOUS = re.compile(
    r"(Leaky|R|P)?ReLU|Identity|(Unf|F)latten|Dropout[123]?d?|(Adaptive)?(Max|Avg)Pool[123]d|ZeroPad[123]d|PixelShuffle"
    r"|Upsample|Linear|Conv(Transpose)?[123]d|Embedding"
)
_TOLERANCE = 1e-6  # of the largest output, in float64: rounding alone


def balance_layers(
    model: "torch.nn.Module", alpha: float, example: Any = None, roles: GivenRoles | None = None
) -> None:
    """Divide the first layer by `alpha` and multiply the readout by it, in place: W0 / alpha, alpha a0.

    All biases before the readout's go with the first layer, so the network computes the same function where everything
    between is positively homogeneous, f(c x) = c f(x): ReLU, linear layers, pooling. Under SGD it then learns as with
    the rate lr alpha^2 for the first layer and the biases, lr / alpha^2 for the readout's weights. `alpha=1` changes
    nothing.

    A chain of known layers (nn.Sequential) is checked layer by layer: tanh or a norm is refused. Of any other module
    the functions are compared on `example`, one batch of inputs: a tensor, a tuple of arguments, or a mapping of
    keywords. A model that would compute something else is refused and left as it was.
    Reference: Less Data, Faster Training, Section 5.2.1.
    """
    check_positive("balance_layers", "alpha", alpha)
    found = roles_of(model, roles)
    scales = _scales(found, alpha)
    if example is not None:
        _compare(model, scales, example)
    else:
        _check_chain(model)
    applied(model, scales, lr=1.0)


def _scales(found: Roles, alpha: float) -> dict[str, Scale]:
    first = [one for one in found if one.is_only(FIRST)]
    readout = [one for one in found if one.is_only({Role.READOUT})]
    if not first or not readout:
        raise HeadstartError(
            "balance_layers(model=...): the model needs a first layer and a readout of its own; hs.roles(model) shows "
            "what was found, and roles={'<name>': 'readout'} says what was not"
        )
    ends = {layer for one in readout for layer in one.layers}
    begins = {one.name for one in first}
    begins |= {one.name for one in found if one.roles == {Role.BIAS} and not ends & set(one.layers)}
    begins |= {one.name for one in found if one.is_only({Role.POSITION})}  # added to the embedding
    ending = {one.name for one in readout}
    return {
        one.name: Scale(init=1 / alpha if one.name in begins else alpha if one.name in ending else 1.0) for one in found
    }


def _check_chain(model: "torch.nn.Module") -> None:
    """Raise unless the model is a chain of layers through which a factor passes."""
    for name, part in model.named_modules():
        kind = type(part).__name__
        if kind == "Sequential" or (_HOMOGENEOUS.fullmatch(kind) and type(part).__module__.startswith("torch.nn")):
            continue
        where = f"{name!r}, a {kind}," if name else f"a {kind}"
        if name and not any(True for _ in part.children()):
            raise HeadstartError(
                f"balance_layers(model=...): {where} is not known to be positively homogeneous, f(c x) = c f(x), as "
                "ReLU is, so the balanced network may be another function; give example=a batch of inputs to compare"
            )
        raise HeadstartError(
            f"balance_layers(model=...): how {where} computes is not known; give example=a batch of inputs, on which "
            "the function is compared before and after"
        )


def _compare(model: "torch.nn.Module", scales: Mapping[str, Scale], example: Any) -> None:
    """Raise unless a copy of the model with these scales is the same function on the example, in float64."""
    import torch

    for name, part in model.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._NormBase):  # another function in training than in evaluation
            raise HeadstartError(
                f"balance_layers(model=...): {name!r}, a {type(part).__name__}, undoes the scale of what comes before "
                "it; use param_groups with rates for 'first' and 'readout' instead"
            )
    outputs = []
    for its in ({name: Scale() for name in scales}, scales):
        twin = copy.deepcopy(model).double().eval()
        applied(twin, its, lr=1.0)
        with torch.no_grad():
            outputs.append(_output(twin, _doubled(example)))
    before, after = outputs
    difference, size = float((before - after).abs().max()), float(before.abs().max())
    if not difference <= _TOLERANCE * size:
        raise HeadstartError(
            f"balance_layers(model=...): the balanced network is another function (outputs of up to {size:.3g} differ "
            f"by {difference:.3g}): something between the first layer and the readout is not positively homogeneous, "
            "as tanh, norms and attention are not; use param_groups with rates for 'first' and 'readout' instead"
        )


def _doubled(example: Any) -> Any:
    import torch

    if isinstance(example, torch.Tensor):
        return example.double() if example.is_floating_point() else example
    if isinstance(example, Mapping):
        return {name: _doubled(value) for name, value in example.items()}
    return tuple(_doubled(value) for value in example) if isinstance(example, tuple | list) else example


def _output(model: Any, example: Any) -> "torch.Tensor":
    """The model's output: a tensor, the `logits` of one, or its first entry."""
    import torch

    if isinstance(example, Mapping):
        out = model(**example)
    else:
        out = model(*example) if isinstance(example, tuple | list) else model(example)
    out = getattr(out, "logits", out)
    out = out[0] if isinstance(out, tuple | list) else out
    if not isinstance(out, torch.Tensor):
        raise HeadstartError(f"balance_layers(example=...): the model returns a {type(out).__name__}, not a tensor")
    return out
