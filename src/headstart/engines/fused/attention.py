"""Attention of short sequences: every sequence and head where it lies, in registers.

Sequences of some ten tokens are too short for batched matrix products, and heads must be copied apart for those. Rows
of logits are vectors over the keys, padded to whole vectors; outputs and gradients are vectors over a head's features.
Sequences never mix, so a result does not depend on what else is in a call.
"""

# mypy: disable-error-code="no-untyped-def"
from functools import cache
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel, part
from headstart.engines.fused.simd import (
    LANES,
    exp,
    fma,
    largest,
    load_like,
    mul,
    splat_like,
    spread_like,
    store,
    sub,
    total,
    where_above,
    zeros,
)


def padded(keys: int) -> int:
    """The lanes of a row of logits."""
    return -(-keys // LANES) * LANES


@cache
def passes(queries: int, keys: int, heads: int, size: int) -> tuple[Any, Any]:
    """Forward and backward pass for one shape, whose numbers are constants of the kernels. `size` is that of a head.

    Arrays are flat: q and out [n, queries, heads, size], k and v [n, keys, heads, size], p [n, heads, queries, keys]
    with room for a padded row behind its end. `hidden` [queries, padded] is 0 where a key is seen and -inf elsewhere.
    """
    scale, width, lanes = np.float32(size**-0.5), heads * size, padded(keys)
    # Queries, and keys, are taken two at a time, so that one sum need not wait for the other. One that has no partner
    # is taken with its neighbour again, or with itself.
    beside, key_beside = min(1, queries - 1), min(1, keys - 1)

    @part
    def softmax(logits, hidden, i):
        """Of a row of products with keys, those hidden from query i left out."""
        mask = load_like(logits, hidden, i * lanes)
        logits = fma(logits, splat_like(logits, scale), mask)
        e = exp(sub(logits, splat_like(logits, largest(logits))))
        e = where_above(mask, splat_like(mask, np.float32(-1.0)), e)
        return mul(e, splat_like(e, np.float32(1.0) / total(e)))

    @part
    def slope(d_p, weight):
        """Of the logits of a row, given those of its weights."""
        mean = splat_like(d_p, total(mul(weight, d_p)))
        return mul(mul(weight, sub(d_p, mean)), splat_like(d_p, scale))

    @part
    def times_columns(rows, at, columns):
        """Two rows of a head, query after query, times all columns."""
        one, two = zeros(lanes), zeros(lanes)
        for s in range(size):
            column = load_like(one, columns, s * lanes)
            one = fma(spread_like(one, rows, at + s), column, one)
            two = fma(spread_like(two, rows, at + beside * width + s), column, two)
        return one, two

    @part
    def weighted(factors, at, apart, step, num, rows, rows_at):
        """Two sums of `num` rows of a head, their factors at at + j step and `apart` behind those."""
        one, two = zeros(size), zeros(size)
        for j in range(num):
            row = load_like(one, rows, rows_at + j * width)
            one = fma(spread_like(one, factors, at + j * step), row, one)
            two = fma(spread_like(two, factors, at + apart + j * step), row, two)
        return one, two

    @part
    def transposed(rows, at, columns):
        """The rows of a head, key after key, as columns."""
        for j in range(keys):
            for s in range(size):
                columns[s * lanes + j] = rows[at + j * width + s]

    @kernel
    def forward(num, q, k, v, hidden, out, p):
        columns, weights = np.zeros(size * lanes, np.float32), np.empty(2 * lanes, np.float32)
        for n in range(num):
            for h in range(heads):
                q_at, k_at = n * queries * width + h * size, n * keys * width + h * size
                transposed(k, k_at, columns)
                for pair in range(0, queries, 2):
                    i = min(pair, queries - 1 - beside)
                    at, p_at = q_at + i * width, ((n * heads + h) * queries + i) * keys
                    one, two = times_columns(q, at, columns)
                    one, two = softmax(one, hidden, i), softmax(two, hidden, i + beside)
                    store(weights, 0, one)
                    store(weights, lanes, two)
                    # What this writes behind its row, the next row overwrites.
                    store(p, p_at, one)
                    store(p, p_at + beside * keys, two)
                    first, second = weighted(weights, 0, lanes, 1, keys, v, k_at)
                    store(out, at, first)
                    store(out, at + beside * width, second)

    @kernel
    def backward(num, d_out, q, k, v, p, hidden, d_q, d_k, d_v):
        columns = np.zeros(size * lanes, np.float32)
        weights, slopes = np.empty(queries * lanes, np.float32), np.empty(queries * lanes, np.float32)
        for n in range(num):
            for h in range(heads):
                q_at, k_at = n * queries * width + h * size, n * keys * width + h * size
                transposed(v, k_at, columns)
                for pair in range(0, queries, 2):
                    i = min(pair, queries - 1 - beside)
                    at, p_at = q_at + i * width, ((n * heads + h) * queries + i) * keys
                    one, two = times_columns(d_out, at, columns)
                    for row, d_p in ((i, one), (i + beside, two)):
                        mask = load_like(d_p, hidden, row * lanes)
                        weight = load_like(d_p, p, p_at + (row - i) * keys)
                        weight = where_above(mask, splat_like(mask, np.float32(-1.0)), weight)
                        store(weights, row * lanes, weight)
                        store(slopes, row * lanes, slope(d_p, weight))
                    first, second = weighted(slopes, i * lanes, beside * lanes, 1, keys, k, k_at)
                    store(d_q, at, first)
                    store(d_q, at + beside * width, second)
                for pair in range(0, keys, 2):
                    j = min(pair, keys - 1 - key_beside)
                    at = k_at + j * width
                    first, second = weighted(slopes, j, key_beside, lanes, queries, q, q_at)
                    store(d_k, at, first)
                    store(d_k, at + key_beside * width, second)
                    first, second = weighted(weights, j, key_beside, lanes, queries, d_out, q_at)
                    store(d_v, at, first)
                    store(d_v, at + key_beside * width, second)

    return forward, backward
