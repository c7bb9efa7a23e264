"""Gradient descent on all 2^d points of parity for two-layer networks, without a row for every point.

Split x = (xb, xa): the low and high halves of the coordinates. Then w . x + b = v[xb] + u[xa], two tables of 2^(d/2)
values a neuron, and with s(x) = dL/df(x) s'(z(x)) the sums U[xa] = sum_xb s and V[xb] = sum_xa s give every gradient
of the input layer by folding. Lanes run over points, so that no sum over neurons crosses lanes.

For ReLU, max(0, u + v) = max(v, -u) + u and 1[u + v > 0] = 1[v > -u], which saves an addition each. Without biases
z(-x) = -z(x), so that f(-x) = f(x) - a . z(x) and the gate of -x is one minus that of x: half the points suffice.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headstart.core.kernels.compile import inlined, kernel
from headstart.engines.fused.batches import Members, Shape
from headstart.engines.fused.bits import Scratch as BitScratch
from headstart.engines.fused.bits import apply
from headstart.engines.fused.layout import flat
from headstart.engines.fused.losses import RELU, activate, agreement, loss_slopes, loss_value
from headstart.engines.fused.simd import add, fma, larger, load, splat, spread, store, total, where_above

# A tile is ROWS values of xa by at most COLUMNS of xb.
ROWS, COLUMNS = 4, 64
SMALLEST_DIM = 6
# Rows a power of two apart would share a few sets of the cache.
PADDING = 16
_f = np.float32
_ZERO, _ONE = _f(0), _f(1)


class Scratch(NamedTuple):
    """Buffers of one call. num_a = 2^(d // 2) values of xa, num_b = 2^(d - d // 2) of xb."""

    v: Any  # float32[neurons, num_b + PADDING]: the part of the pre-activation from xb
    u: Any  # float32[neurons, num_a + PADDING]: minus the part from xa, bias included
    sum_v: Any  # float32[neurons, num_b + PADDING]: sum of s over xa
    sum_u: Any  # float32[neurons, num_a + PADDING]: sum of s over xb
    lanes: Any  # float32[neurons, ROWS, 8]: the same for one tile row, by lane
    linear_u: Any  # float32[num_a]: a . u
    linear_v: Any  # float32[num_b]: a . v
    odd_u: Any  # float32[num_a]: sum over xb of dL/df at -x
    odd_v: Any  # float32[num_b]: sum over xa of dL/df at -x
    sign_u: Any  # float32[num_a]: the parity of xa's share of the support
    sign_v: Any  # float32[num_b]
    f: Any  # float32[ROWS, COLUMNS]: outputs, then dL/df
    minus: Any  # float32[COLUMNS]: the same at -x
    z: Any  # float32[neurons, ROWS, COLUMNS], other activations than ReLU only
    slope: Any  # float32[neurons, ROWS, COLUMNS]


def _signs(bits: int, support: int) -> NDArray[np.float32]:
    signs = np.ones(1, dtype=np.float32)
    for i in range(bits):
        signs = np.concatenate((signs, -signs if support >> i & 1 else signs))
    return signs


def scratch(shape: Shape) -> Scratch:
    """New buffers."""
    half = shape.dim // 2
    num_a, num_b, support = 2**half, 2 ** (shape.dim - half), int(shape.support)

    stored = shape.neurons if shape.activation != RELU else 0
    return Scratch(
        v=flat(shape.neurons, num_b + PADDING),
        u=flat(shape.neurons, num_a + PADDING),
        sum_v=flat(shape.neurons, num_b + PADDING),
        sum_u=flat(shape.neurons, num_a + PADDING),
        lanes=flat(shape.neurons, ROWS, 8),
        linear_u=flat(num_a),
        linear_v=flat(num_b),
        odd_u=flat(num_a),
        odd_v=flat(num_b),
        sign_u=_signs(half, support >> (shape.dim - half)),
        sign_v=_signs(shape.dim - half, support),
        f=flat(ROWS, COLUMNS),
        minus=flat(COLUMNS),
        z=flat(stored, ROWS, COLUMNS),
        slope=flat(stored, ROWS, COLUMNS),
    )


@inlined
def double(table: Any, start: Any, bits: Any, w: Any, row: Any, width: Any, sign: Any, constant: Any) -> None:
    """table[start + r] = sign * (constant + sum_i (1 - 2 bit_i(r)) w_i), w_i = w[row + i width]."""
    acc = constant
    for i in range(bits):
        acc += w[row + i * width]
    table[start] = sign * acc
    for i in range(bits):
        size = 1 << i
        step = _f(-2) * sign * w[row + i * width]
        low, high = table[start : start + size], table[start + size : start + 2 * size]
        for r in range(size):
            high[r] = low[r] + step


@inlined
def fold(table: Any, start: Any, bits: Any, gradient: Any, row: Any, width: Any, scale: Any) -> Any:
    """gradient[row + i width] += scale * sum_r (1 - 2 bit_i(r)) table[start + r]; returns the sum of the table."""
    for i in range(bits - 1, -1, -1):
        size = 1 << i
        low, high = table[start : start + size], table[start + size : start + 2 * size]
        acc = _ZERO
        for r in range(size):
            acc += low[r] - high[r]
            low[r] += high[r]
        gradient[row + i * width] += scale * acc
    return table[start]


@inlined
def build(shape: Shape, w: Any, p: Scratch) -> None:
    """The tables u and v of every neuron, and their sums weighted by the readout."""
    half = shape.dim // 2
    low, width = shape.dim - half, shape.width
    num_a, num_b = 1 << half, 1 << low
    lda, ldb = num_a + PADDING, num_b + PADDING
    a = (shape.dim + shape.bias) * width
    p.linear_u[:] = _ZERO
    p.linear_v[:] = _ZERO
    for j in range(shape.neurons):
        bias = w[shape.dim * width + j] if shape.bias else _ZERO
        double(p.v, j * ldb, low, w, j, width, _ONE, _ZERO)
        double(p.u, j * lda, half, w, low * width + j, width, -_ONE, bias)
        readout = w[a + j]
        u, v = p.u[j * lda : j * lda + num_a], p.v[j * ldb : j * ldb + num_b]
        for i in range(num_a):
            p.linear_u[i] -= readout * u[i]
        for i in range(num_b):
            p.linear_v[i] += readout * v[i]


@inlined
def relu_tile(shape: Shape, w: Any, c: Any, xa: Any, xb: Any, columns: Any, p: Scratch) -> None:
    """f of the tile: c + a . u + sum_j a_j max(v_j, -u_j)."""
    lda, ldb = len(p.linear_u) + PADDING, len(p.linear_v) + PADDING
    a = (shape.dim + shape.bias) * shape.width
    step = 16 if columns >= 16 else 8
    for col in range(0, columns, step):
        f00, f10 = splat(c + p.linear_u[xa]), splat(c + p.linear_u[xa + 1])
        f20, f30 = splat(c + p.linear_u[xa + 2]), splat(c + p.linear_u[xa + 3])
        f01, f11, f21, f31 = f00, f10, f20, f30
        second = step - 8
        for j in range(shape.neurons):
            v = j * ldb + xb + col
            v0, v1, a8 = load(p.v, v), load(p.v, v + second), spread(w, a + j)
            u0, u1 = spread(p.u, j * lda + xa), spread(p.u, j * lda + xa + 1)
            f00, f01 = fma(a8, larger(v0, u0), f00), fma(a8, larger(v1, u0), f01)
            f10, f11 = fma(a8, larger(v0, u1), f10), fma(a8, larger(v1, u1), f11)
            u2, u3 = spread(p.u, j * lda + xa + 2), spread(p.u, j * lda + xa + 3)
            f20, f21 = fma(a8, larger(v0, u2), f20), fma(a8, larger(v1, u2), f21)
            f30, f31 = fma(a8, larger(v0, u3), f30), fma(a8, larger(v1, u3), f31)
        store(p.f, col, f00)
        store(p.f, COLUMNS + col, f10)
        store(p.f, 2 * COLUMNS + col, f20)
        store(p.f, 3 * COLUMNS + col, f30)
        store(p.f, col + second, f01)
        store(p.f, COLUMNS + col + second, f11)
        store(p.f, 2 * COLUMNS + col + second, f21)
        store(p.f, 3 * COLUMNS + col + second, f31)


@inlined
def general_tile(shape: Shape, w: Any, c: Any, xa: Any, xb: Any, columns: Any, p: Scratch) -> None:
    """f of the tile for any activation; leaves s(z) in p.z and s'(z) in p.slope."""
    lda, ldb = len(p.linear_u) + PADDING, len(p.linear_v) + PADDING
    a = (shape.dim + shape.bias) * shape.width
    for j in range(shape.neurons):
        for row in range(ROWS):
            u, at = p.u[j * lda + xa + row], (j * ROWS + row) * COLUMNS
            z, v = p.z[at : at + columns], p.v[j * ldb + xb : j * ldb + xb + columns]
            for i in range(columns):
                z[i] = v[i] - u
    activate(shape.activation, p.z, p.slope, 0, shape.neurons * ROWS * COLUMNS)
    p.f[:] = c
    for j in range(shape.neurons):
        a8, at = splat(w[a + j]), j * ROWS * COLUMNS
        for i in range(0, ROWS * COLUMNS, 8):
            store(p.f, i, fma(a8, load(p.z, at + i), load(p.f, i)))


@inlined
def relu_back(shape: Shape, xb: Any, columns: Any, xa: Any, p: Scratch) -> None:
    """Add s = 1[v > -u] dL/df of the tile to sum_v and, by lane, to `lanes`."""
    lda, ldb = len(p.linear_u) + PADDING, len(p.linear_v) + PADDING
    for j in range(shape.neurons):
        u, at = j * lda + xa, j * ROWS * 8
        u0, u1, u2, u3 = spread(p.u, u), spread(p.u, u + 1), spread(p.u, u + 2), spread(p.u, u + 3)
        l0, l1 = load(p.lanes, at), load(p.lanes, at + 8)
        l2, l3 = load(p.lanes, at + 16), load(p.lanes, at + 24)
        for col in range(0, columns, 8):
            i = j * ldb + xb + col
            v = load(p.v, i)
            s0 = where_above(v, u0, load(p.f, col))
            s1 = where_above(v, u1, load(p.f, COLUMNS + col))
            s2 = where_above(v, u2, load(p.f, 2 * COLUMNS + col))
            s3 = where_above(v, u3, load(p.f, 3 * COLUMNS + col))
            l0, l1, l2, l3 = add(l0, s0), add(l1, s1), add(l2, s2), add(l3, s3)
            store(p.sum_v, i, add(load(p.sum_v, i), add(add(s0, s1), add(s2, s3))))
        store(p.lanes, at, l0)
        store(p.lanes, at + 8, l1)
        store(p.lanes, at + 16, l2)
        store(p.lanes, at + 24, l3)


@inlined
def general_back(shape: Shape, xb: Any, columns: Any, readout: Any, p: Scratch) -> None:
    """The same for any activation, from p.slope; also adds dL/df s(z) to the readout's gradient."""
    ldb = len(p.linear_v) + PADDING
    for j in range(shape.neurons):
        sums = splat(_ZERO)
        for row in range(ROWS):
            at = (j * ROWS + row) * 8
            acc = load(p.lanes, at)
            for col in range(0, columns, 8):
                i, z, r = j * ldb + xb + col, (j * ROWS + row) * COLUMNS + col, load(p.f, row * COLUMNS + col)
                s = load(p.slope, z)
                acc = fma(r, s, acc)
                store(p.sum_v, i, fma(r, s, load(p.sum_v, i)))
                sums = fma(r, load(p.z, z), sums)
            store(p.lanes, at, acc)
        readout[j] += total(sums)


@inlined
def slopes(shape: Shape, xa: Any, xb: Any, columns: Any, even: Any, scale: Any, p: Scratch) -> Any:
    """p.f <- dL/df; for ReLU without biases the sum of those at x and -x. Returns the sum over the tile."""
    total_slope, minus = 0.0, p.minus[:columns]
    signs, linears, odds = p.sign_v[xb : xb + columns], p.linear_v[xb : xb + columns], p.odd_v[xb : xb + columns]
    for row in range(ROWS):
        sign, linear = p.sign_u[xa + row], p.linear_u[xa + row]
        f = p.f[row * COLUMNS : row * COLUMNS + columns]
        if even != _ZERO:
            for i in range(columns):
                minus[i] = f[i] - linear - linears[i]
            loss_slopes(shape.loss, minus, signs, even * sign, scale)
        loss_slopes(shape.loss, f, signs, sign, scale)
        if even != _ZERO:
            odd = _ZERO
            for i in range(columns):
                odd += minus[i]
            for i in range(columns):
                odds[i] += minus[i]
            for i in range(columns):
                f[i] += minus[i]
            p.odd_u[xa + row] += odd
        acc = _ZERO
        for i in range(columns):
            acc += f[i]
        total_slope += np.float64(acc)
    return total_slope


@inlined
def evenness(shape: Shape) -> Any:
    """0 where every point must be visited; else the factor (-1)^k of the label at -x."""
    if shape.activation != RELU or shape.bias:
        return _ZERO
    v, count = shape.support, 0
    while v:
        count += 1
        v &= v - np.uint64(1)
    return _f(1 - 2 * (count & 1))


@inlined
def descend(shape: Shape, members: Members, m: Any, time: Any, s: BitScratch, p: Scratch) -> None:
    """One step of gradient descent of member m on the exact population."""
    w, width = members.weights[m], shape.width
    half = shape.dim // 2
    low, num_a, num_b = shape.dim - half, len(p.linear_u), len(p.linear_v)
    lda, ldb = num_a + PADDING, num_b + PADDING
    a = (shape.dim + shape.bias) * width
    c = w[a + width] if shape.bias else _ZERO
    even, scale = evenness(shape), _f(2.0**-shape.dim)
    build(shape, w, p)
    p.sum_v[:] = _ZERO
    p.odd_u[:] = _ZERO
    p.odd_v[:] = _ZERO
    s.gradient[:] = _ZERO
    s.readout[:] = _ZERO
    bias_gradient = 0.0
    columns = min(COLUMNS, num_b)
    rows = num_a if even == _ZERO else num_a // 2
    for xa in range(0, rows, ROWS):
        p.lanes[:] = _ZERO
        for xb in range(0, num_b, columns):
            if shape.activation == RELU:
                relu_tile(shape, w, c, xa, xb, columns, p)
                bias_gradient += slopes(shape, xa, xb, columns, even, scale, p)
                relu_back(shape, xb, columns, xa, p)
            else:
                general_tile(shape, w, c, xa, xb, columns, p)
                bias_gradient += slopes(shape, xa, xb, columns, even, scale, p)
                general_back(shape, xb, columns, s.readout, p)
        for j in range(shape.neurons):
            for row in range(ROWS):
                p.sum_u[j * lda + xa + row] = total(load(p.lanes, (j * ROWS + row) * 8))
    for j in range(shape.neurons):
        if even != _ZERO:
            # The gate of -x is one minus that of x: sum over half the points of q 1[z > 0] x - dL/df(-x) x.
            for i in range(rows):
                p.sum_u[j * lda + i] -= p.odd_u[i]
                p.sum_u[j * lda + num_a - 1 - i] = _ZERO
            for i in range(num_b):
                p.sum_v[j * ldb + i] -= p.odd_v[i]
        fold(p.sum_v, j * ldb, low, s.gradient, j, width, _ONE)
        sums = fold(p.sum_u, j * lda, half, s.gradient, low * width + j, width, _ONE)
        if shape.bias:
            s.gradient[shape.dim * width + j] = sums
    apply(shape, members, m, _f(bias_gradient), time, s)


@kernel
def advance(shape: Shape, members: Members, active: Any, start: Any, stop: Any, s: BitScratch, p: Scratch) -> None:
    """Steps start .. stop - 1 of each active member."""
    for m in active:
        for step in range(start, stop):
            descend(shape, members, m, step + 1, s, p)


@kernel
def evaluate(shape: Shape, members: Members, active: Any, out: Any, p: Scratch) -> None:
    """out[m, 2:] = accuracy and mean loss over the population."""
    num_a, num_b = len(p.linear_u), len(p.linear_v)
    a = (shape.dim + shape.bias) * shape.width
    columns = min(COLUMNS, num_b)
    for m in active:
        w = members.weights[m]
        c = w[a + shape.width] if shape.bias else _ZERO
        build(shape, w, p)
        hits, loss = 0.0, 0.0
        for xa in range(0, num_a, ROWS):
            for xb in range(0, num_b, columns):
                if shape.activation == RELU:
                    relu_tile(shape, w, c, xa, xb, columns, p)
                else:
                    general_tile(shape, w, c, xa, xb, columns, p)
                for row in range(ROWS):
                    for i in range(columns):
                        f, y = p.f[row * COLUMNS + i], p.sign_u[xa + row] * p.sign_v[xb + i]
                        hits += agreement(f * y, shape.ties)
                        loss += np.float64(loss_value(shape.loss, f, y))
        out[m, 2], out[m, 3] = hits * 2.0**-shape.dim, loss * 2.0**-shape.dim
