"""The area under a curve: how good a run was on average over its steps."""

import numpy as np
from numpy.typing import ArrayLike


def area_under(axis: ArrayLike, curve: ArrayLike) -> float:
    """The trapezoid area of `curve` over `axis` divided by the length of the axis: the mean value of the curve."""
    t, v = np.asarray(axis, dtype=np.float64), np.asarray(curve, dtype=np.float64)
    return float(v[0]) if len(t) < 2 else float(np.trapezoid(v, t) / (t[-1] - t[0]))
