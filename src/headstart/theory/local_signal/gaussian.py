"""Gaussian facts behind the proofs on local signals: Mills' ratio, truncated normals, maxima, small balls.

Reference: Local Signal Adaptivity, Appendix B.1.2 and Lemmas B.1, B.2 and B.10 of the thesis that `LocalSignal` names.
"""

from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive

Floats = NDArray[np.float64]
_ROOT_TWO_PI = sqrt(2 * np.pi)


def density(x: ArrayLike) -> Floats:
    """phi(x) of a standard normal."""
    return np.exp(-0.5 * np.square(np.asarray(x, dtype=np.float64))) / _ROOT_TWO_PI


def tail(x: ArrayLike) -> Floats:
    """P(z > x) of a standard normal."""
    from scipy.special import ndtr

    return np.asarray(ndtr(-np.asarray(x, dtype=np.float64)))


def mills_ratio(x: ArrayLike) -> Floats:
    """P(z > x) / phi(x), without under- or overflow at large x."""
    from scipy.special import erfcx

    return np.asarray(sqrt(np.pi / 2) * erfcx(np.asarray(x, dtype=np.float64) / sqrt(2)))


def mills_bounds(x: ArrayLike) -> tuple[Floats, Floats]:
    """2 / (sqrt(x^2 + 4) + x) and 2 / (sqrt(x^2 + 2) + x): below and above Mills' ratio for x > 0 (eq. B.6)."""
    x = np.asarray(x, dtype=np.float64)
    return 2 / (np.sqrt(x**2 + 4) + x), 2 / (np.sqrt(x**2 + 2) + x)


class Truncated(NamedTuple):
    """Mean, variance and second moment of z ~ N(0, s^2) given that it passes a threshold."""

    mean: Floats
    variance: Floats
    second: Floats


def truncated_normal(deviation: ArrayLike, threshold: ArrayLike) -> Truncated:
    """Of Z ~ N(0, s^2) given Z >= t, with alpha = t / s and Mills' ratio m = m(alpha) (eqs. B.1 to B.3):

    E = s / m,    Var = s^2 (1 + alpha / m - 1 / m^2),    E[Z^2] = s^2 (1 + alpha / m)
    """
    s = np.asarray(deviation, dtype=np.float64)
    alpha = np.asarray(threshold, dtype=np.float64) / s
    inverse = 1 / mills_ratio(alpha)
    second = 1 + alpha * inverse
    return Truncated(s * inverse, s**2 * (second - inverse**2), s**2 * second)


def parts_given_sum(signal: ArrayLike, rest: ArrayLike) -> tuple[Floats, Floats]:
    """E[c A | Z] / Z and E[v B | Z] / Z of Z = c A + v B, A and B independent of equal variance (eqs. B.4, B.5)."""
    c, v = np.square(np.asarray(signal, dtype=np.float64)), np.square(np.asarray(rest, dtype=np.float64))
    return c / (c + v), v / (c + v)


def largest_exceeds(num: int, two_sided: bool = False) -> tuple[float, float]:
    """P(max of num standard normals > 2 sqrt(log num)) and its bound 1 / num; two-sided 2 / num (Lemmas B.1, B.2)."""
    check_count("largest_exceeds", "num", num, minimum=2)
    sides = 2 if two_sided else 1
    each = sides * float(tail(2 * np.sqrt(np.log(num))))
    return -float(np.expm1(num * np.log1p(-each))), sides / num


def small_ball(num: ArrayLike, half_width: float) -> Floats:
    """The largest P(sum_i xi_i a_i in B) over |a_i| >= 1 and open intervals B of length 2 half_width, xi_i = +-1.

    It is the sum of the s = ceil(half_width) middle terms of a binomial of num, at most (s sqrt(2 / pi) + o(1)) /
    sqrt(num): Erdos' form of Lemma B.10, which all a_i = 1 attain. 1 where num is 0.
    """
    from scipy.stats import binom

    check_positive("small_ball", "half_width", half_width)
    n = np.asarray(num, dtype=np.int64)
    if (n < 0).any():
        raise HeadstartError(f"small_ball(num={num!r}): give counts of at least 0")
    s = ceil(half_width)
    below = (n - s) // 2  # the terms below + 1 .. below + s
    return np.asarray(np.clip(binom.cdf(below + s, n, 0.5) - binom.cdf(below, n, 0.5), 0.0, 1.0))
