"""When a curve first reaches a target."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def time_to_target(axis: ArrayLike, curve: ArrayLike, target: float, higher_is_better: bool) -> float:
    """The first point of `axis` at which `curve` is at `target` or better, linear between records; inf if never.

    `axis` is steps, samples or FLOPs, [records]; `curve` is [records].
    """
    t, v = np.asarray(axis, dtype=np.float64), np.asarray(curve, dtype=np.float64)
    if not higher_is_better:
        v, target = -v, -target
    there = np.flatnonzero(v >= target)
    if not len(there):
        return float("inf")
    i = there[0]
    if i == 0 or v[i] == v[i - 1]:
        return float(t[i])
    return float(t[i - 1] + (t[i] - t[i - 1]) * (target - v[i - 1]) / (v[i] - v[i - 1]))


def monotone(curve: ArrayLike, higher_is_better: bool) -> NDArray[np.float64]:
    """The nearest curve in least squares that never gets worse: isotonic regression.

    Training near the edge of stability flickers, and the first crossing of a flickering curve comes early by luck; the
    crossing of its monotone fit does not.
    """
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(np.asarray(curve, dtype=np.float64), increasing=higher_is_better).x)


def success_probability(curves: NDArray[np.float64], target: float, higher_is_better: bool) -> float:
    """The share of runs [members, records] that reach the target at some record."""
    best = curves.max(axis=1) if higher_is_better else -curves.min(axis=1)
    return float(np.mean(best >= (target if higher_is_better else -target)))
