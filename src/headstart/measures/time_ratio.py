"""Times to a target that may be censored, and their ratios, as functions of which seeds to use."""

from collections.abc import Callable
from math import copysign, inf

import numpy as np
from numpy.typing import NDArray

from headstart.measures.time_to_target import monotone, time_to_target

Bounds = Callable[[NDArray[np.int64]], tuple[float, float]]


def censored_time(
    axis: NDArray[np.float64], curves: NDArray[np.float64], target: float, higher_is_better: bool
) -> Bounds:
    """(least, most) time to `target` of the monotone fit of the mean over some rows of [seeds, records].

    Curves that miss the target are censored: their time is anywhere from the end of the axis to infinity.
    """

    def bounds(rows: NDArray[np.int64]) -> tuple[float, float]:
        mean = monotone(curves[rows].mean(axis=0), higher_is_better)
        # Within the first interval between records a time is not resolved, so it counts as that interval.
        time = max(time_to_target(axis, mean, target, higher_is_better), float(axis[1]))
        return (time, time) if np.isfinite(time) else (float(axis[-1]), float("inf"))

    return bounds


def median_time(
    axis: NDArray[np.float64], curves: NDArray[np.float64], target: float, higher_is_better: bool
) -> Bounds:
    """(least, most) median over some rows of [seeds, records] of the time to `target` of each one's monotone fit.

    A few runs that never get there do not move it, where they keep a mean curve below the target for good. It is
    censored once half of the runs are.
    """
    fits = [monotone(curve, higher_is_better) for curve in curves]
    times = np.array([time_to_target(axis, fit, target, higher_is_better) for fit in fits])
    times = np.maximum(times, axis[1])

    end = float(axis[-1])

    def bounds(rows: NDArray[np.int64]) -> tuple[float, float]:
        ordered, num = np.sort(times[rows]), len(rows)  # np.median takes ten times as long, thousands of times
        low, high = float(ordered[(num - 1) // 2]), float(ordered[num // 2])
        return (min(low, end) + min(high, end)) / 2, (low + high) / 2

    return bounds


def restricted_times(
    axes: NDArray[np.float64], curves: NDArray[np.float64], target: float, higher_is_better: bool, horizon: float
) -> NDArray[np.float64]:
    """min(T, horizon) of each row of [seeds, records]: T is when its monotone fit first reaches `target`.

    Their mean is the restricted mean time to the target: defined however many runs never get there, which count with
    the horizon, and read off each run by itself. `axes` is [seeds, records] or [records].
    Reference: Royston and Parmar, Restricted mean survival time, 2013.
    """
    axes = np.broadcast_to(axes, curves.shape)
    fits = (monotone(curve, higher_is_better) for curve in curves)
    times = [time_to_target(axis, fit, target, higher_is_better) for axis, fit in zip(axes, fits, strict=True)]
    return np.minimum(np.maximum(times, axes[:, 1]), horizon)


def quotient(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """(least, most) of a quotient of two quantities known to lie between bounds, the second at least 0."""

    def over(value: float, divisor: float) -> float:
        return value / divisor if divisor > 0 else copysign(inf, value)

    low, high = other
    return over(one[0], high if one[0] >= 0 else low), over(one[1], low if one[1] >= 0 else high)
