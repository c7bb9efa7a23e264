"""Estimates that claims are made of: ratios of times to a target, of final values and of statistics, with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.trace import AXES, Trace
from headstart.lab.results import Results
from headstart.measures import (
    Bounds,
    Estimate,
    bootstrap,
    bootstrap_bounds,
    censored_time,
    median_time,
    quotient,
    restricted_times,
)


def check_paired(results: Results, arms: Sequence[str]) -> None:
    """Raise unless the arms have the same seeds in the same order."""
    first, *others = ([summary.seed for summary in results.summaries[arm]] for arm in arms)
    if any(seeds != first for seeds in others):
        raise HeadstartError(f"arms {' and '.join(arms)} were trained on different seeds and cannot be paired")


class Typical(StrEnum):
    """Which time to a target stands for an arm.

    restricted mean: the mean over seeds of min(T, horizon), the primary endpoint. mean curve: the time of the mean test
    curve. median seed: the median over seeds.
    """

    RESTRICTED_MEAN = "restricted mean"
    MEAN_CURVE = "mean curve"
    MEDIAN_SEED = "median seed"


def time_bounds(
    results: Results, arm: str, target: float, axis: str = "steps", of: Typical = Typical.MEAN_CURVE
) -> Bounds:
    """(least, most) time of an arm to `target`, on monotone fits of test curves, as a function of resampled rows.

    An arm that misses the target within its budget is censored: its time is anywhere from its budget to infinity.
    """
    times = np.asarray(getattr(results.traces[arm].grid(), axis), dtype=np.float64)
    measure = censored_time if of is Typical.MEAN_CURVE else median_time
    return measure(times, results.curves(arm), target, results.metric(arm).higher_is_better)


@dataclass(frozen=True)
class TimeRatio:
    """Time to `target` of arm `small` over that of arm `large`, on monotone fits of test curves.

    `axis` is "steps", "samples" or "flops", with `total` including what the runs that an arm started from had cost. Of
    the restricted mean, runs that miss the target count with the `horizon`, one for both arms: by default the least at
    which a run of either ends; a later one that is given holds as far as all runs of an arm that ends before it arrive.
    For the other two, which `of` names, an arm that misses the target within its budget is
    censored: its time is anywhere from its budget to infinity, and the interval reaches as far as that allows. The
    bootstrap pairs arms by seed.
    """

    small: str
    large: str
    target: float
    axis: str = "steps"
    of: Typical = Typical.RESTRICTED_MEAN
    horizon: float | None = None
    total: bool = False

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise HeadstartError(f"TimeRatio(axis={self.axis!r}): choose {', '.join(AXES)}")
        if self.of not in list(Typical):
            raise HeadstartError(f"TimeRatio(of={self.of!r}): choose one of {', '.join(Typical)}")
        object.__setattr__(self, "of", Typical(self.of))
        if self.of is not Typical.RESTRICTED_MEAN and (self.horizon is not None or self.total):
            raise HeadstartError(f"TimeRatio(of={str(self.of)!r}): only the restricted mean has horizon and total")

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def _axes(self, results: Results, arm: str) -> Any:
        """The axis of each seed's curve, float64[seeds, records]."""
        traces, own = results.traces[arm], results.traces[arm].grid().axis(self.axis)
        return np.array([own + (getattr(trace.before, self.axis) if self.total else 0) for trace in traces])

    def common_horizon(self, results: Results) -> float:
        """Where times of both arms end.

        Beyond the end of an arm its times are known only if all its runs have arrived, so a `horizon` may lie there.
        """
        ends = {arm: float(self._axes(results, arm)[:, -1].min()) for arm in self.arms}
        least = min(ends.values())
        if self.horizon is None or self.horizon <= least:
            return least if self.horizon is None else self.horizon
        return min([self.horizon, *(end for arm, end in ends.items() if not self._all_arrive(results, arm, end))])

    def _all_arrive(self, results: Results, arm: str, end: float) -> bool:
        """Whether every run of an arm is at the target before it ends."""
        higher = results.metric(arm).higher_is_better
        times = restricted_times(self._axes(results, arm), results.curves(arm), self.target, higher, end)
        return bool((times < end).all())

    def times(self, results: Results, arm: str) -> Any:
        """min(T, horizon) of each seed of an arm."""
        higher, horizon = results.metric(arm).higher_is_better, self.common_horizon(results)
        return restricted_times(self._axes(results, arm), results.curves(arm), self.target, higher, horizon)

    def arrivals(self, results: Results) -> float | None:
        """The least share of runs of an arm that reach the target before the horizon."""
        if self.of is not Typical.RESTRICTED_MEAN:
            return None
        horizon = self.common_horizon(results)
        return min(float((self.times(results, arm) < horizon).mean()) for arm in self.arms)

    def bounds(self, results: Results) -> Bounds:
        """(least, most) of the ratio as a function of resampled rows."""
        check_paired(results, self.arms)
        if self.of is not Typical.RESTRICTED_MEAN:
            small, large = (time_bounds(results, arm, self.target, self.axis, self.of) for arm in self.arms)
            return lambda rows: quotient(small(rows), large(rows))
        a, b = (self.times(results, arm) for arm in self.arms)
        return lambda rows: (float(a[rows].mean() / b[rows].mean()),) * 2

    def __call__(self, results: Results) -> Estimate:
        """The ratio with its interval."""
        estimate = bootstrap_bounds(self.bounds(results), len(results.summaries[self.small]))
        if self.of is not Typical.RESTRICTED_MEAN:
            return estimate
        horizon, arrivals = self.common_horizon(results), self.arrivals(results)
        if all((self.times(results, arm) >= horizon).all() for arm in self.arms):
            nothing = float("nan")  # 1 by construction, which says nothing
            return Estimate(nothing, nothing, nothing, arrivals=arrivals, horizon=horizon)
        return replace(estimate, arrivals=arrivals, horizon=horizon)

    def beside(self, results: Results) -> dict[str, Estimate]:
        """What the median seed and the mean curve say, beside a restricted mean of the runs' own cost."""
        if self.of is not Typical.RESTRICTED_MEAN or self.total:
            return {}
        others = (Typical.MEDIAN_SEED, Typical.MEAN_CURVE)
        return {str(of): replace(self, of=of, horizon=None)(results) for of in others}


@dataclass(frozen=True)
class Times:
    """A ratio times a constant: of compute, where a step of one arm costs `factor` times one of the other."""

    ratio: TimeRatio
    factor: float

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.ratio.arms

    def __call__(self, results: Results) -> Estimate:
        """The product with its interval."""
        found = self.ratio(results)
        value, low, high = (self.factor * each for each in (found.value, found.low, found.high))
        return replace(found, value=value, low=low, high=high)


@dataclass(frozen=True)
class GapRatio:
    """The time ratio `one` over the time ratio `other`: below 1, the small side gains more in `one`.

    Seeds are resampled together, so both need the same number of them.
    """

    one: TimeRatio
    other: TimeRatio

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it compares."""
        return self.one.arms + self.other.arms

    def __call__(self, results: Results) -> Estimate:
        """The ratio of ratios with its interval."""
        check_paired(results, self.arms)
        one, other = self.one.bounds(results), self.other.bounds(results)
        num = len(results.summaries[self.one.small])
        estimate = bootstrap_bounds(lambda rows: quotient(one(rows), other(rows)), num)
        arrived = [a for ratio in (self.one, self.other) if (a := ratio.arrivals(results)) is not None]
        return replace(estimate, arrivals=min(arrived, default=None))


@dataclass(frozen=True)
class GapTrend:
    """By which factor the time ratio, small over large, changes with every doubling of what the panels differ in.

    `ratios` are those of the panels and `at` their places, such as widths: 2^b with b the least-squares slope of
    log ratio in log `at`. Below 1, the gap widens. Seeds are resampled together, those that all panels have.
    """

    ratios: tuple[TimeRatio, ...]
    at: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.ratios) != len(self.at) or len(set(self.at)) < 2:
            raise HeadstartError(
                f"GapTrend(at={self.at}): give a place for each of {len(self.ratios)} ratios, two apart"
            )

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it compares."""
        return tuple(arm for ratio in self.ratios for arm in ratio.arms)

    def __call__(self, results: Results) -> Estimate:
        """The factor with its interval; not a number where no run of a panel arrives."""
        seeds = [[summary.seed for summary in results.summaries[arm]] for arm in self.arms]
        num = min(map(len, seeds))
        if any(own[:num] != seeds[0][:num] for own in seeds):
            raise HeadstartError(f"arms {' and '.join(self.arms)} begin with different seeds and cannot be paired")
        x, bounds = np.log(self.at), [ratio.bounds(results) for ratio in self.ratios]

        def factor(rows: Any) -> float:
            y = np.log([of(rows)[0] for of in bounds])
            return float(2.0 ** np.polyfit(x, y, 1)[0])

        arrived = [a for ratio in self.ratios if (a := ratio.arrivals(results)) is not None]
        if any(np.isnan(ratio(results).value) for ratio in self.ratios):
            return Estimate(*(float("nan"),) * 3, arrivals=min(arrived, default=None))
        return replace(bootstrap(factor, num), arrivals=min(arrived, default=None))


@dataclass(frozen=True)
class StatisticRatio:
    """The seed-mean of a number of each trace of arm `small` over that of arm `large`."""

    small: str
    large: str
    statistic: Callable[[Trace], float]

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def __call__(self, results: Results) -> Estimate:
        """The ratio with its interval."""
        check_paired(results, self.arms)
        a, b = (np.array([self.statistic(t) for t in results.traces[arm]]) for arm in self.arms)
        return bootstrap(lambda rows: float(a[rows].mean() / b[rows].mean()), len(a))


@dataclass(frozen=True)
class FinalRatio:
    """The seed-mean of the last test metric of arm `small` over that of arm `large`."""

    small: str
    large: str

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def __call__(self, results: Results) -> Estimate:
        """The ratio with its interval."""
        check_paired(results, self.arms)
        a, b = (results.finals(arm) for arm in self.arms)
        return bootstrap(lambda rows: float(a[rows].mean() / b[rows].mean()), len(a))
