"""Two-layer networks on +-1 inputs by tables of partial sums.

The d coordinates (a bias counts as one more, always +1) are cut into groups of b bits. A table holds the partial
pre-activation sum_{i in group} w_i x_i of every neuron for every pattern of the group, so that a sample's
pre-activations are one row of each table added up. A pattern and its complement differ by a sign only, so a table has
2^(b-1) rows of `width` floats and each sample a sign. Backward, the rows s = dL/df s'(z) are added to tables of the
same shape, which folding (one butterfly a bit) turns into sum_n s_n x_n, the gradient of the input layer over a.

Arrays are flat float32; `width` is padded to a multiple of 16 with zero weights.
"""

from typing import Any

import numpy as np

from headstart.engines.fused.compile import kernel
from headstart.engines.fused.losses import QUADRATIC, RELU, activate, loss_slope
from headstart.engines.fused.simd import add, fma, larger, load, mul, splat, store, sub, total, where_above

# Samples whose tables rows are located at once, and samples that go forward before they go backward.
CHUNK, BLOCK = 128, 4
_f = np.float32
_ZERO = _f(0)


@kernel
def build_tables(weights: Any, base: Any, width: Any, groups: Any, tables: Any) -> None:
    """Fill the tables from the input weights [coordinates, width] at `base`.

    groups: int64[num, 3], the first bit, the number of bits and the first row of each group. Row r holds the top
    weight of the group plus (1 - 2 bit_i(r)) times the others, by doubling: T[r + 2^i] = T[r] - 2 w_i.
    """
    minus_two = splat(_f(-2))
    for g in range(groups.shape[0]):
        first, bits, start = groups[g, 0], groups[g, 1], groups[g, 2] * width
        for j in range(0, width, 8):
            acc = splat(_ZERO)
            for i in range(first, first + bits):
                acc = add(acc, load(weights, base + i * width + j))
            store(tables, start + j, acc)
        rows = 1
        for i in range(bits - 1):
            for r in range(rows):
                source, target = start + r * width, start + (r + rows) * width
                row = base + (first + i) * width
                for j in range(0, width, 8):
                    store(tables, target + j, fma(minus_two, load(weights, row + j), load(tables, source + j)))
            rows *= 2


@kernel
def fold_tables(tables: Any, width: Any, groups: Any, gradient: Any) -> None:
    """The inverse walk: gradient row i = sum_n s_n x_ni, [coordinates, width]. Leaves the tables spent."""
    for g in range(groups.shape[0]):
        first, bits, start = groups[g, 0], groups[g, 1], groups[g, 2] * width
        if bits == 0:
            continue
        rows = 1 << (bits - 1)
        for i in range(bits - 2, -1, -1):
            rows //= 2
            for j in range(0, width, 8):
                acc = splat(_ZERO)
                for r in range(rows):
                    low, high = start + r * width + j, start + (r + rows) * width + j
                    one, other = load(tables, low), load(tables, high)
                    acc = add(acc, sub(one, other))
                    store(tables, low, add(one, other))
                store(gradient, (first + i) * width + j, acc)
        for j in range(0, width, 8):
            store(gradient, (first + bits - 1) * width + j, load(tables, start + j))


@kernel
def locate(words: Any, start: Any, num: Any, groups: Any, width: Any, rows: Any, signs: Any) -> None:
    """The table row (as an element offset) and sign of each sample in each group: [groups, CHUNK]."""
    one = np.uint64(1)
    for g in range(groups.shape[0]):
        first, bits, row = np.uint64(groups[g, 0]), groups[g, 1], groups[g, 2]
        mask = (one << np.uint64(bits)) - one
        half, top = mask >> one, np.uint64(max(bits - 1, 0))
        some_rows, some_signs = rows[g * CHUNK : g * CHUNK + num], signs[g * CHUNK : g * CHUNK + num]
        some_words = words[start : start + num]
        for n in range(num):
            v = (some_words[n] >> first) & mask
            sign = v >> top
            some_rows[n] = (row + np.int64((v ^ (np.uint64(0) - sign)) & half)) * width
            some_signs[n] = _f(1) - _f(2) * _f(np.int32(sign))


@kernel
def parities(words: Any, start: Any, num: Any, support: Any, labels: Any) -> None:
    """labels[n] = the product of the support coordinates: -1 where an odd number of its bits is set."""
    some = words[start : start + num]
    for n in range(num):
        v = some[n] & support
        v ^= v >> np.uint64(32)
        v ^= v >> np.uint64(16)
        v ^= v >> np.uint64(8)
        v ^= v >> np.uint64(4)
        v ^= v >> np.uint64(2)
        v ^= v >> np.uint64(1)
        labels[n] = _f(1) - _f(2) * _f(np.int32(v & np.uint64(1)))


@kernel
def pre_activations(tables: Any, rows: Any, signs: Any, g: Any, n: Any, width: Any, z: Any, at: Any) -> None:
    """z[at : at + width] += the rows of groups g .. g + 3 of sample n; groups 0 .. 3 begin at zero."""
    r0, r1, r2, r3 = (
        rows[g * CHUNK + n],
        rows[(g + 1) * CHUNK + n],
        rows[(g + 2) * CHUNK + n],
        rows[(g + 3) * CHUNK + n],
    )
    s0, s1, s2, s3 = (
        splat(signs[g * CHUNK + n]),
        splat(signs[(g + 1) * CHUNK + n]),
        splat(signs[(g + 2) * CHUNK + n]),
        splat(signs[(g + 3) * CHUNK + n]),
    )
    for j in range(0, width, 8):
        acc = splat(_ZERO) if g == 0 else load(z, at + j)
        acc = fma(s0, load(tables, r0 + j), acc)
        acc = fma(s1, load(tables, r1 + j), acc)
        acc = fma(s2, load(tables, r2 + j), acc)
        store(z, at + j, fma(s3, load(tables, r3 + j), acc))


@kernel
def relu_output(tables: Any, rows: Any, signs: Any, g: Any, n: Any, width: Any, z: Any, at: Any, w: Any, a: Any) -> Any:
    """The last four groups, and a . max(z, 0) with the readout at w[a :]."""
    r0, r1, r2, r3 = (
        rows[g * CHUNK + n],
        rows[(g + 1) * CHUNK + n],
        rows[(g + 2) * CHUNK + n],
        rows[(g + 3) * CHUNK + n],
    )
    s0, s1, s2, s3 = (
        splat(signs[g * CHUNK + n]),
        splat(signs[(g + 1) * CHUNK + n]),
        splat(signs[(g + 2) * CHUNK + n]),
        splat(signs[(g + 3) * CHUNK + n]),
    )
    zero = splat(_ZERO)
    out, more = zero, zero
    for j in range(0, width, 16):
        one = zero if g == 0 else load(z, at + j)
        two = zero if g == 0 else load(z, at + j + 8)
        one = fma(s0, load(tables, r0 + j), one)
        two = fma(s0, load(tables, r0 + j + 8), two)
        one = fma(s1, load(tables, r1 + j), one)
        two = fma(s1, load(tables, r1 + j + 8), two)
        one = fma(s2, load(tables, r2 + j), one)
        two = fma(s2, load(tables, r2 + j + 8), two)
        one = fma(s3, load(tables, r3 + j), one)
        two = fma(s3, load(tables, r3 + j + 8), two)
        store(z, at + j, one)
        store(z, at + j + 8, two)
        out = fma(load(w, a + j), larger(zero, one), out)
        more = fma(load(w, a + j + 8), larger(zero, two), more)
    return total(add(out, more))


@kernel
def scatter(grads: Any, rows: Any, signs: Any, g: Any, n: Any, width: Any, s: Any, at: Any, slope: Any) -> None:
    """Add slope where z = s[at :] is positive to the gradient rows of groups g .. g + 3 of sample n."""
    r0, r1, r2, r3 = (
        rows[g * CHUNK + n],
        rows[(g + 1) * CHUNK + n],
        rows[(g + 2) * CHUNK + n],
        rows[(g + 3) * CHUNK + n],
    )
    s0, s1, s2, s3 = (
        splat(signs[g * CHUNK + n]),
        splat(signs[(g + 1) * CHUNK + n]),
        splat(signs[(g + 2) * CHUNK + n]),
        splat(signs[(g + 3) * CHUNK + n]),
    )
    zero, slope8 = splat(_ZERO), splat(slope)
    for j in range(0, width, 8):
        v = where_above(load(s, at + j), zero, slope8)
        store(grads, r0 + j, fma(s0, v, load(grads, r0 + j)))
        store(grads, r1 + j, fma(s1, v, load(grads, r1 + j)))
        store(grads, r2 + j, fma(s2, v, load(grads, r2 + j)))
        store(grads, r3 + j, fma(s3, v, load(grads, r3 + j)))
