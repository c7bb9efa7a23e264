"""Where a torch module keeps its input embedding, what is tied to it, and what Hugging Face knows of the tie."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.methods.find_roles import roles

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Places:
    """The paths of the modules that hold one table: `lookups` look it up, `heads` read the output with it."""

    lookups: tuple[str, ...]
    heads: tuple[str, ...]


def input_embedding(model: "torch.nn.Module", module: str | None, argument: str) -> Any:
    """The embedding of a model's inputs: by its path, by `get_input_embeddings`, or the only one that is no position's.

    `argument` is the name under which the caller got the model, for the messages.
    """
    import torch

    from headstart.methods.low_rank_embedding import LowRankEmbedding

    kinds = (torch.nn.Embedding, LowRankEmbedding)
    parts = {name: part for name, part in model.named_modules() if isinstance(part, kinds)}
    if module is not None:
        if module not in parts:
            raise HeadstartError(
                f"transfer_embedding(module={module!r}): no embedding is there; {_there_are(list(parts))}"
            )
        return parts[module]
    if isinstance(model, kinds):
        return model
    asked = _asked(model)
    if isinstance(asked, kinds):
        return asked
    positions = {one.name for one in roles(model) if one.roles == {Role.POSITION}}
    by_table: dict[int, str] = {}
    for name, part in parts.items():
        table, own = (part.table, "table") if isinstance(part, LowRankEmbedding) else (part.weight, "weight")
        if f"{name}.{own}" not in positions:
            by_table.setdefault(id(table), name)
    if len(by_table) != 1:
        fix = "give the embedding itself, as weak=" if argument == "weak" else "name it, as module="
        raise HeadstartError(
            f"transfer_embedding({argument}={type(model).__name__}(..)): which embedding is the input's is not known, "
            f"{_there_are(list(by_table.values()))}; {fix}"
        )
    return parts[next(iter(by_table.values()))]


def _there_are(names: Sequence[str]) -> str:
    return f"there are {', '.join(repr(name) for name in names)}" if names else "there is none"


def _asked(model: Any) -> Any:
    """What `get_input_embeddings` says, where a model has it."""
    ask = getattr(model, "get_input_embeddings", None)
    try:
        return ask() if callable(ask) else None
    except (NotImplementedError, AttributeError):
        return None


def places_of(model: "torch.nn.Module", found: "torch.nn.Embedding") -> Places:
    """Every path under which a model holds the table; raises for one that is neither a lookup nor a head."""
    import torch

    lookups, heads = [], []
    for name, part in model.named_modules(remove_duplicate=False):
        if not any(tensor is found.weight for tensor in part.parameters(recurse=False)):
            continue
        kind, why = type(part), ""
        if not name:
            raise HeadstartError(
                "transfer_embedding(target=nn.Embedding(..)): a lone embedding cannot be replaced from within; "
                "give the model that holds it, or merge=True, which writes into its table"
            )
        if part._forward_hooks or part._forward_pre_hooks:
            why = "has hooks, which a new module would not have; transfer before they are attached"
        elif isinstance(part, torch.nn.Embedding) and kind.forward is torch.nn.Embedding.forward:
            lookups.append(name)
            if part.max_norm is not None or part.scale_grad_by_freq or part.sparse:
                why = "has max_norm, scale_grad_by_freq or sparse, which a product of two matrices cannot keep"
            elif part.padding_idx != found.padding_idx:
                why = f"has padding_idx={part.padding_idx}, another has {found.padding_idx}"
        elif isinstance(part, torch.nn.Linear) and kind.forward is torch.nn.Linear.forward:
            heads.append(name)
        else:
            why = "does more than look the table up or read with it"
        if why:
            raise HeadstartError(
                f"transfer_embedding(target=...): {name!r}, a {kind.__name__}, holds the table and {why}. With "
                "merge=True every module stays, and A B is written into the table"
            )
    return Places(tuple(lookups), tuple(heads))


def put(model: Any, path: str, part: "torch.nn.Module") -> None:
    """Set the module at a path."""
    parent, _, own = path.rpartition(".")
    setattr(model.get_submodule(parent), own, part)


def factor_keys(model: "torch.nn.Module", places: Places) -> "list[tuple[Any, dict[str, str]]]":
    """What Hugging Face's models are to know of ties once the places share `table` and `map`: (model, tied by name).

    They tie by name after loading and resizing, and drop the names of tied tensors from a checkpoint. A head has no
    weight of its own to tie then. To be asked before modules are replaced, since patterns of names are looked up.
    """
    heads = {f"{name}.weight" for name in places.heads}
    lookups = {f"{name}.weight" for name in places.lookups}
    changed = []
    for prefix, part in _tying_modules(model):
        known = part.get_expanded_tied_weights_keys(all_submodels=False)
        now: dict[str, str] = {}
        for tied, source in known.items():
            ends = {prefix + tied, prefix + source}
            if ends <= lookups:
                now |= {_renamed(tied, own): _renamed(source, own) for own in ("table", "map")}
            elif not ends & (heads | lookups):
                now[tied] = source
        if now != known:
            changed.append((part, now))
    return changed


def tie_by(model: "torch.nn.Module", keys: "list[tuple[Any, dict[str, str]]]") -> None:
    """Set on the instances what `factor_keys` found; `retie` takes it back."""
    for part, now in keys:
        part._tied_weights_keys = now
    _refresh(model)


def retie(model: "torch.nn.Module") -> None:
    """Let Hugging Face's models tie by the names of their class again, as their configuration has it."""
    for _, part in _tying_modules(model):
        vars(part).pop("_tied_weights_keys", None)
    _refresh(model)


def _refresh(model: "torch.nn.Module") -> None:
    for _, part in _tying_modules(model):
        part.all_tied_weights_keys = part.get_expanded_tied_weights_keys(all_submodels=True)


def untie_head(model: "torch.nn.Module", places: Places) -> None:
    """Let the configuration of Hugging Face's models say that a head has a weight of its own."""
    for part, _ in factor_keys(model, places):
        if len(set(places.lookups)) > 1:
            raise HeadstartError(
                f"transfer_embedding(keep_tied=False): {', '.join(places.lookups)} are tied by the same setting as the "
                "head, tie_word_embeddings, so the head alone cannot be untied; leave keep_tied=True, or use merge=True"
            )
        part.config = copy.copy(part.config)  # other models may have been made with the same object
        part.config.tie_word_embeddings = False
    _refresh(model)


def _tying_modules(model: "torch.nn.Module") -> list[tuple[str, Any]]:
    """(prefix of names, module) of those parts that are models of Hugging Face."""
    named = [(name, part) for name, part in model.named_modules() if hasattr(part, "get_expanded_tied_weights_keys")]
    return [(f"{name}." if name else "", part) for name, part in named]


def _renamed(name: str, own: str) -> str:
    return f"{name.rpartition('.')[0]}.{own}"
