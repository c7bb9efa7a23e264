"""Single-index models: a link function of one hidden direction of Gaussian inputs."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.metric import Metric
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals
from headstart.tasks.gaussian_moments import gaussian_variance


@runtime_checkable
class Link(Protocol):
    """A function of one number, elementwise. A neuron's activation has its derivative too, `slope(z)`."""

    semantics: ClassVar[int]

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """h(z), of the shape of z."""
        ...


@dataclass(frozen=True)
class Hermite:
    """The probabilists' Hermite polynomial He_k: He_1(z) = z (a linear link), He_2 = z^2 - 1, He_3 = z^3 - 3z."""

    degree: int = 3

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Hermite", "degree", self.degree)

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """He_k(z), elementwise."""
        return np.asarray(hermite_e.hermeval(z, [0.0] * self.degree + [1.0]), dtype=np.float64)

    def slope(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """He_k'(z) = k He_{k-1}(z), elementwise."""
        return np.asarray(hermite_e.hermeval(z, [0.0] * (self.degree - 1) + [float(self.degree)]), dtype=np.float64)


def check_link(owner: str, link: object) -> None:
    """Raise unless `link` is a link of one number."""
    if isinstance(link, type) or not isinstance(link, Link) or hasattr(link, "directions"):
        raise HeadstartError(f"{owner}(link={link!r}): give a link of one number, such as Hermite(3) or Erf()")


@dataclass(frozen=True)
class SingleIndex:
    """y = link(<w*, x>), x ~ N(0, I_d), w* uniform on the sphere of radius `norm`, drawn from the task stream.

    With norm 1 and link He_k, E[y] = 0 and Var(y) = k!. A run is evaluated on `num_test` fresh points.
    """

    dim: int
    link: Link = Hermite(3)
    norm: float = 1.0
    num_test: int = field(default=5000, metadata={"since": 3})

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("mse", "correlation")

    def __post_init__(self) -> None:
        check_count("SingleIndex", "dim", self.dim)
        check_positive("SingleIndex", "norm", self.norm)
        check_link("SingleIndex", self.link)
        check_count("SingleIndex", "num_test", self.num_test)

    @property
    def signature(self) -> Signature:
        """`dim` real coordinates to one number."""
        return Signature((self.dim,))

    @property
    def variance(self) -> float:
        """Var(y), by quadrature: of a polynomial Gauss-Hermite, which is exact."""
        if not isinstance(self.link, Hermite):
            return gaussian_variance(self.link, 1, self.norm)
        nodes, weights = hermite_e.hermegauss(2 * self.link.degree + 2)
        y, weights = self.link(self.norm * nodes), weights / weights.sum()
        return float(weights @ y**2 - (weights @ y) ** 2)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Relative loss: mean (f - y)^2 / Var(y). One is the loss of the best constant."""
        variance = self.variance

        def relative_error(prediction: Any, target: Any) -> Any:
            return (prediction - target) ** 2 / variance

        return (Metric("relative_loss", relative_error, higher_is_better=False, chance=1.0),)

    @property
    def population_size(self) -> None:
        """None: the population is continuous."""
        return None

    def teacher(self, seed: int) -> NDArray[np.float64]:
        """w*, float64[dim]."""
        return self._direction(seed, Stream.TASK)

    def _direction(self, seed: int, stream: Stream) -> NDArray[np.float64]:
        w = normals(seed, stream, [0], self.dim)[0].astype(np.float64)
        return w * (self.norm / np.linalg.norm(w))

    def label(self, seed: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """link(<w*, x>), float32[n]."""
        return self._link_of(x, self.teacher(seed))

    def random_labels(self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """link(<w_r, x>) with w_r independent of w* and as long: longer ones would make cubic labels explode."""
        return self._link_of(x, self._direction(seed, Stream.LABELS))

    def _link_of(self, x: NDArray[np.float32], direction: NDArray[np.float64]) -> NDArray[np.float32]:
        # A sum over each row, not a matrix product, whose last bit depends on how many rows are asked at once.
        return self.link((x.astype(np.float64) * direction).sum(axis=1)).astype(np.float32)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Gaussian points with their labels, one a sample id."""
        x = normals(seed, stream, ids, self.dim)
        return Samples(x, self.label(seed, x))

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """There is none to enumerate."""
        raise HeadstartError(
            f"SingleIndex(dim={self.dim}): Gaussian inputs have no finite population; use Fixed(size=...) or Batch(...)"
        )
