"""Claims: falsifiable sentences with an estimate, an interval and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.measures import Bounds, Estimate, bootstrap, bootstrap_bounds, censored_time, median_time, quotient

if TYPE_CHECKING:
    from headstart.core.trace import Trace
    from headstart.lab.study import Results


class Verdict(StrEnum):
    """What the interval says of the claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    UNDECIDED = "undecided"


class Rule(Protocol):
    """What must be true of the whole interval for the claim to hold."""

    def verdict(self, estimate: Estimate) -> Verdict:
        """Holds when the whole interval is on the stated side, does not hold when wholly outside, else undecided."""
        ...


@dataclass(frozen=True)
class Within:
    """The quantity lies in [low, high], bounds declared beforehand. `below` and `above` are the half-open cases."""

    low: float
    high: float

    def verdict(self, estimate: Estimate) -> Verdict:
        """The verdict on an interval."""
        if np.isnan([estimate.low, estimate.high]).any():
            return Verdict.UNDECIDED
        if estimate.high <= self.low or estimate.low >= self.high:
            return Verdict.DOES_NOT_HOLD
        above = self.low < estimate.low or self.low == -float("inf")
        if above and (estimate.high < self.high or self.high == float("inf")):
            return Verdict.HOLDS
        return Verdict.UNDECIDED


def below(bound: float) -> Within:
    """The quantity is below `bound`."""
    return Within(-float("inf"), bound)


def above(bound: float) -> Within:
    """The quantity is above `bound`."""
    return Within(bound, float("inf"))


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, what the paper says in its own words or numbers, and how we measure it."""

    id: str
    statement: str
    paper: str
    rule: Rule
    estimate: Callable[["Results"], Estimate]


@dataclass(frozen=True)
class Checked:
    """A claim with what came out."""

    claim: Claim
    estimate: Estimate
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """id, statement, paper, estimate, low, high, known, verdict; an unbounded end is null."""
        numbers = {"estimate": self.estimate.value, "low": self.estimate.low, "high": self.estimate.high}
        return {
            "id": self.claim.id,
            "statement": self.claim.statement,
            "paper": self.claim.paper,
            **{name: float(f"{v:.6g}") if np.isfinite(v) else None for name, v in numbers.items()},
            "known": str(self.estimate.known),
            "verdict": str(self.verdict),
        }


def check_claim(claim: Claim, results: "Results") -> Checked:
    """Compute a claim from stored traces."""
    estimate = claim.estimate(results)
    return Checked(claim, estimate, claim.rule.verdict(estimate))


def check_paired(results: "Results", arms: Sequence[str]) -> None:
    """Raise unless the arms have the same seeds in the same order."""
    first, *others = ([summary.seed for summary in results.summaries[arm]] for arm in arms)
    if any(seeds != first for seeds in others):
        raise HeadstartError(f"arms {' and '.join(arms)} were trained on different seeds and cannot be paired")


AXES = ("steps", "samples", "flops")


class Typical(StrEnum):
    """Whose time to a target stands for an arm: that of its mean test curve, or the median over its seeds."""

    MEAN_CURVE = "mean curve"
    MEDIAN_SEED = "median seed"


def time_bounds(
    results: "Results", arm: str, target: float, axis: str = "steps", of: Typical = Typical.MEAN_CURVE
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

    `axis` is "steps", "samples" or "flops", and `of` says whose time is an arm's. An arm that misses the target within
    its budget is censored: its time is anywhere from its budget to infinity, and the interval reaches as far as that
    allows. The bootstrap pairs arms by seed.
    """

    small: str
    large: str
    target: float
    axis: str = "steps"
    of: Typical = Typical.MEAN_CURVE

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise HeadstartError(f"TimeRatio(axis={self.axis!r}): choose {', '.join(AXES)}")
        if self.of not in list(Typical):
            raise HeadstartError(f"TimeRatio(of={self.of!r}): choose one of {', '.join(Typical)}")
        object.__setattr__(self, "of", Typical(self.of))

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def bounds(self, results: "Results") -> Bounds:
        """(least, most) of the ratio as a function of resampled rows."""
        check_paired(results, self.arms)
        small, large = (time_bounds(results, arm, self.target, self.axis, self.of) for arm in self.arms)
        return lambda rows: quotient(small(rows), large(rows))

    def __call__(self, results: "Results") -> Estimate:
        """The ratio with its interval."""
        return bootstrap_bounds(self.bounds(results), len(results.summaries[self.small]))


@dataclass(frozen=True)
class GapRatio:
    """The time ratio `one` over the time ratio `other`: below 1, the small side gains more in `one`.

    Seeds are resampled together, so both need the same number of them.
    """

    one: TimeRatio
    other: TimeRatio

    def __call__(self, results: "Results") -> Estimate:
        """The ratio of ratios with its interval."""
        check_paired(results, self.one.arms + self.other.arms)
        one, other = self.one.bounds(results), self.other.bounds(results)
        num = len(results.summaries[self.one.small])
        return bootstrap_bounds(lambda rows: quotient(one(rows), other(rows)), num)


@dataclass(frozen=True)
class StatisticRatio:
    """The seed-mean of a number of each trace of arm `small` over that of arm `large`."""

    small: str
    large: str
    statistic: Callable[["Trace"], float]

    def __call__(self, results: "Results") -> Estimate:
        """The ratio with its interval."""
        check_paired(results, (self.small, self.large))
        a, b = (np.array([self.statistic(t) for t in results.traces[arm]]) for arm in (self.small, self.large))
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

    def __call__(self, results: "Results") -> Estimate:
        """The ratio with its interval."""
        check_paired(results, self.arms)
        a, b = (results.finals(arm) for arm in self.arms)
        return bootstrap(lambda rows: float(a[rows].mean() / b[rows].mean()), len(a))
