"""The state machine behind every plan: legs, each drawing batches from one pool of sample ids."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.streams import Stream, integers, permute, words
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
    """A stretch of training on one pool, `steps` long; None goes on to the end of the run.

    With a `target`, the leg also ends after the first epoch in which the mean training metric reached it: was at least
    the target or, where the metric is `falling`, at most. With
    `favoured` ids, each example comes from the first `favoured` ids of the pool with this `probability`, drawn with
    replacement, and else from the others.
    """

    pool: Pool
    steps: int | None = None
    replacement: bool = True
    target: float | None = None
    falling: bool = False
    favoured: int | None = None
    probability: float = 1.0


class Place(NamedTuple):
    """Where a run stands on its course: all the state a plan has, and part of every checkpoint.

    `total` is the sum of the metrics observed so far in the present epoch of a leg that has a target. `fresh` is what
    ids of fresh samples are shifted by: the runs that this one started from have drawn those before.
    """

    seed: int
    leg: int
    began: int
    total: float = 0.0
    fresh: int = 0

    @property
    def stretch(self) -> tuple[int, int]:
        """What the ids of a step depend on beside the seed: (leg, first step of the leg)."""
        return self.leg, self.began


@dataclass(frozen=True)
class Course:
    """A plan resolved for a batch and a number of steps. `batch` is None for full batches.

    Call `observe` before every step and use the Place it returns; `ids` is pure, so any step can be asked again.

    The metric a course observes before step t is the task's leading metric on the batch that step t - 1 trained on, at
    the weights before that step: what its forward pass says. A leg with a target compares the mean over an epoch,
    ceil(size / batch) steps, at the end of each of its epochs. Without a metric such a leg ends by its steps alone.
    Some parameters may take their gradients from other batches, those of the course `aside`.
    """

    legs: tuple[Leg, ...]
    batch: int | None
    aside: "Aside | None" = None

    @property
    def samples_aside(self) -> int:
        """The samples that a step takes beside its batch, for the parameters that learn from others."""
        return 0 if self.aside is None else self.aside.course.batch or 0

    def start(self, seed: int, fresh: int = 0) -> Place:
        """The place before step 0, with ids of fresh samples from `fresh` on."""
        return Place(seed, 0, 0, fresh=fresh)

    @property
    def adaptive(self) -> bool:
        """Whether metrics decide how long a leg is, so that two members may be on different legs at one step."""
        return any(leg.target is not None for leg in self.legs)

    def observe(self, place: Place, step: int, metric: float | None = None) -> Place:
        """The place for `step`: a leg that is over gives way to the next. `metric` is of the step before."""
        leg = self.legs[place.leg]
        if place.leg + 1 == len(self.legs):
            return place
        done, total = step - place.began, place.total
        if leg.target is not None:
            total += metric or 0.0
            if done % self._epoch(leg) == 0:
                # A target that is a mean of exact counts must not be missed by the rounding of its sum.
                mean, slack = total / self._epoch(leg), 1e-9 * abs(leg.target)
                learned = mean <= leg.target + slack if leg.falling else mean >= leg.target - slack
                if done and metric is not None and learned:
                    return place._replace(leg=place.leg + 1, began=step, total=0.0)
                total = 0.0
        if leg.steps is not None and done >= leg.steps:
            return place._replace(leg=place.leg + 1, began=step, total=0.0)
        return place._replace(total=total)

    def _epoch(self, leg: Leg) -> int:
        """The steps of one epoch over the leg's pool."""
        return 1 if self.batch is None or leg.pool.size is None else -(-leg.pool.size // self.batch)

    def drawn(self, place: Place, step: int) -> int:
        """The first sample id that no step before `step` has drawn, those of the course aside counted from their own.

        A run that starts from this one takes its fresh samples from there on.
        """
        end = place.fresh
        for number, leg in enumerate(self.legs[: place.leg + 1]):
            steps = step - place.began if number == place.leg else leg.steps or 0
            if leg.pool.size is not None and steps:
                end = max(end, leg.pool.first + leg.pool.size)
            elif steps and self.batch is not None:
                end = max(end, leg.pool.first + place.fresh + (leg.favoured or 0) + steps * self.batch)
        if self.aside is not None:
            beside = self.aside.course
            end = max(end, beside.drawn(beside.start(place.seed, place.fresh), step) - beside.legs[0].pool.first)
        return end

    def pool(self, place: Place) -> Pool:
        """The pool that steps at this place draw from."""
        return self.legs[place.leg].pool

    def steps_left(self, place: Place, step: int) -> int | None:
        """How many steps from `step` on stay on this leg at most; None if it has no end."""
        leg = self.legs[place.leg]
        return None if leg.steps is None or place.leg + 1 == len(self.legs) else place.began + leg.steps - step

    def ids(self, place: Place, step: int, num_steps: int = 1) -> NDArray[np.int64]:
        """The sample ids of `num_steps` mini-batches from `step` on, all on this leg: int64[num_steps * batch]."""
        assert self.batch is not None, "a full batch is its pool; there are no ids to draw"
        leg = self.legs[place.leg]
        first, size = leg.pool.first, leg.pool.size
        positions = np.arange((step - place.began) * self.batch, (step - place.began + num_steps) * self.batch)
        if leg.favoured is not None:
            return first + self._mixed(leg, leg.favoured, place, step, positions)
        if size is None:
            return first + place.fresh + positions
        if leg.replacement:
            steps = np.arange(step, step + num_steps)
            return first + integers(place.seed, Stream.ORDER, steps, self.batch, size).ravel()
        keys = _FIRST_PERMUTATION_ID + (place.leg << 40) + positions // size
        return first + permute(place.seed, Stream.ORDER, keys, positions % size, size)

    def _mixed(
        self, leg: Leg, favoured: int, place: Place, step: int, positions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Each example from the favoured ids with the leg's probability, else from the others, relative to the pool."""
        assert self.batch is not None
        num_steps = len(positions) // self.batch
        drawn = words(place.seed, Stream.ORDER, np.arange(step, step + num_steps), 3 * self.batch).astype(np.uint64)
        # The first third is what a pool of the favoured ids alone would draw, so that probability 1 is that pool.
        pick, coin, other = (drawn[:, i * self.batch : (i + 1) * self.batch].ravel() for i in range(3))
        inside = ((pick * np.uint64(favoured)) >> np.uint64(32)).astype(np.int64)
        if leg.pool.size is None:  # every position owns a fresh id, so that nothing needs to be counted
            outside = favoured + place.fresh + positions
        else:
            rest = np.uint64(leg.pool.size - favoured)
            outside = favoured + ((other * rest) >> np.uint64(32)).astype(np.int64)
        return np.where(coin.astype(np.float64) + 0.5 < leg.probability * 2.0**32, inside, outside)


@dataclass(frozen=True)
class Aside:
    """A course of one leg, from whose batches the parameters with these roles take their gradients."""

    roles: tuple[Role, ...]
    course: Course


@runtime_checkable
class Plan(Protocol):
    """Which sample ids each step sees. Joining the contract tests (tests/contracts) takes one row."""

    semantics: ClassVar[int]

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """The plan for a run of `steps` steps with this batch."""
        ...


def batch_size(batch: Batch | FullBatch) -> int | None:
    """Samples per step, or None for a full batch."""
    return batch.size if isinstance(batch, Batch) else None


def check_pool(owner: str, size: int, batch: Batch | FullBatch, replacement: bool) -> None:
    """Raise where batches without replacement would have to repeat a sample."""
    if isinstance(batch, Batch) and not replacement and size < batch.size:
        raise HeadstartError(
            f"{owner}: a pool of {size} samples is smaller than Batch({batch.size}); "
            f"use replacement=True, or a batch of at most {size}"
        )
