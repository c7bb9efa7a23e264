"""Networks of any depth on dense inputs: register-blocked products over chunks of samples that stay in cache.

With W_l stored transposed, [fan_in, width], layer l is Z = H W + b; backward, D = dL/dZ gives dL/dW = H^T D and
dL/dH = D W^T. Inputs lie transposed in blocks, one row a coordinate and the targets as the last row, so that drawing
samples vectorises over them. The width is padded to a multiple of 16 with zeros, which no step changes.
"""

from typing import Any, NamedTuple

import numpy as np

from headstart.engines.fused.batches import Batches, Members, Shape, draw_ids
from headstart.engines.fused.compile import inlined, kernel, part
from headstart.engines.fused.layout import flat
from headstart.engines.fused.losses import activate, loss_slope, loss_value
from headstart.engines.fused.optim import update
from headstart.engines.fused.random import normals, philox_block
from headstart.engines.fused.simd import add, fma, load, mul, splat, spread, store, total, transpose_tile

# Samples in a block.
CHUNK = 64
# Rows of weights this long or longer lie too many bytes apart to stay in the first-level cache, and are packed.
_PACKED_WIDTH = 256
# Products go this deep at a time, so that sixteen columns of the right factor fit in the first-level cache.
_DEPTH = 256
_f = np.float32
_ZERO, _ONE, _TWO = _f(0), _f(1), _f(2)
# Typed, since numba would compile a function anew for every literal it is called with.
_FROM_ZERO, _FROM_BIAS, _ACCUMULATE = np.int64(0), np.int64(1), np.int64(2)
_START, _NEXT, _BLOCK, _PANEL = np.int64(0), np.int64(1), np.int64(CHUNK), np.int64(16)


class Scratch(NamedTuple):
    """Buffers of one call. `stride` is the distance of activation rows: no multiple of 4096 bytes."""

    stride: int
    rows: int  # the number of coordinates padded to a multiple of 4
    h: Any  # float32[layers, CHUNK, stride]: activations
    slope: Any  # float32[layers, CHUNK, stride]: their derivatives
    delta: Any  # float32[CHUNK, stride]: dL/dZ of the current layer
    back: Any  # float32[CHUNK, stride]: of the layer below
    transposed: Any  # float32[layers, width, stride]: W^T of the hidden layers
    panel: Any  # float32[_DEPTH, 16]: sixteen columns, packed
    gradient: Any  # float32: in the layout of the weights
    block: Any  # float32[blocks, rows + 1, CHUNK]: samples and targets of a mini-batch
    outputs: Any  # float32[CHUNK]
    projected: Any  # float64[CHUNK]: <w*, x>
    ids: Any  # int64[batch]
    lanes: Any  # uint64[4 CHUNK]
    some: Any  # int64[CHUNK]
    keys: Any  # uint64[8]
    support: Any  # int64[degree]: the support of a parity; empty for a single-index task
    teachers: Any  # float64[members, dim]
    variance: float


def scratch(shape: Shape, size: int, batch: int, support: Any, teachers: Any, variance: float) -> Scratch:
    """New buffers; `size` is that of the flat weights."""
    stride = shape.width + (16 if shape.width % 256 == 0 else 0)
    layers, rows = max(shape.depth - 1, 1), -(-shape.dim // 4) * 4

    return Scratch(
        stride=stride,
        rows=rows,
        h=flat(layers, CHUNK, stride),
        slope=flat(layers, CHUNK, stride),
        delta=flat(CHUNK, stride),
        back=flat(CHUNK, stride),
        transposed=flat(max(shape.depth - 2, 0), shape.width, stride),
        panel=flat(_DEPTH, 16),
        gradient=flat(size),
        block=flat(-(-batch // CHUNK), rows + 1, CHUNK),
        outputs=flat(CHUNK),
        projected=np.zeros(CHUNK),
        ids=np.zeros(-(-batch // CHUNK) * CHUNK, dtype=np.int64),
        lanes=np.zeros(4 * CHUNK, dtype=np.uint64),
        some=np.zeros(CHUNK, dtype=np.int64),
        keys=np.zeros(8, dtype=np.uint64),
        support=support,
        teachers=teachers,
        variance=variance,
    )


@part
def matmul(
    out: Any, o: Any, ldo: Any, left: Any, at: Any, lr: Any, lk: Any, right: Any, r: Any, ldr: Any,
    rows: Any, columns: Any, inner: Any, mode: Any, bias: Any, b: Any, panel: Any,
) -> None:  # fmt: skip
    """out[i, j] = start + sum_k left[i, k] right[k, j], in tiles of 4 x 16 held in registers.

    out at o with row stride ldo; left at `at` with strides (lr, lk); right at r with row stride ldr. `mode` says
    whether sums start from zero, from bias[b + j] or from out itself. rows and columns are multiples of 4 and 16.
    """
    for j in range(0, columns, 16):
        for first in range(0, inner, _DEPTH):
            depth = min(_DEPTH, inner - first)
            source, base, ld = right, r + j + first * ldr, ldr
            if ldr >= _PACKED_WIDTH:
                for k in range(depth):
                    store(panel, 16 * k, load(right, base + k * ldr))
                    store(panel, 16 * k + 8, load(right, base + k * ldr + 8))
                source, base, ld = panel, _START, _PANEL
            for i in range(0, rows, 4):
                c = o + i * ldo + j
                if mode == _ACCUMULATE or first > 0:
                    c00, c01, c10, c11 = load(out, c), load(out, c + 8), load(out, c + ldo), load(out, c + ldo + 8)
                    c20, c21 = load(out, c + 2 * ldo), load(out, c + 2 * ldo + 8)
                    c30, c31 = load(out, c + 3 * ldo), load(out, c + 3 * ldo + 8)
                else:
                    c00 = load(bias, b + j) if mode == _FROM_BIAS else splat(_ZERO)
                    c01 = load(bias, b + j + 8) if mode == _FROM_BIAS else splat(_ZERO)
                    c10, c11, c20, c21, c30, c31 = c00, c01, c00, c01, c00, c01
                a = at + i * lr + first * lk
                for k in range(depth):
                    b0, b1 = load(source, base + k * ld), load(source, base + k * ld + 8)
                    a0, a1 = spread(left, a + k * lk), spread(left, a + lr + k * lk)
                    c00, c01, c10, c11 = fma(a0, b0, c00), fma(a0, b1, c01), fma(a1, b0, c10), fma(a1, b1, c11)
                    a2, a3 = spread(left, a + 2 * lr + k * lk), spread(left, a + 3 * lr + k * lk)
                    c20, c21, c30, c31 = fma(a2, b0, c20), fma(a2, b1, c21), fma(a3, b0, c30), fma(a3, b1, c31)
                store(out, c, c00)
                store(out, c + 8, c01)
                store(out, c + ldo, c10)
                store(out, c + ldo + 8, c11)
                store(out, c + 2 * ldo, c20)
                store(out, c + 2 * ldo + 8, c21)
                store(out, c + 3 * ldo, c30)
                store(out, c + 3 * ldo + 8, c31)


@part
def forward(shape: Shape, w: Any, offsets: Any, x: Any, at: Any, rows: Any, s: Scratch) -> None:
    """s.outputs = f of the first `rows` samples of the block at x[at :]; leaves h and slope of every layer."""
    width, ld, each = shape.width, s.stride, 1 + shape.bias
    last = (shape.depth - 1) * each
    c = w[offsets[last + 1]] if shape.bias else _ZERO
    mode = _FROM_BIAS if shape.bias else _FROM_ZERO
    if shape.depth == 1:
        for n in range(rows):
            acc = c
            for i in range(shape.dim):
                acc += x[at + i * CHUNK + n] * w[i]
            s.outputs[n] = acc
        return
    for layer in range(shape.depth - 1):
        z, p = layer * CHUNK * ld, layer * each
        b = offsets[p + 1] if shape.bias else _START
        if layer == 0:
            matmul(s.h, z, ld, x, at, _NEXT, _BLOCK, w, _START, width, rows, width, shape.dim, mode, w, b, s.panel)
        else:
            below = z - CHUNK * ld
            matmul(
                s.h, z, ld, s.h, below, ld, _NEXT, w, offsets[p], width, rows, width, shape.neurons, mode, w, b, s.panel
            )
        activate(shape.activation, s.h, s.slope, z, rows * ld)
    z = (shape.depth - 2) * CHUNK * ld
    for n in range(rows):
        acc = splat(_ZERO)
        for j in range(0, width, 8):
            acc = fma(load(w, offsets[last] + j), load(s.h, z + n * ld + j), acc)
        s.outputs[n] = c + total(acc)


@inlined
def add_rows(target: Any, at: Any, rows: Any, count: Any, ld: Any, width: Any, more: Any) -> None:
    """target[at + j] = sum_n rows[n, j], or that much more."""
    for j in range(0, width, 8):
        acc = load(target, at + j) if more else splat(_ZERO)
        for n in range(count):
            acc = add(acc, load(rows, n * ld + j))
        store(target, at + j, acc)


@part
def backward(shape: Shape, w: Any, offsets: Any, x: Any, at: Any, rows: Any, more: Any, s: Scratch) -> None:
    """The gradient of sum_n r_n f_n, r = s.outputs, from the last forward pass; added to s.gradient where `more`."""
    width, ld, each = shape.width, s.stride, 1 + shape.bias
    last, mode = (shape.depth - 1) * each, _ACCUMULATE if more else _FROM_ZERO
    g = s.gradient
    if shape.bias:
        acc = g[offsets[last + 1]] if more else _ZERO
        for n in range(rows):
            acc += s.outputs[n]
        g[offsets[last + 1]] = acc
    if shape.depth == 1:
        for i in range(shape.dim):
            acc = g[i] if more else _ZERO
            for n in range(rows):
                acc += s.outputs[n] * x[at + i * CHUNK + n]
            g[i] = acc
        return
    top = (shape.depth - 2) * CHUNK * ld
    for j in range(0, width, 8):
        acc, readout = load(g, offsets[last] + j) if more else splat(_ZERO), load(w, offsets[last] + j)
        for n in range(rows):
            r, i = spread(s.outputs, n), n * ld + j
            acc = fma(r, load(s.h, top + i), acc)
            store(s.delta, i, mul(mul(r, readout), load(s.slope, top + i)))
        store(g, offsets[last] + j, acc)
    for layer in range(shape.depth - 2, -1, -1):
        p, below = layer * each, (layer - 1) * CHUNK * ld
        if shape.bias:
            add_rows(g, offsets[p + 1], s.delta, rows, ld, width, more)
        if layer == 0:
            matmul(
                g, _START, width, x, at, _BLOCK, _NEXT, s.delta, _START, ld, s.rows, width, rows, mode, g, _START,
                s.panel,
            )  # fmt: skip
        else:
            matmul(
                g, offsets[p], width, s.h, below, _NEXT, ld, s.delta, _START, ld, width, width, rows, mode, g, _START,
                s.panel,
            )  # fmt: skip
            t = (layer - 1) * width * ld
            matmul(
                s.back, _START, ld, s.delta, _START, ld, _NEXT, s.transposed, t, ld, rows, width, shape.neurons,
                _FROM_ZERO, g, _START, s.panel,
            )  # fmt: skip
            for i in range(0, rows * ld, 8):
                store(s.delta, i, mul(load(s.back, i), load(s.slope, below + i)))


@part
def transpose(shape: Shape, w: Any, offsets: Any, s: Scratch) -> None:
    """W^T of every hidden layer, for the way back."""
    width, ld = shape.width, s.stride
    for layer in range(1, shape.depth - 1):
        source, target = offsets[layer * (1 + shape.bias)], (layer - 1) * width * ld
        for i in range(0, width, 8):
            for j in range(0, width, 8):
                transpose_tile(w, source + i * width + j, width, s.transposed, target + j * ld + i, ld)


@part
def apply(shape: Shape, members: Members, m: Any, time: Any, s: Scratch) -> None:
    """The optimizer step, parameter by parameter; rows of padding stay zero."""
    each, kind, offsets = 1 + shape.bias, shape.optimizer, members.offsets
    w, first, second = members.weights[m], members.first[m], members.second[m]
    for layer in range(shape.depth):
        p = layer * each
        fan_in = shape.dim if layer == 0 else shape.neurons
        top = layer == shape.depth - 1
        size = fan_in if top else fan_in * shape.width
        rate, adam = members.rates[m, p], members.adam[m]
        update(kind, w, s.gradient[offsets[p] :], first, second, offsets[p], size, rate, adam, time)
        if shape.bias:
            size = 1 if top else shape.neurons
            rate = members.rates[m, p + 1]
            update(kind, w, s.gradient[offsets[p + 1] :], first, second, offsets[p + 1], size, rate, adam, time)


@part
def draw_signs(shape: Shape, seed: Any, stream: Any, count: Any, out: Any, at: Any, s: Scratch) -> None:
    """The +-1 coordinates of samples s.some[: count] and their parities as a block at out[at :]."""
    y = at + s.rows * CHUNK
    for lane in range((shape.dim + 127) // 128):
        for n in range(0, count, 8):
            philox_block(s.some, n, np.uint64(lane), seed, stream, s.lanes, CHUNK)
        for i in range(128 * lane, min(shape.dim, 128 * lane + 128)):
            words, shift = s.lanes[(i // 32 % 4) * CHUNK :], np.uint64(i % 32)
            row = out[at + i * CHUNK : at + (i + 1) * CHUNK]
            for n in range(count):
                row[n] = _ONE - _TWO * _f(np.int32((words[n] >> shift) & np.uint64(1)))
    for n in range(count):
        out[y + n] = _ONE
    for i in s.support:
        for n in range(count):
            out[y + n] *= out[at + i * CHUNK + n]


@part
def draw_normals(shape: Shape, seed: Any, stream: Any, m: Any, count: Any, out: Any, at: Any, s: Scratch) -> None:
    """The Gaussian coordinates of samples s.some[: count] and He_k(<w*, x>) as a block at out[at :]."""
    z, y = s.projected, at + s.rows * CHUNK
    normals(seed, stream, s.some, count, shape.dim, s.lanes, out[at:], CHUNK)
    for n in range(count):
        z[n] = 0.0
    for i in range(shape.dim):
        row, t = out[at + i * CHUNK : at + (i + 1) * CHUNK], s.teachers[m, i]
        for n in range(count):
            z[n] += np.float64(row[n]) * t
    for n in range(count):
        before, value = 1.0, z[n]
        for k in range(1, shape.degree):
            before, value = value, z[n] * value - k * before
        out[y + n] = _f(value)


@kernel
def draw_samples(shape: Shape, seed: Any, stream: Any, m: Any, ids: Any, num: Any, out: Any, s: Scratch) -> None:
    """The samples ids[: num] of member m in blocks: float32[blocks, rows + 1, CHUNK]; unused columns are zero."""
    size = (s.rows + 1) * CHUNK
    for first in range(0, num, CHUNK):
        count, at = min(CHUNK, num - first), first // CHUNK * size
        for n in range(count):
            s.some[n] = ids[first + n]
        if count < CHUNK:
            for i in range(at, at + size):
                out[i] = _ZERO
        if len(s.support):
            draw_signs(shape, seed, stream, count, out, at, s)
        else:
            draw_normals(shape, seed, stream, m, count, out, at, s)


@part
def mini_batch(shape: Shape, plan: Batches, seed: Any, m: Any, step: Any, pool: Any, s: Scratch) -> None:
    """The samples of the mini-batch at `step` in s.block: drawn, or copied from the pool they are stored in."""
    draw_ids(plan, seed, step, s.ids, s.keys)
    if not plan.stored:
        draw_samples(shape, seed, np.uint64(2), m, s.ids, plan.batch, s.block, s)
        return
    size = (s.rows + 1) * CHUNK
    for n in range(plan.batch):
        id = s.ids[n] - plan.origin
        source, target = id // CHUNK * size + id % CHUNK, n // CHUNK * size + n % CHUNK
        for i in range(0, size, CHUNK):
            s.block[target + i] = pool[source + i]


@part
def gradient(shape: Shape, w: Any, offsets: Any, x: Any, num: Any, s: Scratch) -> None:
    """s.gradient = that of the mean loss over `num` samples in blocks."""
    scale = _ONE / _f(num)
    for first in range(0, num, CHUNK):
        count, at = min(CHUNK, num - first), first // CHUNK * (s.rows + 1) * CHUNK
        rows, y = (count + 3) // 4 * 4, at + s.rows * CHUNK
        forward(shape, w, offsets, x, at, rows, s)
        for n in range(rows):
            s.outputs[n] = scale * loss_slope(shape.loss, s.outputs[n], x[y + n]) if n < count else _ZERO
        backward(shape, w, offsets, x, at, rows, first > 0, s)


@kernel
def advance(
    shape: Shape, members: Members, active: Any, plan: Batches, pools: Any, start: Any, stop: Any, s: Scratch
) -> None:
    """Steps start .. stop - 1 of each active member. `pools`: float32[members, blocks], the samples that are stored."""
    offsets = members.offsets
    for m in active:
        w, seed = members.weights[m], members.seeds[m]
        x = pools[m] if plan.full else s.block
        for step in range(start, stop):
            if not plan.full:
                mini_batch(shape, plan, seed, m, step, pools[m], s)
            transpose(shape, w, offsets, s)
            gradient(shape, w, offsets, x, plan.batch, s)
            apply(shape, members, m, step + 1, s)


@part
def scores(shape: Shape, w: Any, offsets: Any, x: Any, num: Any, s: Scratch) -> Any:
    """(mean metric, mean loss) over `num` samples in blocks."""
    metric, loss = 0.0, 0.0
    for first in range(0, num, CHUNK):
        count, at = min(CHUNK, num - first), first // CHUNK * (s.rows + 1) * CHUNK
        forward(shape, w, offsets, x, at, (count + 3) // 4 * 4, s)
        for n in range(count):
            f, y = s.outputs[n], x[at + s.rows * CHUNK + n]
            if len(s.support):
                metric += 1.0 if f * y > _ZERO else 0.0
            else:
                metric += np.float64((f - y) * (f - y) / _f(s.variance))
            loss += np.float64(loss_value(shape.loss, f, y))
    return metric / num, loss / num


@kernel
def evaluate(
    shape: Shape, members: Members, active: Any, plan: Batches, pools: Any, test: Any, num_test: Any, step: Any,
    out: Any, s: Scratch,
) -> None:  # fmt: skip
    """out[m] = metric and loss on the test set, then on the batch the next step takes."""
    for m in active:
        w, seed = members.weights[m], members.seeds[m]
        if not plan.full:
            mini_batch(shape, plan, seed, m, step, pools[m], s)
        for split in range(2):
            x = test[m] if split == 0 else pools[m] if plan.full else s.block
            num = num_test if split == 0 else plan.batch
            out[m, 2 * split], out[m, 2 * split + 1] = scores(shape, w, members.offsets, x, num, s)
