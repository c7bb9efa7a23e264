"""Training on one finite set, repeated."""

from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import check_count
from headstart.core.units import Batch, FullBatch
from headstart.plans.course import Course, Leg, Pool, batch_size, check_pool


@dataclass(frozen=True)
class Fixed:
    """The first `size` samples of the run's seed in every step.

    Mini-batches are drawn uniformly with replacement, or, with `replacement=False`, by a new permutation every epoch.
    """

    size: int
    replacement: bool = True

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Fixed", "size", self.size)

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """One leg without end over ids 0 .. size - 1."""
        check_pool(f"Fixed(size={self.size})", self.size, batch, self.replacement)
        return Course((Leg(Pool(0, self.size), replacement=self.replacement),), batch_size(batch))
