"""Hermite coefficients of a function of one Gaussian number, also where it has kinks and jumps.

    h(x) = sum_k c_k He_k(x),   c_k = E[h(x) He_k(x)] / k!,   x ~ N(0, 1)

Integrals are sums of Gauss-Legendre rules on panels. A panel is halved until the function is a polynomial of low degree
on it, to rounding, or the panel is too narrow to count: a kink or a jump ends between two panels wherever it is.
"""

from collections.abc import Callable
from functools import cache
from math import exp, lgamma, sqrt

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]

MAX_DEGREE = 300  # (k!)^(1/2) is a float64 up to here
NODES = 16  # of each panel
TAIL = 4  # the last Legendre coefficients, which are nothing where the panel is narrow enough
WIDEST = 0.5  # panels begin at multiples of this, so kinks at 0, 1, ... are on an edge from the start
NEAR_END = 1e-13  # an end is looked at from inside, since h may jump there
MAX_HALVINGS = 45
MAX_OPEN = 4096  # panels that are still halved: more means a function that is rough everywhere, as float32 is
ROUNDING = 1e-13


def hermite_coefficients(link: Function, degree: int = 20) -> Floats:
    """c_k = E[h(x) He_k(x)] / k! for k = 0 .. degree, float64[degree + 1]; `link` is a Link or any callable on arrays.

    Exact to rounding for polynomials, and for functions that are smooth but for a few kinks or jumps (ReLU, sign).
    """
    return unit_coefficients(link, degree) / np.array([exp(lgamma(k + 1) / 2) for k in range(degree + 1)])


def unit_coefficients(link: Function, degree: int) -> Floats:
    """E[h(x) He_k(x)] / sqrt(k!) = c_k sqrt(k!), float64[degree + 1]; their squares sum to E[h^2]."""
    nodes, weights = gaussian_rule(link, degree)
    return unit_polynomials(nodes, degree) @ (weights * values(link, nodes))


def unit_polynomials(x: Floats, degree: int) -> Floats:
    """He_k(x) / sqrt(k!), orthonormal for N(0, 1), float64[degree + 1, n]."""
    rows = np.empty((degree + 1, len(x)))
    rows[0] = 1.0
    for k in range(degree):
        rows[k + 1] = (x * rows[k] - (sqrt(k) * rows[k - 1] if k else 0.0)) / sqrt(k + 1)
    return rows


def gaussian_rule(link: Function, degree: int = 0) -> tuple[Floats, Floats]:
    """Nodes and weights, sum_i weights_i g(nodes_i) = E[g(x)], for g = link times a polynomial up to `degree`."""
    check_count("hermite_coefficients", "degree", degree, minimum=0, maximum=MAX_DEGREE)
    reach = WIDEST * np.ceil((2 * sqrt(degree) + 10) / WIDEST)
    edges = np.arange(-reach, reach, WIDEST)
    left, width, scale = edges, np.full(len(edges), WIDEST), 0.0
    points, weights, analysis = _panel()
    done: list[tuple[Floats, Floats]] = []
    for _ in range(MAX_HALVINGS):
        h = values(link, (left[:, None] + width[:, None] * points).ravel()).reshape(len(left), NODES + 2)
        # A polynomial of unit norm times the root of the density is at most about 1, so this root is what an error
        # of h counts with.
        near = np.exp(-(np.maximum(np.maximum(left, -left - width), 0.0) ** 2) / 4)
        size = np.abs(h).max(axis=1)
        scale = max(scale, float((size * near).max()))
        tail = np.abs(h @ analysis).max(axis=1)
        rough = (tail > ROUNDING * size) & (tail * near * width > ROUNDING / 10 * scale)
        done.append((left[~rough], width[~rough]))
        left, width = left[rough], width[rough] / 2
        left, width = np.concatenate((left, left + width)), np.tile(width, 2)
        if not rough.any() or rough.sum() > MAX_OPEN:
            break
    done.append((left, width))
    left, width = (np.concatenate(part) for part in zip(*done, strict=True))
    nodes = (left[:, None] + width[:, None] * points[:NODES]).ravel()
    return nodes, (width[:, None] * weights).ravel() * np.exp(-(nodes**2) / 2) / sqrt(2 * np.pi)


@cache
def _panel() -> tuple[Floats, Floats, Floats]:
    """Nodes in [0, 1] and the two ends, the weights of the nodes, and a matrix to what is 0 for a polynomial.

    That is the last Legendre coefficients, and how far the ends are from the polynomial through the nodes: a jump
    between an end and the nearest node is seen by the end alone. [NODES + 2, TAIL + 2]
    """
    nodes, weights = legendre.leggauss(NODES)
    coefficients = (legendre.legvander(nodes, NODES - 1) * weights[:, None]) * (np.arange(NODES) + 0.5)
    ends = np.array([NEAR_END - 1, 1 - NEAR_END])
    analysis = np.zeros((NODES + 2, TAIL + 2))
    analysis[:NODES, :TAIL] = coefficients[:, -TAIL:]
    analysis[:NODES, TAIL:] = coefficients @ legendre.legvander(ends, NODES - 1).T
    analysis[NODES:, TAIL:] = -np.eye(2)
    return (np.concatenate((nodes, ends)) + 1) / 2, weights / 2, analysis


def values(link: Function, nodes: Floats) -> Floats:
    """link(nodes), checked: one finite number for each node."""
    if not callable(link):
        raise HeadstartError(f"link {link!r} is not a function; give a Link such as Relu() or a callable on arrays")
    with np.errstate(all="ignore"):
        h = np.asarray(link(nodes))
    if h.shape != nodes.shape or h.dtype.kind not in "fiub":
        raise HeadstartError(
            f"link {link!r} gives {h.dtype}{list(h.shape)} for float64{list(nodes.shape)}; it must be elementwise"
        )
    h = h.astype(np.float64)
    if not np.isfinite(h).all():
        at = nodes[~np.isfinite(h)][0]
        raise HeadstartError(f"link {link!r} is not finite at {at:.6g}; clip it or give a function that is")
    return h
