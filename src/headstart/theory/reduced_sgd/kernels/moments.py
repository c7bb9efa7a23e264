"""One neuron on one direction with sums drawn from their moments, as in `moments`, over thousands of runs."""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel, part, pasted
from headstart.theory.reduced_sgd.kernels.draws import BLOCK, id_of, normal_pair
from headstart.theory.reduced_sgd.kernels.links import slopes, values
from headstart.theory.reduced_sgd.kernels.single import move, rate_at


@pasted
def _arcs(m: Any, b: Any, begins: Any, lengths: Any) -> None:
    """Where the four arcs between the lines x = 0 and m x + b y = 0 begin, and how long they are."""
    other = (math.atan2(b, m) + math.pi / 2) % math.pi
    low, high = min(other, math.pi / 2), max(other, math.pi / 2)
    begins[0], begins[1], begins[2], begins[3] = low, high, low + math.pi, high + math.pi
    lengths[0], lengths[1] = high - low, math.pi - high + low
    lengths[2], lengths[3] = lengths[0], lengths[1]


@part
def _add_nodes(setting: Any, mse: Any, m: Any, b: Any, num: Any, rows: Any, sums: Any) -> None:
    """Add nodes, x, y and weight in the first rows, to the sums that `_moments` returns."""
    x, y, weight, h, f, slope, lam, spare = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]
    for i in range(num):
        lam[i] = m * x[i] + b * y[i]
    values(setting.target.link.kind, setting.target.link.coefficients, x, num, h, spare)
    values(setting.student.kind, setting.student.coefficients, lam, num, f, spare)
    slopes(setting.student.kind, setting.student.slope, lam, num, f, slope, spare)
    a, noise = setting.weights[0], setting.noise * setting.noise
    felt = a if mse else 0.0
    s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(num):
        e, error, s = h[i] - felt * f[i], h[i] - a * f[i], a * slope[i]
        square = s * s
        c1, c2 = weight[i] * s * e, weight[i] * square * (e * e + noise)
        c3 = weight[i] * s * square * e * (e * e + 3.0 * noise)
        s0 += c1 * x[i]
        s1 += c1 * y[i]
        s2 += c2
        s3 += c2 * x[i] * x[i]
        s4 += c2 * x[i] * y[i]
        s5 += c3 * x[i]
        s6 += c2 * y[i] * y[i]
        s7 += c3 * y[i]
        s8 += weight[i] * square * square * (e * e * e * e + 6.0 * e * e * noise + 3.0 * noise * noise)
        s9 += weight[i] * error * error
    sums[0] += s0
    sums[1] += s1
    sums[2] += s2
    sums[3] += s3
    sums[4] += s4
    sums[5] += s5
    sums[6] += s6
    sums[7] += s7
    sums[8] += s8
    sums[9] += s9


@pasted
def _moments(setting: Any, grid: Any, mse: Any, m: Any, b: Any, arcs: Any, rows: Any, sums: Any) -> None:
    """Means of c g*, c g', c^2, then of products 00 01 02 11 12 22 of these, and of (y - f)^2 without noise."""
    for i in range(len(sums)):
        sums[i] = 0.0
    if not grid.polar:
        for first in range(0, len(grid.x), BLOCK):
            num = min(BLOCK, len(grid.x) - first)
            for i in range(num):
                rows[0, i], rows[1, i] = grid.x[first + i], grid.y[first + i]
                rows[2, i] = grid.weight[first + i]
            _add_nodes(setting, mse, m, b, num, rows, sums)
        return
    _arcs(m, b, arcs[0], arcs[1])
    num = len(grid.x)
    for arc in range(4):
        for j in range(len(grid.y)):
            angle, part = arcs[0, arc] + arcs[1, arc] * grid.y[j], arcs[1, arc] * grid.turn[j]
            cos, sin = math.cos(angle), math.sin(angle)
            for i in range(num):
                rows[0, i], rows[1, i], rows[2, i] = cos * grid.x[i], sin * grid.x[i], part * grid.weight[i]
            _add_nodes(setting, mse, m, b, num, rows, sums)


@pasted
def _drawn(sums: Any, batch: Any, z0: Any, z1: Any, z2: Any) -> Any:
    """Means of c g*, c g' and c^2 over a batch, from three normals; as `moments.drawn_means`."""
    one, two, mean = sums[0], sums[1], sums[2]
    v00, v01, v02 = (sums[3] - one * one) / batch, (sums[4] - one * two) / batch, (sums[5] - one * mean) / batch
    v11, v12, v22 = (sums[6] - two * two) / batch, (sums[7] - two * mean) / batch, (sums[8] - mean * mean) / batch
    spread = math.sqrt(math.log1p(max(v22, 0.0) / (mean * mean))) if mean > 0.0 else 0.0
    w0, w1 = (v02 / (mean * spread), v12 / (mean * spread)) if spread > 0.0 else (0.0, 0.0)
    first = math.sqrt(max(v00, 0.0))
    below, on_one = (v01 / first, w0 / first) if first > 0.0 else (0.0, 0.0)
    second = math.sqrt(max(v11 - below * below, 0.0))
    on_two = (w1 - below * on_one) / second if second > 0.0 else 0.0
    own = math.sqrt(max(1.0 - on_one * on_one - on_two * on_two, 0.0))
    exponent = on_one * z0 + on_two * z1 + own * z2
    square = mean * math.exp(spread * exponent - spread * spread / 2.0)
    return one + first * z0, two + below * z0 + second * z1, square


@kernel
def advance(setting: Any, grid: Any, seed: Any, state: Any, start: Any, until: Any, level: Any, go_on: Any) -> None:
    """Runs that are at step `start` to step `until`, in place; `state` is as in `single.advance`."""
    arcs, rows, sums = np.zeros((2, 4)), np.zeros((8, BLOCK)), np.zeros(10)
    for n in range(len(state.runs)):
        for step in range(start, until):
            if state.step[n] != step or (state.first[n] >= 0 and not go_on):
                break
            m, b, switched = state.overlaps[n], state.rest[n], state.switched[n]
            _moments(setting, grid, setting.mse or switched >= 0, m, b, arcs, rows, sums)
            id = id_of(state.runs[n], step)
            z0, z1 = normal_pair(seed, id, 0, 0)
            z2, _ = normal_pair(seed, id, 1, 0)
            one, two, square = _drawn(sums, setting.batch, z0, z1, z2)
            rate = rate_at(setting, step, switched)
            state.overlaps[n], state.rest[n] = move(setting, seed, id, m, b, rate, one, two, square / setting.batch)
            loss = (sums[9] + setting.noise * setting.noise) / 2.0
            if step == 0:
                state.start_loss[n] = loss
            elif switched < 0 and loss < setting.below * state.start_loss[n]:
                state.switched[n] = step
            state.step[n] = step + 1
            if state.first[n] < 0 and abs(state.overlaps[n]) >= level:
                state.first[n] = step + 1
