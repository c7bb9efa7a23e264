"""How hard a direction is to find: the information exponent of a link, and the generative one.

Reference: Online Learning and Information Exponents; for the generative exponent Damian, Pillaud-Vivien, Lee and Bruna
(2024), Computational-Statistical Gaps in Gaussian Single-Index Models.
"""

from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.theory.hermite import Floats, Function, gaussian_rule, unit_coefficients, unit_polynomials, values

Indices = NDArray[np.int64]

TOLERANCE = 1e-6  # of the standard deviation: a coefficient below it counts as none
NUM_BINS = 61  # of labels; odd, so that no edge is a centre of symmetry
REACH = 8.5  # |x| beyond it has probability 2e-17
CELLS = 2**14
MAX_HALVINGS = 40


def information_exponent(link: Function, max_degree: int = 20, tolerance: float = TOLERANCE) -> int:
    """l = min {j >= 1: E[h(x) He_j(x)] != 0}; nonzero is |c_j| sqrt(j!) > tolerance times the deviation of h."""
    check_count("information_exponent", "max_degree", max_degree)
    check_positive("information_exponent", "tolerance", tolerance)
    seen = np.flatnonzero(np.abs(shares(link, max_degree)) > tolerance)
    if not len(seen):
        raise HeadstartError(
            f"information_exponent: link {link!r} has no coefficient of degree 1 to {max_degree} above {tolerance:g} "
            "of its deviation; raise max_degree or give another link"
        )
    return int(seen[0]) + 1


def shares(link: Function, max_degree: int) -> Floats:
    """c_j sqrt(j!) / sd(h) for j = 1 .. max_degree: their squares are shares of the variance of h."""
    nodes, weights = gaussian_rule(link)
    h = values(link, nodes)
    mean = weights @ h
    deviation, size = sqrt(weights @ (h - mean) ** 2), sqrt(weights @ h**2)
    if deviation <= 1e-12 * max(size, np.finfo(np.float64).tiny):
        raise HeadstartError(f"link {link!r} is constant: there is no direction to find; give a link that varies")
    return unit_coefficients(link, max_degree)[1:] / deviation


def generative_exponent(link: Function, max_degree: int = 20, tolerance: float = TOLERANCE) -> int:
    """The least information exponent over all transformations of the label, T(y) for y = h(x).

    It is min {k >= 1: E[He_k(x) | y] is not 0 for all y}. Labels are cut into bins at quantiles; a bin is a union of
    intervals of x whose ends are found by bisection, so E[He_k(x); bin] has a closed form. Nonzero is
    (sum_bins E[He_k; bin]^2 / P(bin) / k!)^(1/2) > tolerance. Gaussian noise added to y changes nothing: it convolves
    y -> E[He_k(x); y] with a kernel whose Fourier transform has no zero.
    """
    check_count("generative_exponent", "max_degree", max_degree)
    check_positive("generative_exponent", "tolerance", tolerance)
    edges = _label_edges(link)
    at, below, above = _crossings(link, edges)
    density = np.exp(-(at**2) / 2) / sqrt(2 * np.pi)
    rows = unit_polynomials(at, max_degree)
    below_mass = np.array([(1 + erf(x / sqrt(2))) / 2 for x in at])
    last = np.searchsorted(edges, values(link, np.array([REACH])), side="right")[0]
    mass = _by_bin(below, below_mass, len(edges)) - _by_bin(above, below_mass, len(edges))
    mass[last] += 1.0
    filled = mass > 1e-12
    for k in range(1, max_degree + 1):
        # The integral of he_k times the density from u to v is [he_{k-1} density] from v to u, over sqrt(k).
        term = rows[k - 1] * density / sqrt(k)
        moment = _by_bin(above, term, len(edges)) - _by_bin(below, term, len(edges))
        if sqrt((moment[filled] ** 2 / mass[filled]).sum()) > tolerance:
            return k
    raise HeadstartError(
        f"generative_exponent: labels of link {link!r} say nothing of He_1 to He_{max_degree}; raise max_degree or "
        "give a link that varies"
    )


def _label_edges(link: Function) -> Floats:
    """Edges of the bins of labels: quantiles, moved down by a hair so that a plateau lies in one bin."""
    nodes, weights = gaussian_rule(link)
    h = values(link, nodes)
    order = np.argsort(h, kind="stable")
    quantiles = h[order][np.searchsorted(np.cumsum(weights[order]), np.arange(NUM_BINS) / NUM_BINS)]
    spread = np.ptp(h[np.abs(nodes) < REACH])
    return np.unique(quantiles - 1e-9 * spread)


def _crossings(link: Function, edges: Floats) -> tuple[Floats, Indices, Indices]:
    """Where h(x) passes from one bin of labels to another: x, the bin on its left, the bin on its right."""
    x = np.linspace(-REACH, REACH, CELLS + 1)
    bins = np.searchsorted(edges, values(link, x), side="right")
    left, right, low, high = x[:-1], x[1:], bins[:-1], bins[1:]
    for _ in range(MAX_HALVINGS):
        cut = low != high
        left, right, low, high = left[cut], right[cut], low[cut], high[cut]
        middle = (left + right) / 2
        between = np.searchsorted(edges, values(link, middle), side="right")
        left, right = np.concatenate((left, middle)), np.concatenate((middle, right))
        low, high = np.concatenate((low, between)), np.concatenate((between, high))
    cut = low != high
    return ((left + right) / 2)[cut], low[cut], high[cut]


def _by_bin(bins: Indices, amounts: Floats, num_edges: int) -> Floats:
    """The sum of amounts in each bin, float64[num_edges + 1]."""
    return np.asarray(np.bincount(bins, weights=amounts, minlength=num_edges + 1), dtype=np.float64)
