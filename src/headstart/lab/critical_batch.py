"""The critical batch size from steps to a target at several batch sizes: a curve, its interval, and whether it tells.

    S(B) = S_min (1 + B_crit / B)

Far below B_crit twice the batch takes half the steps; far above, it saves none. At B_crit both the steps and the rows
are twice the fewest. Reference: McCandlish et al., An Empirical Model of Large-Batch Training (2018), Eq. 2.11.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from headstart.measures import Estimate, bootstrap

# The curve is fitted over so many values of B_crit, from this factor below the smallest batch to as much above the
# largest; at an end of them it is not known.
_GRID, _BEYOND = 801, 64.0
# A value is one where it lies within this factor of the batches tried, and its interval is no wider than this factor.
_NEAR, _WIDEST = 2.0, 16.0
# Fewer batch sizes that reach the target make no curve of two numbers; of each so many runs must arrive.
LEAST_SIZES, LEAST_ARRIVALS = 3, 0.8
# Steps are whole numbers, so that fewer than these do not tell two sizes apart.
LEAST_STEPS = 4.0
_RESAMPLES = 1000


class BatchVerdict(StrEnum):
    """Whether the times say where the critical batch size is: a value, a bound, or nothing."""

    VALUE = "value"
    ABOVE = "above"
    BELOW = "below"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class BatchCurve:
    """The fitted curve: B_crit and S_min with 95% bootstrap intervals over seeds, and which batch sizes are in it.

    `worst` is the largest factor, above 1, between a mean time and the curve. Both estimates are nan without a fit.
    """

    verdict: BatchVerdict
    critical: Estimate
    fewest_steps: Estimate
    used: tuple[int, ...]
    worst: float

    def steps(self, batch: float) -> float:
        """S(B)."""
        return self.fewest_steps.value * (1 + self.critical.value / batch)


def fit_curve(batches: NDArray[np.int64], times: NDArray[np.float64], arrived: NDArray[np.bool_]) -> BatchCurve:
    """The curve through steps to the target, times [seeds, batch sizes]; `arrived` says which runs reached it.

    Least squares in logarithms of the mean over seeds, so that a factor counts alike at every size. Sizes of which
    fewer than 80% of the runs arrived are left out, and those that take fewer than 4 steps.
    """
    kept = (arrived.mean(axis=0) >= LEAST_ARRIVALS) & (np.log(times).mean(axis=0) >= np.log(LEAST_STEPS))
    used = tuple(int(b) for b in batches[kept])
    if len(used) < LEAST_SIZES or len(times) < 2:
        nothing = Estimate(*(float("nan"),) * 3)
        return BatchCurve(BatchVerdict.CANNOT_TELL, nothing, nothing, used, float("nan"))
    sizes, logs = batches[kept].astype(np.float64), np.log(times[:, kept])
    grid = np.geomspace(sizes.min() / _BEYOND, sizes.max() * _BEYOND, _GRID)
    shapes = np.log1p(grid[:, None] / sizes)
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    squares = np.square(centred).sum(axis=1)

    def nearest(rows: NDArray[np.int64]) -> tuple[int, float]:
        """Which B_crit of the grid fits these seeds best, and log S_min with it."""
        mean = logs[rows].mean(axis=0)
        best = int((squares - 2 * centred @ mean).argmin())  # |mean - centred|^2 but for what is the same for all
        return best, float((mean - shapes[best]).mean())

    def critical(rows: NDArray[np.int64]) -> float:
        best = nearest(rows)[0]
        return 0.0 if best == 0 else float("inf") if best == _GRID - 1 else float(grid[best])

    estimate = bootstrap(critical, len(times), resamples=_RESAMPLES)
    fewest = bootstrap(lambda rows: float(np.exp(nearest(rows)[1])), len(times), resamples=_RESAMPLES)
    best, level = nearest(np.arange(len(times)))
    worst = float(np.exp(np.abs(logs.mean(axis=0) - level - shapes[best]).max()))
    return BatchCurve(_verdict(estimate, sizes), estimate, fewest, used, worst)


def _verdict(critical: Estimate, sizes: NDArray[np.float64]) -> BatchVerdict:
    """A value where its interval is narrow and near the sizes tried; a bound where it is wholly on one side of them."""
    if critical.low >= sizes.max():
        return BatchVerdict.ABOVE
    if critical.high <= sizes.min():
        return BatchVerdict.BELOW
    near = sizes.min() / _NEAR <= critical.value <= sizes.max() * _NEAR
    narrow = critical.low > 0 and critical.high <= _WIDEST * critical.low
    return BatchVerdict.VALUE if near and narrow else BatchVerdict.CANNOT_TELL
