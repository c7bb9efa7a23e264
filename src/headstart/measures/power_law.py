"""Power laws: fits of a x^b, and exponents of medians."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError
from headstart.measures.intervals import Estimate, bootstrap


@dataclass(frozen=True)
class PowerLaw:
    """y = factor x^exponent."""

    factor: float
    exponent: float

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """The values at x."""
        return self.factor * np.asarray(x, dtype=np.float64) ** self.exponent


def fit_power_law(x: ArrayLike, y: ArrayLike, logs: bool = False) -> PowerLaw:
    """a x^b by least squares of y, as scipy's `curve_fit` has it, or with `logs` of log y.

    Least squares of y weigh the largest y most: of the sizes of a decaying law, the smallest decide. In logarithms all
    count alike. It is not a number where a y is not above 0, or where there is no fit.
    """
    from scipy.optimize import OptimizeWarning, curve_fit

    places, values = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if places.ndim != 1 or values.shape != places.shape or len(np.unique(places)) < 2 or not (places > 0).all():
        raise HeadstartError(f"fit_power_law(x={x!r}): give at least two distinct x above 0 and a y for each")
    if not (np.isfinite(values).all() and (values > 0).all()):
        return PowerLaw(float("nan"), float("nan"))
    middle = float(np.exp(np.log(places).mean()))  # x over its middle keeps the factor and the exponent apart
    slope, height = np.polyfit(np.log(places / middle), np.log(values), 1)
    factor = float(np.exp(height))
    if not logs:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OptimizeWarning)  # of a covariance that is not used
                (factor, slope), _ = curve_fit(_law, places / middle, values, p0=(factor, slope))
        except RuntimeError:  # no convergence
            return PowerLaw(float("nan"), float("nan"))
    return PowerLaw(float(factor / middle**slope), float(slope))


def fit_exponents(x: ArrayLike, y: NDArray[np.float64], logs: bool = False) -> NDArray[np.float64]:
    """b of `fit_power_law` for each row of y [..., len(x)], all at once; not a number where a row has none."""
    from scipy.optimize import elementwise

    u = np.log(np.asarray(x, dtype=np.float64))
    u = u - u.mean()
    good = np.asarray((np.isfinite(y) & (y > 0)).all(axis=-1))
    rows = np.where(good[..., None], y, 1.0)
    slope = np.log(rows) @ u / (u @ u)
    if not logs:
        rows = rows / rows.max(axis=-1, keepdims=True)
        columns = tuple(np.moveaxis(rows, -1, 0))

        def lost(b: NDArray[np.float64], *values: NDArray[np.float64]) -> NDArray[np.float64]:
            """The sum of squares with the best factor for b, less that of y."""
            law = [np.exp(b * place) for place in u]
            along = sum(value * height for value, height in zip(values, law, strict=True))
            return -np.square(along) / sum(height * height for height in law)

        bracket = elementwise.bracket_minimum(lost, slope, xl0=slope - 0.1, xr0=slope + 0.1, args=columns)
        found = elementwise.find_minimum(lost, bracket.bracket, args=columns)
        slope, good = found.x, good & bracket.success & found.success
    return np.where(good, slope, np.nan)


def _law(x: Any, a: Any, b: Any) -> Any:
    return a * x**b


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
