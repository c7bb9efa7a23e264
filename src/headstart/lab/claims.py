"""Claims: falsifiable sentences with an estimate, an interval and a verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from headstart.lab.results import Results
from headstart.measures import Estimate

# What is said of absence, or of a gap that is closed, needs so many arrivals in every arm: runs that miss a target
# count with the horizon in both, which pulls a ratio to 1 (a true 0.70 reads 0.84 when half of the slower arm do).
LEAST_ARRIVALS = 0.8


class Verdict(StrEnum):
    """What the interval says of the claim. absent: the effect is there at most in a size that does not matter."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    UNDECIDED = "undecided"
    ABSENT = "absent"


class Kind(StrEnum):
    """What a claim is to its study.

    primary: a sentence of the paper, by the endpoint fixed beforehand, one each. secondary: another look at one.
    control: what must be so for a primary to mean something. identity: arithmetic, or proven. post hoc: added after
    the curves had been seen.
    """

    PRIMARY = "primary"
    SECONDARY = "secondary"
    CONTROL = "control"
    IDENTITY = "identity"
    POST_HOC = "post hoc"


class Rule(Protocol):
    """What must be true of the whole interval for the claim to hold."""

    def verdict(self, estimate: Estimate) -> Verdict:
        """Holds when the whole interval is on the stated side, does not hold when wholly outside, else undecided."""
        ...


@dataclass(frozen=True)
class Within:
    """The quantity lies in [low, high], bounds declared beforehand. `below` and `above` are the half-open cases.

    With `arrivals` it holds only where at least that share of the runs of every arm reached the target.
    """

    low: float
    high: float
    arrivals: float = 0.0

    def verdict(self, estimate: Estimate) -> Verdict:
        """The verdict on an interval."""
        if np.isnan([estimate.low, estimate.high]).any():
            return Verdict.UNDECIDED
        if estimate.high <= self.low or estimate.low >= self.high:
            return Verdict.DOES_NOT_HOLD
        if self.contains(estimate) and (estimate.arrivals is None or estimate.arrivals >= self.arrivals):
            return Verdict.HOLDS
        return Verdict.UNDECIDED

    def contains(self, estimate: Estimate) -> bool:
        """Whether the whole interval lies inside."""
        above = self.low < estimate.low or self.low == -float("inf")
        return above and (estimate.high < self.high or self.high == float("inf"))


def below(bound: float) -> Within:
    """The quantity is below `bound`."""
    return Within(-float("inf"), bound)


def above(bound: float) -> Within:
    """The quantity is above `bound`."""
    return Within(bound, float("inf"))


def closed(bound: float = 0.9) -> Within:
    """A gap is closed: small over large is above `bound`, with at least 80% arrivals in every arm. One-sided."""
    return Within(bound, float("inf"), LEAST_ARRIVALS)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, what the paper says in its own words or numbers, and how we measure it.

    `smallest` are the effects too small to matter, such as Within(0.95, 1.05) of a ratio, declared beforehand: an
    interval inside is `absent`, even if it excludes 1.
    """

    id: str
    statement: str
    paper: str
    rule: Rule
    estimate: Callable[[Results], Estimate]
    kind: Kind = Kind.SECONDARY
    smallest: Within | None = None

    def verdict(self, estimate: Estimate) -> Verdict:
        """Absence is tested first; it needs 80% arrivals in every arm, as a closed gap does."""
        if self.smallest is None or not self.smallest.contains(estimate):
            return self.rule.verdict(estimate)
        few = estimate.arrivals is not None and estimate.arrivals < LEAST_ARRIVALS
        return Verdict.UNDECIDED if few else Verdict.ABSENT


@runtime_checkable
class HasReadings(Protocol):
    """An estimate that can be read in other ways too, which stand beside it and decide nothing."""

    def beside(self, results: Results) -> dict[str, Estimate]:
        """The other readings by name."""
        ...


@dataclass(frozen=True)
class Checked:
    """A claim with what came out, and beside it the same by other readings, which decide nothing."""

    claim: Claim
    estimate: Estimate
    verdict: Verdict
    beside: Mapping[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """id, kind, statement, paper, estimate, low, high, known, arrivals, horizon, axis, beside, verdict.

        An unbounded end is null, and so are arrivals, horizon and its axis of what is no time to a target.
        """
        return {
            "id": self.claim.id,
            "kind": str(self.claim.kind),
            "statement": self.claim.statement,
            "paper": self.claim.paper,
            **_numbers(self.estimate),
            "arrivals": _rounded(self.estimate.arrivals),
            "horizon": _rounded(self.estimate.horizon),
            "axis": None if self.estimate.horizon is None else getattr(self.claim.estimate, "axis", None),
            "beside": {name: _numbers(estimate) for name, estimate in self.beside.items()},
            "verdict": str(self.verdict),
        }


def _numbers(estimate: Estimate) -> dict[str, Any]:
    names = {"estimate": estimate.value, "low": estimate.low, "high": estimate.high}
    return {**{name: _rounded(value) for name, value in names.items()}, "known": str(estimate.known)}


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.6g}") if value is not None and np.isfinite(value) else None


def check_claim(claim: Claim, results: Results) -> Checked:
    """Compute a claim from stored traces."""
    estimate = claim.estimate(results)
    beside = claim.estimate.beside(results) if isinstance(claim.estimate, HasReadings) else None
    return Checked(claim, estimate, claim.verdict(estimate), beside or {})
