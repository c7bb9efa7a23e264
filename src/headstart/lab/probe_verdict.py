"""What the curves of a probe say: ratios of compute with intervals, a verdict, and the arm to use."""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from headstart.lab.claims import LEAST_ARRIVALS
from headstart.lab.probe_arms import FULL, ProbeArm
from headstart.measures import Estimate, bootstrap, restricted_times

# How likely a false verdict may be, over all arms and looks.
FALSE_GAP, FALSE_ABSENCE = 0.025, 0.05
# An arm ends worse if its last metric is below that of the full data by this share of what was learned, and surely so.
_WORSE = 0.01
_RESAMPLES = 4000
# Resampling fewer seeds than this cannot show how far their mean may be off.
LEAST_SEEDS = 6


class ProbeVerdict(StrEnum):
    """Whether a smaller subset first reaches the target in less compute."""

    GAP = "gap"
    ABSENT = "absent"
    UNDECIDED = "undecided"
    NOTHING_LEARNED = "nothing learned"


@dataclass(frozen=True)
class ArmResult:
    """One arm: its learning rate and its test curves [seeds, records], None if it was given up or not yet compared.

    `at_the_end` says that the best rate was at an end of the sweep, so that a better one may lie beyond. `num_tries` is
    how many rates were tried.
    """

    arm: ProbeArm
    lr: float
    curves: NDArray[np.float64] | None
    at_the_end: bool = False
    num_tries: int = 1

    @property
    def name(self) -> str:
        """The name of the arm."""
        return self.arm.name


@dataclass(frozen=True)
class Goal:
    """What is compared: compute to `target`, of a metric that rose by `gain` on the selection seeds.

    `smallest` is the largest ratio that is worth having, declared beforehand. `num_looks` is how often the verdict is
    looked for at most, `num_arms` how many arms are compared with the full data at most.
    """

    target: float
    gain: float
    smallest: float
    num_looks: int
    num_arms: int


@dataclass(frozen=True)
class Conclusion:
    """The verdict, the arm to use (None: the full data), each arm's ratio to the full data, and which arms end worse.

    `arrivals` is the share of the full data's runs that reached the target.
    """

    verdict: ProbeVerdict
    best: str | None
    ratios: dict[str, Estimate]
    worse: frozenset[str]
    arrivals: float

    def is_open(self, name: str, smallest: float) -> bool:
        """Whether more seeds could still find a gain worth having in an arm: its interval reaches below that."""
        return not self.ratios[name].low > smallest


def conclude(arms: tuple[ArmResult, ...], axis: NDArray[np.float64], goal: Goal) -> Conclusion:
    """A gap where an arm's ratio is below `smallest` and its whole interval below 1; absent where every interval lies
    above `smallest`, so that there is no gain worth having.

    A run of the full data that misses the target counts with the horizon, which hides gains: absence needs 80% of them
    to arrive. Fewer than six seeds decide nothing. Among arms with a gap, one that does not end worse than the full
    data is preferred.
    """
    full = next(arm.curves for arm in arms if arm.name == FULL)
    assert full is not None
    others = {arm.name: arm.curves for arm in arms if arm.name != FULL and arm.curves is not None}
    arrivals = float((_times(axis, full, goal) < axis[-1]).mean())
    ratios = {name: time_ratio(axis, curves, full[: len(curves)], goal) for name, curves in others.items()}
    worse = frozenset(name for name, curves in others.items() if _ends_worse(curves, full[: len(curves)], goal.gain))
    winners = [name for name, r in ratios.items() if r.high < 1 and r.value < goal.smallest]
    verdict = ProbeVerdict.UNDECIDED
    if len(full) < LEAST_SEEDS:
        winners = []
    elif winners:
        verdict = ProbeVerdict.GAP
    elif arrivals >= LEAST_ARRIVALS and all(r.low > goal.smallest for r in ratios.values()):
        verdict = ProbeVerdict.ABSENT
    best = min(winners, key=lambda name: (name in worse, ratios[name].value), default=None)
    return Conclusion(verdict, best, ratios, worse, arrivals)


def _times(axis: NDArray[np.float64], curves: NDArray[np.float64], goal: Goal) -> NDArray[np.float64]:
    return restricted_times(axis, curves, goal.target, True, float(axis[-1]))


def time_ratio(
    axis: NDArray[np.float64], small: NDArray[np.float64], full: NDArray[np.float64], goal: Goal
) -> Estimate:
    """The restricted mean compute to the target of one arm over that of the full data, arms paired by seed.

    The upper end of the interval allows for all arms and looks, since any arm may show a gap by chance. The lower end
    allows for the looks only: absence is said only if every arm shows it.
    """
    one, other = _times(axis, small, goal), _times(axis, full, goal)
    if (one >= axis[-1]).all() and (other >= axis[-1]).all():
        return Estimate(float("nan"), float("-inf"), float("inf"))  # 1 by construction, which says nothing

    def ratio(rows: NDArray[np.int64]) -> float:
        return float(one[rows].mean() / other[rows].mean())

    up = bootstrap(ratio, len(one), 1 - 2 * FALSE_GAP / (goal.num_looks * goal.num_arms), _RESAMPLES)
    down = bootstrap(ratio, len(one), 1 - 2 * FALSE_ABSENCE / goal.num_looks, _RESAMPLES)
    arrivals = min(float((times < axis[-1]).mean()) for times in (one, other))
    return replace(up, low=down.low, arrivals=arrivals, horizon=float(axis[-1]))


def _ends_worse(small: NDArray[np.float64], full: NDArray[np.float64], gain: float) -> bool:
    less = small[:, -1] - full[:, -1]
    if less.mean() >= -_WORSE * gain:
        return False
    return bootstrap(lambda rows: float(less[rows].mean()), len(less)).high < 0
