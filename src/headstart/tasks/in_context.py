"""In-context linear regression: every sequence has a teacher of its own."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.metric import Metric
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals


@dataclass(frozen=True)
class InContextRegression:
    """The sequence x_1, y_1, ..., x_k, y_k, x_q with y_i = <w, x_i>; the target is <w, x_q>.

        w, x_i, x_q ~ N(0, I_n), all fresh in every sequence

    `features` is n and `context` k. Each of the 2k + 1 tokens is a vector of n coordinates; that of a y_i has it in
    the first and zeros in the others. E y = 0 and Var(y) = n. Least squares on the context is exact for k >= n.
    A run is evaluated on `num_test` fresh sequences. Reference: Less Data, Faster Training, Section 2.
    """

    features: int = 4
    context: int = 15
    num_test: int = field(default=4096, metadata={"since": 3})

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("mse",)

    def __post_init__(self) -> None:
        for name in ("features", "context", "num_test"):
            check_count("InContextRegression", name, getattr(self, name))

    @property
    def signature(self) -> Signature:
        """2k + 1 tokens of n coordinates to one number."""
        return Signature((2 * self.context + 1, self.features))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Relative loss: mean (f - y)^2 / n. One is the loss of predicting zero."""
        variance = self.features

        def relative_error(prediction: Any, target: Any) -> Any:
            return (prediction - target) ** 2 / variance

        return (Metric("relative_loss", relative_error, higher_is_better=False, chance=1.0),)

    @property
    def population_size(self) -> None:
        """None: the population is continuous."""
        return None

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Sequences x[ids, 2k + 1, n], one per sample id."""
        k, n = self.context, self.features
        drawn = normals(seed, stream, ids, (k + 2) * n).reshape(-1, k + 2, n)
        w, x = drawn[:, 0], drawn[:, 1:]
        y = (x.astype(np.float64) * w[:, None]).sum(axis=2).astype(np.float32)
        tokens = np.zeros((len(drawn), 2 * k + 1, n), dtype=np.float32)
        tokens[:, 0::2] = x
        tokens[:, 1::2, 0] = y[:, :-1]
        return Samples(tokens, np.ascontiguousarray(y[:, -1]))

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """There is none to enumerate."""
        raise HeadstartError(
            "InContextRegression: Gaussian sequences have no finite population; use Fixed(size=...) or Batch(...)"
        )
