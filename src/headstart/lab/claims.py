"""Claims: falsifiable sentences with an estimate, an interval and a verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.measures import Estimate, bootstrap, bootstrap_bounds, monotone, time_to_target

if TYPE_CHECKING:
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
        """id, statement, paper, estimate, low, high, verdict; an unbounded end is null."""
        numbers = {"estimate": self.estimate.value, "low": self.estimate.low, "high": self.estimate.high}
        return {
            "id": self.claim.id,
            "statement": self.claim.statement,
            "paper": self.claim.paper,
            **{name: float(f"{v:.6g}") if np.isfinite(v) else None for name, v in numbers.items()},
            "verdict": str(self.verdict),
        }


def check_claim(claim: Claim, results: "Results") -> Checked:
    """Compute a claim from stored traces."""
    estimate = claim.estimate(results)
    return Checked(claim, estimate, claim.rule.verdict(estimate))


def _check_paired(results: "Results", arms: tuple[str, str]) -> None:
    """Raise unless both arms have the same seeds in the same order."""
    one, other = ([summary.seed for summary in results.summaries[arm]] for arm in arms)
    if one != other:
        raise HeadstartError(f"arms {' and '.join(arms)} were trained on different seeds and cannot be paired")


@dataclass(frozen=True)
class TimeRatio:
    """Time to `target` of arm `small` over that of arm `large`, on the monotone fits of the seed-mean test curves.

    `axis` is "steps", "samples" or "flops". An arm that misses the target within its budget is censored: its time is
    anywhere from its budget to infinity, and the interval reaches as far as that allows. The bootstrap pairs arms by
    seed.
    """

    small: str
    large: str
    target: float
    axis: str = "steps"

    def __post_init__(self) -> None:
        if self.axis not in ("steps", "samples", "flops"):
            raise HeadstartError(f"TimeRatio(axis={self.axis!r}): choose steps, samples or flops")

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def __call__(self, results: "Results") -> Estimate:
        """The ratio with its interval."""
        better = results.metric(self.small).higher_is_better
        _check_paired(results, self.arms)
        curves = [results.curves(arm) for arm in self.arms]
        axes = [np.asarray(getattr(results.traces[arm].grid(), self.axis), dtype=np.float64) for arm in self.arms]

        def bounds(rows: NDArray[np.int64]) -> tuple[float, float]:
            means = [monotone(c[rows].mean(axis=0), better) for c in curves]
            # Within the first interval between records a time is not resolved, so it counts as that interval.
            times = [max(time_to_target(t, m, self.target, better), t[1]) for t, m in zip(axes, means, strict=True)]
            least = [t if np.isfinite(t) else a[-1] for t, a in zip(times, axes, strict=True)]
            return (least[0] / times[1] if np.isfinite(times[1]) else 0.0), times[0] / least[1]

        return bootstrap_bounds(bounds, len(curves[0]))


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
        _check_paired(results, self.arms)
        a, b = (results.finals(arm) for arm in self.arms)
        return bootstrap(lambda rows: float(a[rows].mean() / b[rows].mean()), len(a))
