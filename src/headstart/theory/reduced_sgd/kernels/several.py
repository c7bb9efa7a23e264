"""Several neurons or directions: the chain on (M, R) as in `chain`, number by number, one run after the other.

Rows of neurons and of coordinates are padded to multiples of four, so that products of matrices go in tiles.
"""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel, part, pasted
from headstart.theory.reduced_sgd.kernels.codes import (
    COMMITTEE,
    DIAGONAL_LANE,
    OTHER_LANE,
    PRODUCT,
    RANK_TOLERANCE,
    TANH,
    TERMS,
    TRIES,
)
from headstart.theory.reduced_sgd.kernels.draws import (
    BLOCK,
    chi_square,
    fill_normals,
    id_of,
    normal_pair,
)
from headstart.theory.reduced_sgd.kernels.links import slopes, values
from headstart.theory.reduced_sgd.kernels.single import rate_at


@part
def _root(matrix: Any, size: Any, most: Any, left: Any, out: Any) -> Any:
    """A root of a positive semi-definite matrix, by Cholesky's with pivots as in `chain.roots`; returns its rank."""
    for i in range(size):
        for j in range(size):
            left[i, j] = matrix[i, j]
            out[i, j] = 0.0
    for j in range(min(most, size)):
        chosen, share = 0, 0.0
        for i in range(size):
            if matrix[i, i] > 0.0 and left[i, i] / matrix[i, i] > share:
                chosen, share = i, left[i, i] / matrix[i, i]
        if not share > RANK_TOLERANCE:
            return j
        scale = 1.0 / math.sqrt(left[chosen, chosen])
        for i in range(size):
            out[i, j] = left[i, chosen] * scale
        for i in range(size):
            for s in range(size):
                left[i, s] -= out[i, j] * out[s, j]
        for i in range(size):
            left[chosen, i] = 0.0
            left[i, chosen] = 0.0
    return min(most, size)


@part
def _add_products(left: Any, right: Any, num: Any, out: Any) -> None:
    """out += left right^T over samples; rows come in fours."""
    for i in range(0, len(left), 4):
        a, b, c, d = left[i], left[i + 1], left[i + 2], left[i + 3]
        for j in range(0, len(right), 2):
            x, y = right[j], right[j + 1]
            s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            for n in range(num):
                s0 += a[n] * x[n]
                s1 += a[n] * y[n]
                s2 += b[n] * x[n]
                s3 += b[n] * y[n]
                s4 += c[n] * x[n]
                s5 += c[n] * y[n]
                s6 += d[n] * x[n]
                s7 += d[n] * y[n]
            out[i, j] += s0
            out[i, j + 1] += s1
            out[i + 1, j] += s2
            out[i + 1, j + 1] += s3
            out[i + 2, j] += s4
            out[i + 2, j + 1] += s5
            out[i + 3, j] += s6
            out[i + 3, j + 1] += s7


@part
def _fields(here: Any, g: Any, num: Any, lam: Any) -> None:
    """lam_j = sum_l here[j, s] g_l; rows of g come in fours, and here has a 0 for those that are padding."""
    for j in range(len(here)):
        row = lam[j]
        for n in range(num):
            row[n] = 0.0
        for s in range(0, len(g), 4):
            a, b, c, d = here[j, s], here[j, s + 1], here[j, s + 2], here[j, s + 3]
            x, y, z, w = g[s], g[s + 1], g[s + 2], g[s + 3]
            for n in range(num):
                row[n] += a * x[n] + b * y[n] + c * z[n] + d * w[n]


@pasted
def _target(target: Any, directions: Any, g: Any, num: Any, y: Any, one: Any, value: Any, spare: Any) -> None:
    """y = h*(g_1 .. g_k): the mean of a link over rows, or over the one row of their product; or a sum of terms."""
    for n in range(num):
        y[n] = 0.0
    links = 0 if target.kind == TERMS else (directions if target.kind == COMMITTEE else 1)
    for r in range(links):
        for n in range(num):
            one[n] = g[r, n]
        for q in range(1, directions if target.kind == PRODUCT else 0):
            for n in range(num):
                one[n] *= g[q, n]
        values(target.link.kind, target.link.coefficients, one, num, value, spare)
        for n in range(num):
            y[n] += value[n] / links
    for t in range(len(target.factors) if target.kind == TERMS else 0):
        for n in range(num):
            one[n] = target.factors[t]
        for r in range(directions):
            _times_hermite(target.degrees[t, r], g[r], num, one)
        for n in range(num):
            y[n] += one[n]


@part
def _times_hermite(degree: Any, z: Any, num: Any, out: Any) -> None:
    """out *= He_degree(z)."""
    if degree == 0:
        return
    for n in range(num):
        before, now = 1.0, z[n]
        for k in range(1, degree):
            before, now = now, z[n] * now - k * before
        out[n] *= now


@pasted
def _add_block(setting: Any, k: Any, num: Any, here: Any, mse: Any, buffers: Any, sums: Any) -> None:
    """Add `num` samples, whose numbers are drawn, to A [p, q] n_b, C^T C [p, p] and the sum of (y - f)^2."""
    _, drawn, g, lam, c, y, f, one, spare = buffers
    drift, spread, loss = sums
    p = len(here)
    q = k + p
    for s in range(q):
        for n in range(num):
            g[s, n] = drawn[s, n]
    _fields(here, g, num, lam)
    _target(setting.target, k, g, num, y, one, f, spare)
    if setting.noise > 0.0:
        for n in range(num):
            y[n] += setting.noise * drawn[q, n]
    needs_output = mse or setting.below > 0.0
    for n in range(num):
        one[n] = y[n]  # y - f
    for j in range(p):
        if needs_output or setting.student.kind == TANH:
            values(setting.student.kind, setting.student.coefficients, lam[j], num, f, spare)
        slopes(setting.student.kind, setting.student.slope, lam[j], num, f, c[j], spare)
        if needs_output:
            for n in range(num):
                one[n] -= setting.weights[j] * f[n]
    total = 0.0
    for n in range(num):
        total += one[n] * one[n]
        y[n] = one[n] if mse else y[n]
    loss[0] += total
    for j in range(p):
        for n in range(num):
            c[j, n] *= setting.weights[j] * y[n]
    _add_products(c, g, num, drift)
    _add_products(c, c, num, spread)


@pasted
def _wishart_root(seed: Any, id: Any, degrees: Any, out: Any) -> None:
    """Bartlett's factor, lower triangular."""
    size = len(out)
    for i in range(size):
        out[i, i] = math.sqrt(chi_square(seed, id, degrees - i, DIAGONAL_LANE + i * TRIES))
    number, one, two = 0, 0.0, 0.0
    for i in range(size):
        for j in range(i):
            if number % 2 == 0:
                one, two = normal_pair(seed, id, number // 2, OTHER_LANE)
            out[i, j] = 0.0 if j >= degrees else (one if number % 2 == 0 else two)
            number += 1


@pasted
def _move(setting: Any, seed: Any, id: Any, k: Any, rate: Any, rank: Any, m: Any, r: Any, work: Any) -> None:
    """M and R after a step; `work` holds (M, T), the sums as means, and three matrices of scratch."""
    here, drift, spread, root, left, bartlett = work
    p = len(m)
    for j in range(p):
        for s in range(rank, p):
            drift[j, k + s] = 0.0
        if setting.spherical:
            along = 0.0
            for s in range(k + p):
                along += drift[j, s] * here[j, s]
            for s in range(k + p):
                drift[j, s] -= along * here[j, s]
        for s in range(k + p):
            here[j, s] += rate * drift[j, s]
    _root(spread, p, p, left, root)
    _wishart_root(seed, id, setting.dim - k - rank, bartlett)
    # What lies beyond the span is rate root bartlett, in place of the spread.
    for i in range(p):
        for j in range(p):
            total = 0.0
            for s in range(j, p):
                total += root[i, s] * bartlett[s, j]
            spread[i, j] = rate * total
    for i in range(p):
        for j in range(i + 1):
            total = 0.0
            for s in range(p):
                total += here[i, k + s] * here[j, k + s] + spread[i, s] * spread[j, s]
            r[i, j] = total
            r[j, i] = total
    _normalise(here, k, m, r)


@pasted
def _normalise(here: Any, k: Any, m: Any, r: Any) -> None:
    """Rows of norm 1: M is taken from `here`."""
    p = len(m)
    for j in range(p):
        square = r[j, j]
        for s in range(k):
            square += here[j, s] * here[j, s]
        scale = 1.0 / math.sqrt(square)
        for s in range(k):
            m[j, s] = here[j, s] * scale
        for s in range(p):
            r[j, s] *= scale
            r[s, j] *= scale


@pasted
def _step(setting: Any, seed: Any, n: Any, state: Any, buffers: Any, sums: Any, work: Any) -> None:
    """One step of run n."""
    here, drift, spread, root, left, _ = work
    ids, drawn = buffers[0], buffers[1]
    m, r, step, batch = state.overlaps[n], state.rest[n], state.step[n], setting.batch
    p, k = m.shape
    rank = _root(r, p, setting.dim - k, left, root)
    for j in range(p):
        for s in range(k):
            here[j, s] = m[j, s]
        for s in range(p):
            here[j, k + s] = root[j, s]
    for i in range(len(drift)):
        for j in range(drift.shape[1]):
            drift[i, j] = 0.0
        for j in range(spread.shape[1]):
            spread[i, j] = 0.0
    sums[2][0] = 0.0
    mse = setting.mse or state.switched[n] >= 0
    for first in range(0, batch, BLOCK):
        num = min(BLOCK, batch - first)
        start = np.int64(id_of(state.runs[n], step * batch + first))
        for i in range(num):
            ids[i] = start + i
        fill_normals(seed, num, ids, len(drawn) // 4, drawn.reshape(-1))
        _add_block(setting, k, num, here, mse, buffers, sums)
    for i in range(len(drift)):
        for j in range(drift.shape[1]):
            drift[i, j] /= batch
        for j in range(spread.shape[1]):
            spread[i, j] = spread[i, j] / batch / batch
    loss = sums[2][0] / (2.0 * batch)
    _move(setting, seed, id_of(state.runs[n], step), k, rate_at(setting, step, state.switched[n]), rank, m, r, work)
    if step == 0:
        state.start_loss[n] = loss
    elif state.switched[n] < 0 and loss < setting.below * state.start_loss[n]:
        state.switched[n] = step
    state.step[n] = step + 1


@kernel
def advance(setting: Any, seed: Any, state: Any, first: Any, until: Any, level: Any, go_on: Any) -> None:
    """Runs that are at step `first` to step `until`, in place; `state` is as in `chain.State`."""
    p, k = state.overlaps.shape[1:]
    fours, all_fours = (p + 3) // 4 * 4, (p + k + 3) // 4 * 4
    lanes = (p + k + (1 if setting.noise > 0.0 else 0) + 3) // 4
    drawn = np.zeros((4 * lanes, BLOCK), np.float32)
    g, lam, c, row = np.zeros((all_fours, BLOCK)), np.zeros((p, BLOCK)), np.zeros((fours, BLOCK)), np.zeros((4, BLOCK))
    buffers = (np.empty(BLOCK + 8, np.int64), drawn, g, lam, c, row[0], row[1], row[2], row[3])
    here, drift, spread = np.zeros((p, all_fours)), np.zeros((fours, all_fours)), np.zeros((fours, fours))
    sums = (drift, spread, np.zeros(1))
    work = (here, drift, spread, np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)))
    for n in range(len(state.runs)):
        for step in range(first, until):
            if state.step[n] != step or (state.first[n] >= 0 and not go_on):
                break
            _step(setting, seed, n, state, buffers, sums, work)
            square = 0.0
            for j in range(p):
                for s in range(k):
                    square += state.overlaps[n, j, s] ** 2
            if state.first[n] < 0 and math.sqrt(square) >= level:
                state.first[n] = step + 1
