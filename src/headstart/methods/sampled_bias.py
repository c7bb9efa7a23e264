"""Fresh samples with the per-coordinate biases of a finite set."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.samples import Samples
from headstart.core.streams import Stream, uniforms
from headstart.methods.method import Method
from headstart.plans import Pool
from headstart.tasks import Parity, Task


@dataclass(frozen=True)
class SampledBias(Method):
    """Online parity samples whose coordinates are independent with the means of the run's first `size` samples.

        P(x_i = 1) = (1 + mu_i) / 2,  mu = mean of sample ids 0 .. size - 1,  y the parity of x

    so that `Online()` with this method shares the input biases of `Fixed(size)` and nothing else. Test samples stay
    uniform. Reference: Less Data, Faster Training, Section 4.1.3 and Figs. 3b and 17.
    """

    size: int

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("SampledBias", "size", self.size)

    def check(self, task: Task) -> None:
        """Parity alone."""
        if not isinstance(task, Parity):
            raise HeadstartError(f"SampledBias(size={self.size}): {type(task).__name__} has no +-1 inputs to bias")

    def alters(self, leg: int, pool: Pool) -> bool:
        """Fresh samples."""
        return pool.size is None

    def means(self, task: Parity, seed: int) -> NDArray[np.float64]:
        """mu, float64[dim]."""
        return _means(task, seed, self.size)

    def samples(self, task: Task, seed: int, leg: int, pool: Pool, ids: NDArray[np.int64], samples: Samples) -> Samples:
        """Fresh biased samples, one per sample id."""
        if pool.size is not None:
            return samples
        assert isinstance(task, Parity)
        below = uniforms(seed, Stream.NOISE, ids, task.dim) < (1 + self.means(task, seed)) / 2
        x = np.where(below, np.float32(1), np.float32(-1))
        return Samples(x, task.label(seed, x))


@lru_cache(maxsize=4096)
def _means(task: Parity, seed: int, size: int) -> NDArray[np.float64]:
    """Every batch of a run asks for them."""
    means = task.sample(seed, np.arange(size, dtype=np.int64)).x.mean(axis=0, dtype=np.float64)
    means.setflags(write=False)
    return means
