"""Attention of short sequences: every sequence and head where it lies, in registers.

Sequences of some ten tokens are too short for batched matrix products, and heads must be copied apart for those. Rows
of logits are vectors over the keys, padded to whole vectors; outputs and gradients are vectors over a head's features.
Sequences never mix, so a result does not depend on what else is in a call.
"""

# mypy: disable-error-code="no-untyped-def"
from functools import cache
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel
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

    @kernel
    def forward(num, q, k, v, hidden, out, p):
        columns, row = np.zeros(size * lanes, np.float32), np.empty(lanes, np.float32)
        for n in range(num):
            for h in range(heads):
                q_at, k_at = n * queries * width + h * size, n * keys * width + h * size
                for j in range(keys):
                    for s in range(size):
                        columns[s * lanes + j] = k[k_at + j * width + s]
                for i in range(queries):
                    at, p_at = q_at + i * width, ((n * heads + h) * queries + i) * keys
                    logits = zeros(lanes)
                    for s in range(size):
                        logits = fma(spread_like(logits, q, at + s), load_like(logits, columns, s * lanes), logits)
                    mask = load_like(logits, hidden, i * lanes)
                    logits = fma(logits, splat_like(logits, scale), mask)
                    e = exp(sub(logits, splat_like(logits, largest(logits))))
                    e = where_above(mask, splat_like(mask, np.float32(-1.0)), e)
                    e = mul(e, splat_like(e, np.float32(1.0) / total(e)))
                    store(row, 0, e)
                    # What this writes behind its row, the next row overwrites.
                    store(p, p_at, e)
                    sums = zeros(size)
                    for j in range(keys):
                        sums = fma(spread_like(sums, row, j), load_like(sums, v, k_at + j * width), sums)
                    store(out, at, sums)

    @kernel
    def backward(num, d_out, q, k, v, p, hidden, d_q, d_k, d_v):
        columns = np.zeros(size * lanes, np.float32)
        weights, slopes = np.empty(queries * lanes, np.float32), np.empty(queries * lanes, np.float32)
        for n in range(num):
            for h in range(heads):
                q_at, k_at = n * queries * width + h * size, n * keys * width + h * size
                for j in range(keys):
                    for s in range(size):
                        columns[s * lanes + j] = v[k_at + j * width + s]
                for i in range(queries):
                    at, p_at = q_at + i * width, ((n * heads + h) * queries + i) * keys
                    d_p = zeros(lanes)
                    for s in range(size):
                        d_p = fma(spread_like(d_p, d_out, at + s), load_like(d_p, columns, s * lanes), d_p)
                    mask = load_like(d_p, hidden, i * lanes)
                    weight = where_above(mask, splat_like(mask, np.float32(-1.0)), load_like(d_p, p, p_at))
                    mean = splat_like(d_p, total(mul(weight, d_p)))
                    slope = mul(mul(weight, sub(d_p, mean)), splat_like(d_p, scale))
                    store(weights, i * lanes, weight)
                    store(slopes, i * lanes, slope)
                    sums = zeros(size)
                    for j in range(keys):
                        slope_j = spread_like(sums, slopes, i * lanes + j)
                        sums = fma(slope_j, load_like(sums, k, k_at + j * width), sums)
                    store(d_q, at, sums)
                for j in range(keys):
                    of_key, of_value = zeros(size), zeros(size)
                    for i in range(queries):
                        slope_i = spread_like(of_key, slopes, i * lanes + j)
                        weight_i = spread_like(of_value, weights, i * lanes + j)
                        of_key = fma(slope_i, load_like(of_key, q, q_at + i * width), of_key)
                        of_value = fma(weight_i, load_like(of_value, d_out, q_at + i * width), of_value)
                    store(d_k, k_at + j * width, of_key)
                    store(d_v, k_at + j * width, of_value)

    return forward, backward
