"""Many patches of noise and one that carries the label, in a place that changes from sample to sample."""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_positive
from headstart.core.metric import Metric, sign_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals, words


@dataclass(frozen=True)
class LocalSignal:
    """x has k + 1 rows in R^d: y w* in a row drawn uniformly, N(0, sigma^2 I) in each of the k others.

        sigma = noise log k / sqrt k,    |w*| = 1,    y = +-1 with equal probability

    `patches` is k and `dim` d; log is the natural one, so that noise = 1 / log 10 reads it as the decimal one. w* is a
    uniform direction of the seed. Summed over the rows noise has a deviation of sigma sqrt k = noise log k along w*,
    above the signal's 1, while one row has sigma, far below it. A prediction of exactly 0 counts `ties` in the
    accuracy; where sign(0) is an error, as in Theorem 3.2, ties = 0.

    Reference: Karp, Winston, Li and Singh, Local Signal Adaptivity: Provable Feature Learning in Neural Networks Beyond
    Kernels, 2021; Section 3.3 of the first author's thesis, with k = 1000 and d = 10 in Fig. 3.3.
    """

    patches: int = 1000
    dim: int = 10
    noise: float = 1.0
    ties: float = 0.5
    num_test: int = 1000

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("logistic", "exponential", "hinge", "mse", "correlation")

    def __post_init__(self) -> None:
        check_count("LocalSignal", "patches", self.patches, minimum=2)
        check_count("LocalSignal", "dim", self.dim)
        check_positive("LocalSignal", "noise", self.noise)
        check_fraction("LocalSignal", "ties", self.ties)
        check_count("LocalSignal", "num_test", self.num_test)

    @classmethod
    def matched(cls, patches: int = 1000, noise: float = 1.0, ties: float = 0.0, num_test: int = 1000) -> "LocalSignal":
        """The same with d = 1 / sigma^2, rounded: a row of noise is as long as the signal, as in Theorem 3.2."""
        sigma = cls(patches, 1, noise).sigma
        return cls(patches, max(1, round(sigma**-2)), noise, ties, num_test)

    @property
    def sigma(self) -> float:
        """The deviation of a coordinate of noise."""
        return self.noise * log(self.patches) / sqrt(self.patches)

    @property
    def signature(self) -> Signature:
        """k + 1 rows of d numbers to one number."""
        return Signature((self.patches + 1, self.dim))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of samples whose prediction has the sign of y."""
        return (sign_accuracy(self.ties),)

    @property
    def population_size(self) -> None:
        """None: the population is continuous."""
        return None

    def teacher(self, seed: int) -> NDArray[np.float64]:
        """w*, float64[dim]."""
        w = normals(seed, Stream.TASK, [0], self.dim)[0].astype(np.float64)
        return w / float(np.linalg.norm(w))

    def random_labels(self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Uniform signs, one per sample id."""
        return _signs(words(seed, Stream.LABELS, ids, 1)[:, 0])

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """One x per sample id: its first word is the sign, its second the row of the signal, noise from word 4 on."""
        ids = np.asarray(ids, dtype=np.int64)
        first, second = words(seed, stream, ids, 2).T
        y, place = _signs(first), (second.astype(np.uint64) * np.uint64(self.patches + 1)) >> np.uint64(32)
        x = normals(seed, stream, ids, (self.patches + 1) * self.dim, first=4).reshape(-1, self.patches + 1, self.dim)
        x *= np.float32(self.sigma)
        x[np.arange(len(ids)), place.astype(np.intp)] = (y[:, None] * self.teacher(seed)).astype(np.float32)
        return Samples(x, y)

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """Refused: there is no enumeration."""
        raise HeadstartError(
            f"LocalSignal(patches={self.patches}): Gaussian noise has no finite population; use Fixed(size=...) or "
            "Batch(...)"
        )


def _signs(word: NDArray[np.uint32]) -> NDArray[np.float32]:
    """-1 where the lowest bit is set."""
    return np.float32(1) - np.float32(2) * (word & np.uint32(1)).astype(np.float32)
