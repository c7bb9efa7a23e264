"""The stack of equal layers of any torch module, Hugging Face's included, and what else knows how many there are."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.roles import Parameter, Role
from headstart.methods.find_roles import roles

if TYPE_CHECKING:
    import torch

# Under these names modules keep the number of their layer, by which Hugging Face finds its keys and values in a cache.
_PLACE_NAMES = ("layer_idx", "layer_id")


def module_stack(model: "torch.nn.Module", named: str | None = None) -> str:
    """The path of the ModuleList whose modules are the layers: the one named, or the only one that it can be.

    A stack is a ModuleList or Sequential of modules of one class with parameters of the same names and shapes, inside
    no other. Of several the one whose length the model's config states.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise HeadstartError(f"grow(model={type(model).__name__}): give a torch.nn.Module")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel) or hasattr(model, "_orig_mod"):
        inner = "module" if not hasattr(model, "_orig_mod") else "_orig_mod"
        raise HeadstartError(
            f"grow(model={type(model).__name__}): it wraps a model; give model.{inner}, and wrap the grown one"
        )
    parts = dict(model.named_modules())
    if named is not None:
        if named not in parts or not _is_stack(parts[named]):
            known = ", ".join(repr(path) for path in _stacks(parts)) or "none"
            raise HeadstartError(
                f"grow(stack={named!r}): no ModuleList of equal layers is there; those of this model are {known}"
            )
        return named
    found = _stacks(parts)
    if len(found) > 1:
        stated = {getattr(config, "num_hidden_layers", None) for config in configs(model)}
        found = [path for path in found if len(parts[path]) in stated] or found
    if len(found) != 1:
        what = f"it has several: {', '.join(repr(path) for path in found)}" if found else "it has none"
        fix = f"name one, stack={found[0]!r}" if found else "put its equal layers into a torch.nn.ModuleList"
        raise HeadstartError(f"grow(model={type(model).__name__}): give a model with a stack of layers; {what}; {fix}")
    return found[0]


def _stacks(parts: dict[str, Any]) -> list[str]:
    """The outermost stacks; those of one layer count only where there is no longer one."""
    found: list[str] = []
    for path, part in parts.items():
        inside = any(path.startswith(f"{outer}.") or not outer for outer in found)
        # Maps in a row, as an MLP has them, are no layers.
        if not inside and _is_stack(part) and any(True for _ in part[0].children()):
            found.append(path)
    return [path for path in found if len(parts[path]) > 1] or found


def _is_stack(part: Any) -> bool:
    import torch

    if not isinstance(part, torch.nn.ModuleList | torch.nn.Sequential):
        return False
    kinds = {(type(layer), tuple((n, p.shape) for n, p in layer.named_parameters())) for layer in part}
    numbered = list(part._modules) == [str(i) for i in range(len(part))]
    return len(kinds) == 1 and numbered and any(True for _ in part[0].parameters())


def configs(model: "torch.nn.Module") -> Iterator[Any]:
    """Every config object of the model's modules, once."""
    seen: set[int] = set()
    for part in model.modules():
        config = getattr(part, "config", None)
        if config is not None and id(config) not in seen and hasattr(config, "num_hidden_layers"):
            seen.add(id(config))
            yield config


def layer_parameters(model: "torch.nn.Module", stack: str, number: int = 0) -> tuple[Parameter, ...]:
    """The parameters of one layer of the stack, by their names within it, with the roles that can be told."""
    mark = f"{stack}.{number}." if stack else f"{number}."
    return tuple(
        Parameter(found.name.removeprefix(mark), _one(found.roles), 0, found.shape, found.fan_in)
        for found in roles(model)
        if found.name.startswith(mark)
    )


def _one(several: frozenset[Role]) -> Role:
    """The role of a tensor with one; queries, keys and values in one tensor count as values."""
    return next(iter(several)) if len(several) == 1 else Role.VALUE


def check_places(model: "torch.nn.Module") -> None:
    """Raise where a layer in another place is another function."""
    if any(getattr(config, "scale_attn_by_inverse_layer_idx", False) for config in configs(model)):
        raise HeadstartError(
            "grow(model=...): its config has scale_attn_by_inverse_layer_idx=True, so that a layer in another place is "
            "another function; grow a model without it"
        )


def set_depth(model: "torch.nn.Module", stack: str, order: Sequence[int]) -> None:
    """Tell all that knows it how many layers there are: configs, the module around the stack, and the layers' numbers.

    Lists with an entry per layer follow `order`, the old layer of each.
    """
    depth = max(order) + 1
    for config in configs(model):
        if config.num_hidden_layers != depth:
            continue
        config.num_hidden_layers = len(order)
        for name, value in list(vars(config).items()):
            if "layer" in name and isinstance(value, list) and len(value) == depth:
                setattr(config, name, [value[i] for i in order])
        if hasattr(config, "attention_types"):  # from which GPT-Neo makes its list anew when it is read
            config.attention_types = [[config.attention_layers, 1]]
    around = model.get_submodule(stack.rpartition(".")[0])
    if getattr(around, "num_layers", None) == depth:
        around.num_layers = len(order)  # type: ignore[assignment]
    for place, layer in enumerate(model.get_submodule(stack).children()):
        for part in layer.modules():
            for name in _PLACE_NAMES:
                if isinstance(getattr(part, name, None), int):
                    setattr(part, name, place)
