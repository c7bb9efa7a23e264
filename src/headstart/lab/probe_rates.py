"""How a probe chooses learning rates: as the lab's sweeps do, by the time to the target, on seeds of their own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.metric import Metric
from headstart.lab.axes import RATE, Axis
from headstart.lab.probe_arms import ProbeArm
from headstart.lab.probe_runs import Runs
from headstart.lab.probe_training import ProbeCurve, ProbeRun
from headstart.lab.scores import Scored, TimeToTarget
from headstart.lab.search import Grid, best_first
from headstart.measures import area_under, monotone, restricted_times

# Without a target of the user's, it is this share of the way from the untrained metric to the best.
_SHARE_OF_GAIN = 0.9
# Neighbouring rates differ by this factor; a sweep begins with three, and widens to so many at the most.
_RATIO, MOST_TRIES = 2.0, 7
# All rates are tried on so many seeds, and the so many best on all selection seeds.
FIRST_SEEDS = FINALISTS = 2


@dataclass(frozen=True)
class Chosen:
    """The rate of an arm, its curves there [selection seeds, records], whether the rate was the last of those tried on
    one side, and how many were tried.
    """

    arm: ProbeArm
    lr: float
    curves: NDArray[np.float64]
    at_the_end: bool
    num_tries: int


@dataclass(frozen=True)
class Aim:
    """The target, and from where to where the best curve of all rose."""

    target: float
    start: float
    best: float


def rate_axis(lr: float, factors: Sequence[float] | None) -> Axis:
    """Half, one and twice the rate, a grid that widens itself; or these factors on it, as they are."""
    if factors is None:
        return Axis(RATE, lr / _RATIO, lr * _RATIO, _RATIO)
    return Axis(RATE, values=tuple(sorted({lr * float(factor) for factor in factors})))


class RateSearch:
    """The rates of all arms under way."""

    def __init__(self, runs: Runs, arms: Sequence[ProbeArm], rate: Axis, target: float | None) -> None:
        self.runs, self.arms, self.rate, self.target = runs, arms, rate, target
        self.axis = np.asarray(runs.records, dtype=np.float64)
        metric = Metric("test", lambda *_: None, higher_is_better=True, chance=float("nan"))
        # Times are to the target, whatever the metric's units: as a share of the target it is 1.
        self.grids = [Grid({}, rate, TimeToTarget(1.0), metric, 0) for _ in arms]
        self.found: dict[tuple[str, int], list[ProbeCurve]] = {}

    def choose(self, seeds: Sequence[int]) -> tuple[list[Chosen], Aim]:
        """Try rates on the first two seeds until the best of every arm is inside and all arms have as many tries; then
        the two best of each arm on all seeds.
        """
        pairs = list(zip(self.arms, self.grids, strict=True))
        while needed := [(arm, grid, i) for arm, grid in pairs for i in grid.needed]:
            aim = self._train(needed, seeds[:FIRST_SEEDS])
            if self.rate.extends:
                _widen(self.grids)
        last = {arm.name: _ranked(grid, grid.scores)[:FINALISTS] for arm, grid in pairs}
        if len(seeds) > FIRST_SEEDS:
            aim = self._train([(arm, grid, i) for arm, grid in pairs for i in last[arm.name]], seeds)
        return [self._chosen(arm, grid, _ranked(grid, last[arm.name])[0]) for arm, grid in pairs], aim

    def _train(self, needed: Sequence[tuple[ProbeArm, Grid, int]], seeds: Sequence[int]) -> Aim:
        """Train these rates at all of these seeds, and score every rate anew: the best so far moves the target."""
        wanted = [ProbeRun(arm, grid.at(i)[RATE], s, self.runs.records) for arm, grid, i in needed for s in seeds]
        curves = self.runs.train(wanted)
        for place, (arm, _, i) in enumerate(needed):
            self.found[arm.name, i] = curves[place * len(seeds) : (place + 1) * len(seeds)]
        aim = self._aim()
        for arm, grid in zip(self.arms, self.grids, strict=True):
            grid.scores = {i: self._scored(some, aim) for (name, i), some in self.found.items() if name == arm.name}
        return aim

    def _aim(self) -> Aim:
        every = [_stacked(some) for some in self.found.values()]
        kept = [_stacked(some) for some in self.found.values() if not any(each.diverged for each in some)]
        start = float(np.mean([curves[:, 0].mean() for curves in every]))
        best = max((float(monotone(curves.mean(axis=0), True)[-1]) for curves in kept), default=start)
        target = start + _SHARE_OF_GAIN * (best - start) if self.target is None else float(self.target)
        return Aim(target, start, best)

    def _scored(self, some: list[ProbeCurve], aim: Aim) -> Scored:
        """The restricted mean time to the target and the area under the curve; the worst of both if a run was lost."""
        curves, horizon = _stacked(some), float(self.axis[-1])
        diverged = float(np.mean([each.diverged for each in some]))
        if diverged:
            return Scored(float("inf"), float("-inf"), diverged, 0.0, len(some))
        times = restricted_times(self.axis, curves, aim.target, True, horizon)
        area = area_under(self.axis, curves.mean(axis=0))
        return Scored(float(times.mean()), area, 0.0, float((times < horizon).mean()), len(some))

    def _chosen(self, arm: ProbeArm, grid: Grid, best: int) -> Chosen:
        if self.rate.extends:
            at_the_end = not grid.is_inside(best)
        else:
            at_the_end = len(self.rate.indices) > 1 and best in (self.rate.indices[0], self.rate.indices[-1])
        curves = _stacked(self.found[arm.name, best])
        return Chosen(arm, grid.at(best)[RATE], curves, at_the_end, len(grid.scores))


def _ranked(grid: Grid, indices: Iterable[int]) -> list[int]:
    """These rates of a grid from best to worst."""
    return best_first({i: grid.scores[i] for i in indices}, grid.score, grid.metric)


def _stacked(some: Sequence[ProbeCurve]) -> NDArray[np.float64]:
    return np.array([each.curve for each in some])


def _widen(grids: list[Grid]) -> None:
    """Want more rates where the best is at an end; when none is, as many for each arm as for the one with the most."""
    for grid in grids:
        if not grid.needed and len(grid.scores) < MOST_TRIES:
            grid.extend()
    tries = max(len(grid.scores) for grid in grids)
    if not any(grid.needed for grid in grids):
        for grid in grids:
            grid.least = tries
            if len(grid.scores) < tries:
                grid.extend()
