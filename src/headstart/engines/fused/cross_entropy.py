"""Softmax cross-entropy row by row: slopes, or losses and whether the right class is the largest, in one pass.

A row of logits is read in vectors; what is left at its end is padded to one. Rows never mix, so a result does not
depend on what else is in a call.
"""

# mypy: disable-error-code="no-untyped-def"
import numpy as np

from headstart.core.kernels.compile import kernel, part
from headstart.engines.fused.simd import (
    add,
    exp,
    larger,
    largest,
    load_like,
    mul,
    splat_like,
    store,
    sub,
    total,
    zeros,
)

LANES = 16


@part
def _top(logits, at, whole, rest, tail):
    """The largest logit of a row, whose last `rest` logits are copied to the first places of `tail`."""
    for i in range(rest):
        tail[i] = logits[at + whole + i]
    top = load_like(zeros(LANES), tail, 0)
    for i in range(0, whole, LANES):
        top = larger(top, load_like(top, logits, at + i))
    return largest(top)


@kernel
def slopes(logits, y, scale, out):
    """out[n] = scale[n] (softmax(logits[n]) - [y[n]]), flat float32 arrays of rows [n, classes]."""
    num = len(y)
    classes = len(logits) // num
    whole = classes // LANES * LANES
    rest = classes - whole
    tail = np.full(LANES, -np.inf, np.float32)
    ends = np.empty(LANES, np.float32)
    for n in range(num):
        at = n * classes
        top = splat_like(zeros(LANES), _top(logits, at, whole, rest, tail))
        # Padding is the least exp there is, which no sum that has a 1 in it notices.
        e = exp(sub(load_like(top, tail, 0), top))
        store(ends, 0, e)
        sums = e
        for i in range(0, whole, LANES):
            e = exp(sub(load_like(top, logits, at + i), top))
            store(out, at + i, e)
            sums = add(sums, e)
        share = scale[n] / total(sums)
        shares = splat_like(top, share)
        for i in range(0, whole, LANES):
            store(out, at + i, mul(load_like(top, out, at + i), shares))
        for i in range(rest):
            out[at + whole + i] = ends[i] * share
        out[at + y[n]] -= scale[n]


@part
def is_first(row, at, y, top):
    """Whether row[at + y] is `top`, the largest, and no number before it is."""
    if row[at + y] != top:
        return False
    equal = 0
    for c in range(y):
        equal += row[at + c] == top
    return equal == 0


@kernel
def classified(logits, y, losses, right):
    """losses[n] = log sum_c exp(logits[n, c]) - logits[n, y[n]]; right[n]: whether y[n] is the first of the largest."""
    num = len(y)
    classes = len(logits) // num
    whole = classes // LANES * LANES
    rest = classes - whole
    tail = np.full(LANES, -np.inf, np.float32)
    for n in range(num):
        at = n * classes
        one = _top(logits, at, whole, rest, tail)
        top = splat_like(zeros(LANES), one)
        sums = exp(sub(load_like(top, tail, 0), top))
        for i in range(0, whole, LANES):
            sums = add(sums, exp(sub(load_like(top, logits, at + i), top)))
        losses[n] = np.float32(np.log(total(sums)) + one) - logits[at + y[n]]
        right[n] = losses[n] == losses[n] and is_first(logits, at, y[n], one)
