"""The sampling bias of a data set against the Fourier signal of its input bias (Sections 4.1.3 and 4.2).

For (d, k)-parity on N samples the readout of a quadratic neuron is driven by q = w^T M w ~ N^-1/2 whatever k is. The
explanation by biased inputs has instead, at coordinate biases mu_j ~ N^-1/2, the coefficient
prod_{j in S} mu_j ~ N^-k/2.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import check_seed
from headstart.tasks import Parity
from headstart.theory.quadratic_neuron import CHUNK_ELEMENTS, Labels, initial_weights, labelled_samples


@dataclass(frozen=True)
class SamplingBias:
    """Both signals of `num_sets` data sets of N samples of (d, k)-parity; N is odd, so that no bias is exactly 0."""

    dim: int
    degree: int
    samples: int
    num_sets: int = 1024
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("samples", "num_sets"):
            check_count("SamplingBias", name, getattr(self, name))
        check_count("SamplingBias", "dim", self.dim, minimum=3)
        check_seed(self.seed)
        if self.samples % 2 == 0:
            raise HeadstartError(f"SamplingBias(samples={self.samples}): use an odd number, such as {self.samples + 1}")
        Parity(self.dim, self.degree)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 0.1 + 2e-8 * self.num_sets * self.samples * self.dim

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """drive: |w^T M w| at a random unit w; fourier: |prod_{j in S} mu_j| with mu the mean input; [num_sets]."""
        task = Parity(self.dim, self.degree)
        drive, fourier = np.empty(self.num_sets), np.empty(self.num_sets)
        chunk = max(1, CHUNK_ELEMENTS // (self.samples * self.dim))
        for start in range(0, self.num_sets, chunk):
            ids = np.arange(start, min(start + chunk, self.num_sets), dtype=np.int64)
            w, _ = initial_weights(self.dim, 1, self.seed, ids)
            x, y = labelled_samples(task, self.samples, Labels.TRUE, self.seed, ids)
            projected = np.matmul(x, w.astype(np.float32)[:, :, None])[:, :, 0].astype(np.float64)
            drive[ids] = np.abs((y * projected**2).mean(axis=1))
            fourier[ids] = np.abs(x[:, :, : self.degree].mean(axis=1, dtype=np.float64).prod(axis=1))
        return {"drive": drive, "fourier": fourier}
