"""Each batch at its best rate on the reduced chain: what a plan chooses from.

Near the start the path over samples depends on rate and batch through their ratio alone, so a batch that is too small
to simulate follows from a larger one: the same samples, the rate in proportion.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.theory.learnability import Learnability
from headstart.theory.overlaps import Objective
from headstart.theory.reduced_sgd import Recovery, ReducedSGD, simulate
from headstart.theory.reduced_sgd.moments import least_batch
from headstart.theory.reduced_sgd.paths import LEAST_BATCH

_CHOOSING = range(8)  # the runs that choose a plan's rates
_MOST_DRAWS = 4 * 10**7  # samples that are drawn one by one for the best choice
_FEW_STEPS = 1000  # by theory, of the batch that is tried first
_MANY_STEPS = 100  # in so many steps of a batch, the path over samples is that of smaller batches
_PATIENCE = 30.0  # times the steps of the theory, before a run counts as one that does not learn
_LATE = 4.0  # times the best so far: a rate that takes longer is not the best


class How(StrEnum):
    """Every sample drawn; sums over a batch drawn as Gaussians with exact moments; scaled from a larger batch."""

    EXACT = "exact"
    SUMS = "Gaussian sums"
    SCALED = "scaled"


@dataclass(frozen=True)
class Spread:
    """The median over runs, and what 95% of them lie between; infinite where runs do not get there."""

    median: float
    low: float
    high: float

    def times(self, factor: float) -> "Spread":
        """All three times a factor."""
        return Spread(self.median * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class BatchChoice:
    """A batch at its best rate: steps and samples until |<w, w*>| >= level, of runs that start on the right side.

    `recovered` is the share of those that get there, `limit` the least rate tried at which fewer than half of them do,
    infinite where none was found. `how` is how it was found.
    """

    loss: Objective
    batch: int
    rate: float
    steps: Spread
    samples: Spread
    recovered: float
    limit: float
    how: How
    seconds: Spread | None = None

    @property
    def time(self) -> float:
        """What is to be least: median seconds where their table is known, else median steps."""
        return self.steps.median if self.seconds is None else self.seconds.median


@dataclass(frozen=True)
class BestRate:
    """A process at the best of the rates that were tried.

    `limit` is the least rate tried above it at which fewer than half of the runs recover, infinite where none was
    found. `tried` has the restricted mean of the steps by rate, infinite where fewer than half recover.
    """

    process: ReducedSGD
    limit: float
    tried: Mapping[float, float]


@dataclass(frozen=True)
class Search:
    """How a plan is found: `process` has batch 1 and any rate and loss.

    `choosing` are the runs that choose rates. A run that takes `most` steps counts as one that does not learn, by
    default many times what theory says of its batch.
    """

    process: ReducedSGD
    outlook: Learnability
    level: float
    runs: int
    seed: int
    table: Mapping[int, float] | None = None
    choosing: range = _CHOOSING
    most: int | None = None

    @property
    def exponent(self) -> int:
        """The least degree that target and student share."""
        assert self.outlook.shared is not None
        return self.outlook.shared

    def curve(self, loss: Objective, batches: Sequence[int]) -> tuple[BatchChoice, ...]:
        """Each batch at its best rate, ascending.

        The first that is tried is the least whose sums are Gaussian and whose runs are short. From there the search
        goes up, and then down with every sample drawn, until runs are so long that smaller batches follow by scaling.
        """
        short = _theory_samples(self.process.dim, self.exponent) / _FEW_STEPS
        least = max(_gaussian_from(replace(self.process, loss=loss)), short)
        first = min((batch for batch in batches if batch >= least), default=batches[-1])
        typical = float(np.sqrt(np.mean(np.square(self.process.target_of_one(np.linspace(-2.0, 2.0, 65))))))
        scale = self.process.dim ** max(self.exponent / 2, 1.0)
        middle = self._tuned(loss, first, 0.1 * min(1.0, first / scale) / max(typical, 1e-6))
        up, down = [middle], [middle]
        for batch in (batch for batch in batches if batch > first):
            up.append(self._tuned(loss, batch, up[-1].rate * batch / up[-1].batch, up[-1].steps.high))
        for batch in (batch for batch in reversed(batches) if batch < first):
            if down[-1].steps.median >= _MANY_STEPS:
                down.append(_scaled(down[-1], batch, self.table))
            else:
                down.append(self._tuned(loss, batch, down[-1].rate * batch / down[-1].batch))
        return (*reversed(down[1:]), *up)

    def _tuned(self, loss: Objective, batch: int, rate: float, steps: float = math.inf) -> BatchChoice:
        """A batch at its best rate; the search begins at `rate`, and other runs measure it.

        `steps` are what nearly all runs of a smaller batch take: a rate that takes more is not the best.
        """
        best = self.best_rate(replace(self.process, loss=loss, batch=batch, rate=rate), steps)
        others = range(self.choosing.stop, self.choosing.stop + self.runs)
        return _choice(self.recovery(best.process, others), best.limit, self.table)

    def horizon(self, batch: int) -> int:
        """After so many steps a run counts as one that does not learn."""
        return _horizon(self.process.dim, self.exponent, batch) if self.most is None else self.most

    def recovery(
        self, process: ReducedSGD, runs: Sequence[int], horizon: int | None = None, exact: bool | None = None
    ) -> Recovery:
        """Runs that start on the side that can recover."""
        exact = process.batch < _gaussian_from(process) if exact is None else exact
        steps = self.horizon(process.batch) if horizon is None else horizon
        return simulate(process, list(runs), steps, self.seed, stop_at=self.level, right_side_only=True, exact=exact)

    def best_rate(self, process: ReducedSGD, steps: float = math.inf) -> BestRate:
        """The rate with the least restricted mean of the steps; the search begins at the rate that the process has.

        Rates differ by factors of 4, then 2, then sqrt 2. Times end at 4 times the least so far, or `steps`. A rate at
        which fewer than half of the runs recover is taken only where there is no other.
        """
        most = min(self.horizon(process.batch), _LATE * steps + 10)
        times: dict[int, float] = {}  # by the n of a rate that is 2^(n/2) times the first
        means: dict[int, float] = {}

        def rate(n: int) -> float:
            return process.rate * float(2 ** (n / 2))

        def time(n: int) -> float:
            if n not in times:
                horizon = math.ceil(min(most, _LATE * min(times.values(), default=math.inf) + 10))
                found = self.recovery(replace(process, rate=rate(n)), self.choosing, horizon)
                means[n] = float(np.where(found.reached, found.first, horizon).mean())
                times[n] = means[n] if found.reached.mean() >= 0.5 else math.inf
            return times[n]

        best = 0
        while math.isinf(time(best)) and best > -40:  # too large to learn
            best -= 4
        if math.isinf(time(best)):  # no rate is good enough: take the best of them
            best = min(means, key=lambda n: means[n])
        for stride in (4, 2, 1):
            while time(best + stride) < time(best):
                best += stride
            while time(best - stride) < time(best):
                best -= stride
        above = best
        while not math.isinf(time(above)) and above < best + 8:
            above += 2
        limit = rate(above) if math.isinf(times[above]) else math.inf
        return BestRate(replace(process, rate=rate(best)), limit, {rate(n): times[n] for n in sorted(times)})

    def drawn(self, best: BatchChoice) -> BatchChoice:
        """The best again with every sample drawn, on as many runs as that affords; as it is where those are too few."""
        affordable = min(self.runs, int(_MOST_DRAWS // max(1.0, best.samples.median)))
        if best.how is How.EXACT or affordable < len(self.choosing):
            return best
        process = replace(self.process, loss=best.loss, batch=best.batch, rate=best.rate)
        first, horizon = self.choosing.stop + self.runs, math.ceil(10 * best.steps.median)
        found = self.recovery(process, range(first, first + affordable), horizon, exact=True)
        return _choice(found, best.limit, self.table)


def _gaussian_from(process: ReducedSGD) -> int:
    """The batch from which on a plan takes sums over a batch for Gaussian."""
    return max(LEAST_BATCH, least_batch(process))


def _theory_samples(dim: int, exponent: int) -> float:
    """I(l): d, d log d, d^(l-1)."""
    return dim ** max(1.0, exponent - 1) * (math.log(dim) if exponent == 2 else 1.0)


def _horizon(dim: int, exponent: int, batch: int) -> int:
    """After so many steps a run counts as one that does not learn."""
    floor = dim ** max(exponent / 2 - 1, 0) * math.log(dim)
    return math.ceil(_PATIENCE * max(_theory_samples(dim, exponent) / batch, floor))


def _scaled(known: BatchChoice, batch: int, table: Mapping[int, float] | None) -> BatchChoice:
    """A smaller batch: with the rate in proportion the law of the path over samples is the same."""
    steps = known.steps.times(known.batch / batch)
    share = batch / known.batch
    return replace(
        known,
        batch=batch,
        rate=known.rate * share,
        limit=known.limit * share,
        steps=steps,
        how=How.SCALED,
        seconds=None if table is None else steps.times(_seconds(table, batch)),
    )


def _choice(found: Recovery, limit: float, table: Mapping[int, float] | None) -> BatchChoice:
    """What runs say of a batch and rate."""
    process = found.process
    steps = _spread(np.where(found.reached, found.first, np.inf))
    seconds = None if table is None else steps.times(_seconds(table, process.batch))
    recovered = float(found.reached.mean())
    samples = steps.times(process.batch)
    how = How.EXACT if found.exact else How.SUMS
    return BatchChoice(process.loss, process.batch, process.rate, steps, samples, recovered, limit, how, seconds)


def _spread(steps: NDArray[np.float64]) -> Spread:
    low, median, high = np.quantile(steps, (0.025, 0.5, 0.975), method="inverted_cdf")
    return Spread(float(median), float(low), float(high))


def _seconds(table: Mapping[int, float], batch: int) -> float:
    """Seconds of a step: between entries linear, below the first as it, above the last in proportion."""
    if not table:
        raise HeadstartError("plan_batch(seconds_per_step={}): give at least one batch, such as {256: 0.01}")
    for known, seconds in table.items():
        check_count("plan_batch", "seconds_per_step", known)
        check_positive("plan_batch", "seconds_per_step", seconds)
    batches = sorted(table)
    return float(np.interp(batch, batches, [table[b] for b in batches])) * max(1.0, batch / batches[-1])
