"""Expectations over any number of fields in closed form: erf(x / sqrt 2), and sums of Hermite polynomials.

A product of Hermite polynomials of Gaussian numbers with covariance C is a sum over graphs (Wick's theorem):

    E[prod_i He_k_i(x_i)] = prod_i k_i! sum_n prod_{i<j} C_ij^n_ij / n_ij! prod_i ((C_ii - 1) / 2)^n_ii / n_ii!

over whole numbers n with sum_{j != i} n_ij + 2 n_ii = k_i. With F a function of the fields and A a symmetric matrix,
E[F lbar^T A lbar] = tr(A O) E[F] + 2 d/de E_{O + e O A O}[F]: the derivatives are exact by a step in the imaginary
direction, so exact steps need no further integrals.

Reference: Online Learning and Information Exponents; Saad and Solla (1995) for erf.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from math import factorial, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.tasks import Committee, Erf, Hermite, Series
from headstart.theory.hermite import Floats
from headstart.theory.overlap_setting import Expectations, Setting, Wanted

# Covariances may be complex, for derivatives.
Numbers = NDArray[Any]
Moment2 = Callable[[Numbers, Any, Any], Numbers]
Moment3 = Callable[[Numbers, Any, Any, Any], Numbers]
Moment4 = Callable[[Numbers, Any, Any, Any, Any], Numbers]

STEP = 1e-30  # of the imaginary step: squares vanish
MAX_TERMS = 3  # of a Series: the sums have this to the fourth power


def has_closed_form(setting: Setting) -> bool:
    """Student and teacher are both erf, or both sums of a few Hermite polynomials; the teacher may be a committee."""
    teacher = setting.link.link if isinstance(setting.link, Committee) else setting.link
    if isinstance(setting.student, Erf):
        return isinstance(teacher, Erf)
    return all(isinstance(s, Hermite | Series) and len(_terms(s)) <= MAX_TERMS for s in (setting.student, teacher))


def closed_expectations(setting: Setting, covariance: Floats, wanted: Wanted) -> Expectations:
    """All expectations at the covariance O of the fields."""
    p, total = setting.num_neurons, setting.num_fields
    neurons, fields = np.arange(p), np.arange(total)
    gains, i3, hd = _moments(setting)
    pull = np.asarray((i3(covariance, neurons[:, None, None], fields[:, None], fields) * gains).sum(axis=-1))
    plain = hd(covariance, neurons[:, None], neurons)
    radial = own = cross = None
    if wanted.radial:
        radial = 2 * _slope(hd, covariance, covariance, neurons[:, None], neurons)
    if wanted.spherical:
        own, cross = np.empty((p, p)), np.empty((p, p))
        for i, j in product(range(p), repeat=2):
            one, two = covariance[:, i], covariance[:, j]
            both = (np.outer(one, two) + np.outer(two, one)) / 2
            own[i, j] = covariance[i, i] * plain[i, j] + 2 * _slope(hd, covariance, np.outer(one, one), i, j)
            cross[i, j] = covariance[i, j] * plain[i, j] + 2 * _slope(hd, covariance, both, i, j)
    return Expectations(pull[:, p:], pull[:, :p], plain, radial, own, cross)


def _moments(setting: Setting) -> tuple[Floats, Moment3, Moment2]:
    """The weight of each field's function g in the residual; E[s'_a lam_b g_c]; E[s'_a s'_b (E^2 + D)]."""
    p, k = setting.num_neurons, setting.num_directions
    gains = np.array([-b * setting.feedback for b in setting.readout] + [1 / k] * k)
    fields = np.arange(p + k)
    i3: Moment3 = erf_i3
    i4: Moment4 = erf_i4
    noise: Moment2 = erf_i2_noise
    if not isinstance(setting.student, Erf):
        teacher = setting.link.link if isinstance(setting.link, Committee) else setting.link
        i3, i4, noise = _series_moments(setting.student, teacher, p)

    def hd(c: Numbers, i: Any, j: Any) -> Numbers:
        one, two = np.asarray(i)[..., None, None], np.asarray(j)[..., None, None]
        squares = (i4(c, one, two, fields[:, None], fields) * gains[:, None] * gains).sum(axis=(-2, -1))
        return np.asarray(squares + setting.noise * noise(c, i, j))

    return gains, i3, hd


def _slope(hd: Moment2, covariance: Floats, direction: Floats, i: Any, j: Any) -> Any:
    """d/de hd at O + e direction, exactly."""
    return hd(covariance + 1j * STEP * direction, i, j).imag / STEP


def erf_i2(c: Numbers, a: Any, b: Any) -> Numbers:
    """E[s_a s_b] for s = erf(x / sqrt 2)."""
    return np.asarray(2 / pi * np.arcsin(c[a, b] / np.sqrt((1 + c[a, a]) * (1 + c[b, b]))))


def erf_i3(c: Numbers, a: Any, b: Any, e: Any) -> Numbers:
    """E[s'_a lam_b s_e]."""
    l3 = (1 + c[a, a]) * (1 + c[e, e]) - c[a, e] ** 2
    top = c[b, e] * (1 + c[a, a]) - c[a, b] * c[a, e]
    return np.asarray(2 / pi * top / ((1 + c[a, a]) * np.sqrt(l3)))


def erf_i2_noise(c: Numbers, a: Any, b: Any) -> Numbers:
    """E[s'_a s'_b]."""
    return np.asarray(2 / pi / np.sqrt((1 + c[a, a]) * (1 + c[b, b]) - c[a, b] ** 2))


def erf_i4(c: Numbers, a: Any, b: Any, e: Any, f: Any) -> Numbers:
    """E[s'_a s'_b s_e s_f]."""
    aa, bb, ab = 1 + c[a, a], 1 + c[b, b], c[a, b]
    l4 = aa * bb - ab**2

    def pair(x: Any, y: Any, xy: Numbers) -> Numbers:
        ax, ay, bx, by = c[a, x], c[a, y], c[b, x], c[b, y]
        return np.asarray(l4 * xy - bx * by * aa - ax * ay * bb + ab * ax * by + ab * ay * bx)

    l1, l2 = pair(e, e, 1 + c[e, e]), pair(f, f, 1 + c[f, f])
    return np.asarray(4 / pi**2 / np.sqrt(l4) * np.arcsin(pair(e, f, c[e, f]) / np.sqrt(l1 * l2)))


def _series_moments(student: Any, teacher: Any, num_neurons: int) -> tuple[Moment3, Moment4, Moment2]:
    """E[s'_a lam_b g_c], E[s'_a s'_b g_c g_d] and E[s'_a s'_b] for Hermite series; g is s or h* by the field."""
    own, other = _terms(student), _terms(teacher)
    slopes = {k - 1: k * value for k, value in own.items() if k}
    degrees = sorted(own | other)

    def weight(field: Any, k: int) -> Floats:
        return np.where(np.asarray(field) < num_neurons, own.get(k, 0.0), other.get(k, 0.0))

    def i3(c: Numbers, a: Any, b: Any, e: Any) -> Numbers:
        parts = (slopes[i] * weight(e, k) * wick(c, (a, b, e), (i, 1, k)) for i in slopes for k in degrees)
        return np.asarray(sum(parts))

    def i4(c: Numbers, a: Any, b: Any, e: Any, f: Any) -> Numbers:
        parts = (
            slopes[i] * slopes[j] * weight(e, k) * weight(f, n) * wick(c, (a, b, e, f), (i, j, k, n))
            for i, j, k, n in product(slopes, slopes, degrees, degrees)
        )
        return np.asarray(sum(parts))

    def noise(c: Numbers, a: Any, b: Any) -> Numbers:
        return np.asarray(sum(slopes[i] * slopes[j] * wick(c, (a, b), (i, j)) for i, j in product(slopes, slopes)))

    return i3, i4, noise


def _terms(link: Any) -> dict[int, float]:
    """The nonzero coefficients of a Hermite polynomial or series, by degree."""
    if isinstance(link, Hermite):
        return {link.degree: 1.0}
    return {k: value for k, value in enumerate(link.coefficients) if value}


def wick(c: Numbers, fields: tuple[Any, ...], degrees: tuple[int, ...]) -> Numbers:
    """E[prod_i He_degrees_i(x_fields_i)] for x ~ N(0, c); fields are index arrays that broadcast."""
    shape = np.broadcast_shapes(*(np.shape(field) for field in fields))
    total, scale = np.zeros(shape, dtype=c.dtype), float(np.prod([factorial(k) for k in degrees]))
    pairs = [(i, j) for i in range(len(fields)) for j in range(i, len(fields))]
    powers: dict[tuple[int, int, int], Numbers] = {}
    for i, j in pairs:
        edge = (c[fields[i], fields[i]] - 1) / 2 if i == j else c[fields[i], fields[j]]
        for n in range(1, min(degrees[i], degrees[j]) + 1):
            powers[i, j, n] = edge if n == 1 else powers[i, j, n - 1] * edge / n
    # On the unit sphere a loop is 0, or of first order in an imaginary step: two of them are nothing.
    loops = [powers[i, i, 1] for i in range(len(fields)) if degrees[i]]
    most = 99 if any(np.abs(loop.real).max() > 1e-14 for loop in loops) else int(np.iscomplexobj(c))
    for graph in _graphs(degrees):
        if sum(n for (i, j), n in zip(pairs, graph, strict=True) if i == j) <= most:
            term: Any = scale
            for (i, j), n in zip(pairs, graph, strict=True):
                term = term * powers[i, j, n] if n else term
            total += term
    return total


@lru_cache(maxsize=1024)
def _graphs(degrees: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All n_ij, i <= j, in the order (0, 0), (0, 1), ..., with sum_j n_ij + 2 n_ii = degrees_i."""
    return tuple(_edges(degrees, 0, 0))


def _edges(left: tuple[int, ...], i: int, j: int) -> Iterator[tuple[int, ...]]:
    """Choices for the pair (i, j) and all that follow, with the degrees that are left."""
    if i == len(left):
        yield ()
        return
    if j == len(left):
        if left[i] == 0:
            yield from _edges(left, i + 1, i + 1)
        return
    most = left[i] // 2 if i == j else min(left[i], left[j])
    for n in range(most + 1):
        after = list(left)
        after[i] -= n
        after[j] -= n
        for rest in _edges(tuple(after), i, j + 1):
            yield (n, *rest)
