"""Tables of partial pre-activations over groups of bits: how they are filled, read and folded.

groups: int64[num, 3] holds the first bit, the number of bits and the first element of the table of each group. The
row of a pattern has a bit set where its coordinate differs in sign from the group's top coordinate; the sign of that
one is a factor of the whole row.
"""

from typing import Any

import numpy as np

from headstart.engines.fused.compile import part
from headstart.engines.fused.simd import add, fma, load, splat, store, sub

# Samples whose table rows are located at once.
CHUNK = 128
_f = np.float32
_ZERO = _f(0)


@part
def build_tables(weights: Any, base: Any, width: Any, groups: Any, tables: Any) -> None:
    """Fill the tables from the input weights [coordinates, width] at `base`.

    groups: int64[num, 3], the first bit, the number of bits and the first element of each table. Row r holds the top
    weight of the group plus (1 - 2 bit_i(r)) times the others, by doubling: T[r + 2^i] = T[r] - 2 w_i.
    """
    minus_two = splat(_f(-2))
    for g in range(groups.shape[0]):
        first, bits, start = groups[g, 0], groups[g, 1], groups[g, 2]
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


@part
def fold_tables(tables: Any, width: Any, groups: Any, gradient: Any) -> None:
    """The inverse walk: gradient row i = sum_n s_n x_ni, [coordinates, width]. Leaves the tables spent."""
    for g in range(groups.shape[0]):
        first, bits, start = groups[g, 0], groups[g, 1], groups[g, 2]
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


@part
def locate(words: Any, start: Any, num: Any, groups: Any, width: Any, rows: Any, signs: Any) -> None:
    """The table row (as an element offset) and sign of each sample in each group: [groups, CHUNK]."""
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
            some_rows[n] = table + np.int64((v ^ (np.uint64(0) - sign)) & half) * width
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
