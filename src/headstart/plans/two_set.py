"""Two-set training: some examples are seen far more often than the others, in the same batches."""

from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import HeadstartError, check_count
from headstart.core.units import Batch, FullBatch
from headstart.plans.course import Course, Leg, Pool, batch_size


@dataclass(frozen=True)
class TwoSet:
    """Every example of a batch comes from the first `size` samples with this `probability`, else from the rest.

    The rest is everything that is not in the small set: fresh samples, never repeated, or, with a `total`, the
    remaining total - size samples of a finite data set. Both sets are drawn uniformly with replacement. Of B examples
    seen, each of the small set is expected probability x B / size times. Probability 1 is `Fixed(size)`.
    Reference: Charton and Kempe, Emergent properties with repeated examples, 2024.
    """

    size: int
    probability: float
    total: int | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("TwoSet", "size", self.size)
        p = self.probability
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0 <= p <= 1:
            raise HeadstartError(f"TwoSet(probability={p!r}): a probability lies in [0, 1]")
        if self.total is not None:
            check_count("TwoSet", "total", self.total, minimum=self.size + 1)

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """One leg without end over both sets."""
        if isinstance(batch, FullBatch):
            raise HeadstartError(f"TwoSet(size={self.size}): FullBatch() has no examples to draw; use Batch(...)")
        leg = Leg(Pool(0, self.total), favoured=self.size, probability=float(self.probability))
        return Course((leg,), batch_size(batch))
