"""Kernels of `logistic`: the order of rows, SGD on a pair of logistic regressions, and their outputs."""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel, part
from headstart.core.kernels.random import permuted

# Rows that are read at a time: as many running sums as the registers of most machines hold for both of a pair.
ROWS = 4

_f = np.float32
_ONE = _f(1)


@kernel
def fill_order(seed: Any, size: Any, out: Any) -> None:
    """The ids of all mini-batches one after another, a new permutation of `size` rows every epoch: int32[n].

    They are those of the plan Fixed(size, replacement=False).
    """
    permuted(np.uint64(seed), 0, 0, len(out), size, 0, np.empty(8, dtype=np.uint64), out)


@part
def _slope(margin: Any, y: Any) -> Any:
    """The derivative of log(1 + exp(-y f)) by f."""
    return -y / (_ONE + math.exp(y * margin))


@part
def _one_row(pixels: Any, y: Any, w: Any, bias: Any, scale: Any, gradient: Any) -> Any:
    """Add the gradient of one row for one model; returns that of the bias."""
    field = _f(0)
    for j in range(len(w)):
        field += w[j] * _f(pixels[j])
    slope = _slope(field * scale + bias, y)
    for j in range(len(w)):
        gradient[j] += slope * _f(pixels[j])
    return slope


@part
def _rows_of_both(x: Any, y: Any, ids: Any, n: Any, w: Any, v: Any, biases: Any, scale: Any, g: Any, h: Any) -> Any:
    """Add the gradients of rows ids[n : n + 4] for both models, each pixel read once a pass; returns the biases'."""
    i0, i1, i2, i3 = ids[n], ids[n + 1], ids[n + 2], ids[n + 3]
    x0, x1, x2, x3 = x[i0], x[i1], x[i2], x[i3]
    a0, a1, a2, a3 = _f(0), _f(0), _f(0), _f(0)
    b0, b1, b2, b3 = _f(0), _f(0), _f(0), _f(0)
    for j in range(len(w)):
        wj, vj = w[j], v[j]
        p0, p1, p2, p3 = _f(x0[j]), _f(x1[j]), _f(x2[j]), _f(x3[j])
        a0 += wj * p0
        b0 += vj * p0
        a1 += wj * p1
        b1 += vj * p1
        a2 += wj * p2
        b2 += vj * p2
        a3 += wj * p3
        b3 += vj * p3
    c, d = biases[0], biases[1]
    a0, b0 = _slope(a0 * scale + c, y[i0]), _slope(b0 * scale + d, y[i0])
    a1, b1 = _slope(a1 * scale + c, y[i1]), _slope(b1 * scale + d, y[i1])
    a2, b2 = _slope(a2 * scale + c, y[i2]), _slope(b2 * scale + d, y[i2])
    a3, b3 = _slope(a3 * scale + c, y[i3]), _slope(b3 * scale + d, y[i3])
    for j in range(len(w)):
        p0, p1, p2, p3 = _f(x0[j]), _f(x1[j]), _f(x2[j]), _f(x3[j])
        g[j] += a0 * p0 + a1 * p1 + a2 * p2 + a3 * p3
        h[j] += b0 * p0 + b1 * p1 + b2 * p2 + b3 * p3
    return a0 + a1 + a2 + a3, b0 + b1 + b2 + b3


@kernel
def advance(
    x: Any,
    y: Any,
    order: Any,
    first: Any,
    last: Any,
    batch: Any,
    place: Any,
    rate: Any,
    scale: Any,
    w: Any,
    biases: Any,
) -> None:
    """Steps first .. last - 1 of SGD on the mean of log(1 + exp(-y (w . x scale + bias))) of both models of a pair.

    x is uint8[m + 2, dim] and y float32[m + 2], +-1: the rows of S, then the row that S' has at `place`, then a blank
    row with y = 0, which changes nothing and fills batches. order is int32[steps * batch]. w is float32[2, dim] and
    biases float32[2], those of S and S'; both change in place. A row that both have is read once for both.
    """
    m, dim = len(y) - 2, x.shape[1]
    one, other = w[0], w[1]
    gradients = np.zeros((2, dim), dtype=np.float32)
    g, h = gradients[0], gradients[1]
    ids = np.full((batch + ROWS - 1) // ROWS * ROWS, m + 1)
    step_size = rate / _f(batch)
    for step in range(first, last):
        g[:] = _f(0)
        h[:] = _f(0)
        from_one, from_other, swapped = _f(0), _f(0), 0
        for n in range(batch):
            id = order[step * batch + n]
            if id == place:  # the row that differs: a blank here, and each model's own below
                swapped += 1
                ids[n] = m + 1
            else:
                ids[n] = id
        for n in range(0, len(ids), ROWS):
            a, b = _rows_of_both(x, y, ids, n, one, other, biases, scale, g, h)
            from_one += a
            from_other += b
        for _ in range(swapped):
            from_one += _one_row(x[place], y[place], one, biases[0], scale, g)
            from_other += _one_row(x[m], y[m], other, biases[1], scale, h)
        for j in range(dim):
            one[j] -= step_size * scale * g[j]
            other[j] -= step_size * scale * h[j]
        biases[0] -= step_size * from_one
        biases[1] -= step_size * from_other


@kernel
def outputs(x: Any, scale: Any, w: Any, biases: Any, out: Any) -> None:
    """w . x scale + bias of each row of uint8[n, dim] for both models, summed in float64: float64[2, n]."""
    for n in range(len(x)):
        row = x[n]
        a, b = 0.0, 0.0
        for j in range(w.shape[1]):
            pixel = np.float64(row[j])
            a += np.float64(w[0, j]) * pixel
            b += np.float64(w[1, j]) * pixel
        out[0, n] = a * scale + biases[0]
        out[1, n] = b * scale + biases[1]
