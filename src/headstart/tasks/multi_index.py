"""Multi-index models: a link function of a few hidden directions of Gaussian inputs, with or without noise."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_nonnegative
from headstart.core.metric import Metric
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals
from headstart.tasks.gaussian_moments import gaussian_variance
from headstart.tasks.multi_links import MultiLink
from headstart.tasks.single_index import Hermite, Link, check_link

# About this many numbers are drawn at a time: Box-Muller holds several copies of what it makes.
_BLOCK = 2**20


@dataclass(frozen=True)
class MultiIndex:
    """y = h*(W* x) + sqrt(noise) xi with x ~ N(0, I_d), xi ~ N(0, 1) and k orthonormal rows in W*.

    `link` is h*: a link of one number such as Hermite(3), then k = 1 and W* is a uniform unit vector; or one of
    several, ProductOf, Committee or HermiteSum, which says itself how many `directions` it takes. The rows of W* are
    drawn from the task stream, the first of them whatever k is, and xi from the noise stream by sample id. Samples to
    evaluate on have no noise: their loss is that of the signal, 0 for the target itself. With a link of one number and
    no noise this is SingleIndex over the same ids.

    Reference: Online Learning and Information Exponents, where `noise` is Delta.
    """

    dim: int
    link: Link | MultiLink = Hermite(3)
    directions: int | None = None
    noise: float = 0.0
    num_test: int = 5000

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("mse", "correlation")

    def __post_init__(self) -> None:
        check_count("MultiIndex", "dim", self.dim)
        check_nonnegative("MultiIndex", "noise", self.noise)
        check_count("MultiIndex", "num_test", self.num_test)
        if isinstance(self.link, type) or not isinstance(self.link, MultiLink):
            check_link("MultiIndex", self.link)
        own = getattr(self.link, "directions", 1)
        if self.directions is not None and self.directions != own:
            raise HeadstartError(
                f"MultiIndex(directions={self.directions!r}): {self.link} takes {own}; leave directions out, or give "
                "a link of so many, such as ProductOf(Tanh(), 3)"
            )
        if own > self.dim:
            raise HeadstartError(f"MultiIndex(dim={self.dim}): {own} directions need a dim of at least {own}")
        object.__setattr__(self, "directions", own)

    @property
    def signature(self) -> Signature:
        """`dim` real coordinates to one number."""
        return Signature((self.dim,))

    @property
    def num_directions(self) -> int:
        """k."""
        assert self.directions is not None
        return self.directions

    @property
    def variance(self) -> float:
        """Var h*(W* x), without the noise: exact where the link knows it, else by quadrature."""
        known = getattr(self.link, "variance", None)
        variance = float(gaussian_variance(self.link, self.num_directions) if known is None else known)
        if not variance > 0:
            raise HeadstartError(f"MultiIndex(link={self.link!r}): a constant has nothing to learn; give another link")
        return variance

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Relative loss: mean (f - y)^2 / Var(h*). One is the loss of the best constant, where there is no noise."""
        variance = self.variance

        def relative_error(prediction: Any, target: Any) -> Any:
            return (prediction - target) ** 2 / variance

        return (Metric("relative_loss", relative_error, higher_is_better=False, chance=1.0),)

    @property
    def population_size(self) -> None:
        """None: the population is continuous."""
        return None

    def teacher(self, seed: int) -> NDArray[np.float64]:
        """W*, float64[directions, dim], with orthonormal rows."""
        return self._orthonormal(seed, Stream.TASK)

    def _orthonormal(self, seed: int, stream: Stream) -> NDArray[np.float64]:
        """Gram and Schmidt's rows, of a normal vector each: uniform over all such frames."""
        rows = normals(seed, stream, np.arange(self.num_directions), self.dim).astype(np.float64)
        for r in range(self.num_directions):
            for _ in range(2 if r else 0):  # once is exact, twice is exact in floating point
                rows[r] -= (rows[:r] @ rows[r]) @ rows[:r]
            rows[r] *= 1 / np.linalg.norm(rows[r])
        return rows

    def label(self, seed: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """h*(W* x), float32[n]; refused where labels have noise, which is a sample's own and not its point's."""
        if self.noise:
            raise HeadstartError(
                f"MultiIndex(noise={self.noise}): changed inputs cannot be labelled again, since the noise belongs to "
                "the sample; use noise=0"
            )
        return self._signal(x, self.teacher(seed)).astype(np.float32)

    def random_labels(self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The link of other directions, independent of W*, with the noise of these ids."""
        return self._labels(seed, ids, x, self._orthonormal(seed, Stream.LABELS), self.noise)

    def _labels(
        self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32], rows: NDArray[np.float64], noise: float
    ) -> NDArray[np.float32]:
        y = self._signal(x, rows)
        if noise:
            y = y + np.sqrt(noise) * normals(seed, Stream.NOISE, ids, 1)[:, 0].astype(np.float64)
        return y.astype(np.float32)

    def _signal(self, x: NDArray[np.float32], rows: NDArray[np.float64]) -> NDArray[np.float64]:
        # A sum over each row, not a matrix product, whose last bit depends on how many rows are asked at once.
        wide = x.astype(np.float64)
        z = np.stack([(wide * row).sum(axis=1) for row in rows], axis=1)
        return self.link(z if hasattr(self.link, "directions") else z[:, 0])

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Gaussian points with their labels, one a sample id; without noise to evaluate on."""
        ids = np.asarray(ids, dtype=np.int64)
        teacher, noise = self.teacher(seed), 0.0 if stream is Stream.EVALUATION else self.noise
        x, y = np.empty((len(ids), self.dim), dtype=np.float32), np.empty(len(ids), dtype=np.float32)
        size = max(1, _BLOCK // self.dim)
        for first in range(0, len(ids), size):
            part = slice(first, first + size)
            x[part] = normals(seed, stream, ids[part], self.dim)
            y[part] = self._labels(seed, ids[part], x[part], teacher, noise)
        return Samples(x, y)

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """There is none to enumerate."""
        raise HeadstartError(
            f"MultiIndex(dim={self.dim}): Gaussian inputs have no finite population; use Fixed(size=...) or Batch(...)"
        )
