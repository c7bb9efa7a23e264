"""One neuron, one direction: every expectation is a power series in the overlap m, also for kinked activations.

With unit Hermite coefficients u_k, E[A(lam) B(lam*)] = sum_k u_k(A) u_k(B) m^k. For s = sum c_k He_k and
h* = sum c*_k He_k this gives

    phi(m) = sum_k (k+1) (k+1)! c_{k+1} c*_{k+1} m^k,   psi(m) = sum_k (k+2)! c_{k+2} c*_k m^k - E[lam s s']

(the last term for the squared error only). E[s' E z] = phi w* + psi w, so E[s' lam* E] = phi + m psi and
E[s' lam E] = m phi + psi.

Reference: Online Learning and Information Exponents, whose lemma drops the factorials.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from headstart.theory.hermite import Floats, Function, unit_coefficients
from headstart.theory.overlap_setting import Activation, Expectations, Setting

DEGREE = 200
NOTHING = 1e-17  # of the largest term: later terms are left out


@dataclass(frozen=True)
class PowerSeries:
    """sum_k terms_k m^k."""

    terms: Floats

    def __call__(self, m: Any) -> Any:
        """The sum at m, a number or an array."""
        return np.polynomial.polynomial.polyval(m, self.terms)


@dataclass(frozen=True)
class OneNeuron:
    """The series of one setting: `toward` is phi, the gradient's part along w*, and `along` psi, that along w.

    The others are the Expectations of the same names, in which `psi` is E[s' lam* E].
    """

    toward: PowerSeries
    along: PowerSeries
    psi: PowerSeries
    gf: PowerSeries
    hd: PowerSeries
    radial: PowerSeries
    own: PowerSeries

    def at(self, m: float) -> Expectations:
        """All expectations at the overlap m, on the sphere (Q = P = 1)."""
        table = {name: np.full((1, 1), getattr(self, name)(m)) for name in ("psi", "gf", "hd", "radial", "own")}
        return Expectations(**table, cross=table["own"])


@lru_cache(maxsize=256)
def one_neuron(setting: Setting) -> OneNeuron:
    """The series of a setting with p = k = 1, from Hermite coefficients up to degree 200."""
    s, (b,) = setting.student, setting.readout
    target = _elementwise(setting)
    h, h_square = _unit(target), _unit(lambda z: target(z) ** 2)
    slope, slope_square = _unit(s.slope), _unit(lambda z: s.slope(z) ** 2)
    degree = np.arange(len(h))
    # The coefficients of a derivative are sqrt(k + 1) times the next ones: E[s' h*'] and E[s'' h*].
    toward = slope[:-1] * np.sqrt(degree[1:]) * h[1:]
    along = np.sqrt(degree[1:]) * slope[1:] * h[:-1]
    raised = _unit(lambda z: z * s.slope(z))
    psi = _unit(lambda z: z * target(z)) * slope
    gf, hd = raised * h, slope_square * h_square
    radial = _radial(slope_square, h_square)
    own = _unit(lambda z: z**2 * s.slope(z) ** 2) * h_square
    ones = _one(len(h))
    if setting.feedback:
        back = _unit(lambda z: b * z * s.slope(z) * s(z))[0]
        along, gf = along - ones[:-1] * back, gf - ones * back
        psi = psi - np.roll(ones, 1) * back  # E[s' s lam*] = m E[s' s lam]
        for factor, power, other in ((-2 * b, 1, h), (b**2, 2, ones)):
            with_output = _unit(_weighted(s, power, 0))
            hd = hd + factor * with_output * other
            radial = radial + factor * _radial(with_output, other)
            own = own + factor * _unit(_weighted(s, power, 2)) * other
    if setting.noise:
        hd = hd + setting.noise * slope_square * ones
        radial = radial + setting.noise * _radial(slope_square, ones)
        own = own + setting.noise * _unit(lambda z: z**2 * s.slope(z) ** 2) * ones
    return OneNeuron(*(PowerSeries(_trim(terms)) for terms in (toward, along, psi, gf, hd, radial, own)))


def _weighted(s: Activation, power: int, squares: int) -> Function:
    """s'^2 s^power z^squares."""
    return lambda z: s.slope(z) ** 2 * s(z) ** power * z**squares


def _elementwise(setting: Setting) -> Function:
    """h* of one number, on arrays [n]."""
    return lambda z: setting.target(z[:, None])


def _unit(function: Function) -> Floats:
    return unit_coefficients(function, DEGREE)


def _one(size: int) -> Floats:
    """The coefficients of the constant 1."""
    return np.eye(1, size)[0]


def _radial(one: Floats, other: Floats) -> Floats:
    """Terms of E[A B (lbar^T O^-1 lbar - 2)] = E[lam A' B + A lam* B'], by Stein's lemma."""
    return _times_slope(one) * other + one * _times_slope(other)


def _times_slope(unit: Floats) -> Floats:
    """Unit coefficients of z A'(z): k u_k + sqrt((k+1)(k+2)) u_{k+2}, from z He_k' = k He_k + k (k-1) He_{k-2}."""
    k = np.arange(len(unit))
    above = np.concatenate((unit[2:], np.zeros(2)))
    found = k * unit + np.sqrt((k + 1) * (k + 2)) * above
    found[-2:] = 0.0  # these lack the coefficients above the highest degree
    return np.asarray(found)


def _trim(terms: Floats) -> Floats:
    """Without the terms at the end that are rounding."""
    seen = np.flatnonzero(np.abs(terms) > NOTHING * max(float(np.abs(terms).max()), 1e-300))
    return terms[: seen[-1] + 1] if len(seen) else terms[:1]
