"""Training on the distribution itself."""

from dataclasses import dataclass
from typing import ClassVar

from headstart.core.units import Batch, FullBatch
from headstart.plans.course import Course, Leg, Pool, batch_size


@dataclass(frozen=True)
class Online:
    """Fresh samples in every step; with `FullBatch()`, the exact population in every step."""

    semantics: ClassVar[int] = 1

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """One leg without end over fresh ids 0, 1, 2, ..."""
        return Course((Leg(Pool()),), batch_size(batch))
