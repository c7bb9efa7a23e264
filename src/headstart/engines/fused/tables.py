"""Tables of partial pre-activations over groups of bits: how they are filled, read and folded.

groups: int64[num, 3] holds the first bit, the number of bits and the first row of each group. The row of a pattern has
a bit set where its coordinate differs in sign from the group's top coordinate; the sign of that one is a factor of the
whole row. A table is cut into panels of 64 neurons, and of 16 where fewer are left, each a contiguous [rows, panel]:
one panel of all groups fits in the first-level cache, and one of its rows in registers.
"""

from typing import Any

import numpy as np

from headstart.core.kernels.compile import inlined, part
from headstart.engines.fused.simd import add, lanes, load_like, store, sub, zeros

# Samples whose table rows are located at once.
CHUNK = 128
# Neurons in a panel, in half of one and in the panels of what is left of the width.
PANEL, HALF, REST = 64, 32, 16
_f = np.float32


@part
def build_panel(weights: Any, base: Any, width: Any, groups: Any, tables: Any, j: Any, zero: Any) -> None:
    """One panel, from neuron j on: row r is the group's top weight plus (1 - 2 bit_i(r)) times the others."""
    ld, start = lanes(zero), len(tables) // width * j
    for g in range(groups.shape[0]):
        first, bits, at = groups[g, 0], groups[g, 1], start + groups[g, 2] * ld
        acc = zero
        for i in range(first, first + bits):
            acc = add(acc, load_like(zero, weights, base + i * width + j))
        store(tables, at, acc)
        rows = 1
        for i in range(first, first + bits - 1):
            w = load_like(zero, weights, base + i * width + j)
            twice = add(w, w)
            for r in range(at, at + rows * ld, ld):
                store(tables, r + rows * ld, sub(load_like(zero, tables, r), twice))
            rows *= 2


@part
def build_tables(weights: Any, base: Any, width: Any, groups: Any, tables: Any) -> None:
    """Fill the tables from the input weights [coordinates, width] at `base`, by doubling: T[r + 2^i] = T[r] - 2 w_i."""
    whole = width - width % PANEL
    for j in range(0, whole, PANEL):
        build_panel(weights, base, width, groups, tables, j, zeros(PANEL))
    for j in range(whole, width, REST):
        build_panel(weights, base, width, groups, tables, j, zeros(REST))


@inlined
def fold_columns(tables: Any, at: Any, ld: Any, groups: Any, gradient: Any, j: Any, width: Any, zero: Any) -> None:
    """Some columns of a panel of row length ld, the first of them at tables[at]."""
    for g in range(groups.shape[0]):
        first, bits, start = groups[g, 0], groups[g, 1], at + groups[g, 2] * ld
        if bits == 0:
            continue
        half = ld << (bits - 1)
        for i in range(first + bits - 2, first - 1, -1):
            half //= 2
            acc = zero
            for r in range(start, start + half, ld):
                one, other = load_like(zero, tables, r), load_like(zero, tables, r + half)
                acc = add(acc, sub(one, other))
                store(tables, r, add(one, other))
            store(gradient, i * width + j, acc)
        store(gradient, (first + bits - 1) * width + j, load_like(zero, tables, start))


@part
def fold_tables(tables: Any, width: Any, groups: Any, gradient: Any) -> None:
    """The inverse walk: gradient row i = sum_n s_n x_ni, [coordinates, width]. Leaves the tables spent."""
    whole, rows = width - width % PANEL, len(tables) // width
    for j in range(0, whole, PANEL):
        for k in range(0, PANEL, HALF):
            fold_columns(tables, rows * j + k, PANEL, groups, gradient, j + k, width, zeros(HALF))
    for j in range(whole, width, REST):
        fold_columns(tables, rows * j, REST, groups, gradient, j, width, zeros(REST))


@part
def locate(words: Any, start: Any, num: Any, groups: Any, rows: Any, signs: Any) -> None:
    """The table row and sign of each sample in each group: [groups, CHUNK]."""
    one = np.uint64(1)
    for g in range(groups.shape[0]):
        first, bits, table = np.uint64(groups[g, 0]), groups[g, 1], groups[g, 2]
        mask = (one << np.uint64(bits)) - one
        half, top = mask >> one, np.uint64(max(bits - 1, 0))
        some_rows, some_signs = rows[g * CHUNK : g * CHUNK + num], signs[g * CHUNK : g * CHUNK + num]
        some_words = words[start : start + num]
        for n in range(num):
            v = (some_words[n] >> first) & mask
            sign = v >> top
            some_rows[n] = table + np.int64((v ^ (np.uint64(0) - sign)) & half)
            some_signs[n] = _f(1) - _f(2) * _f(np.int32(sign))


@part
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
