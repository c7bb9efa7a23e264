"""A trained model of your own grown in depth, with its optimizer: any torch module with a stack, and Hugging Face's."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.streams import check_seed
from headstart.methods.growth import Grow, Layer, NewCount
from headstart.methods.layer_stack import output_parameters
from headstart.methods.module_stack import check_places, layer_parameters, module_stack, set_depth

if TYPE_CHECKING:
    import torch

Forward = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Preservation:
    """How far a batch is from where it was: its loss before and after growth (None without one) and its outputs.

    `largest` is the largest change of an output, `relative` the norm of the change over that of the outputs.
    """

    loss_before: float | None
    loss_after: float | None
    largest: float
    relative: float

    def __str__(self) -> str:
        loss = "" if self.loss_before is None else f"loss {self.loss_before:.4f} -> {self.loss_after:.4f}, "
        return f"{loss}outputs change by {self.relative:.2g} of their norm, at most by {self.largest:.2g}"


@dataclass(frozen=True)
class Grown:
    """What `grow` made: the model, its optimizer (None if none was given), and where the new layers are.

    `stack` is the path of the layers, `layers` where each comes from, `preservation` what a batch said.
    """

    model: "torch.nn.Module"
    optimizer: "torch.optim.Optimizer | None"
    operator: Grow
    stack: str
    layers: tuple[Layer, ...]
    preservation: Preservation | None = None

    def __repr__(self) -> str:
        made = " ".join(
            ("[new]" if x.drawn else f"[{x.source + 1}]") if x.new else f"{x.source + 1}" for x in self.layers
        )
        said = f"; {self.preservation}" if self.preservation else ""
        return f"Grown({self.stack}: {made}{said})"


def grow(
    model: "torch.nn.Module",
    optimizer: "torch.optim.Optimizer | None",
    operator: Grow,
    *,
    stack: str | None = None,
    batch: Any = None,
    forward: Forward | None = None,
    seed: int = 0,
) -> Grown:
    """A deeper copy of a trained model, with an optimizer that knows its old layers; the originals stay as they are.

        grown = hs.grow(model, optimizer, hs.Grow.on_top(depth=12, layers=4), batch=batch)
        model, optimizer = grown.model, grown.optimizer

    The layers are those of the only ModuleList of equal modules, or of the one that `stack` names. Of a Hugging Face
    model the config and the layers' places in the cache follow, so that `save_pretrained` and `from_pretrained` work.
    Random layers are drawn by `seed` as the model draws its own: `_init_weights`, or `reset_parameters` of its parts.

    The new optimizer has the groups of the old, with each new parameter in the group of the one it stands for, and the
    averages and step counts that the operator asks for. torch counts steps per parameter, so that one whose averages
    begin at zero is corrected for it. Make a learning-rate scheduler anew; its last rate is in the groups.

    With a `batch` the report says how far the function moved, in evaluation mode: `forward(model, batch)` returns the
    outputs, or an object or dict with "logits" and "loss"; by default a dict is passed by name, a tuple by position.
    Reference: Karp et al., Landscape-Aware Growing (2024), Section 5.2.
    """
    check_seed(seed)
    path, layers, outputs = plan_growth(model, optimizer, operator, stack)
    deeper = copy.deepcopy(model)
    _put_layers(deeper, path, layers)
    set_depth(deeper, path, [layer.source for layer in layers])
    _begin_layers(deeper, path, layers, outputs, seed)
    grown = None if optimizer is None else _grown_optimizer(optimizer, model, deeper, path, layers, operator)
    report = None if batch is None else preservation(model, deeper, batch, forward or _forward)
    return Grown(deeper, grown, operator, path, layers, report)


def plan_growth(
    model: "torch.nn.Module", optimizer: Any, operator: Grow, stack: str | None = None
) -> tuple[str, tuple[Layer, ...], frozenset[str]]:
    """The path of the stack, the layers of the grown one, and what in a layer is scaled; raises where it cannot be."""
    if not isinstance(operator, Grow):
        raise HeadstartError(f"grow(operator={operator!r}): give an operator, such as Grow.on_top(depth=12, layers=4)")
    path = module_stack(model, stack)
    layers = operator.layer_map(len(list(model.get_submodule(path).children())))
    _check_optimizer(model, optimizer)
    check_places(model)
    scaled = any(layer.scale != 1.0 for layer in layers)
    outputs = output_parameters(f"grow(operator={operator})", layer_parameters(model, path)) if scaled else frozenset()
    return path, layers, outputs


def _check_optimizer(model: "torch.nn.Module", optimizer: Any) -> None:
    """Raise unless all that the optimizer trains is of the model."""
    import torch

    if optimizer is None:
        return
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise HeadstartError(f"grow(optimizer={type(optimizer).__name__}): give a torch.optim.Optimizer, or None")
    own = {id(p) for p in model.parameters()}
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    strange = sum(id(p) not in own for p in trained)
    if strange:
        raise HeadstartError(
            f"grow(optimizer={type(optimizer).__name__}): {strange} of the {len(trained)} tensors it trains are not of "
            "this model; give the optimizer that was made from model.parameters(), or None"
        )


def _put_layers(model: Any, path: str, layers: tuple[Layer, ...]) -> None:
    """Give the model's stack the modules of a map, in place: old ones stay, new ones are copies."""
    import torch

    stack = model.get_submodule(path)
    old = list(stack.children())
    placed = [copy.deepcopy(old[layer.source]) if layer.new else old[layer.source] for layer in layers]
    container = type(stack)(*placed) if isinstance(stack, torch.nn.Sequential) else type(stack)(placed)
    container.training = stack.training
    if path:
        setattr(model.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2], container)
    else:  # the model is itself a stack
        model._modules = container._modules


def _begin_layers(model: Any, path: str, layers: tuple[Layer, ...], outputs: frozenset[str], seed: int) -> None:
    """Draw what is drawn and scale what writes to the stream, `outputs` by their names within a layer."""
    import torch

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # what the model's own initialisation draws from
        for layer, module in zip(layers, model.get_submodule(path).children(), strict=True):
            if layer.drawn:
                _draw(model, module)
            for name, weight in module.named_parameters():
                if layer.scale != 1.0 and name in outputs:
                    weight.mul_(layer.scale)


def _draw(model: Any, layer: Any) -> None:
    """Draw a layer's weights as the model draws its own."""
    import torch

    for tensor in (*layer.parameters(), *layer.buffers()):
        if hasattr(tensor, "_is_hf_initialized"):
            del tensor._is_hf_initialized
    before = {name: weight.clone() for name, weight in layer.named_parameters()}
    # Parts after what they hold, since a part may draw what its own parts drew in another way.
    for part in reversed(list(layer.modules())):
        own = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
        if hasattr(model, "_init_weights"):
            model._init_weights(part)
        elif own is not None:
            own()
    still = [n for n, w in layer.named_parameters() if w.ndim > 1 and torch.equal(w, before[n])]
    if still:
        raise HeadstartError(
            f"grow(operator=...): nothing draws {still[0]} of a new layer; give {type(layer).__name__} or its parts a "
            "method reset_parameters, or use new='duplicate'"
        )


def _grown_optimizer(
    optimizer: Any, model: Any, deeper: Any, path: str, layers: tuple[Layer, ...], operator: Grow
) -> Any:
    """The optimizer with the parameters of the deeper model in the place of those of the model."""
    import torch

    heirs = _heirs(model, deeper, path, layers)
    grown = copy.copy(optimizer)  # by its state, so that what a scheduler or a hook put on the old one stays there
    grown.param_groups = [
        {**group, "params": [heir for p in group["params"] for heir, _ in heirs[id(p)]]}
        for group in optimizer.param_groups
    ]
    grown.state = type(optimizer.state)(dict)
    for old, known in optimizer.state.items():
        for heir, is_new in heirs[id(old)]:
            if not is_new or operator.copies_moments:
                grown.state[heir] = copy.deepcopy(known)
            elif operator.count is NewCount.SOURCE:
                tensors = {k: torch.zeros_like(v) for k, v in known.items() if k != "step" and torch.is_tensor(v)}
                grown.state[heir] = {**copy.deepcopy(known), **tensors}
    return grown


def _heirs(model: Any, deeper: Any, path: str, layers: tuple[Layer, ...]) -> Mapping[int, list[tuple[Any, bool]]]:
    """The parameters of the deeper model that come from each of the model's, by its id, and whether they are new."""
    within = f"{path}." if path else ""
    old = dict(model.named_parameters(remove_duplicate=False))
    out: dict[int, list[tuple[Any, bool]]] = {id(p): [] for p in model.parameters()}
    for name, heir in deeper.named_parameters():
        number, _, rest = name.removeprefix(within).partition(".")
        if name.startswith(within) and number.isdigit():
            layer = layers[int(number)]
            out[id(old[f"{within}{layer.source}.{rest}"])].append((heir, layer.new))
        else:
            out[id(old[name])].append((heir, False))
    return out


def preservation(before: Any, after: Any, batch: Any, forward: Forward) -> Preservation:
    """What the same batch gives before and after, in evaluation mode and without gradients."""
    import torch

    seen = []
    for model in (before, after):
        modes = {part: part.training for part in model.modules()}
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model.eval()
            seen.append(_outputs(forward(model, batch)))
        for part, mode in modes.items():
            part.training = mode
    (first, one), (second, other) = seen
    change = (other - one).double()
    return Preservation(first, second, change.abs().max().item(), (change.norm() / one.double().norm()).item())


def _forward(model: Any, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch) if isinstance(batch, tuple | list) else model(batch)


def _outputs(made: Any) -> tuple[float | None, Any]:
    """The loss, if there is one, and the outputs as one tensor."""
    import torch

    def get(name: str) -> Any:
        return made.get(name) if isinstance(made, Mapping) else getattr(made, name, None)

    found = [x for x in (made, get("logits"), get("last_hidden_state")) if torch.is_tensor(x)]
    if not found:
        raise HeadstartError(
            f"grow(batch=...): the model gave {type(made).__name__} and no logits; give forward=lambda model, batch: "
            ".. that returns a tensor"
        )
    loss = get("loss")
    return None if loss is None else float(loss), found[0]
