"""What a target takes over from a weaker model that has learned a little: its table of vectors, or its first layer.

A run starts from a weak one through these: `From(weak, at=Reaches("test_accuracy", 0.3), via=TransferEmbedding())`.
Reference: Let Me Grok For You, Section 2.2.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_flag
from headstart.core.roles import Parameter, Role
from headstart.core.state import State
from headstart.core.streams import Stream, permute
from headstart.methods.site import Site
from headstart.models.embedding import MAP, TABLE

# The permutation of a shuffled table has an id of the init stream to itself.
_SHUFFLE_ID = 2**61


@dataclass(frozen=True)
class TransferEmbedding:
    """The weak model's table becomes the target's: A = E_W, and all else is the target's own start.

    Of a target with `Embedding(dim, rank)` it is the factor A of A B, with the weak model's dimension as the rank; of
    one without a rank, the whole table, so the dimensions must agree. A weak table that is a product goes over as the
    product. `shuffled` is a control: the rows in another order, one for each seed, have the same values and the same
    rank, and say nothing of their symbols.
    """

    shuffled: bool = False

    semantics: ClassVar[int] = 1
    uses_fresh: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flag("TransferEmbedding", "shuffled", self.shuffled)

    def __call__(self, source: State, site: Site) -> State:
        """The target's fresh state with the weak table in it."""
        _table_of("TransferEmbedding", "source", site.source_parameters)
        return _planted("TransferEmbedding", product(source.weights), self.shuffled, site)


@dataclass(frozen=True)
class TransferFirstLayer:
    """The weak model's first layer becomes the map that the target's inputs go through: A = W_1^T.

    For inputs that are real numbers, where a first layer is what an embedding is for symbols. The target has
    `Embedding(dim, rank)` with the weak model's width as the rank, or `Embedding(dim)` with its width as the dimension.
    A bias of the first layer stays behind. `shuffled` is a control: the coordinates of the input in another order.
    """

    shuffled: bool = False

    semantics: ClassVar[int] = 1
    uses_fresh: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_flag("TransferFirstLayer", "shuffled", self.shuffled)

    def __call__(self, source: State, site: Site) -> State:
        """The target's fresh state with the weak model's first layer in it."""
        first = [p for p in site.source_parameters if p.role is Role.INPUT and len(p.shape) == 2]
        if len(first) != 1:
            own = ", ".join(dict.fromkeys(str(p.role) for p in site.source_parameters))
            raise HeadstartError(
                f"TransferFirstLayer(): the source has no first layer on its inputs, its roles are {own}; give an MLP "
                "without an embedding, or use TransferEmbedding()"
            )
        return _planted("TransferFirstLayer", source.weights[first[0].name].T, self.shuffled, site)


@dataclass(frozen=True)
class MergeEmbedding:
    """A table that was a product, A B, goes on as one: E = A B. All else stays as it is.

    The target is the source's model with the same dimension and no rank. Reference: Let Me Grok For You, Fig. 15b.
    """

    semantics: ClassVar[int] = 1
    uses_fresh: ClassVar[bool] = False

    def __call__(self, source: State, site: Site) -> State:
        """The source's state with one table instead of two."""
        if MAP not in source.weights:
            raise HeadstartError(
                "MergeEmbedding(): the source's table is no product; give a source with Embedding(dim=..., rank=...)"
            )
        weights = {TABLE: product(source.weights), **{n: a for n, a in source.weights.items() if n not in (TABLE, MAP)}}
        # What the optimizer knows of the factors says nothing of their product.
        lost = tuple(f"/{name}" for name in (TABLE, MAP))
        moments = {name: array for name, array in source.moments.items() if not name.endswith(lost)}
        counters = {name: array for name, array in source.counters.items() if not name.endswith(lost)}
        return replace(source, weights=weights, moments=moments, counters=counters)


def product(weights: Any) -> NDArray[Any]:
    """The table of a model: its rows, or, of a product, A B in the precision of A."""
    table = np.asarray(weights[TABLE])
    if MAP not in weights:
        return table
    return (table.astype(np.float64) @ np.asarray(weights[MAP]).astype(np.float64).T).astype(table.dtype)


def _table_of(owner: str, end: str, parameters: tuple[Parameter, ...]) -> Parameter:
    """The table among the parameters of one end."""
    found = [p for p in parameters if p.name == TABLE]
    if not found:
        raise HeadstartError(f"{owner}(): the {end} has no embedding; give its model embedding=Embedding(dim=...)")
    return found[0]


def _planted(owner: str, rows: NDArray[Any], shuffled: bool, site: Site) -> State:
    """The target's fresh state with these rows as its table."""
    target = _table_of(owner, "target", site.target_parameters)
    if rows.shape != target.shape:
        raise HeadstartError(
            f"{owner}(): the source gives a table {rows.shape}, and the target's is {target.shape}; give the target "
            f"Embedding(dim=..., rank={rows.shape[1]}) and the same inputs"
        )
    if shuffled:
        rows = rows[permute(site.seed, Stream.INIT, _SHUFFLE_ID, np.arange(len(rows)), len(rows))]
    fresh = site.fresh.weights
    return State({**fresh, TABLE: np.ascontiguousarray(rows).astype(fresh[TABLE].dtype)}, site.fresh.buffers)
