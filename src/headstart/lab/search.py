"""A sweep under way: says which runs it needs next, until one candidate is chosen."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

from headstart.core.encoding import canonical, encode, identity
from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.lab.axes import RATE, Axis, with_values
from headstart.lab.scores import Area, Score, Scored
from headstart.lab.sweep import Sweep, Tuned
from headstart.run import Run

K = TypeVar("K", bound=Hashable)
# Called with a score, a cell and seeds: what its runs say.
Look = Callable[[Score, Run, Sequence[int]], Scored]
# A score that waits for a target chooses if so many of the seeds arrive at some candidate; else the area does.
_LEAST_ARRIVALS = 0.5
_MOST_EXTENSIONS = 60
# A grid that diverges is left by this many rates at once, about a factor of two.
_STRIDE = 4
# A grid that learns nothing, its areas this near to chance, is extended by rates so far apart that a window in which
# something is learned shows: every second one near the grid, and if these learn nothing either, two farther down, the
# last a factor of 38 below.
_SKILL, _ABOVE, _BELOW, _FAR = 0.02, 2, 8, frozenset({-12, -20})


def deciding(score: Score, scores: Sequence[Scored]) -> Score:
    """The score that chooses: the area where fewer than half of the seeds arrive at every candidate."""
    arrivals = [s.arrivals for s in scores if s.arrivals is not None]
    return Area() if arrivals and max(arrivals) < _LEAST_ARRIVALS else score


def numbers(scores: Mapping[K, Scored], score: Score, metric: Metric) -> dict[K, float]:
    """What decides between candidates, lower is better."""
    sign = -1 if metric.higher_is_better else 1
    by_area = isinstance(deciding(score, list(scores.values())), Area)
    return {key: sign * scored.area if by_area else scored.score for key, scored in scores.items()}


def best_first(scores: Mapping[K, Scored], score: Score, metric: Metric) -> list[K]:
    """The candidates from best to worst; on an exact tie in their order, so that the lower rate wins."""
    found = numbers(scores, score, metric)
    return sorted(found, key=lambda key: (found[key], key))


def is_flat(scores: Mapping[K, Scored], score: Score, metric: Metric) -> bool:
    """Whether all scores are the same, as of runs that begin at the target, so that other rates say nothing more."""
    return len(set(numbers(scores, score, metric).values())) == 1 < len(scores)


@dataclass
class Grid:
    """The rates of one combination of other values, extended until the best is inside and `least` were tried."""

    values: dict[str, Any]
    rate: Axis | None
    score: Score
    metric: Metric
    least: int
    wanted: set[int] = field(default_factory=set)
    scores: dict[int, Scored] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wanted |= {0} if self.rate is None else set(self.rate.indices)

    def at(self, index: int) -> dict[str, Any]:
        """The values of a candidate by path."""
        return self.values if self.rate is None else {RATE: self.rate.value(index), **self.values}

    @property
    def needed(self) -> list[int]:
        """The candidates that have no score yet."""
        return sorted(self.wanted - self.scores.keys())

    @property
    def learns(self) -> bool:
        """Whether the best area is away from chance; with a metric that has none (nan), always."""
        best = best_first(self.scores, Area(), self.metric)[0]
        return not abs(self.scores[best].area - self.metric.chance) < _SKILL

    @property
    def best(self) -> int:
        """The best candidate; where nothing learns, the middle of the grid that the sweep began with."""
        if self.learns or self.rate is None:
            return best_first(self.scores, self.score, self.metric)[0]
        return self.rate.indices[len(self.rate.indices) // 2]

    def is_inside(self, index: int) -> bool:
        """Whether a candidate has neighbours on both sides."""
        return self.rate is None or {index - 1, index + 1} <= self.scores.keys()

    def extend(self) -> None:
        """Everything wanted has a score: want more, if more is needed to choose."""
        if self.rate is None:
            return
        self.wanted |= self._more(self.rate)
        if not self.needed:
            self.wanted |= self.nearest(self.best)
        if self.needed:
            self.check_length()

    def nearest(self, index: int) -> set[int]:
        """As many new candidates as the sweep should still try: those nearest to this one."""
        near = sorted(range(index - self.least, index + self.least), key=lambda i: abs(i - index))
        missing = 0 if self.rate is None else max(0, self.least - len(self.scores))
        return set([i for i in near if i not in self.scores][:missing])

    def check_length(self) -> None:
        """Raise where the best rate is still at the end of the grid after all the extensions there may be."""
        if self.rate is not None and len(self.scores) > max(self.least, len(self.rate.indices)) + _MOST_EXTENSIONS:
            raise HeadstartError(
                f"the sweep {self.rate} was extended by {_MOST_EXTENSIONS} rates and its best, "
                f"{self.rate.value(self.best)}, is still at the end of the grid; start it elsewhere"
            )

    def _more(self, rate: Axis) -> set[int]:
        # Where runs diverge, or die and stay at chance, scores are noise: what lower rates would do must be seen.
        low = min(self.wanted)
        if self.scores[low].diverged > 0.5:
            return set(range(low - _STRIDE, low))
        if not self.learns:
            near = {*range(-_BELOW, 0, 2), rate.indices[-1] + _ABOVE}
            return set(_FAR) if near <= self.scores.keys() else near
        return set() if is_flat(self.scores, self.score, self.metric) else {self.best - 1, self.best + 1}


class Search:
    """The sweep of one arm under way.

    First every grid is explored on the seeds of the first rung. When all arms that are compared with this one have as
    many tries (`raise_to`), it is `narrow`ed from rung to rung. With one rung that is the end. On the last of several
    the best rate may lie at the end of those tried: its neighbours are then tried on all seeds. Where that gives an arm
    more tries, the others are raised to as many, on all seeds too.
    """

    def __init__(self, run: Run, sweep: Sweep, seeds: Sequence[int]) -> None:
        self.run, self.sweep = run, sweep
        rungs = [n for n in sweep.rungs if n < len(seeds)]
        self.rungs = [list(seeds[:n]) for n in (*rungs, len(seeds))]
        metric = run.task.metrics[0]
        others = [axis for axis in sweep.axes if not axis.extends]
        rate = next((axis for axis in sweep.axes if axis.extends), None)
        self.grids = [
            Grid({a.path: a.value(i) for a, i in zip(others, indices, strict=True)}, rate, sweep.score, metric, 0)
            for indices in product(*(axis.indices for axis in others))
        ]
        self.rung, self.narrowing, self.done = 0, False, False
        self.left: dict[tuple[int, int], Scored | None] = {}
        self.raise_to(sweep.tries)

    def raise_to(self, tries: int) -> None:
        """Try at least so many rates for every combination of other values."""
        for number, grid in enumerate(self.grids):
            grid.least = max(grid.least, tries)
            if self.rung:
                of_grid = {i: s for i, s in grid.scores.items() if (number, i) in self.left} or grid.scores
                near = grid.nearest(best_first(of_grid, grid.score, grid.metric)[0])
                self.left |= dict.fromkeys((number, index) for index in sorted(near))
            elif not grid.needed and grid.scores:
                grid.extend()
        self.done = self.done and not self._lacking()

    @property
    def num_tries(self) -> int:
        """The most rates that were tried for a combination of other values."""
        return max(len(grid.scores) for grid in self.grids)

    @property
    def explored(self) -> bool:
        """Whether every grid has its best rate inside, and enough of them."""
        return not any(grid.needed for grid in self.grids)

    def _cell(self, number: int, index: int) -> Run:
        return with_values(self.run, self.grids[number].at(index))

    def _lacking(self) -> list[tuple[int, int]]:
        if self.rung:
            return [candidate for candidate, scored in self.left.items() if scored is None]
        return [(number, index) for number, grid in enumerate(self.grids) for index in grid.needed]

    @property
    def num_planned(self) -> int:
        """How many runs it takes if no grid is extended beyond the number of tries."""
        left = sum(1 if grid.rate is None else max(grid.least, len(grid.wanted)) for grid in self.grids)
        total = before = 0
        for seeds in self.rungs:
            total += left * (len(seeds) - before)
            before, left = len(seeds), _half(left)
        return total

    def needed(self) -> list[tuple[Run, list[int]]]:
        """The cells that have no score yet on the present rung, with its seeds."""
        return [(self._cell(*candidate), self.rungs[self.rung]) for candidate in self._lacking()]

    def learn(self, look: Look) -> None:
        """Take in the runs of every needed cell."""
        for number, index in self._lacking():
            scored = look(self.sweep.score, self._cell(number, index), self.rungs[self.rung])
            self.grids[number].scores[index] = scored
            if self.rung:
                self.left[number, index] = scored
        for grid in self.grids:
            if not self.rung and not grid.needed:
                grid.extend()
        if self.narrowing and not self._lacking():
            self.narrow()

    def narrow(self) -> None:
        """The better half, at least two, goes on to the next rung; after the last, or if nothing learns, it is done."""
        assert not self._lacking()
        self.narrowing = True
        while not self.done and not self._lacking():
            if not any(grid.learns for grid in self.grids):
                self.done = True
            elif self.rung + 1 < len(self.rungs):
                kept = self._ranked()
                self.left = dict.fromkeys(kept[: _half(len(kept))])
                self.rung += 1
            else:
                self.left |= dict.fromkeys(self._beyond())
                self.done = not self._lacking()

    def _beyond(self) -> list[tuple[int, int]]:
        """On the last of several rungs, neighbours of the best candidate that were never tried."""
        scores, metric = self._scores(), self.grids[0].metric
        if not self.rung or is_flat(scores, self.sweep.score, metric):
            return []
        number, index = self._ranked()[0]
        grid = self.grids[number]
        if grid.is_inside(index):
            return []
        grid.check_length()
        return [(number, i) for i in (index - 1, index + 1) if i not in grid.scores]

    def _ranked(self) -> list[tuple[int, int]]:
        """The candidates of the present rung from best to worst."""
        return best_first(self._scores(), self.sweep.score, self.grids[0].metric)

    def _scores(self) -> dict[tuple[int, int], Scored]:
        if self.rung:
            return {candidate: scored for candidate, scored in self.left.items() if scored is not None}
        return {(number, i): scored for number, grid in enumerate(self.grids) for i, scored in grid.scores.items()}

    def tuned(self) -> Tuned:
        """The outcome."""
        learned = any(grid.learns for grid in self.grids)
        number, index = self._ranked()[0] if learned else (0, self.grids[0].best)
        by = deciding(self.sweep.score, list(self._scores().values()))
        tries = [(grid.at(i), grid.scores[i]) for grid in self.grids for i in sorted(grid.scores)]
        return Tuned(
            self.grids[number].at(index),
            tuple(tries),
            by.words if by == self.sweep.score else f"{by.words}, since fewer than half of the seeds arrive",
            learned,
            self.grids[number].is_inside(index),
        )


def _half(num: int) -> int:
    """How many of so many candidates go on to the next rung: half of them, at least two."""
    return max(2, -(-num // 2))


def choice_key(run: Run, sweep: Sweep, seeds: Sequence[int], tries: int) -> str:
    """What the store knows a choice by: identical arms, swept alike on the same seeds, have one."""
    parts = {"run": sweep.base(run).json, "sweep": encode(sweep), "seeds": list(seeds), "tries": tries}
    return identity(canonical(parts))
