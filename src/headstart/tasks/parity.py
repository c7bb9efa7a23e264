"""Sparse parity on the hypercube."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction
from headstart.core.metric import Metric, sign_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, signs

_LARGEST_POPULATION_DIM = 24
_MOST_DEGREE = 10**6


@dataclass(frozen=True)
class Parity:
    """(d, k)-parity: x uniform on {-1, +1}^d, y the product of the coordinates in `support`.

        y = prod_{i in S} x_i,  |S| = k

    The support defaults to the first `degree` coordinates; degree = dim is dense parity. Up to dim 24 the exact
    population of 2^d points can be enumerated: bit i of a point's index is set where x_i = -1. A prediction of exactly
    0 counts `ties` in the accuracy. A run is evaluated on `num_test` fresh points.
    """

    dim: int
    degree: int
    support: tuple[int, ...] | None = None
    ties: float = 0.5
    num_test: int = field(default=4096, metadata={"since": 3})

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("hinge", "logistic", "mse", "correlation", "exponential")

    def __post_init__(self) -> None:
        check_count("Parity", "dim", self.dim)
        check_count("Parity", "degree", self.degree, maximum=_MOST_DEGREE)
        if self.degree > self.dim:
            raise HeadstartError(
                f"Parity(dim={self.dim}, degree={self.degree}): the degree is at most the dimension {self.dim}"
            )
        given = self.support if isinstance(self.support, Iterable) else (self.support,)
        support = tuple(range(self.degree)) if self.support is None else tuple(given)
        whole = all(isinstance(i, int) and 0 <= i < self.dim for i in support)
        if not whole or len(set(support)) != self.degree or len(support) != self.degree:
            raise HeadstartError(
                f"Parity(support={self.support!r}): give {self.degree} distinct coordinates in [0, {self.dim})"
            )
        object.__setattr__(self, "support", tuple(sorted(support)))
        check_fraction("Parity", "ties", self.ties)
        check_count("Parity", "num_test", self.num_test)

    @property
    def signature(self) -> Signature:
        """`dim` real coordinates to one number."""
        return Signature((self.dim,))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of samples whose prediction has the sign of y."""
        return (sign_accuracy(self.ties),)

    @property
    def population_size(self) -> int | None:
        """2^dim up to dim 24."""
        return 2**self.dim if self.dim <= _LARGEST_POPULATION_DIM else None

    def label(self, seed: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The product of the support coordinates, float32[n]; the seed plays no part."""
        return x[:, list(self.support or ())].prod(axis=1, dtype=np.float32)

    def random_labels(self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Uniform signs, one per sample id."""
        return signs(seed, Stream.LABELS, ids, 1)[:, 0]

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Uniform points, one per sample id."""
        x = signs(seed, stream, ids, self.dim)
        return Samples(x, self.label(seed, x))

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """The points of {-1, +1}^dim, in the order of their index."""
        if self.population_size is None:
            raise HeadstartError(
                f"Parity(dim={self.dim}): the exact population is enumerated up to dimension "
                f"{_LARGEST_POPULATION_DIM}; use Fixed(size=...) or Batch(...) instead"
            )
        index = np.arange(self.population_size, dtype=np.int64) if ids is None else np.asarray(ids, dtype=np.int64)
        bits = np.unpackbits(index.astype("<u4").view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
        x = np.float32(1) - np.float32(2) * bits[:, : self.dim].astype(np.float32)
        return Samples(x, self.label(seed, x))
