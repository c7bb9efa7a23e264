"""Two-layer networks on +-1 inputs by tables of partial sums.

The d coordinates (a bias counts as one more, always +1) are cut into groups of b bits. A table holds the partial
pre-activation sum_{i in group} w_i x_i of every neuron for every pattern of the group, so that a sample's
pre-activations are one row of each table added up. A pattern and its complement differ by a sign only, so a table has
2^(b-1) rows of `width` floats and each sample a sign. Backward, the rows s = dL/df s'(z) are added to tables of the
same shape, which folding (one butterfly a bit) turns into sum_n s_n x_n, the gradient of the input layer over a.

Arrays are flat float32; `width` is padded to a multiple of 16 with zero weights.
"""

from typing import Any, NamedTuple

import numpy as np

from headstart.engines.fused.batches import Batches, Members, Shape, draw_ids
from headstart.engines.fused.compile import inlined, kernel, part
from headstart.engines.fused.layout import LABEL_BIT, flat
from headstart.engines.fused.losses import RELU, activate, loss_slope, loss_value
from headstart.engines.fused.optim import update
from headstart.engines.fused.random import packed_signs
from headstart.engines.fused.simd import add, fma, larger, load, mul, splat, store, total, where_above
from headstart.engines.fused.tables import CHUNK, build_tables, fold_tables, locate, parities

# Samples that go forward before they go backward.
BLOCK = 8
_f = np.float32
_ZERO, _ONE = _f(0), _f(1)
# Counts as one more coordinate of the support: set where a stored sample's label is not the parity of its inputs.
_LABEL = np.uint64(1) << np.uint64(LABEL_BIT)


class Scratch(NamedTuple):
    """Buffers of one call, reused by every member and step."""

    groups: Any  # int64[num, 3]: first bit, number of bits, first element of the table
    tables: Any  # float32: partial pre-activations
    grads: Any  # float32: the gradient tables
    gradient: Any  # float32[coordinates, width]
    readout: Any  # float32[width]: the readout's gradient
    z: Any  # float32[BLOCK, width]
    slope: Any  # float32[BLOCK, width]
    rows: Any  # int64[groups, CHUNK]
    signs: Any  # float32[groups, CHUNK]
    labels: Any  # float32[CHUNK]
    outputs: Any  # float32[CHUNK]
    ids: Any  # int64[batch]
    words: Any  # uint64[batch]
    lanes: Any  # uint64[4 batch]
    keys: Any  # uint64[8]


def scratch(shape: Shape, batch: int) -> Scratch:
    """New buffers. Groups are at most 6 bits, a multiple of four of them, as even as can be."""
    coordinates, padded = shape.dim + shape.bias, -(-batch // CHUNK) * CHUNK
    num = 4 * -(-coordinates // 24)
    sizes = [coordinates // num + (g < coordinates % num) for g in range(num)]
    groups, bit, element = [], 0, 0
    for size in sizes:
        groups.append((bit, size, element))
        # Sixteen floats between tables: rows 4096 bytes apart would collide in the store buffer.
        bit, element = bit + size, element + shape.width * 2 ** max(size - 1, 0) + 16

    return Scratch(
        groups=np.array(groups, dtype=np.int64),
        tables=flat(element),
        grads=flat(element),
        gradient=flat(coordinates, shape.width),
        readout=flat(shape.width),
        z=flat(BLOCK, shape.width),
        slope=flat(BLOCK, shape.width),
        rows=np.zeros(num * CHUNK, dtype=np.int64),
        signs=flat(num, CHUNK),
        labels=flat(CHUNK),
        outputs=flat(CHUNK),
        ids=np.zeros(padded, dtype=np.int64),
        words=np.zeros(padded, dtype=np.uint64),
        lanes=np.zeros(4 * padded, dtype=np.uint64),
        keys=np.zeros(8, dtype=np.uint64),
    )


@inlined
def four_rows(s: Any, g: Any, n: Any) -> Any:
    """The table rows and signs of groups g .. g + 3 of sample n."""
    i = g * CHUNK + n
    return (
        s.rows[i],
        s.rows[i + CHUNK],
        s.rows[i + 2 * CHUNK],
        s.rows[i + 3 * CHUNK],
        splat(s.signs[i]),
        splat(s.signs[i + CHUNK]),
        splat(s.signs[i + 2 * CHUNK]),
        splat(s.signs[i + 3 * CHUNK]),
    )


@inlined
def row_sum(tables: Any, four: Any, j: Any) -> Any:
    """The sum of four signed rows, eight neurons from j on."""
    r0, r1, r2, r3, s0, s1, s2, s3 = four
    one = fma(s1, load(tables, r1 + j), mul(s0, load(tables, r0 + j)))
    return add(one, fma(s3, load(tables, r3 + j), mul(s2, load(tables, r2 + j))))


@inlined
def pre_activations(s: Any, n: Any, width: Any, at: Any) -> None:
    """z[at : at + width] = the pre-activations of sample n."""
    four = four_rows(s, 0, n)
    for j in range(0, width, 8):
        store(s.z, at + j, row_sum(s.tables, four, j))
    for g in range(4, s.groups.shape[0], 4):
        four = four_rows(s, g, n)
        for j in range(0, width, 8):
            store(s.z, at + j, add(load(s.z, at + j), row_sum(s.tables, four, j)))


@inlined
def relu_output(s: Any, n: Any, width: Any, at: Any, w: Any, a: Any) -> Any:
    """a . max(z, 0) of sample n in one sweep, where there are four groups; leaves z[at : at + width]."""
    four, zero = four_rows(s, 0, n), splat(_ZERO)
    out, more = zero, zero
    for j in range(0, width, 16):
        one, two = row_sum(s.tables, four, j), row_sum(s.tables, four, j + 8)
        store(s.z, at + j, one)
        store(s.z, at + j + 8, two)
        out = fma(load(w, a + j), larger(zero, one), out)
        more = fma(load(w, a + j + 8), larger(zero, two), more)
    return total(add(out, more))


@inlined
def relu_readout(s: Any, width: Any, at: Any, w: Any, a: Any) -> Any:
    """a . max(z, 0) of the pre-activations at z[at :], with the readout at w[a :]."""
    zero = splat(_ZERO)
    out, more = zero, zero
    for j in range(0, width, 16):
        out = fma(load(w, a + j), larger(zero, load(s.z, at + j)), out)
        more = fma(load(w, a + j + 8), larger(zero, load(s.z, at + j + 8)), more)
    return total(add(out, more))


@inlined
def readout(s: Any, width: Any, at: Any, w: Any, a: Any) -> Any:
    """a . h of the activations at z[at :]."""
    out = splat(_ZERO)
    for j in range(0, width, 8):
        out = fma(load(w, a + j), load(s.z, at + j), out)
    return total(out)


@inlined
def scatter(s: Any, g: Any, n: Any, width: Any, at: Any, r: Any, relu: Any) -> None:
    """Add r s'(z) to the gradient rows of groups g .. g + 3 of sample n; s' is in slope[at :], or the sign of z."""
    r0, r1, r2, r3, s0, s1, s2, s3 = four_rows(s, g, n)
    zero, r8 = splat(_ZERO), splat(r)
    for j in range(0, width, 8):
        v = where_above(load(s.z, at + j), zero, r8) if relu else mul(r8, load(s.slope, at + j))
        store(s.grads, r0 + j, fma(s0, v, load(s.grads, r0 + j)))
        store(s.grads, r1 + j, fma(s1, v, load(s.grads, r1 + j)))
        store(s.grads, r2 + j, fma(s2, v, load(s.grads, r2 + j)))
        store(s.grads, r3 + j, fma(s3, v, load(s.grads, r3 + j)))


@part
def outputs(shape: Shape, w: Any, a: Any, c: Any, num: Any, s: Scratch) -> None:
    """f of the `num` samples located, without a backward pass."""
    if shape.activation == RELU and s.groups.shape[0] == 4:
        for n in range(num):
            s.outputs[n] = c + relu_output(s, n, shape.width, 0, w, a)
        return
    for n in range(num):
        pre_activations(s, n, shape.width, 0)
        if shape.activation == RELU:
            s.outputs[n] = c + relu_readout(s, shape.width, 0, w, a)
        else:
            activate(shape.activation, s.z, s.slope, 0, shape.width)
            s.outputs[n] = c + readout(s, shape.width, 0, w, a)


@part
def accumulate_relu(shape: Shape, w: Any, a: Any, c: Any, scale: Any, num: Any, s: Scratch) -> Any:
    """Forward and backward over the `num` samples located; returns the sum of dL/df."""
    width, num_groups = shape.width, s.groups.shape[0]
    bias_gradient = _ZERO
    for block in range(0, num, BLOCK):
        stop = min(BLOCK, num - block)
        for i in range(stop):
            n, at = block + i, i * width
            if num_groups == 4:
                f = c + relu_output(s, n, width, at, w, a)
            else:
                pre_activations(s, n, width, at)
                f = c + relu_readout(s, width, at, w, a)
            s.outputs[n] = scale * loss_slope(shape.loss, f, s.labels[n])
        for i in range(stop):
            n, at = block + i, i * width
            for g in range(0, num_groups, 4):
                scatter(s, g, n, width, at, s.outputs[n], True)
            bias_gradient += s.outputs[n]
    return bias_gradient


@part
def accumulate(shape: Shape, w: Any, a: Any, c: Any, scale: Any, num: Any, s: Scratch) -> Any:
    """The same for any activation; also adds dL/df h to the readout's gradient."""
    width, num_groups = shape.width, s.groups.shape[0]
    bias_gradient = _ZERO
    for block in range(0, num, BLOCK):
        stop = min(BLOCK, num - block)
        for i in range(stop):
            pre_activations(s, block + i, width, i * width)
        activate(shape.activation, s.z, s.slope, 0, stop * width)
        for i in range(stop):
            n, at = block + i, i * width
            f = c + readout(s, width, at, w, a)
            r = scale * loss_slope(shape.loss, f, s.labels[n])
            r8 = splat(r)
            for j in range(0, width, 8):
                store(s.readout, j, fma(r8, load(s.z, at + j), load(s.readout, j)))
            for g in range(0, num_groups, 4):
                scatter(s, g, n, width, at, r, False)
            bias_gradient += r
    return bias_gradient


@part
def apply(shape: Shape, members: Members, m: Any, bias_gradient: Any, time: Any, s: Scratch) -> None:
    """The optimizer step from s.gradient = sum_n r_n s'(z_n) x_n, r = dL/df, and s.readout = sum_n r_n s(z_n).

    ReLU is homogeneous, sum_n r_n max(z_n, 0) = w . sum_n r_n 1[z_n > 0] x_n, so its s.readout is made here.
    """
    w, width, offsets = members.weights[m], shape.width, members.offsets
    coordinates = shape.dim + shape.bias
    a = coordinates * width
    for j in range(0, width, 8):
        acc, readout8 = splat(_ZERO), load(w, a + j)
        for i in range(coordinates):
            row = load(s.gradient, i * width + j)
            acc = fma(row, load(w, i * width + j), acc)
            store(s.gradient, i * width + j, mul(readout8, row))
        if shape.activation == RELU:
            store(s.readout, j, acc)
    rates, adam, kind = members.rates[m], members.adam[m], shape.optimizer
    first, second = members.first[m], members.second[m]
    p, dim = 0, shape.dim
    update(kind, w, s.gradient, first, second, 0, dim * width, rates[p], adam, time)
    if shape.bias:
        p += 1
        update(kind, w, s.gradient[dim * width :], first, second, offsets[p], width, rates[p], adam, time)
    # The padding of the readout stays zero, although a padded neuron may be active: a sigmoid is 1/2 at 0.
    update(kind, w, s.readout, first, second, offsets[p + 1], shape.neurons, rates[p + 1], adam, time)
    if shape.bias:
        s.readout[0] = bias_gradient
        update(kind, w, s.readout, first, second, offsets[p + 2], 1, rates[p + 2], adam, time)


@part
def descend(shape: Shape, members: Members, m: Any, words: Any, num: Any, time: Any, s: Scratch) -> None:
    """One optimizer step of member m on the mean loss of `num` packed samples."""
    w, width = members.weights[m], shape.width
    a = (shape.dim + shape.bias) * width
    c = w[a + width] if shape.bias else _ZERO
    scale = _ONE / _f(num)
    build_tables(w, 0, width, s.groups, s.tables)
    s.grads[:] = _ZERO
    s.readout[:] = _ZERO
    bias_gradient = _ZERO
    for start in range(0, num, CHUNK):
        count = min(CHUNK, num - start)
        locate(words, start, count, s.groups, width, s.rows, s.signs)
        parities(words, start, count, shape.support | _LABEL, s.labels)
        if shape.activation == RELU:
            bias_gradient += accumulate_relu(shape, w, a, c, scale, count, s)
        else:
            bias_gradient += accumulate(shape, w, a, c, scale, count, s)
    fold_tables(s.grads, width, s.groups, s.gradient)
    apply(shape, members, m, bias_gradient, time, s)


@part
def batch_words(shape: Shape, plan: Batches, seed: Any, step: Any, pool: Any, s: Scratch) -> None:
    """The packed samples of the mini-batch at `step`, in s.words."""
    draw_ids(plan, seed, step, s.ids, s.keys)
    if plan.stored:
        for n in range(plan.batch):
            s.words[n] = pool[s.ids[n] - plan.origin]
        return
    packed_signs(seed, np.uint64(2), s.ids, plan.batch, shape.dim, s.lanes, s.words)


@kernel
def advance(
    shape: Shape, members: Members, active: Any, plan: Batches, pools: Any, start: Any, stop: Any, s: Scratch
) -> None:
    """Steps start .. stop - 1 of each active member. `pools`: uint64[members, size], the samples that are stored."""
    for m in active:
        for step in range(start, stop):
            if plan.full:
                descend(shape, members, m, pools[m], plan.batch, step + 1, s)
            else:
                batch_words(shape, plan, members.seeds[m], step, pools[m], s)
                descend(shape, members, m, s.words, plan.batch, step + 1, s)


@part
def scores(shape: Shape, w: Any, words: Any, num: Any, s: Scratch) -> Any:
    """(accuracy, mean loss) over packed samples, with the tables built."""
    a = (shape.dim + shape.bias) * shape.width
    c = w[a + shape.width] if shape.bias else _ZERO
    hits, loss = 0.0, 0.0
    for start in range(0, num, CHUNK):
        count = min(CHUNK, num - start)
        locate(words, start, count, s.groups, shape.width, s.rows, s.signs)
        parities(words, start, count, shape.support | _LABEL, s.labels)
        outputs(shape, w, a, c, count, s)
        for n in range(count):
            hits += 1.0 if s.outputs[n] * s.labels[n] > _ZERO else 0.0
            loss += np.float64(loss_value(shape.loss, s.outputs[n], s.labels[n]))
    return hits / num, loss / num


@kernel
def evaluate(
    shape: Shape, members: Members, active: Any, plan: Batches, pools: Any, test: Any, step: Any, out: Any, s: Scratch
) -> None:
    """out[m] = accuracy and loss on the test set, then on the batch the next step takes. test: uint64[members, n]."""
    for m in active:
        w = members.weights[m]
        build_tables(w, 0, shape.width, s.groups, s.tables)
        out[m, 0], out[m, 1] = scores(shape, w, test[m], test.shape[1], s)
        if plan.full:
            out[m, 2], out[m, 3] = scores(shape, w, pools[m], plan.batch, s)
        else:
            batch_words(shape, plan, members.seeds[m], step, pools[m], s)
            out[m, 2], out[m, 3] = scores(shape, w, s.words, plan.batch, s)


@kernel
def fill_words(shape: Shape, seed: Any, stream: Any, first: Any, out: Any, s: Scratch) -> None:
    """The packed samples first, first + 1, ... of a stream: uint64[n]."""
    for start in range(0, len(out), CHUNK):
        count = min(CHUNK, len(out) - start)
        for n in range(count):
            s.ids[n] = first + start + n
        packed_signs(seed, stream, s.ids, count, shape.dim, s.lanes, s.words)
        for n in range(count):
            out[start + n] = s.words[n]
