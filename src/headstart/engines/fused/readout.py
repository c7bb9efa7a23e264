"""A narrow readout under softmax cross-entropy: logits, slopes and both gradients, a few rows at a time.

The logits of many classes on few features are the largest tensor of a small network. Here a row of them lives in
registers: it is a vector over the classes, padded to whole vectors, and only its slopes are kept, for a block of rows,
until both gradients have taken them. Members never mix, so a result does not depend on what else is in a call.
"""

# mypy: disable-error-code="no-untyped-def"
from functools import cache
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel
from headstart.engines.fused.cross_entropy import is_first
from headstart.engines.fused.simd import (
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
    zeros,
)

LANES = 16
# Rows whose slopes are kept at once, which should stay in the smallest cache.
BLOCK = 32
# Rows that share what is read of the weights.
_TOGETHER = 4


def padded(classes: int) -> int:
    """The lanes of a row of logits."""
    return -(-classes // LANES) * LANES


@cache
def gradients(width: int, classes: int) -> Any:
    """The kernel for one shape, whose numbers are constants; an even width.

    From flat arrays h [members, n, width], weights [members, classes, width], y and scale [members, n] to

        d_h = slopes W,  d_W = slopes^T h,  slopes_n = scale_n (softmax(W h_n) - [y_n])
    """
    lanes = padded(classes)

    @kernel
    def pass_over(members, num, h, weights, y, scale, d_h, d_weights):
        columns, sums = np.zeros(width * lanes, np.float32), np.empty(width * lanes, np.float32)
        hidden = np.full(lanes, -np.inf, np.float32)
        hidden[:classes] = 0
        slopes = np.zeros(BLOCK * lanes, np.float32)
        for m in range(members):
            w_at = m * classes * width
            for c in range(classes):
                for k in range(width):
                    columns[k * lanes + c] = weights[w_at + c * width + k]
            sums[:] = 0
            for begin in range(0, num, BLOCK):
                rows, first = min(BLOCK, num - begin), m * num + begin
                for n in range(rows):
                    at = (first + n) * width
                    logits = load_like(zeros(lanes), hidden, 0)
                    for k in range(width):
                        logits = fma(spread_like(logits, h, at + k), load_like(logits, columns, k * lanes), logits)
                    e = exp(sub(logits, splat_like(logits, largest(logits))))
                    by = scale[first + n]
                    store(slopes, n * lanes, mul(e, splat_like(e, by / total(e))))
                    slopes[n * lanes + y[first + n]] -= by
                for n in range(0, rows // _TOGETHER * _TOGETHER, _TOGETHER):
                    one, two, three, four = zeros(width), zeros(width), zeros(width), zeros(width)
                    for c in range(classes):
                        w = load_like(one, weights, w_at + c * width)
                        one = fma(spread_like(w, slopes, n * lanes + c), w, one)
                        two = fma(spread_like(w, slopes, (n + 1) * lanes + c), w, two)
                        three = fma(spread_like(w, slopes, (n + 2) * lanes + c), w, three)
                        four = fma(spread_like(w, slopes, (n + 3) * lanes + c), w, four)
                    store(d_h, (first + n) * width, one)
                    store(d_h, (first + n + 1) * width, two)
                    store(d_h, (first + n + 2) * width, three)
                    store(d_h, (first + n + 3) * width, four)
                for n in range(rows // _TOGETHER * _TOGETHER, rows):
                    one = zeros(width)
                    for c in range(classes):
                        one = fma(
                            spread_like(one, slopes, n * lanes + c), load_like(one, weights, w_at + c * width), one
                        )
                    store(d_h, (first + n) * width, one)
                for k in range(0, width, 2):
                    one, two = load_like(zeros(lanes), sums, k * lanes), load_like(zeros(lanes), sums, (k + 1) * lanes)
                    for n in range(rows):
                        at = (first + n) * width + k
                        slope = load_like(one, slopes, n * lanes)
                        one = fma(spread_like(slope, h, at), slope, one)
                        two = fma(spread_like(slope, h, at + 1), slope, two)
                    store(sums, k * lanes, one)
                    store(sums, (k + 1) * lanes, two)
            for c in range(classes):
                for k in range(width):
                    d_weights[w_at + c * width + k] = sums[k * lanes + c]

    return pass_over


@cache
def scores(width: int, classes: int) -> Any:
    """The kernel for one shape: from h and weights, as above, the loss of each row and whether its class is largest."""
    lanes = padded(classes)

    @kernel
    def pass_over(members, num, h, weights, y, losses, right):
        columns, row = np.zeros(width * lanes, np.float32), np.empty(lanes, np.float32)
        hidden = np.full(lanes, -np.inf, np.float32)
        hidden[:classes] = 0
        for m in range(members):
            for c in range(classes):
                for k in range(width):
                    columns[k * lanes + c] = weights[(m * classes + c) * width + k]
            for n in range(m * num, (m + 1) * num):
                logits = load_like(zeros(lanes), hidden, 0)
                for k in range(width):
                    logits = fma(spread_like(logits, h, n * width + k), load_like(logits, columns, k * lanes), logits)
                store(row, 0, logits)
                top = largest(logits)
                sums = total(exp(sub(logits, splat_like(logits, top))))
                losses[n] = np.float32(np.log(sums) + top) - row[y[n]]
                right[n] = losses[n] == losses[n] and is_first(row, 0, y[n], top)

    return pass_over
