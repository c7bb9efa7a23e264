"""Losses, activations and their slopes, elementwise and branch-free where they run over arrays.

exp is a degree-6 polynomial after reduction by ln 2 (Cody and Waite), erf the rational approximation of the Eigen
library; both are within 2 ulp of float32 over the range that matters, and vectorise.
"""

# mypy: disable-error-code="no-untyped-def,misc"
import math
from typing import Any

import numpy as np
from numba.core import types

from headstart.core.kernels.compile import exact, operation, part

MSE, HINGE, LOGISTIC, CORRELATION = 0, 1, 2, 3
RELU, GELU, SIGMOID, QUADRATIC, ERF, TANH, HE2, HE3, HE4 = range(9)
LOSSES = {"mse": MSE, "hinge": HINGE, "logistic": LOGISTIC, "correlation": CORRELATION}
ACTIVATIONS = {
    "relu": RELU,
    "gelu": GELU,
    "sigmoid": SIGMOID,
    "quadratic": QUADRATIC,
    "erf": ERF,
    "tanh": TANH,
    "he2": HE2,
    "he3": HE3,
    "he4": HE4,
}

_f = np.float32
LOG2E, LN2_HIGH, LN2_LOW = _f(1 / math.log(2)), _f(0.693359375), _f(-2.12194440e-4)
# e^r for |r| <= ln(2) / 2 is 1 + r + r^2 times this polynomial, the highest power first.
EXP = (
    _f(1.9875691500e-4),
    _f(1.3981999507e-3),
    _f(8.3334519073e-3),
    _f(4.1665795894e-2),
    _f(1.6666665459e-1),
    _f(5.0000001201e-1),
)
_LARGEST = _f(88.0)
_ROOT_HALF, _DENSITY = _f(math.sqrt(0.5)), _f(1 / math.sqrt(2 * math.pi))
_ONE, _ZERO, _TWO, _HALF, _FOUR = _f(1), _f(0), _f(2), _f(0.5), _f(4)


@operation
def float32_from_bits(typingctx, value):
    """The float32 with these bits."""

    def build(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), build


@exact
def exp(x: Any) -> Any:
    """e^x for float32, x clipped to [-88, 88]; not a number stays one."""
    x = _LARGEST if x > _LARGEST else x
    x = -_LARGEST if x < -_LARGEST else x
    n = np.floor(x * LOG2E + _HALF)
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = EXP[0]
    p = p * r + EXP[1]
    p = p * r + EXP[2]
    p = p * r + EXP[3]
    p = p * r + EXP[4]
    p = p * r + EXP[5]
    p = p * r * r + r + _ONE
    return p * float32_from_bits(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@exact
def erf(x: Any) -> Any:
    """The error function of a float32."""
    x = _FOUR if x > _FOUR else x
    x = -_FOUR if x < -_FOUR else x
    q = x * x
    p = _f(-2.72614225801306e-10)
    p = p * q + _f(2.77068142495902e-08)
    p = p * q + _f(-2.10102402082508e-06)
    p = p * q + _f(-5.69250639462346e-05)
    p = p * q + _f(-7.34990630326855e-04)
    p = p * q + _f(-2.95459980854025e-03)
    p = p * q + _f(-1.60960333262415e-02)
    d = _f(-1.45660718464996e-05)
    d = d * q + _f(-2.13374055278905e-04)
    d = d * q + _f(-1.68282697438203e-03)
    d = d * q + _f(-7.37332916720468e-03)
    d = d * q + _f(-1.42647390514189e-02)
    return x * p / d


@exact
def tanh(x: Any) -> Any:
    """The hyperbolic tangent of a float32: a polynomial near 0 (Cephes), where 1 - 2 / (1 + e^2x) would cancel."""
    q = x * x
    p = _f(-5.70498872745e-3)
    p = p * q + _f(2.06390887954e-2)
    p = p * q + _f(-5.37397155531e-2)
    p = p * q + _f(1.33314422036e-1)
    p = p * q + _f(-3.33332819422e-1)
    near, far = p * q * x + x, _ONE - _TWO / (_ONE + exp(_TWO * x))
    return near if q < _f(0.390625) else far


@part
def hermite(kind: Any, z: Any, slope: Any, num: Any) -> None:
    """The same for He_2 to He_4, as one polynomial of degree 4."""
    c0 = _f(-1) if kind == HE2 else _ZERO if kind == HE3 else _f(3)
    c1 = _f(-3) if kind == HE3 else _ZERO
    c2 = _ONE if kind == HE2 else _ZERO if kind == HE3 else _f(-6)
    c3, c4 = _ONE if kind == HE3 else _ZERO, _ONE if kind == HE4 else _ZERO
    d2, d3, d4 = _TWO * c2, _f(3) * c3, _FOUR * c4
    for i in range(num):
        x = z[i]
        slope[i] = ((d4 * x + d3) * x + d2) * x + c1
        z[i] = (((c4 * x + c3) * x + c2) * x + c1) * x + c0


@part
def activate(kind: Any, values: Any, slopes: Any, first: Any, num: Any) -> None:
    """z <- s(z) and slope <- s'(z) on [first, first + num) of flat float32 arrays, for others than ReLU."""
    z, slope = values[first : first + num], slopes[first : first + num]
    if kind == GELU:
        for i in range(num):
            share = _HALF * (_ONE + erf(z[i] * _ROOT_HALF))
            slope[i] = share + z[i] * _DENSITY * exp(-_HALF * z[i] * z[i])
            z[i] = z[i] * share
    elif kind == SIGMOID:
        for i in range(num):
            s = _ONE / (_ONE + exp(-z[i]))
            slope[i] = s * (_ONE - s)
            z[i] = s
    elif kind == QUADRATIC:
        for i in range(num):
            slope[i] = _TWO * z[i]
            z[i] = z[i] * z[i]
    elif kind == ERF:
        for i in range(num):
            slope[i] = _TWO * _DENSITY * exp(-_HALF * z[i] * z[i])
            z[i] = erf(z[i] * _ROOT_HALF)
    elif kind == TANH:
        for i in range(num):
            t = tanh(z[i])
            slope[i] = _ONE - t * t
            z[i] = t
    else:
        hermite(kind, z, slope, num)


@part
def agreement(product: Any, ties: Any) -> Any:
    """What a prediction times its label, +-1, counts in the accuracy."""
    return 1.0 if product > _ZERO else ties if product == _ZERO else 0.0


@part
def loss_value(kind: Any, f: Any, y: Any) -> Any:
    """The loss of one sample, float32 as the reference computes it."""
    if kind == MSE:
        return (f - y) * (f - y)
    if kind == HINGE:
        margin = _ONE - f * y
        return _ZERO if margin < _ZERO else margin
    if kind == LOGISTIC:
        # softplus(-y f), stable on both sides
        m = -f * y
        return _f((m if m > 0 else _ZERO) + math.log1p(math.exp(-abs(np.float64(m)))))
    return -f * y


@part
def loss_slope(kind: Any, f: Any, y: Any) -> Any:
    """d loss / d f of one sample, float32."""
    if kind == MSE:
        return _TWO * (f - y)
    if kind == HINGE:
        # torch's clip passes the gradient at the corner, where the margin is exactly 0
        return _ZERO if f * y > _ONE else -y
    if kind == LOGISTIC:
        return -y / (_ONE + exp(f * y))
    return -y


@part
def loss_slopes(kind: Any, f: Any, y: Any, sign: Any, scale: Any) -> None:
    """f <- scale dL/df with targets sign * y, over arrays: one loop a loss, so that each vectorises."""
    num = len(f)
    if kind == MSE:
        for n in range(num):
            f[n] = scale * _TWO * (f[n] - sign * y[n])
    elif kind == HINGE:
        for n in range(num):
            target = sign * y[n]
            f[n] = scale * (_ZERO if f[n] * target > _ONE else -target)
    elif kind == LOGISTIC:
        for n in range(num):
            target = sign * y[n]
            f[n] = -scale * target / (_ONE + exp(f[n] * target))
    else:
        for n in range(num):
            f[n] = -scale * sign * y[n]
