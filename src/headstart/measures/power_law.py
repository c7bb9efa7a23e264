"""Exponents of power laws."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError
from headstart.measures.intervals import Estimate, bootstrap


def medians(values: NDArray[np.float64], kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The median of the kept members of each row of [settings, members]; not a number where none is kept."""
    return np.array([np.median(row[keep]) if keep.any() else np.nan for row, keep in zip(values, kept, strict=True)])


def exponent(
    x: ArrayLike, values: NDArray[np.float64], kept: NDArray[np.bool_] | None = None, resamples: int = 500
) -> Estimate:
    """b of median(values) ~ x^b by least squares in logarithms, with its 95% bootstrap interval over members.

    `values` is [settings, members], one setting an x, members paired across settings; `kept` says which count. Medians
    stay finite as long as fewer than half of the members of each setting are censored (infinite); else it is not a
    number.
    """
    axis = np.log(np.asarray(x, dtype=np.float64))
    if axis.ndim != 1 or len(np.unique(axis)) < 2 or values.shape[:1] != axis.shape:
        raise HeadstartError(f"exponent(x={x!r}): give at least two distinct settings and a row of values for each")
    keep = np.ones(values.shape, dtype=bool) if kept is None else kept
    centred = (axis - axis.mean()) / ((axis - axis.mean()) ** 2).sum()

    def slope(rows: NDArray[np.int64]) -> float:
        return float(centred @ np.log(medians(values[:, rows], keep[:, rows])))

    with np.errstate(invalid="ignore"):
        estimate = bootstrap(slope, values.shape[1], resamples=resamples)
    ends = (estimate.value, estimate.low, estimate.high)
    return estimate if np.isfinite(ends).all() else Estimate(*(float("nan"),) * 3)
