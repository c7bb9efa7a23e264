"""Between two networks of one architecture, on the line through their weights: are they in one basin?"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.state import Arrays, State

# Two networks are connected where no accuracy between them falls further than this below the line of the end points.
CONNECTED_WITHIN = 0.02
# The last part of the names of buffers that cannot be below 0.
_VARIANCES = ("var", "variance")
# How near to 0 and 1 the end points of a line are looked for.
_NEAR = 1e-9


def line_points(num: int = 76) -> NDArray[np.float64]:
    """`num` evenly spaced places alpha in [-1, 2], 0 and 1 among them; num is 3 k + 1, such as 76."""
    check_count("line_points", "num", num, minimum=4)
    if num % 3 != 1:
        raise HeadstartError(f"line_points(num={num}): 0 and 1 are among 3 k + 1 points, such as {num // 3 * 3 + 1}")
    third = num // 3
    return np.arange(-third, 2 * third + 1) / third


def interpolate(one: State, other: State, alpha: float) -> State:
    """The state at (1 - alpha) one + alpha other, weights and buffers alike; `one` at 0 and `other` at 1, exactly.

    alpha is any number: below 0 and above 1 the line goes on beyond the end points. Variances of batch norm, buffers
    whose names end in "var", are not below 0, where a line beyond its end points would lead. Integers and flags, such
    as the number of batches seen, are those of the nearer end. Where the optimizer stood is not of the line: the state
    has no moments, place and counters.

    The weights of the thesis are alpha S + (1 - alpha) S': one is S', and other is S. Reference: Frankle, Dziugaite,
    Roy and Carbin, Linear Mode Connectivity and the Lottery Ticket Hypothesis, 2020.
    """
    if not np.isfinite(alpha):
        raise HeadstartError(f"interpolate(alpha={alpha!r}): give a finite number, such as one in [-1, 2]")
    buffers = _between(one.buffers, other.buffers, float(alpha), "buffers")
    for name, value in buffers.items():
        if name.endswith(_VARIANCES) and value.dtype.kind == "f":
            buffers[name] = np.maximum(value, value.dtype.type(0))
    return State(_between(one.weights, other.weights, float(alpha), "weights"), buffers)


def _between(one: Arrays, other: Arrays, alpha: float, what: str) -> Arrays:
    shapes = [{name: value.shape for name, value in arrays.items()} for arrays in (one, other)]
    if shapes[0] != shapes[1]:
        name = sorted(name for name in shapes[0] | shapes[1] if shapes[0].get(name) != shapes[1].get(name))[0]
        sizes = " and ".join(str(each.get(name, "none")) for each in shapes)
        raise HeadstartError(f"interpolate: {what} {name!r} have shapes {sizes}; give two states of one architecture")
    return {name: _mixed(value, other[name], alpha) for name, value in one.items()}


def _mixed(one: NDArray[np.generic], other: NDArray[np.generic], alpha: float) -> NDArray[np.generic]:
    """one + alpha (other - one) in double precision: exact at both ends, and where both are equal."""
    if alpha in (0.0, 1.0) or one.dtype.kind not in "fc":
        return (one if alpha <= 0.5 else other).copy()
    wide = np.result_type(one.dtype, np.float64)
    first, second = one.astype(wide), other.astype(wide)
    return np.asarray(first + alpha * (second - first), dtype=one.dtype)


def barrier(accuracy: ArrayLike, alpha: ArrayLike) -> float:
    """The largest fall of the accuracy on [0, 1] below the line between its end points; 0 if there is none.

    max over alpha in [0, 1] of (1 - alpha) a(0) + alpha a(1) - a(alpha), both arguments [points], 0 and 1 among the
    alphas. Of a loss, give minus it. It is not a number where an accuracy on [0, 1] is none.
    """
    places, values = np.asarray(alpha, dtype=np.float64), np.asarray(accuracy, dtype=np.float64)
    if places.ndim != 1 or values.shape != places.shape:
        raise HeadstartError(f"barrier(accuracy of shape {values.shape}): give one for each alpha, {places.shape}")
    ends = [np.flatnonzero(np.abs(places - end) < _NEAR) for end in (0.0, 1.0)]
    if not all(len(end) for end in ends):
        raise HeadstartError(f"barrier(alpha={places.tolist()}): 0 and 1 are among them, as in line_points(76)")
    first, last = (values[end[0]] for end in ends)
    inside = (places > -_NEAR) & (places < 1 + _NEAR)
    fall = first + places * (last - first) - values
    return float(np.maximum(fall[inside].max(), 0.0))


def is_connected(accuracy: ArrayLike, alpha: ArrayLike, within: float = CONNECTED_WITHIN) -> bool:
    """Whether the barrier is at most `within`, by default 2%, as Frankle et al. have it."""
    return barrier(accuracy, alpha) <= within
