"""The state machine behind every plan: legs, each drawing batches from one pool of sample ids."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.streams import Stream, integers, permute
from headstart.core.units import Batch, FullBatch

# Step numbers key the order stream when drawing with replacement; permutations take ids from here on.
_FIRST_PERMUTATION_ID = 2**62


@dataclass(frozen=True)
class Pool:
    """Sample ids first .. first + size - 1. Size None is everything: fresh ids from `first` on, never repeated,
    or the exact population when every step takes the full batch."""

    first: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Leg:
    """A stretch of training on one pool, `steps` long; None goes on to the end of the run."""

    pool: Pool
    steps: int | None = None
    replacement: bool = True


class Place(NamedTuple):
    """Where a run stands on its course: all the state a plan has, and part of every checkpoint."""

    seed: int
    leg: int
    began: int


@dataclass(frozen=True)
class Course:
    """A plan resolved for a batch and a number of steps. `batch` is None for full batches.

    Call `observe` before every step and use the Place it returns; `ids` is pure, so any step can be asked again.
    """

    legs: tuple[Leg, ...]
    batch: int | None

    def start(self, seed: int) -> Place:
        """The place before step 0."""
        return Place(seed, 0, 0)

    def observe(self, place: Place, step: int, metric: float | None = None) -> Place:
        """The place for `step`: a leg whose steps are over gives way to the next. `metric` is for plans that adapt."""
        leg = self.legs[place.leg]
        if leg.steps is not None and step - place.began >= leg.steps and place.leg + 1 < len(self.legs):
            return Place(place.seed, place.leg + 1, step)
        return place

    def pool(self, place: Place) -> Pool:
        """The pool that steps at this place draw from."""
        return self.legs[place.leg].pool

    def steps_left(self, place: Place, step: int) -> int | None:
        """How many steps from `step` on stay on this leg; None if it has no end."""
        leg = self.legs[place.leg]
        return None if leg.steps is None or place.leg + 1 == len(self.legs) else place.began + leg.steps - step

    def ids(self, place: Place, step: int, num_steps: int = 1) -> NDArray[np.int64]:
        """The sample ids of `num_steps` mini-batches from `step` on, all on this leg: int64[num_steps * batch]."""
        assert self.batch is not None, "a full batch is its pool; there are no ids to draw"
        leg = self.legs[place.leg]
        first, size = leg.pool.first, leg.pool.size
        positions = np.arange((step - place.began) * self.batch, (step - place.began + num_steps) * self.batch)
        if size is None:
            return first + positions
        if leg.replacement:
            steps = np.arange(step, step + num_steps)
            return first + integers(place.seed, Stream.ORDER, steps, self.batch, size).ravel()
        ids = np.empty_like(positions)
        epochs = positions // size
        for epoch in range(epochs[0], epochs[-1] + 1):
            key = _FIRST_PERMUTATION_ID + (place.leg << 40) + epoch
            ids[epochs == epoch] = permute(place.seed, Stream.ORDER, key, positions[epochs == epoch] % size, size)
        return first + ids


@runtime_checkable
class Plan(Protocol):
    """Which sample ids each step sees. Joining the contract tests (tests/contracts) takes one row."""

    semantics: ClassVar[int]

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """The plan for a run of `steps` steps with this batch."""
        ...


def batch_size(batch: Batch | FullBatch) -> int | None:
    """Samples a step, or None for a full batch."""
    return batch.size if isinstance(batch, Batch) else None


def check_pool(owner: str, size: int, batch: Batch | FullBatch, replacement: bool) -> None:
    """Raise where batches without replacement would have to repeat a sample."""
    if isinstance(batch, Batch) and not replacement and size < batch.size:
        raise HeadstartError(
            f"{owner}: a pool of {size} samples is smaller than Batch({batch.size}); "
            f"use replacement=True, or a batch of at most {size}"
        )
