"""A filter with a soft threshold on patches of noise, exactly: its error, loss gradients and moments, without a sample.

The filter is w = c w* + v u with u a unit vector across w*, and its bias is b. A patch of noise has <w, x_i> = s xi_i,
xi_i ~ N(0, 1), s = sigma sqrt(c^2 + v^2), and adds

    S_i = xi s + b sign(xi) where |xi| s > |b|,    else 2 xi s for b > 0 and 0 for b < 0

By symmetry y = 1, f = g + sum_i S_i and g = relu(c + b) - relu(-c + b). All laws follow from the characteristic
function of S_i, which is Faddeeva's function w(z) in closed form:

    int_0^inf phi(alpha + y) exp(i tau y) dy = phi(alpha) sqrt(pi / 2) w((tau + i alpha) / sqrt 2)

and means of the logistic slope from sigmoid(-x) = 1/2 - int_0^inf sin(t x) / sinh(pi t) dt. Reference: the population
gradients of Local Signal Adaptivity, Appendix B.1.1.
"""

from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.tasks import LocalSignal
from headstart.theory.local_signal.gaussian import density, tail

Floats = NDArray[np.float64]

_SLOPE_NODES, _SLOPE_END = 240, 12.0  # 1 / sinh(pi t) is 1e-16 there
# Of the law of the sum: nodes and the end of the grid, or its end in deviations where _MANY patches pass.
_SUM_NODES, _SUM_END, _SUM_WIDTHS, _MANY = 2000, 60.0, 40.0, 50.0


@dataclass(frozen=True)
class Filters:
    """Filters on k patches of noise of deviation sigma, by c = w . w*, v = |w - c w*| >= 0 and b, arrays of a shape."""

    patches: int
    sigma: float
    signal: Floats
    rest: Floats
    bias: Floats

    @classmethod
    def on(cls, task: LocalSignal, signal: ArrayLike, rest: ArrayLike = 0.0, bias: ArrayLike = 0.0) -> "Filters":
        """Filters on the patches of a task."""
        arrays = (np.asarray(value, dtype=np.float64) for value in (signal, rest, bias))
        return cls(task.patches, task.sigma, *np.broadcast_arrays(*arrays))

    def __post_init__(self) -> None:
        check_count("Filters", "patches", self.patches)
        check_positive("Filters", "sigma", self.sigma)
        if not (np.hypot(self.signal, self.rest) > 0).all():
            raise HeadstartError("Filters(signal=..., rest=...): a filter of 0 sees nothing; give c or v another value")

    @property
    def deviation(self) -> Floats:
        """s, of <w, x_i>."""
        return self.sigma * np.hypot(self.signal, self.rest)

    @property
    def alpha(self) -> Floats:
        """|b| / s."""
        return np.abs(self.bias) / self.deviation

    @property
    def on_signal(self) -> Floats:
        """g, what the signal's patch adds to f."""
        c, b = self.signal, self.bias
        return np.maximum(c + b, 0) - np.maximum(b - c, 0)

    @property
    def passing(self) -> Floats:
        """P(|s xi| > |b|): the share of patches of noise that pass the threshold."""
        return 2 * tail(self.alpha)

    def moments(self) -> tuple[Floats, Floats]:
        """E|S_i| and Var(S_i) = E[S_i^2]."""
        a, s, negative = self.alpha, self.deviation, self.bias < 0
        q, p = tail(a), density(a)
        inner = 2 * (0.5 - q - a * p)  # E[xi^2; |xi| < alpha]
        first = np.where(negative, 2 * (p - a * q), 4 * (density(0.0) - p) + 2 * (p + a * q))
        outer = 2 * (q + a * p) + np.where(negative, -4, 4) * a * p + 2 * a**2 * q
        return s * first, s**2 * np.where(negative, outer, outer + 4 * inner)

    def error(self) -> Floats:
        """P(f <= 0), what is exactly 0 counted half: Gil-Pelaez' integral, its atom at 0 taken apart."""
        return self._chance_of(self.on_signal)

    def stays_within(self, margin: ArrayLike) -> Floats:
        """P(|sum_i S_i| < margin)."""
        return 1 - 2 * self._chance_of(np.asarray(margin, dtype=np.float64))

    def _chance_of(self, level: Floats) -> Floats:
        """P(sum_i S_i > level >= 0), half of an atom there included; the sum is symmetric.

        |S_i| <= 2 s |xi| makes it at most exp(-level^2 / (8 k s^2)) and, for b < 0, Chernoff's bound at 1 / s at most
        exp(1.8 k P(|xi| > alpha) - level / s): below 1e-16 it is 0 for our purposes.
        """
        out = np.empty(self.signal.shape)
        none = np.where(self.bias < 0, (1 - self.passing) ** self.patches, 0.0)
        spread = np.sqrt(self.patches * self.moments()[1]) / self.deviation
        reaches = np.broadcast_to(level, out.shape) / self.deviation
        for place in np.ndindex(out.shape):  # one at a time: the grid is long
            reach, apart = float(reaches[place]), float(none[place])
            passing, negative = self.patches * float(self.passing[place]), bool(self.bias[place] < 0)
            most = 17.2 * sqrt(self.patches)
            if abs(reach) > (min(most, 1.8 * passing + 37) if negative else most):
                out[place] = float(reach < 0)
                continue
            many = passing > _MANY
            root, weights = _unit_grid(_SUM_NODES)
            end = min(_SUM_END, _SUM_WIDTHS / float(spread[place])) if many else _SUM_END
            tau = end * root**2
            whole = _transform(tau, float(self.alpha[place]), negative)[0] ** self.patches - apart
            integral = float((2 * weights / root) @ (np.sin(tau * reach) * whole)) / np.pi
            out[place] = 0.5 - np.sign(reach) * apart / 2 - integral
        return np.clip(out, 0.0, 1.0)

    def gradients(self) -> "Gradients":
        """Those of the mean logistic loss, and the mean slope."""
        root, weights = _unit_grid(_SLOPE_NODES)
        t, weights = _SLOPE_END * root**2, 2 * _SLOPE_END * root * weights
        s, g = self.deviation[..., None], self.on_signal[..., None]
        whole, signs, fields = _transforms(t * s, self.alpha, self.bias < 0)
        kernel = weights / np.sinh(np.pi * t)
        slope = 0.5 - (np.sin(t * g) * whole**self.patches) @ kernel
        others = np.cos(t * g) * whole ** (self.patches - 1)
        push = self.patches * (others * signs) @ kernel
        # Along w / |w|, over |w|: the same for both parts of w.
        shrink = self.patches * self.sigma**2 * ((others * fields) @ kernel) / self.deviation
        c, b = self.signal, self.bias
        seen = (c > -b).astype(np.float64) + (-c > -b)
        passed = np.sign(c) * (np.abs(c) > np.abs(b))
        return Gradients(c * shrink - slope * seen, self.rest * shrink, push - slope * passed, slope)


@dataclass(frozen=True)
class Gradients:
    """Derivatives of E log(1 + exp(-y f)) by c, by v and by b, and the mean slope E sigmoid(-y f)."""

    signal: Floats
    rest: Floats
    bias: Floats
    slope: Floats


@cache
def _unit_grid(num: int) -> tuple[Floats, Floats]:
    """Nodes in (0, 1) and weights: Gauss-Legendre of 20 nodes on each of num / 20 equal pieces."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    pieces = num // 20
    left = np.arange(pieces)[:, None] / pieces
    return (left + (nodes + 1) / (2 * pieces)).ravel(), np.tile(weights / (2 * pieces), pieces)


def _beyond(tau: Floats, alpha: Any) -> Any:
    """int_0^inf phi(alpha + y) exp(i tau y) dy."""
    from scipy.special import wofz

    return density(alpha) * sqrt(np.pi / 2) * wofz((tau + 1j * alpha) / sqrt(2))


def _transform(tau: Floats, alpha: Any, negative: bool) -> tuple[Floats, Floats, Floats]:
    """E cos(tau S), E[sin(tau S) sign(xi); |xi| > alpha] and E[sin(tau S) xi ind] of S / s.

    ind is 1 where |xi| > alpha, else 2 for b > 0 and 0 for b < 0: the derivative of S by s xi. By parts,
    int_0^inf (alpha + y) phi(alpha + y) exp(i tau y) dy = phi(alpha) + i tau int_0^inf phi(alpha + y) exp(i tau y) dy.
    """
    outer = _beyond(tau, alpha)
    field = density(alpha) + 1j * tau * outer
    if negative:
        return 1 - 2 * tail(alpha) + 2 * outer.real, 2 * outer.imag, 2 * field.imag
    turn, double = np.exp(2j * tau * alpha), _beyond(2 * tau, alpha)
    bell = np.exp(-2 * tau**2)  # E cos(2 tau xi)
    cosines = bell - 2 * (turn * double).real + 2 * (turn * outer).real
    inner = 2 * tau * bell - 2 * (turn * (density(alpha) + 2j * tau * double)).imag
    return cosines, 2 * (turn * outer).imag, 2 * inner + 2 * (turn * field).imag


def _transforms(tau: Floats, alpha: Floats, negative: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """The same for filters of either sign, tau [..., nodes]."""
    out = np.empty((3, *tau.shape))
    for sign in (True, False):
        rows = negative == sign
        if rows.any():
            for kept, found in zip(out, _transform(tau[rows], alpha[rows][..., None], sign), strict=True):
                kept[rows] = found
    return out[0], out[1], out[2]
