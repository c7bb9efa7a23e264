"""A schedule as a torch batch sampler: the same plans, over the rows of a data set."""

import hashlib
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sized
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import Stream, check_seed, permute
from headstart.plans.course import Leg, Place
from headstart.plans.replicas import replicas
from headstart.plans.sampler_state import State, checked_state
from headstart.plans.schedule import PhaseSchedule

# Rows are drawn so many at a time: enough to make one draw cheap, and all the memory a sampler needs.
_BLOCK = 2**17
# Batches become lists a few steps at a time.
_AHEAD = 16
# So many batches a loader's workers may have fetched before the loop could report the first.
_FETCHED_AHEAD = 64
# The rows of a small subset are looked up in a list; larger ones are computed again and again.
_MOST_LISTED = 2**16


class _Block(NamedTuple):
    """The rows of steps first .. end - 1, int64[steps, rows a step], all of one stretch of one phase."""

    stretch: tuple[int, int]
    first: int
    end: int
    rows: NDArray[np.int64]
    share: int  # rows of a micro-batch over all replicas
    may_end: bool  # a report may end the phase at any step


class PhasedBatchSampler:
    """Batches of row numbers, spanning the whole schedule: give it to `DataLoader(batch_sampler=...)`.

        sampler = PhasedBatchSampler(dataset, PhaseSchedule.geometric(steps=6000), batch_size=64)
        loader = DataLoader(dataset, batch_sampler=sampler)

    One pass is the whole of training. Batch k is a pure function of (schedule, rows, batch size, seed, replicas), so
    `load_state_dict` gives exactly the remaining batches. No list of rows is held, however large the data set.

    `batch_size` is what one replica takes at a time. Replicas default to the initialised torch.distributed group; each
    step's rows are dealt to them in turn, disjoint and from the same phase. Only a step that holds the end of an epoch
    and the beginning of the next may have a row twice, once from each, and then perhaps on two replicas; with
    `replacement=True` any step may. Under Accelerate or the Hugging Face
    Trainer, which deal out batches themselves, the sampler is rank-unaware: there `accumulate` counts the processes
    too. Phases count optimizer steps; `accumulate` micro-batches make a step.
    """

    drop_last = True  # every batch is full; Accelerate asks

    def __init__(
        self,
        dataset_or_length: Sized | int,
        schedule: PhaseSchedule,
        batch_size: int = 32,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        accumulate: int = 1,
    ) -> None:
        self.num_rows = _num_rows(dataset_or_length)
        if not isinstance(schedule, PhaseSchedule):
            raise HeadstartError(f"PhasedBatchSampler(schedule={schedule!r}): give a PhaseSchedule")
        check_count("PhasedBatchSampler", "batch_size", batch_size)
        check_count("PhasedBatchSampler", "accumulate", accumulate)
        check_seed(seed)
        self.schedule, self.seed, self.accumulate = schedule, int(seed), accumulate
        self.num_replicas, self.rank = replicas(num_replicas, rank)
        self.route = schedule.route(self.num_rows, batch_size, self.num_replicas * accumulate)
        self._courses = tuple(replace(self.route.course, batch=batch) for batch in self.route.batches)
        sizes = {batch // (self.num_replicas * accumulate) for batch in self.route.batches}
        # Accelerate reads a missing size as "sizes vary".
        self.batch_size = sizes.pop() if len(sizes) == 1 else None
        used = self.route.num_rows_used
        if used < self.num_rows:
            warnings.warn(
                f"this schedule uses {100 * used / self.num_rows:.3g}% of the rows, {used} of {self.num_rows}; the "
                "others are never seen. Leave out everything=None, or shorten the phases, to end on all of them",
                stacklevel=2,
            )
        self._begin, self._loaded = 0, False
        self._listed = np.empty(0, dtype=np.int64)
        self._restart()

    def _restart(self) -> None:
        """Forget what was reported: the pass begins at step 0."""
        self._place = self._courses[0].start(self.seed)
        self._stretches: list[tuple[int, int]] = [self._place.stretch]
        self._decided = 1  # the phase is known of steps below this one
        self._metric: float | None = None
        self._heard = self.route.course.legs[0].target is None  # then there is nothing to hear
        self._position = 0
        self._block: _Block | None = None

    def __len__(self) -> int:
        """The batches of a whole pass: steps x accumulate."""
        return self.route.steps * self.accumulate

    def __iter__(self) -> Iterator[list[int]]:
        """All batches from the first on, or, once after `load_state_dict`, those that remain."""
        if self._loaded:
            self._loaded = False
        else:
            self._restart()
        self._position = self._begin
        self._begin = 0
        total = len(self)
        while self._position < total:
            for batch in self._batches(self._position):
                self._position += 1
                yield batch
                if not self._heard:
                    self.check_heard(self._position if self._position == total else self._position - _FETCHED_AHEAD)

    @property
    def resumed(self) -> bool:
        """Whether a state was loaded, so that the next pass begins in its middle."""
        return self._loaded

    @property
    def rows_seen(self) -> float:
        """The fraction of all rows seen so far, that of the batch drawn last included; see `rows_seen_of`."""
        return self.rows_seen_of(self._position - 1) if self._position else 0.0

    @property
    def phase(self) -> int:
        """The phase, from 0 on, of the batch that was drawn last."""
        return self.phase_of(max(0, self._position - 1))

    def phase_of(self, batch: int) -> int:
        """The phase, from 0 on, of batch number `batch`, which must have been drawn."""
        return self._stretch(batch // self.accumulate)[0]

    def report(self, metric: float, phase: int | None = None) -> None:
        """Tell an auto schedule how well the training batches are learned: higher is better.

        It counts for every step until the next report. Replicas must report the same number: reduce it first. Where
        batches are fetched ahead, `phase` says which phase the metric is about: of one that is over it counts nothing.
        """
        if self.schedule.target is None:
            raise HeadstartError(
                f"report(metric={metric!r}): the phases of this schedule end by their lengths, and no metric is heard; "
                "leave report out, or use PhaseSchedule.auto"
            )
        try:
            value = float(metric)
        except (TypeError, ValueError, RuntimeError):
            value = float("nan")
        if not np.isfinite(value):
            raise HeadstartError(f"report(metric={metric!r}): give one finite number, such as the batch's accuracy")
        self._heard = True
        if phase is None or phase == self.phase:
            self._metric = value

    def check_heard(self, num_batches: int) -> None:
        """Warn, once, where so many batches are over, an epoch at least, and an auto schedule heard no metric yet."""
        leg, batch = self.route.course.legs[0], self.route.batches[0]
        if self._heard or num_batches < -(-(leg.pool.size or 1) // batch) * self.accumulate:
            return
        self._heard = True
        warnings.warn(
            "this auto schedule heard no metric in its first epoch, so its phases only end by their longest: call "
            "report(metric) after every batch, or use PhaseSchedule.geometric",
            stacklevel=3,
        )

    def rows_seen_of(self, batch: int) -> float:
        """The fraction of all rows seen by the end of the step of batch number `batch`, which must have been drawn.

        Within an epoch it is the expected fraction; where each phase is at least an epoch without replacement, it is
        exact at their ends.
        """
        end = batch // self.accumulate + 1
        self._stretch(end - 1)
        begins = [began for _, began in self._stretches]
        seen, reach = 0.0, 0  # `seen` of the first `reach` ids
        for (number, began), following in zip(self._stretches, [*begins[1:], end], strict=True):
            leg, draws = self.route.course.legs[number], (min(following, end) - began) * self.route.batches[number]
            assert leg.pool.size is not None, "a data set is finite"
            if draws <= 0:
                break
            common = max(0, min(reach, leg.pool.first + leg.pool.size) - leg.pool.first)
            before = seen * common / max(1, reach)
            seen += _num_distinct(leg, draws) * (1 - before / leg.pool.size)
            reach = max(reach, leg.pool.first + leg.pool.size)
        return seen / self.num_rows

    def state_dict(self) -> State:
        """Where the pass stands, as plain JSON data."""
        return {
            "batch": self._begin if self._loaded else self._position,
            "stretches": [list(stretch) for stretch in self._stretches],
            "decided": self._decided,
            "total": self._place.total,
            "metric": self._metric,
            "sampler": self._identity(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass begins at the batch after those that `state` counts."""
        saved = checked_state(state, len(self), len(self.route.course.legs))
        for name, value in self._identity().items():
            if saved["sampler"].get(name) != value:
                raise HeadstartError(
                    f"load_state_dict: the state was saved with {name}={saved['sampler'].get(name)!r}, this sampler "
                    f"has {name}={value!r}; build it as it was, with the same schedule, data, batch and replicas"
                )
        self._restart()
        self._begin, self._position, self._loaded = saved["batch"], saved["batch"], True
        self._stretches = [(leg, began) for leg, began in saved["stretches"]]
        self._decided, self._metric = saved["decided"], saved["metric"]
        leg, began = self._stretches[-1]
        self._place = Place(self.seed, leg, began, float(saved["total"]))

    def _identity(self) -> dict[str, Any]:
        """What decides the batches; the rank does not, so one replica's state serves all."""
        return {
            "num_rows": self.num_rows,
            "batch_size": self.batch_size,
            "seed": self.seed,
            "num_replicas": self.num_replicas,
            "accumulate": self.accumulate,
            "schedule": hashlib.sha256(repr(self.route).encode()).hexdigest()[:16],
        }

    def _stretch(self, step: int) -> tuple[int, int]:
        """(leg, its first step) of a step: looked up if it was decided before, else observed now."""
        while self._decided <= step:
            course = self._courses[self._place.leg]
            if course.legs[self._place.leg].target is None:
                # Nothing but its length ends this leg: go on to its end at once.
                left = course.steps_left(self._place, self._decided)
                sure = step + 1 - self._decided if left is None else min(left, step + 1 - self._decided)
                if sure > 0:
                    self._decided += sure
                    continue
            place = course.observe(self._place, self._decided, self._metric)
            if self._decided == self.route.latest and place.leg + 1 < len(course.legs):
                place = Place(self.seed, len(course.legs) - 1, self._decided)
            if place.stretch != self._stretches[-1]:
                self._stretches.append(place.stretch)
                self._metric = None  # it was about the phase that is over
            self._place = place
            self._decided += 1
        return self._stretches[bisect_right(self._stretches, step, key=lambda stretch: stretch[1]) - 1]

    def _batches(self, position: int) -> list[list[int]]:
        """This replica's batches from number `position` on: of one step, or of a few if nothing can end the phase."""
        step, part = divmod(position, self.accumulate)
        block = self._block
        if block is None or not block.first <= step < block.end or block.may_end:
            block = self._block = self._block_at(step)
        ahead = 1 if block.may_end else _AHEAD
        rows = block.rows[step - block.first : step - block.first + ahead].reshape(-1, block.share)
        mine: list[list[int]] = rows[part:, self.rank :: self.num_replicas].tolist()
        return mine

    def _block_at(self, step: int) -> "_Block":
        """The block that holds a step: the present one, if the step is still of its phase, or a new one."""
        leg, began = self._stretch(step)
        old, whole = self._block, self.route.batches[leg]
        if old is not None and old.stretch == (leg, began) and old.first <= step < old.end:
            return old
        rows = self._rows((leg, began), step, max(1, _BLOCK // whole))
        may_end = self._courses[leg].legs[leg].target is not None
        return _Block((leg, began), step, step + len(rows), rows, whole // self.accumulate, may_end)

    def _rows(self, stretch: tuple[int, int], step: int, num_steps: int) -> NDArray[np.int64]:
        """The rows of `num_steps` steps of a leg, cut at its end: int64[steps, rows a step]."""
        place, course = Place(self.seed, *stretch), self._courses[stretch[0]]
        left = course.steps_left(place, step)
        num_steps = min(num_steps, self.route.steps - step, num_steps if left is None else left)
        ids = course.ids(place, step, num_steps)
        return self._rows_of(ids, stretch[0]).reshape(num_steps, -1)

    def _rows_of(self, ids: NDArray[np.int64], leg: int) -> NDArray[np.int64]:
        """Ids count through the subsets; a permutation of the rows says which they are, so that subsets are random."""
        pool, favoured = self._courses[leg].legs[leg].pool, self._courses[leg].legs[leg].favoured
        if pool.size == self.num_rows and favoured is None:
            return ids  # all rows are all rows in any order
        if pool.size is None or pool.first + pool.size > _MOST_LISTED:
            return permute(self.seed, Stream.DATA, 0, ids, self.num_rows)
        if len(self._listed) < pool.first + pool.size:
            self._listed = permute(self.seed, Stream.DATA, 0, np.arange(pool.first + pool.size), self.num_rows)
        return self._listed[ids]


def _num_distinct(leg: Leg, draws: int) -> float:
    """How many rows of its pool so many draws of a leg are expected to show."""
    size = leg.pool.size or 1
    if leg.favoured is not None:
        parts = [(leg.favoured, leg.probability * draws), (size - leg.favoured, (1 - leg.probability) * draws)]
        return sum(part * (1 - (1 - 1 / part) ** share) for part, share in parts)
    return size * (1 - (1 - 1 / size) ** draws) if leg.replacement else min(size, draws)


def _num_rows(dataset_or_length: Sized | int) -> int:
    if isinstance(dataset_or_length, Sized):
        dataset_or_length = len(dataset_or_length)
    if isinstance(dataset_or_length, bool) or not isinstance(dataset_or_length, int) or dataset_or_length < 1:
        raise HeadstartError(
            f"PhasedBatchSampler(dataset_or_length={dataset_or_length!r}): give a data set with a length of at least "
            "1, or that length; for a stream without one use repeat_first"
        )
    return dataset_or_length
