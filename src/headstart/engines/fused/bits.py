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

from headstart.core.kernels.compile import inlined, kernel, part, pasted
from headstart.core.kernels.random import packed_signs
from headstart.engines.fused.batches import Batches, Members, Shape, draw_ids
from headstart.engines.fused.layout import LABEL_BIT, flat
from headstart.engines.fused.losses import RELU, activate, agreement, loss_slopes, loss_value
from headstart.engines.fused.optim import update
from headstart.engines.fused.simd import (
    add,
    add_scaled,
    fma,
    lanes,
    larger,
    load,
    load_like,
    mul,
    splat,
    spread_like,
    store,
    store_positive,
    total,
    where_bits,
    zeros,
)
from headstart.engines.fused.tables import CHUNK, PANEL, REST, build_tables, fold_tables, locate, parities

_f = np.float32
_ZERO, _ONE = _f(0), _f(1)
# Counts as one more coordinate of the support: set where a stored sample's label is not the parity of its inputs.
_LABEL = np.uint64(1) << np.uint64(LABEL_BIT)


class Scratch(NamedTuple):
    """Buffers of one call, reused by every member and step. Those of a width are cut into panels of neurons."""

    groups: Any  # int64[num, 3]: first bit, number of bits, first row of the table
    tables: Any  # float32[rows, width]: partial pre-activations
    grads: Any  # float32[rows, width]: the gradient tables
    gradient: Any  # float32[coordinates, width]
    readout: Any  # float32[width]: the readout's gradient
    z: Any  # float32[PANEL]: what the groups after the first four add to pre-activations
    gates: Any  # uint8[CHUNK, width / 8]: which pre-activations are positive, for ReLU
    h: Any  # float32[CHUNK, width]: other activations
    slope: Any  # float32[CHUNK, width]: their derivatives
    rows: Any  # int64[groups, CHUNK]
    signs: Any  # float32[groups, CHUNK]
    labels: Any  # float32[CHUNK]
    partial: Any  # float32[CHUNK, 8]: outputs, not yet summed over lanes
    outputs: Any  # float32[CHUNK]: then dL/df
    ids: Any  # int64[batch]
    words: Any  # uint64[batch]
    lanes: Any  # uint64[4 batch]
    keys: Any  # uint64[8]


def scratch(shape: Shape, batch: int) -> Scratch:
    """New buffers. Groups are at most 6 bits, a multiple of four of them, as even as can be."""
    coordinates, padded = shape.dim + shape.bias, -(-batch // CHUNK) * CHUNK
    num = 4 * -(-coordinates // 24)
    smooth = (CHUNK if shape.activation != RELU else 0, shape.width)
    groups, bit, row = [], 0, 0
    for g in range(num):
        size = coordinates // num + (g < coordinates % num)
        groups.append((bit, size, row))
        bit, row = bit + size, row + 2 ** max(size - 1, 0)

    return Scratch(
        groups=np.array(groups, dtype=np.int64),
        tables=flat(row, shape.width),
        grads=flat(row, shape.width),
        gradient=flat(coordinates, shape.width),
        readout=flat(shape.width),
        z=flat(PANEL),
        gates=np.zeros(CHUNK * shape.width // 8, dtype=np.uint8),
        h=flat(*smooth),
        slope=flat(*smooth),
        rows=np.zeros(num * CHUNK, dtype=np.int64),
        signs=flat(num, CHUNK),
        labels=flat(CHUNK),
        partial=flat(CHUNK, 8),
        outputs=flat(CHUNK),
        ids=np.zeros(padded, dtype=np.int64),
        words=np.zeros(padded, dtype=np.uint64),
        lanes=np.zeros(4 * padded, dtype=np.uint64),
        keys=np.zeros(8, dtype=np.uint64),
    )


@inlined
def four_rows(s: Any, g: Any, n: Any, start: Any, ld: Any) -> Any:
    """Where the rows of groups g .. g + 3 of sample n begin in the panel at `start`, and their signs."""
    i = g * CHUNK + n
    return (
        start + s.rows[i] * ld,
        start + s.rows[i + CHUNK] * ld,
        start + s.rows[i + 2 * CHUNK] * ld,
        start + s.rows[i + 3 * CHUNK] * ld,
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
def add_groups(s: Any, n: Any, start: Any, ld: Any) -> None:
    """s.z[: ld] = what the groups after the first four add to a panel's pre-activations of sample n."""
    for g in range(4, s.groups.shape[0], 4):
        four = four_rows(s, g, n, start, ld)
        for j in range(0, ld, 8):
            z = row_sum(s.tables, four, j)
            store(s.z, j, z if g == 4 else add(z, load(s.z, j)))


@inlined
def relu_output(w: Any, a: Any, s: Any, four: Any, bits: Any, out: Any, more: Any, like: Any) -> Any:
    """out + a . max(z, 0) over a panel of one sample, eight lanes; leaves where z is positive from s.gates[bits] on."""
    zero = splat(_ZERO)
    out2 = zero
    for i in range(0, lanes(like), 16):
        z, z2 = row_sum(s.tables, four, i), row_sum(s.tables, four, i + 8)
        if more:
            z, z2 = add(z, load(s.z, i)), add(z2, load(s.z, i + 8))
        store_positive(s.gates, bits + i // 8, z)
        store_positive(s.gates, bits + i // 8 + 1, z2)
        out = fma(load(w, a + i), larger(zero, z), out)
        out2 = fma(load(w, a + i + 8), larger(zero, z2), out2)
    return add(out, out2)


@part
def relu_panel(w: Any, a: Any, j: Any, start: Any, num: Any, s: Scratch, like: Any) -> None:
    """Add a . max(z, 0) of the neurons from j on to s.partial, for `num` samples; leaves their gates."""
    ld = lanes(like)
    for n in range(num):
        four, bits, out = four_rows(s, 0, n, start, ld), (j * CHUNK + n * ld) // 8, load(s.partial, 8 * n)
        if s.groups.shape[0] == 4:
            out = relu_output(w, a + j, s, four, bits, out, False, like)
        else:
            add_groups(s, n, start, ld)
            out = relu_output(w, a + j, s, four, bits, out, True, like)
        store(s.partial, 8 * n, out)


@part
def smooth_panel(kind: Any, w: Any, a: Any, j: Any, ld: Any, start: Any, num: Any, s: Scratch) -> None:
    """The same for any activation; leaves it in s.h and its derivative in s.slope."""
    more, at = s.groups.shape[0] > 4, j * CHUNK
    for n in range(num):
        if more:
            add_groups(s, n, start, ld)
        four = four_rows(s, 0, n, start, ld)
        for i in range(0, ld, 8):
            z = row_sum(s.tables, four, i)
            store(s.h, at + n * ld + i, add(z, load(s.z, i)) if more else z)
    activate(kind, s.h, s.slope, at, num * ld)
    for n in range(num):
        out = load(s.partial, 8 * n)
        for i in range(0, ld, 8):
            out = fma(load(w, a + j + i), load(s.h, at + n * ld + i), out)
        store(s.partial, 8 * n, out)


@part
def outputs(shape: Shape, w: Any, a: Any, c: Any, num: Any, s: Scratch) -> None:
    """f of the `num` samples located; leaves what the backward pass needs."""
    s.partial[:] = _ZERO
    whole, rows = shape.width - shape.width % PANEL, len(s.tables) // shape.width
    for j in range(0, whole, PANEL):
        if shape.activation == RELU:
            relu_panel(w, a, j, rows * j, num, s, zeros(PANEL))
        else:
            smooth_panel(shape.activation, w, a, j, PANEL, rows * j, num, s)
    for j in range(whole, shape.width, REST):
        if shape.activation == RELU:
            relu_panel(w, a, j, rows * j, num, s, zeros(REST))
        else:
            smooth_panel(shape.activation, w, a, j, REST, rows * j, num, s)
    for n in range(num):
        s.outputs[n] = c + total(load(s.partial, 8 * n))


@part
def scatter_panel(shape: Shape, j: Any, num: Any, s: Scratch, zero: Any) -> None:
    """Add dL/df s'(z) of a panel to the gradient rows of `num` samples, and dL/df s(z) to the readout's gradient.

    A row at a time: stores that take turns between rows leave the core at half the rate.
    """
    ld, at, start = lanes(zero), j * CHUNK, len(s.grads) // shape.width * j
    relu, last = shape.activation == RELU, s.groups.shape[0] * CHUNK
    readout = load_like(zero, s.readout, j)
    for n in range(num):
        i, r = at + n * ld, spread_like(zero, s.outputs, n)
        if relu:
            v = where_bits(r, s.gates, i // 8)
        else:
            v = mul(r, load_like(zero, s.slope, i))
            readout = fma(r, load_like(zero, s.h, i), readout)
        for k in range(n, n + last, CHUNK):
            add_scaled(s.grads, start + s.rows[k] * ld, s.signs[k], v)
    if not relu:
        store(s.readout, j, readout)


@pasted
def apply(shape: Shape, members: Members, m: Any, bias_gradient: Any, time: Any, s: Scratch) -> None:
    """The optimizer step from s.gradient = sum_n r_n s'(z_n) x_n, r = dL/df, and s.readout = sum_n r_n s(z_n).

    ReLU is homogeneous, sum_n r_n max(z_n, 0) = w . sum_n r_n 1[z_n > 0] x_n, so its s.readout is made here.
    """
    w, width, offsets = members.weights[m], shape.width, members.offsets
    coordinates = shape.dim + shape.bias
    a = coordinates * width
    zero = zeros(REST)
    for j in range(0, width, REST):
        acc, readout = zero, load_like(zero, w, a + j)
        for i in range(j, j + coordinates * width, width):
            row = load_like(zero, s.gradient, i)
            acc = fma(row, load_like(zero, w, i), acc)
            store(s.gradient, i, mul(readout, row))
        if shape.activation == RELU:
            store(s.readout, j, acc)
    rates, adam, kind, factor = members.rates[m], members.adam[m], shape.optimizer, members.factors[time - 1]
    first, second = members.first[m], members.second[m]
    p, dim = 0, shape.dim
    # No literal numbers in these calls: numba would compile `update` anew for each.
    update(kind, w, s.gradient, first, second, offsets[p], dim * width, rates[p] * factor, adam, time)
    if shape.bias:
        p += 1
        update(kind, w, s.gradient[dim * width :], first, second, offsets[p], width, rates[p] * factor, adam, time)
    # The padding of the readout stays zero, although a padded neuron may be active: a sigmoid is 1/2 at 0.
    update(kind, w, s.readout, first, second, offsets[p + 1], shape.neurons, rates[p + 1] * factor, adam, time)
    if shape.bias:
        s.readout[0] = bias_gradient
        update(kind, w, s.readout, first, second, offsets[p + 2], shape.bias, rates[p + 2] * factor, adam, time)


@pasted
def descend(shape: Shape, members: Members, m: Any, words: Any, num: Any, time: Any, s: Scratch) -> None:
    """One optimizer step of member m on the mean loss of `num` packed samples."""
    w, width = members.weights[m], shape.width
    a = (shape.dim + shape.bias) * width
    c = w[a + width] if shape.bias else _ZERO
    scale, whole = _ONE / _f(num), width - width % PANEL
    build_tables(w, 0, width, s.groups, s.tables)
    s.grads[:] = _ZERO
    s.readout[:] = _ZERO
    bias_gradient = _ZERO
    for start in range(0, num, CHUNK):
        count = min(CHUNK, num - start)
        locate(words, start, count, s.groups, s.rows, s.signs)
        parities(words, start, count, shape.support | _LABEL, s.labels)
        outputs(shape, w, a, c, count, s)
        r = s.outputs[:count]
        loss_slopes(shape.loss, r, s.labels[:count], _ONE, scale)
        for j in range(0, whole, PANEL):
            scatter_panel(shape, j, count, s, zeros(PANEL))
        for j in range(whole, width, REST):
            scatter_panel(shape, j, count, s, zeros(REST))
        for n in range(count):
            bias_gradient += r[n]
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
            if not plan.full:
                batch_words(shape, plan, members.seeds[m], step, pools[m], s)
            descend(shape, members, m, pools[m] if plan.full else s.words, plan.batch, step + 1, s)


@pasted
def scores(shape: Shape, w: Any, words: Any, num: Any, s: Scratch) -> Any:
    """(accuracy, mean loss) over packed samples, with the tables built."""
    a = (shape.dim + shape.bias) * shape.width
    c = w[a + shape.width] if shape.bias else _ZERO
    hits, loss = 0.0, 0.0
    for start in range(0, num, CHUNK):
        count = min(CHUNK, num - start)
        locate(words, start, count, s.groups, s.rows, s.signs)
        parities(words, start, count, shape.support | _LABEL, s.labels)
        outputs(shape, w, a, c, count, s)
        for n in range(count):
            hits += agreement(s.outputs[n] * s.labels[n], shape.ties)
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
        if not plan.full:
            batch_words(shape, plan, members.seeds[m], step, pools[m], s)
        for words, num, i in ((test[m], test.shape[1], 0), (pools[m] if plan.full else s.words, plan.batch, 2)):
            out[m, i], out[m, i + 1] = scores(shape, w, words, num, s)


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
