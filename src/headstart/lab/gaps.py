"""Estimates of the time gap: how long after the training rows an arm gets the test rows right."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.trace import AXES
from headstart.lab.estimates import check_paired
from headstart.lab.results import Results
from headstart.measures import Bounds, Estimate, bootstrap, bootstrap_bounds, monotone, quotient, time_to_target

Gaps = NDArray[np.float64]
_READINGS = {True: "first crossing", False: "monotone fit"}


def _check(owner: Any) -> None:
    if owner.axis not in AXES:
        raise HeadstartError(f"{type(owner).__name__}(axis={owner.axis!r}): choose {', '.join(AXES)}")
    if not isinstance(owner.target, int | float):
        raise HeadstartError(f"{type(owner).__name__}(target={owner.target!r}): give a number, such as 0.95")
    if owner.horizon is not None:
        check_positive(type(owner).__name__, "horizon", owner.horizon)


def _times(results: Results, arm: str, of: str, target: float, axis: str, first: bool) -> Gaps:
    """When each run of an arm is at the target on its training or test rows, [seeds]; inf if never."""
    times, higher = results.traces[arm].grid().axis(axis), results.metric(arm).higher_is_better
    curves = results.curves(arm, of)
    fits = curves if first else [monotone(curve, higher) for curve in curves]
    found = [time_to_target(times, curve, target, higher) for curve in fits]
    return np.maximum(found, times[1])  # within the first interval between records a time is not resolved


def _end(results: Results, arms: tuple[str, ...], axis: str, horizon: float | None) -> float:
    """Where times of these arms end: the least at which a run of theirs does."""
    ends = [float(results.traces[arm].grid().axis(axis)[-1]) for arm in arms]
    return min(ends if horizon is None else [*ends, horizon])


@dataclass(frozen=True)
class TimeGap:
    """The mean over seeds of T_test - T_train: when a run has `target` on test rows, less when on training rows.

    Both times are restricted at the `horizon`, by default the end of the runs, so a run that never generalises counts
    with what is left of the horizon. A run that never fits its training rows says nothing of a delay: its gap is
    anywhere from 0 to the horizon, and the interval reaches as far as that allows. `arrivals` is the share of runs that
    get to the target on both before the horizon.

    With `first` a time is the first at which the recorded curve is at the target, as the paper defines the gap; else
    it is that of the curve's monotone fit, the laboratory's endpoint, which a flicker does not move. Each stands
    beside the other. The metric is the task's leading one; train on the full batch, since a record of a mini-batch is
    of its rows alone. Reference: Let Me Grok For You, Section 2.
    """

    arm: str
    target: float = 0.95
    axis: str = "steps"
    horizon: float | None = None
    first: bool = True

    def __post_init__(self) -> None:
        _check(self)

    @property
    def arms(self) -> tuple[str]:
        """The arm it looks at."""
        return (self.arm,)

    def end(self, results: Results) -> float:
        """The horizon."""
        return _end(results, self.arms, self.axis, self.horizon)

    def times(self, results: Results, of: str = "test") -> Gaps:
        """When each run is at the target on rows `of` "train" or "test", [seeds]; inf if never."""
        return _times(results, self.arm, of, self.target, self.axis, self.first)

    def gaps(self, results: Results, unfitted: float | None = None) -> Gaps:
        """The gap of each run, [seeds]; `unfitted`, by default the horizon, where the training rows never fit."""
        train, test, end = self.times(results, "train"), self.times(results), self.end(results)
        rest = end if unfitted is None else unfitted
        return np.where(train < end, np.minimum(test, end) - np.minimum(train, end), rest)

    def bounds(self, results: Results) -> Bounds:
        """(least, most) mean gap as a function of resampled rows."""
        least, most = self.gaps(results, unfitted=0.0), self.gaps(results)
        return lambda rows: (float(least[rows].mean()), float(most[rows].mean()))

    def arrived(self, results: Results) -> NDArray[np.bool_]:
        """Which runs get to the target on training and test rows before the horizon, [seeds]."""
        both = np.maximum(self.times(results, "train"), self.times(results))
        return both < self.end(results)

    def __call__(self, results: Results) -> Estimate:
        """The mean gap with its interval."""
        arrived = self.arrived(results)
        found = bootstrap_bounds(self.bounds(results), len(arrived))
        return replace(found, arrivals=float(arrived.mean()), horizon=self.end(results))

    def beside(self, results: Results) -> dict[str, Estimate]:
        """The gap by the other reading, and the time to the target on test rows itself."""
        other = replace(self, first=not self.first)
        reached = np.minimum(self.times(results), self.end(results))
        return {
            _READINGS[other.first]: other(results),
            f"time to {self.target:g} on test rows": bootstrap(lambda rows: float(reached[rows].mean()), len(reached)),
        }


@dataclass(frozen=True)
class TimeGapRatio:
    """The mean time gap of arm `small` over that of arm `large`, with one horizon for both; see `TimeGap`.

    The mean gap of `large` counts with at least one interval between records, which is as short as a gap can be seen.
    """

    small: str
    large: str
    target: float = 0.95
    axis: str = "steps"
    horizon: float | None = None
    first: bool = True

    def __post_init__(self) -> None:
        _check(self)

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def of(self, results: Results, arm: str) -> TimeGap:
        """The gap of one of the arms, with the horizon of both."""
        end = _end(results, self.arms, self.axis, self.horizon)
        return TimeGap(arm, self.target, self.axis, end, self.first)

    def __call__(self, results: Results) -> Estimate:
        """The ratio with its interval; not a number where no run of either arm arrives."""
        check_paired(results, self.arms)
        small, large = (self.of(results, arm) for arm in self.arms)
        arrivals = min(float(gap.arrived(results).mean()) for gap in (small, large))
        horizon = large.end(results)
        if not any(gap.arrived(results).any() for gap in (small, large)):
            nothing = float("nan")  # both count with the horizon, which says nothing
            return Estimate(nothing, nothing, nothing, arrivals=arrivals, horizon=horizon)
        a, b = small.bounds(results), large.bounds(results)
        finest = float(results.traces[self.large].grid().axis(self.axis)[1])

        def bounds(rows: NDArray[np.int64]) -> tuple[float, float]:
            least, most = (max(each, finest) for each in b(rows))
            return quotient(a(rows), (least, most))

        found = bootstrap_bounds(bounds, len(results.summaries[self.small]))
        return replace(found, arrivals=arrivals, horizon=horizon)

    def beside(self, results: Results) -> dict[str, Estimate]:
        """The ratio by the other reading."""
        other = replace(self, first=not self.first)
        return {_READINGS[other.first]: other(results)}


@dataclass(frozen=True)
class InverseGap:
    """The mean over seeds of 1 / gap, 0 for a run that never generalises; see `TimeGap`.

    A gap counts with at least one interval between records, so the number is at most 1 over that.
    Reference: Let Me Grok For You, Fig. 7.
    """

    arm: str
    target: float = 0.95
    axis: str = "steps"
    horizon: float | None = None
    first: bool = True

    def __post_init__(self) -> None:
        _check(self)

    @property
    def arms(self) -> tuple[str]:
        """The arm it looks at."""
        return (self.arm,)

    def values(self, results: Results) -> Gaps:
        """1 / gap of each run, [seeds]."""
        gap = TimeGap(self.arm, self.target, self.axis, self.horizon, self.first)
        least = float(results.traces[self.arm].grid().axis(self.axis)[1])
        return np.where(gap.arrived(results), 1 / np.maximum(gap.gaps(results), least), 0.0)

    def __call__(self, results: Results) -> Estimate:
        """The mean with its interval."""
        values = self.values(results)
        arrivals = float((values > 0).mean())
        return replace(bootstrap(lambda rows: float(values[rows].mean()), len(values)), arrivals=arrivals)
