"""Networks of any depth on dense inputs: register-blocked products over chunks of samples that stay in cache.

With W_l stored transposed, [fan_in, width], layer l is Z = H W + b; backward, D = dL/dZ gives dL/dW = H^T D and
dL/dH = D W^T. Inputs lie transposed in blocks, one row a coordinate and the targets as the last row, so that drawing
samples vectorises over them. The width is padded to a multiple of 16 with zeros, which no step changes.
"""

from typing import Any, NamedTuple

import numpy as np

from headstart.core.kernels.compile import inlined, kernel, part, pasted
from headstart.core.kernels.random import normals, philox_block
from headstart.engines.fused.batches import Batches, Members, Shape, draw_ids
from headstart.engines.fused.labels import Teacher, label, project
from headstart.engines.fused.layout import flat
from headstart.engines.fused.losses import RELU, activate, agreement, loss_slope, loss_value
from headstart.engines.fused.matmul import ACCUMULATE, AS_IS, DEPTH, FROM_BIAS, FROM_ZERO, RECTIFIED, matmul
from headstart.engines.fused.optim import update
from headstart.engines.fused.simd import (
    add,
    fma,
    load,
    load_like,
    mul,
    splat,
    spread_like,
    store,
    total,
    transpose_tile,
    where_positive,
    zeros,
)
from headstart.engines.fused.sphere import along_sphere, onto_sphere

# Samples in a block.
CHUNK = 64
_f = np.float32
_ZERO, _ONE, _TWO = _f(0), _f(1), _f(2)
_DATA, _NOISE = np.uint64(2), np.uint64(5)
_START, _NEXT, _BLOCK = np.int64(0), np.int64(1), np.int64(CHUNK)


class Scratch(NamedTuple):
    """Buffers of one call. `stride` is the distance of activation rows: no multiple of 4096 bytes."""

    stride: int
    rows: int  # the number of coordinates padded to a multiple of 4
    h: Any  # float32[layers, CHUNK, stride]: activations
    delta: Any  # float32[layers, CHUNK, stride]: their derivatives, but ReLU's; then dL/dZ
    back: Any  # float32[CHUNK, stride]: dL/dH of the layer below
    transposed: Any  # float32[layers, width, stride]: W^T of the hidden layers
    panel: Any  # float32[DEPTH, 16]: sixteen columns, packed
    gradient: Any  # float32: in the layout of the weights
    block: Any  # float32[rows + 1, CHUNK]: some samples and targets of a mini-batch
    outputs: Any  # float32[CHUNK]
    ids: Any  # int64[batch]
    lanes: Any  # uint64[4 CHUNK]
    some: Any  # int64[CHUNK]
    keys: Any  # uint64[8]
    columns: Any  # float64[2, width]: sums over the coordinates of each neuron
    support: Any  # int64[degree]: the support of a parity; empty for Gaussian inputs
    teacher: Any  # a Teacher, of Gaussian inputs
    variance: float


def scratch(shape: Shape, size: int, batch: int, support: Any, teacher: Teacher, variance: float) -> Scratch:
    """New buffers; `size` is that of the flat weights."""
    stride = shape.width + (16 if shape.width % 256 == 0 else 0)
    layers, rows = max(shape.depth - 1, 1), -(-shape.dim // 4) * 4

    return Scratch(
        stride=stride,
        rows=rows,
        h=flat(layers, CHUNK, stride),
        delta=flat(layers, CHUNK, stride),
        back=flat(CHUNK, stride),
        transposed=flat(max(shape.depth - 2, 0), shape.width, stride),
        panel=flat(DEPTH, 16),
        gradient=flat(size),
        block=flat(rows + 1, CHUNK),
        outputs=flat(CHUNK),
        ids=np.zeros(-(-batch // CHUNK) * CHUNK, dtype=np.int64),
        lanes=np.zeros(4 * CHUNK, dtype=np.uint64),
        some=np.zeros(CHUNK, dtype=np.int64),
        keys=np.zeros(8, dtype=np.uint64),
        columns=np.zeros((2, shape.width)),
        support=support,
        teacher=teacher,
        variance=variance,
    )


@part
def forward(shape: Shape, w: Any, offsets: Any, x: Any, at: Any, rows: Any, s: Scratch) -> None:
    """s.outputs = f of the first `rows` samples of the block at x[at :]; leaves h and slopes of every layer."""
    width, ld, each = shape.width, s.stride, 1 + shape.bias
    last = (shape.depth - 1) * each
    c = w[offsets[last + 1]] if shape.bias else _ZERO
    mode, ends = FROM_BIAS if shape.bias else FROM_ZERO, RECTIFIED if shape.activation == RELU else AS_IS
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
            matmul(
                s.h, z, ld, x, at, _NEXT, _BLOCK, w, _START, width, rows, width, shape.dim, mode, w, b, ends, s.panel
            )
        else:
            below = z - CHUNK * ld
            matmul(
                s.h, z, ld, s.h, below, ld, _NEXT, w, offsets[p], width, rows, width, shape.neurons, mode, w, b,
                ends, s.panel,
            )  # fmt: skip
        if shape.activation != RELU:
            activate(shape.activation, s.h, s.delta, z, rows * ld)
    z = (shape.depth - 2) * CHUNK * ld
    for n in range(rows):
        acc = splat(_ZERO)
        for j in range(0, width, 8):
            acc = fma(load(w, offsets[last] + j), load(s.h, z + n * ld + j), acc)
        s.outputs[n] = c + total(acc)


@inlined
def add_rows(target: Any, at: Any, rows: Any, first: Any, count: Any, ld: Any, width: Any, more: Any) -> None:
    """target[at + j] = sum_n rows[n, j], or that much more. Two sums at a time, as one would wait for itself."""
    zero = zeros(16)
    for j in range(0, width, 16):
        one, two = load_like(zero, target, at + j) if more else zero, zero
        for i in range(first + j, first + j + count * ld, 2 * ld):
            one, two = add(one, load_like(zero, rows, i)), add(two, load_like(zero, rows, i + ld))
        store(target, at + j, add(one, two))


@inlined
def sloped(activation: Any, value: Any, s: Any, i: Any) -> Any:
    """value s'(z) of the activations from i on: ReLU's slope is where they are positive."""
    if activation == RELU:
        return where_positive(load_like(value, s.h, i), value)
    return mul(value, load_like(value, s.delta, i))


@inlined
def readout_backward(shape: Shape, w: Any, g: Any, at: Any, top: Any, rows: Any, more: Any, s: Any) -> None:
    """The readout's gradient sum_n r_n h_n at g[at :], or that much more, and dL/dZ = r a s'(z) of the layer below."""
    ld, zero, activation = s.stride, zeros(16), shape.activation
    for j in range(0, shape.width, 16):
        readout = load_like(zero, w, at + j)
        one, two = load_like(zero, g, at + j) if more else zero, zero
        for n in range(0, rows, 2):
            i = top + n * ld + j
            r, r2 = spread_like(zero, s.outputs, n), spread_like(zero, s.outputs, n + 1)
            one, two = fma(r, load_like(zero, s.h, i), one), fma(r2, load_like(zero, s.h, i + ld), two)
            store(s.delta, i, sloped(activation, mul(r, readout), s, i))
            store(s.delta, i + ld, sloped(activation, mul(r2, readout), s, i + ld))
        store(g, at + j, add(one, two))


@part
def backward(shape: Shape, w: Any, offsets: Any, x: Any, at: Any, rows: Any, more: Any, s: Scratch) -> None:
    """The gradient of sum_n r_n f_n, r = s.outputs, from the last forward pass; added to s.gradient where `more`."""
    width, ld, each = shape.width, s.stride, 1 + shape.bias
    last, mode = (shape.depth - 1) * each, ACCUMULATE if more else FROM_ZERO
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
    readout_backward(shape, w, g, offsets[last], top, rows, more, s)
    for layer in range(shape.depth - 2, -1, -1):
        p, d, below = layer * each, layer * CHUNK * ld, (layer - 1) * CHUNK * ld
        if shape.bias:
            add_rows(g, offsets[p + 1], s.delta, d, rows, ld, width, more)
        if layer == 0:
            matmul(
                g, _START, width, x, at, _BLOCK, _NEXT, s.delta, d, ld, s.rows, width, rows, mode, g, _START,
                AS_IS, s.panel,
            )  # fmt: skip
        else:
            matmul(
                g, offsets[p], width, s.h, below, _NEXT, ld, s.delta, d, ld, width, width, rows, mode, g, _START,
                AS_IS, s.panel,
            )  # fmt: skip
            t = (layer - 1) * width * ld
            matmul(
                s.back, _START, ld, s.delta, d, ld, _NEXT, s.transposed, t, ld, rows, width, shape.neurons,
                FROM_ZERO, g, _START, AS_IS, s.panel,
            )  # fmt: skip
            for i in range(0, rows * ld, 8):
                store(s.delta, below + i, sloped(shape.activation, load(s.back, i), s, below + i))


@pasted
def transpose(shape: Shape, w: Any, offsets: Any, s: Scratch) -> None:
    """W^T of every hidden layer, for the way back."""
    width, ld = shape.width, s.stride
    for layer in range(1, shape.depth - 1):
        source, target = offsets[layer * (1 + shape.bias)], (layer - 1) * width * ld
        for i in range(0, width, 8):
            for j in range(0, width, 8):
                transpose_tile(w, source + i * width + j, width, s.transposed, target + j * ld + i, ld)


@pasted
def apply(shape: Shape, members: Members, m: Any, time: Any, s: Scratch) -> None:
    """The optimizer step, parameter by parameter; rows of padding stay zero."""
    each, kind, offsets = 1 + shape.bias, shape.optimizer, members.offsets
    w, first, second = members.weights[m], members.first[m], members.second[m]
    for layer in range(shape.depth):
        p = layer * each
        fan_in = shape.dim if layer == 0 else shape.neurons
        top = layer == shape.depth - 1
        size = fan_in if top else fan_in * shape.width
        rate, adam = members.rates[m, p] * members.factors[time - 1], members.adam[m]
        update(kind, w, s.gradient[offsets[p] :], first, second, offsets[p], size, rate, adam, time)
        if shape.bias:
            size = 1 if top else shape.neurons
            rate = members.rates[m, p + 1] * members.factors[time - 1]
            update(kind, w, s.gradient[offsets[p + 1] :], first, second, offsets[p + 1], size, rate, adam, time)


@pasted
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


@pasted
def draw_normals(shape: Shape, seed: Any, stream: Any, m: Any, count: Any, out: Any, at: Any, s: Scratch) -> None:
    """The Gaussian coordinates of samples s.some[: count] and their labels as a block at out[at :]."""
    noise = s.teacher.noise
    # One call in a loop, which is compiled once: the coordinates, and, of samples to train on, the noise.
    for call in range(2 if s.teacher.root > 0 and stream == _DATA else 1):
        of, num, to = (_NOISE, 1, noise[:]) if call else (stream, shape.dim, out[at:])
        normals(seed, of, s.some, count, num, to, CHUNK)
    project(out, at, CHUNK, shape.dim, count, m, s.teacher)
    label(stream == _DATA, count, out, at + s.rows * CHUNK, s.teacher)


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
def mini_batch(
    shape: Shape, plan: Batches, seed: Any, m: Any, first: Any, count: Any, pool: Any, s: Scratch
) -> None:  # fmt: skip
    """Samples first .. of the batch with ids s.ids in s.block: drawn, or copied from the pool they are stored in."""
    if not plan.stored:
        draw_samples(shape, seed, _DATA, m, s.ids[first:], count, s.block, s)
        return
    size = (s.rows + 1) * CHUNK
    for n in range(count):
        id = s.ids[first + n] - plan.origin
        source = id // CHUNK * size + id % CHUNK
        for i in range(0, size, CHUNK):
            s.block[n + i] = pool[source + i]


@pasted
def gradient(shape: Shape, plan: Batches, seed: Any, m: Any, w: Any, offsets: Any, pool: Any, s: Scratch) -> None:
    """s.gradient = that of the mean loss over the batch: the pool, or the samples s.ids, a block at a time."""
    num = plan.batch
    scale, x = _ONE / _f(num), pool if plan.full else s.block
    for first in range(0, num, CHUNK):
        count, at = min(CHUNK, num - first), first // CHUNK * (s.rows + 1) * CHUNK if plan.full else 0
        if not plan.full:
            mini_batch(shape, plan, seed, m, first, count, pool, s)
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
    for m in active:
        w, seed = members.weights[m], members.seeds[m]
        for step in range(start, stop):
            if not plan.full:
                draw_ids(plan, seed, step, s.ids, s.keys)
            transpose(shape, w, members.offsets, s)
            gradient(shape, plan, seed, m, w, members.offsets, pools[m], s)
            if shape.tangent:
                along_sphere(shape, w, s.gradient, s.columns)
            apply(shape, members, m, step + 1, s)
            if shape.radius > 0:
                onto_sphere(shape, w, s.columns)


@pasted
def scores(
    shape: Shape, plan: Batches, full: Any, seed: Any, m: Any, w: Any, offsets: Any, pool: Any, num: Any, s: Scratch
) -> Any:
    """(mean metric, mean loss) over `num` samples: those of the pool in full, or of the batch s.ids."""
    metric, loss, x = 0.0, 0.0, pool if full else s.block
    for first in range(0, num, CHUNK):
        count, at = min(CHUNK, num - first), first // CHUNK * (s.rows + 1) * CHUNK if full else 0
        if not full:
            mini_batch(shape, plan, seed, m, first, count, pool, s)
        forward(shape, w, offsets, x, at, (count + 3) // 4 * 4, s)
        for n in range(count):
            f, y = s.outputs[n], x[at + s.rows * CHUNK + n]
            if len(s.support):
                metric += agreement(f * y, shape.ties)
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
            draw_ids(plan, seed, step, s.ids, s.keys)
        for split in range(2):
            x, full = test[m] if split == 0 else pools[m], split == 0 or plan.full == 1
            num = num_test if split == 0 else plan.batch
            out[m, 2 * split], out[m, 2 * split + 1] = scores(shape, plan, full, seed, m, w, members.offsets, x, num, s)
