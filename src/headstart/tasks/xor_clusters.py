"""Four clusters in many dimensions, labelled by the XOR of two signs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_nonnegative
from headstart.core.metric import Metric, sign_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, signs

# About this many numbers are drawn at a time: they stay in cache, and no second copy of all rows is held.
_BLOCK = 2**18


@dataclass(frozen=True)
class XorClusters:
    """x_1 and x_2 are uniform signs, the other dim - 2 coordinates uniform on {-noise, +noise}, and

        y = x_1 x_2

    so that the four clusters (+-1, +-1) carry the label of their corner and noise of norm noise sqrt(dim - 2). All
    coordinates are independent. A noise of 1 is Parity(dim, 2) over the same ids. Rows are long: `num_test` of them
    take 4 num_test dim bytes. A prediction of exactly 0 counts `ties` in the accuracy.

    Reference: Let Me Grok For You, Section 3 (p = 80,000, noise 0.05, 400 training rows).
    """

    dim: int = 80_000
    noise: float = 0.05
    num_test: int = 1000
    ties: float = 0.5

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("exponential", "logistic", "hinge", "mse", "correlation")

    def __post_init__(self) -> None:
        check_count("XorClusters", "dim", self.dim, minimum=2)
        check_nonnegative("XorClusters", "noise", self.noise)
        check_count("XorClusters", "num_test", self.num_test)
        check_fraction("XorClusters", "ties", self.ties)

    @property
    def signature(self) -> Signature:
        """`dim` real coordinates to one number."""
        return Signature((self.dim,))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of samples whose prediction has the sign of y."""
        return (sign_accuracy(self.ties),)

    @property
    def population_size(self) -> None:
        """Not enumerated."""
        return None

    def label(self, seed: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The product of the first two coordinates, float32[n]; the seed plays no part."""
        return x[:, 0] * x[:, 1]

    def random_labels(self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Uniform signs, one per sample id."""
        return signs(seed, Stream.LABELS, ids, 1)[:, 0]

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """One point per sample id: the signs of `Parity`, all but the first two times the noise."""
        ids = np.asarray(ids, dtype=np.int64)
        x = np.empty((len(ids), self.dim), dtype=np.float32)
        size = max(1, _BLOCK // self.dim)
        for first in range(0, len(ids), size):
            rows = slice(first, first + size)
            x[rows] = signs(seed, stream, ids[rows], self.dim)
            x[rows, 2:] *= np.float32(self.noise)
        return Samples(x, self.label(seed, x))

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """Refused: there is no enumeration."""
        raise HeadstartError(
            f"XorClusters(dim={self.dim}): there is no exact population; use Fixed(size=...) or Batch(...) instead"
        )
