"""Labels of Gaussian inputs from their hidden coordinates, sample by sample: drawing the inputs costs far more.

y = outer(sum_t c_t prod_r He_{n_tr}(inner(z_r))) + sqrt(noise) xi, in float64.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from headstart.core.kernels.compile import part, pasted
from headstart.engines.fused.targets import ERF, HERMITE, IDENTITY, RELU, SIGN, TANH

_f = np.float32
_ROOT_HALF = math.sqrt(0.5)


class Teacher(NamedTuple):
    """W* of each member, the target as numbers, and room for the hidden coordinates and the noise of a block."""

    rows: Any  # float64[members, directions, dim]
    degrees: Any  # int64[terms, directions]
    coefficients: Any  # float64[terms]
    inner: int
    outer: int
    degree: int  # of an outer Hermite polynomial
    root: float  # of the noise's variance
    hidden: Any  # float64[directions, block]
    noise: Any  # float32[4, block]


@part
def hermite(degree: Any, z: Any) -> Any:
    """He_n(z), by He_{k+1} = z He_k - k He_{k-1}; n is at least 1."""
    before, value = 1.0, z
    for k in range(1, degree):
        before, value = value, z * value - k * before
    return value


@part
def linked(kind: Any, degree: Any, z: Any) -> Any:
    """A link of one number."""
    if kind == ERF:
        return math.erf(z * _ROOT_HALF)
    if kind == TANH:
        return math.tanh(z)
    if kind == RELU:
        return max(z, 0.0)
    if kind == SIGN:
        return 1.0 if z > 0 else -1.0 if z < 0 else 0.0
    if kind == HERMITE:
        return hermite(degree, z)
    return z


@pasted
def project(x: Any, at: Any, stride: Any, dim: Any, count: Any, m: Any, t: Teacher) -> None:
    """t.hidden[r, n] = <w*_r, x_n> of the first `count` samples of the block at x[at :], one row a coordinate."""
    whole = dim // 2 * 2
    for r in range(t.hidden.shape[0]):
        z, teacher = t.hidden[r], t.rows[m, r]
        for n in range(count):
            z[n] = 0.0
        for i in range(0, whole, 2):
            row, w = x[at + i * stride : at + (i + 1) * stride], teacher[i]
            row2, w2 = x[at + (i + 1) * stride : at + (i + 2) * stride], teacher[i + 1]
            for n in range(count):
                z[n] += np.float64(row[n]) * w + np.float64(row2[n]) * w2
        for i in range(whole, dim):
            row = x[at + i * stride : at + (i + 1) * stride]
            for n in range(count):
                z[n] += np.float64(row[n]) * teacher[i]


@pasted
def label(noisy: Any, count: Any, out: Any, at: Any, t: Teacher) -> None:
    """out[at + n] = the label of the sample whose hidden coordinates are in t.hidden[:, n] and whose noise is xi_n."""
    root = t.root if noisy else 0.0
    if t.degrees.size == 1 and t.degrees[0, 0] and t.inner == IDENTITY and t.outer == IDENTITY:
        z, c, degree = t.hidden[0], t.coefficients[0], t.degrees[0, 0]
        for n in range(count):
            out[at + n] = _f(c * hermite(degree, z[n]) + root * np.float64(t.noise[n]))
        return
    for n in range(count):
        total = 0.0
        for k in range(len(t.coefficients)):
            term = t.coefficients[k]
            for r in range(t.hidden.shape[0]):
                if t.degrees[k, r]:
                    term *= hermite(t.degrees[k, r], linked(t.inner, 0, t.hidden[r, n]))
            total += term
        out[at + n] = _f(linked(t.outer, t.degree, total) + root * np.float64(t.noise[n]))
