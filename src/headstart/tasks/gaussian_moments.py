"""Moments of functions of a few standard normals, by points and weights: grids up to three, Sobol points above."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

# Nodes on each side of 0, where links have their kinks, for one, two and three normals; and how far they reach.
_NODES, _REACH = {1: 400, 2: 80, 3: 24}, {1: 14.0, 2: 11.0, 3: 9.0}
_SOBOL_POWER = 16

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]


@cache
def gaussian_points(num: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points float64[n, num] and weights float64[n], of sum 1, for means over N(0, I_num).

    Up to num = 3 a grid of Gauss-Legendre nodes on either side of 0, which does not mind a kink there. Above, the
    2^16 first points of Sobol's sequence in the middle of their cells, through the inverse of the normal distribution.
    """
    if num in _NODES:
        nodes, weights = leggauss(_NODES[num])
        half = _REACH[num] / 2 * (nodes + 1)
        line = np.concatenate((-half[::-1], half))
        mass = np.concatenate((weights[::-1], weights)) * np.exp(-np.square(line) / 2)
        points = np.array(list(product(line, repeat=num)))
        each = np.array(list(product(mass, repeat=num))).prod(axis=1)
        return points, each / each.sum()
    from scipy.special import ndtri
    from scipy.stats.qmc import Sobol

    cells = Sobol(num, scramble=False).random_base2(_SOBOL_POWER)
    return ndtri(cells + 2.0 ** -(_SOBOL_POWER + 1)), np.full(2**_SOBOL_POWER, 2.0**-_SOBOL_POWER)


def gaussian_variance(function: Function, num: int, scale: float = 1.0) -> float:
    """Var f(scale z) for z ~ N(0, I_num); f takes float64[n] if num is 1, else float64[n, num]. Computed once."""
    part: Any = function
    return _variance(part, num, scale)


@cache
def _variance(function: Function, num: int, scale: float) -> float:
    points, weights = gaussian_points(num)
    y = function(scale * (points[:, 0] if num == 1 else points))
    mean = float(weights @ y)
    return float(weights @ np.square(y - mean))
