"""Links over blocks of fields inside kernels: float64, branch-free, so that LLVM makes vector instructions of them.

A link is a kind and its Hermite coefficients. A polynomial is summed by Clenshaw's rule, a block at a time for each
degree. exp is a polynomial to a power of 2, erf a polynomial times exp(-x^2): both within 1e-13 of the truth.
"""

import math
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erfcx

from headstart.core.kernels.compile import inlined, part
from headstart.theory.reduced_sgd.kernels.codes import ERF, RELU, SERIES, TANH

_SQUARINGS = 6
_EXP_TERMS = 14
# Below this e^x is 0 for our purposes: 1e-26.
_LEAST = -60.0
_SLOPE = math.sqrt(2 / math.pi)
_ROOT_HALF = math.sqrt(0.5)
_KNEE = 2.5


def _scaled_complement() -> Any:
    """erfc(x) e^(x^2) for x >= 0 as powers of t = (x - knee) / (x + knee), the highest first."""
    nodes = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    fit = chebyshev.chebfit(nodes, erfcx(_KNEE * (1 + nodes) / (1 - nodes)) * (2 / (1 - nodes)), 24)
    return chebyshev.cheb2poly(fit)[::-1].copy()


_ERFC = _scaled_complement()


@inlined
def _exp(x: Any) -> Any:
    """e^x for x <= 0: the series of e^(x / 64), squared six times."""
    y = max(x, _LEAST) * (1.0 / (1 << _SQUARINGS))
    p = 1.0
    for n in range(_EXP_TERMS, 0, -1):
        p = 1.0 + p * y / n
    for _ in range(_SQUARINGS):
        p *= p
    return p


@inlined
def _erf(x: Any, bell: Any) -> Any:
    """erf(x), given e^(-x^2)."""
    size = abs(x)
    t = (size - _KNEE) / (size + _KNEE)
    p = _ERFC[0]
    for n in range(1, len(_ERFC)):
        p = p * t + _ERFC[n]
    return math.copysign(1.0 - p * bell * (1.0 - t) / 2.0, x)


@part
def _series(coefficients: Any, z: Any, num: Any, out: Any, before: Any) -> None:
    """sum_k c_k He_k(z): b_k = c_k + z b_{k+1} - (k + 1) b_{k+2}, of which b_0 is the sum."""
    top = len(coefficients) - 1
    for i in range(num):
        out[i] = coefficients[top]
        before[i] = 0.0
    for k in range(top - 1, -1, -1):
        c, factor = coefficients[k], k + 1.0
        for i in range(num):
            now = c + z[i] * out[i] - factor * before[i]
            before[i] = out[i]
            out[i] = now


@part
def values(kind: Any, coefficients: Any, z: Any, num: Any, out: Any, spare: Any) -> None:
    """out = h(z), float64[num] each; `spare` is scratch of the same length."""
    if kind == SERIES:
        _series(coefficients, z, num, out, spare)
    elif kind == ERF:
        for i in range(num):
            out[i] = _erf(z[i] * _ROOT_HALF, _exp(-0.5 * z[i] * z[i]))
    elif kind == TANH:
        for i in range(num):
            e = _exp(-2.0 * abs(z[i]))
            out[i] = math.copysign((1.0 - e) / (1.0 + e), z[i])
    elif kind == RELU:
        for i in range(num):
            out[i] = max(z[i], 0.0)
    else:
        for i in range(num):
            out[i] = 1.0 if z[i] > 0.0 else (-1.0 if z[i] < 0.0 else 0.0)


@part
def slopes(kind: Any, derivative: Any, z: Any, num: Any, value: Any, out: Any, spare: Any) -> None:
    """out = s'(z); `value` is s(z), which tanh needs alone; `derivative` has the coefficients of a series' slope."""
    if kind == SERIES:
        _series(derivative, z, num, out, spare)
    elif kind == ERF:
        for i in range(num):
            out[i] = _SLOPE * _exp(-0.5 * z[i] * z[i])
    elif kind == TANH:
        for i in range(num):
            out[i] = 1.0 - value[i] * value[i]
    else:
        for i in range(num):
            out[i] = 1.0 if z[i] > 0.0 else 0.0
