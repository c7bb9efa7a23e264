"""A weak model's embedding in a larger model of your own: any torch module, and Hugging Face's."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError, check_flag
from headstart.core.streams import Stream, check_seed, normals, permute
from headstart.methods.embedding_places import factor_keys, input_embedding, places_of, put, retie, tie_by, untie_head

if TYPE_CHECKING:
    import torch

    from headstart.methods.low_rank_embedding import LowRankEmbedding

# A table of independent entries has a largest singular value near rms (sqrt rows + sqrt columns); training adds
# directions that many rows share, which stand out.
_FRESH = 1.5
_ROWS_LOOKED_AT = 1024


@dataclass(frozen=True)
class TransferredEmbedding:
    """What `transfer_embedding` did to a model.

    `embedding` is what the model now looks up in: a `LowRankEmbedding`, or with `merge=True` its own `nn.Embedding`;
    `name` is its path, `rank` the weak model's dimension, `heads` the paths of heads that read with the same factors,
    and `replaced` the table that was there before, float[rows, dim], which nothing else holds on to.
    """

    embedding: "LowRankEmbedding | torch.nn.Embedding"
    name: str
    rank: int
    heads: tuple[str, ...]
    replaced: "torch.Tensor"

    def __repr__(self) -> str:
        rows, dim = self.replaced.shape
        heads = f", tied: {', '.join(self.heads)}" if self.heads else ""
        return f"TransferredEmbedding({self.name or 'embedding'}: {rows} x {dim}, rank {self.rank}{heads})"


def transfer_embedding(
    weak: Any,
    target: "torch.nn.Module",
    *,
    rows: ArrayLike | None = None,
    module: str | None = None,
    freeze: bool = False,
    merge: bool = False,
    keep_tied: bool = True,
    shuffled: bool = False,
    replace_trained: bool = False,
    seed: int = 0,
) -> TransferredEmbedding:
    """Put a weak model's embedding into a larger model, in place: the target's table becomes A B.

        hs.transfer_embedding(weak, target)                          # before the optimizer is made
        optimizer = torch.optim.AdamW(target.parameters(), lr=1e-3)
        hs.merge_embedding(target)                                   # after training, or on the way

    A is the weak table [rows, weak dim], with its own values; B is normal, drawn by `seed`, and scaled so that A B has
    the root mean square of the table it replaces: the target's first activations are as large as they were. Both are
    trained, or with `freeze` B alone. `weak` is a model, an embedding, or a table as a tensor or an array. The input
    embedding is what `get_input_embeddings` names, or the only embedding that is not one of positions; else `module`
    names the target's by its path.

    Where the vocabularies differ, `rows` has for each row of the target the weak model's row, or -1 for a fresh one
    with the spread of A. The target's `padding_idx` is a row of zeros.

    A head that is tied to the table stays tied: it computes h (A B)^T, with gradients to A and B, and its scores then
    have no more than the weak dimension as their rank. `keep_tied=False` gives it its own copy of the table it had; in
    a Hugging Face model `config.tie_word_embeddings` becomes False. `merge=True` writes A B into the table that is
    there: every module, tie and parameter stays, and nothing limits the rank once training has begun.

    A table that is clearly not fresh is refused unless `replace_trained` says so; what was replaced is in the report.
    `shuffled` permutes the rows of A: a control with the same values and rank, and no information.
    Reference: Let Me Grok For You, Section 2.1 and Fig. 15 (controls; the merged table).
    """
    import torch

    flags = {"freeze": freeze, "merge": merge, "keep_tied": keep_tied, "shuffled": shuffled}
    for name, value in (flags | {"replace_trained": replace_trained}).items():
        check_flag("transfer_embedding", name, value)
    check_seed(seed)
    if freeze and merge:
        raise HeadstartError(
            "transfer_embedding(freeze=True, merge=True): a merged table has no A to freeze; choose one"
        )
    if not isinstance(target, torch.nn.Module):
        raise HeadstartError(f"transfer_embedding(target={type(target).__name__}): give a torch.nn.Module")
    old = input_embedding(target, module, "target")
    _check_old(old, replace_trained)
    weak_table = _chosen(_weak_table(weak), rows, old.num_embeddings, seed)
    if shuffled:
        size = len(weak_table)
        weak_table = weak_table[permute(seed, Stream.ORDER, 0, np.arange(size), size)]
    if old.padding_idx is not None:
        weak_table[old.padding_idx] = 0
    map_ = _drawn_map(weak_table, old, seed)
    if merge:
        return _written(target, old, weak_table, map_)
    return _replaced(target, old, weak_table, map_, freeze, keep_tied)


def merge_embedding(model: "torch.nn.Module") -> "torch.nn.Embedding":
    """Replace a model's `LowRankEmbedding` by an `nn.Embedding` with the table A B, in place; tied heads stay tied.

    The model computes the same function up to rounding, has the parameters it had before the transfer, and is saved and
    resized like any other. An optimizer that holds A and B must be made anew; its moments are gone.
    Reference: Let Me Grok For You, Fig. 15b.
    """
    from headstart.methods.low_rank_embedding import LowRankEmbedding, LowRankHead

    if not hasattr(model, "named_modules"):
        raise HeadstartError(f"merge_embedding(model={type(model).__name__}): give a torch.nn.Module")
    parts = list(model.named_modules(remove_duplicate=False))
    lookups = [(name, part) for name, part in parts if isinstance(part, LowRankEmbedding)]
    if len({id(part) for _, part in lookups}) != 1 or not lookups[0][0]:
        names = ", ".join(repr(name) for name, _ in lookups) or "none"
        raise HeadstartError(
            f"merge_embedding(model={type(model).__name__}(..)): give a module that holds one LowRankEmbedding; found "
            f"{names}. Of one alone, .merge() is the nn.Embedding"
        )
    merged = lookups[0][1].merge()
    for name, part in parts:
        if isinstance(part, LowRankEmbedding):
            put(model, name, merged)
        elif isinstance(part, LowRankHead):
            put(model, name, part.with_weight_of(merged))
    retie(model)
    return merged


def _check_old(old: Any, replace_trained: bool) -> None:
    """Raise for a table that cannot be replaced, or should not be without a word."""
    import torch

    if not isinstance(old, torch.nn.Embedding):
        raise HeadstartError(
            "transfer_embedding(target=...): its embedding is a LowRankEmbedding already; call merge_embedding(target) "
            "first, or make the target anew"
        )
    weight = old.weight.detach()
    if weight.is_meta or not weight.is_floating_point():
        raise HeadstartError(
            f"transfer_embedding(target=...): its table is {weight.dtype} on {weight.device}; give a model with "
            "floating-point weights that are there"
        )
    own = _without_padding(weight, old.padding_idx)
    own = own[:: -(-len(own) // _ROWS_LOOKED_AT)].float()
    rms = float(own.square().mean().sqrt())
    if not 0 < rms < float("inf"):
        raise HeadstartError(
            f"transfer_embedding(target=...): its table has the root mean square {rms:g}, so there is no spread for "
            "A B to take over; initialise the target first"
        )
    small = own.T @ own if own.shape[0] > own.shape[1] else own @ own.T
    largest = float(torch.linalg.eigvalsh(small)[-1].clamp(min=0).sqrt())
    excess = largest / (rms * (own.shape[0] ** 0.5 + own.shape[1] ** 0.5))
    if excess > _FRESH and not replace_trained:
        raise HeadstartError(
            f"transfer_embedding(target=...): its table does not look fresh (its largest singular value is "
            f"{excess:.1f} times that of independent entries) and would be lost; replace_trained=True "
            "replaces it all the same"
        )


def _without_padding(table: "torch.Tensor", padding: int | None) -> "torch.Tensor":
    import torch

    return table if padding is None or len(table) == 1 else torch.cat((table[:padding], table[padding + 1 :]))


def _weak_table(weak: Any) -> NDArray[np.float64]:
    """The weak table, float64[rows, weak dim], a copy."""
    import torch

    if isinstance(weak, torch.nn.Module):
        weak = input_embedding(weak, None, "weak").weight
    if isinstance(weak, torch.Tensor):
        weak = (weak.detach().double() if weak.is_floating_point() else weak).cpu().numpy()
    if not isinstance(weak, np.ndarray):
        raise HeadstartError(
            f"transfer_embedding(weak={type(weak).__name__}): give a torch.nn.Module, or its table as a tensor or array"
        )
    if weak.ndim != 2 or 0 in weak.shape or weak.dtype.kind != "f" or not np.isfinite(weak).all() or not weak.any():
        raise HeadstartError(
            f"transfer_embedding(weak={weak.dtype}{list(weak.shape)}): a table is [rows, dimension] of finite numbers, "
            "not all of them zero"
        )
    return np.array(weak, dtype=np.float64)


def _chosen(table: NDArray[np.float64], rows: ArrayLike | None, size: int, seed: int) -> NDArray[np.float64]:
    """The rows of A, one for each row of the target; fresh ones have the root mean square of the weak table."""
    if rows is None:
        if len(table) != size:
            raise HeadstartError(
                f"transfer_embedding(weak=...): the weak table has {len(table)} rows and the target's {size}; give "
                "rows=, for each row of the target the weak model's, or -1 for none"
            )
        return table
    try:
        which = np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)
    except ValueError:  # lists of several lengths
        which = np.empty(0, dtype=object)
    sound = which.shape == (size,) and which.dtype.kind in "iu"
    if not sound or which.min() < -1 or which.max() >= len(table):
        raise HeadstartError(
            f"transfer_embedding(rows={which.dtype}{list(which.shape)}): give {size} whole numbers, one for each row "
            f"of the target, from -1 (fresh) to {len(table) - 1}"
        )
    if (which < 0).all():
        raise HeadstartError("transfer_embedding(rows=...): every row is -1, so nothing of the weak table is left")
    fresh = normals(seed, Stream.NOISE, np.arange(size), table.shape[1]) * np.sqrt(np.square(table).mean())
    return np.where(which[:, None] < 0, fresh, table[which])


def _drawn_map(table: NDArray[np.float64], old: "torch.nn.Embedding", seed: int) -> NDArray[np.float64]:
    """B^T, float64[dim, rank]: normal, scaled so that A B has the root mean square of the old table."""
    before = _without_padding(old.weight.detach(), old.padding_idx).float().square().mean().sqrt().item()
    drawn = normals(seed, Stream.INIT, np.arange(old.embedding_dim), table.shape[1]).astype(np.float64)
    kept = table if old.padding_idx is None else np.delete(table, old.padding_idx, axis=0)
    # mean((A B)^2) by the small Gram matrices, without the product of the full size.
    square = float(np.sum((kept.T @ kept) * (drawn.T @ drawn))) / (len(kept) * len(drawn))
    if not square > 0:
        raise HeadstartError("transfer_embedding(weak=...): but for the padding's, every row of A is zero")
    return drawn * (before / square**0.5)


def _written(
    target: Any, old: "torch.nn.Embedding", table: NDArray[np.float64], map_: NDArray[np.float64]
) -> TransferredEmbedding:
    """A B in the table that is there."""
    import torch

    name = next(name for name, part in target.named_modules() if part is old)
    replaced = old.weight.detach().clone()
    dtype = torch.float64 if replaced.dtype == torch.float64 else torch.float32
    with torch.no_grad():
        old.weight.copy_(torch.from_numpy(table).to(dtype) @ torch.from_numpy(map_).to(dtype).T)
    return TransferredEmbedding(old, name, table.shape[1], (), replaced)


def _replaced(
    target: Any,
    old: "torch.nn.Embedding",
    table: NDArray[np.float64],
    map_: NDArray[np.float64],
    freeze: bool,
    keep_tied: bool,
) -> TransferredEmbedding:
    """A `LowRankEmbedding` wherever the table was looked up, and heads that go with it or keep what they had."""
    import torch

    from headstart.methods.low_rank_embedding import LowRankEmbedding, LowRankHead

    places = places_of(target, old)
    if not keep_tied:
        untie_head(target, places)
    keys = factor_keys(target, places)
    weight = old.weight
    new = LowRankEmbedding(
        old.num_embeddings, old.embedding_dim, table.shape[1], old.padding_idx, device=weight.device, dtype=weight.dtype
    ).train(old.training)
    with torch.no_grad():
        new.table.copy_(torch.from_numpy(table))
        new.map.copy_(torch.from_numpy(map_))
    new.map.requires_grad_(weight.requires_grad)
    new.table.requires_grad_(weight.requires_grad and not freeze)
    for name in places.lookups:
        put(target, name, new)
    for name in places.heads:
        head = target.get_submodule(name)
        if keep_tied:
            put(target, name, LowRankHead(new, head.bias).train(head.training))
        else:
            head.weight = torch.nn.Parameter(weight.detach().clone(), weight.requires_grad)
    tie_by(target, keys)
    return TransferredEmbedding(
        new, places.lookups[0], table.shape[1], places.heads if keep_tied else (), weight.detach()
    )
