"""One neuron on one direction: the chain on m = <w, w*> over thousands of runs, as in `chain`, number by number.

All runs of a call go step by step together. A block of ids belongs to one run where batches are large, and to many
where they are small, so that vector instructions are full either way. What a run adds up is added in its own order.
"""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel, part, pasted
from headstart.theory.reduced_sgd.kernels.codes import DIAGONAL_LANE, TANH
from headstart.theory.reduced_sgd.kernels.draws import BLOCK, chi_square, fill_normals, id_of
from headstart.theory.reduced_sgd.kernels.links import slopes, values


@pasted
def _terms(setting: Any, needs_output: Any, num: Any, half: Any, drawn: Any, at: Any, rows: Any) -> None:
    """c, g* and y - f of a block: `at` holds m, b and whether the squared error is felt, one row each."""
    star, lam, y, f, slope, spare = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    m, b, felt, one, two = at[0], at[1], at[2], drawn[2 * half], drawn[2 * half + 1]
    for i in range(num):
        star[i] = one[i]
        lam[i] = m[i] * star[i] + b[i] * two[i]
    values(setting.target.link.kind, setting.target.link.coefficients, star, num, y, spare)
    if needs_output:
        values(setting.student.kind, setting.student.coefficients, lam, num, f, spare)
    slopes(setting.student.kind, setting.student.slope, lam, num, f, slope, spare)
    if setting.noise > 0.0:
        noise = drawn[2]
        for i in range(num):
            y[i] += setting.noise * noise[i]
    a = setting.weights[0]
    for i in range(num):
        slope[i] *= a * (y[i] - felt[i] * a * f[i])
        y[i] -= a * f[i]


@pasted
def _add(first: Any, num: Any, rows: Any, other: Any, sums: Any) -> None:
    """Add the samples first .. first + num - 1 of a block to (c g*, c g', c^2, (y - f)^2) of their run."""
    star, error, c = rows[0], rows[2], rows[4]
    one, two, square, loss = 0.0, 0.0, 0.0, 0.0
    for i in range(first, first + num):
        one += c[i] * star[i]
        two += c[i] * other[i]
        square += c[i] * c[i]
        loss += error[i] * error[i]
    sums[0] += one
    sums[1] += two
    sums[2] += square
    sums[3] += loss


@pasted
def _batches(setting: Any, seed: Any, members: Any, state: Any, step: Any, buffers: Any, sums: Any) -> None:
    """The sums over the batches of some runs, float64[members, 4]; several runs only where one block holds all."""
    ids, drawn, at, rows = buffers
    shared = 1 if setting.noise > 0.0 else 2
    per_step = (setting.batch + shared - 1) // shared
    needs_output = setting.mse or setting.below > 0.0 or setting.student.kind == TANH
    for first in range(0, per_step, BLOCK):
        each = min(BLOCK, per_step - first)
        for j in range(len(members)):
            start = np.int64(id_of(state.runs[members[j]], step * per_step + first))
            for i in range(each):
                ids[j * each + i] = start + i
        num = len(members) * each
        fill_normals(seed, num, ids, 1, drawn.reshape(-1))
        for half in range(shared):
            _terms(setting, needs_output, num, half, drawn, at, rows)
            count = each if half == 0 else min(each, setting.batch // 2 - first)
            for j in range(len(members)):
                _add(j * each, count, rows, drawn[2 * half + 1], sums[j])


@part
def move(setting: Any, seed: Any, id: Any, m: Any, b: Any, rate: Any, one: Any, two: Any, spread: Any) -> Any:
    """(m, b) after a step with the means of c g* and c g', and sum c^2 / n_b^2."""
    two = two if b > 0.0 else 0.0
    if setting.spherical:
        along = one * m + two * b
        one -= along * m
        two -= along * b
    degrees = setting.dim - 2 if b > 0.0 else setting.dim - 1
    beyond = rate * rate * spread * chi_square(seed, id, degrees, DIAGONAL_LANE)
    m += rate * one
    inside = b + rate * two
    rest = inside * inside + beyond
    norm = math.sqrt(m * m + rest)
    return m / norm, math.sqrt(rest) / norm


@part
def rate_at(setting: Any, step: Any, switched: Any) -> Any:
    """The rate of a step."""
    if switched < 0:
        return setting.rate
    return setting.rate * setting.after * setting.decay ** (step - switched - 1)


@pasted
def _finish(setting: Any, seed: Any, n: Any, state: Any, sums: Any, level: Any) -> None:
    """Move run n by its sums, and note what came of it."""
    step, batch, switched = state.step[n], setting.batch, state.switched[n]
    rate, spread = rate_at(setting, step, switched), sums[2] / batch / batch
    state.overlaps[n], state.rest[n] = move(
        setting,
        seed,
        id_of(state.runs[n], step),
        state.overlaps[n],
        state.rest[n],
        rate,
        sums[0] / batch,
        sums[1] / batch,
        spread,
    )
    loss = sums[3] / (2.0 * batch)
    if step == 0:
        state.start_loss[n] = loss
    elif switched < 0 and loss < setting.below * state.start_loss[n]:
        state.switched[n] = step
    state.step[n] = step + 1
    if state.first[n] < 0 and abs(state.overlaps[n]) >= level:
        state.first[n] = step + 1


@kernel
def advance(setting: Any, seed: Any, state: Any, first: Any, until: Any, level: Any, go_on: Any) -> None:
    """Runs that are at step `first` to step `until`, in place.

    `state` is that of `chain`, with m and b = sqrt R, [n] each, for M and R.
    """
    per_step = setting.batch if setting.noise > 0.0 else (setting.batch + 1) // 2
    together = max(1, BLOCK // per_step)
    each = min(BLOCK, per_step)
    active = np.empty(len(state.runs), np.int64)
    sums = np.empty((together, 4))
    at = np.empty((3, BLOCK))
    buffers = (np.empty(BLOCK + 8, np.int64), np.empty((4, BLOCK), np.float32), at, np.zeros((6, BLOCK)))
    for step in range(first, until):
        count = 0
        for n in range(len(state.runs)):
            if state.step[n] == step and (state.first[n] < 0 or go_on):
                active[count] = n
                count += 1
        for group in range(0, count, together):
            members = active[group : min(group + together, count)]
            for j in range(len(members)):
                n = members[j]
                felt = 1.0 if setting.mse or state.switched[n] >= 0 else 0.0
                for i in range(j * each, (j + 1) * each):
                    at[0, i], at[1, i], at[2, i] = state.overlaps[n], state.rest[n], felt
                for i in range(4):
                    sums[j, i] = 0.0
            _batches(setting, seed, members, state, step, buffers, sums)
            for j in range(len(members)):
                _finish(setting, seed, members[j], state, sums[j], level)
