"""Steps of the reduced chain inside numba; `headstart.theory.local_signal.chain` has the mathematics."""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import exact, kernel, part
from headstart.core.kernels.random import DATA, normals_block, philox

_TO_ONE = 2.0**-32
_RUN_BITS, _SIDE_BIT = np.uint64(48), np.uint64(1) << np.uint64(47)
_LANES_AT_ONCE = 64  # of 32 normals each: they stay in cache
# Below this share of patches that pass a threshold it is cheaper to draw these alone.
FEW = 0.02
# Wichura's rational functions (Algorithm AS 241, 1988) for normal quantiles: near the middle, and in two ranges of the
# tail; numerators first, constants first.
_MIDDLE = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
)  # fmt: skip
_NEAR = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
     0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.296560571828504891230,
     0.0265321895265761230930, 0.00124266094738807843860, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


@part
def _uniform(word: Any) -> Any:
    """(word + 1/2) / 2^32."""
    return (np.float64(word) + 0.5) * _TO_ONE


@part
def _ratio(pair: Any, x: Any) -> Any:
    over, under = pair[0][7], pair[1][7]
    for n in range(6, -1, -1):
        over, under = over * x + pair[0][n], under * x + pair[1][n]
    return over / under


@exact
def upper_quantile(p: Any) -> Any:
    """x with P(z > x) = p, 0 < p <= 1/2, to 1e-15."""
    middle = 0.5 - p
    if middle <= 0.425:
        return middle * _ratio(_MIDDLE, 0.180625 - middle * middle)
    r = math.sqrt(-math.log(p))
    return _ratio(_NEAR, r - 1.6) if r <= 5.0 else _ratio(_FAR, r - 5.0)


@part
def _every_patch(seed: Any, first: Any, num: Any, alpha: Any, ids: Any, drawn: Any) -> Any:
    """Sums over `num` normals xi of the ids from `first` on: xi and signs beyond alpha, xi within, and how many."""
    for i in range(8):
        ids[i] = first + np.uint64(i)
    beyond: Any = 0.0
    signs: Any = 0.0
    within: Any = 0.0
    inside = 0
    left, edge, zero = num, np.float32(alpha), np.float32(0)
    while left > 0:
        lanes = min(_LANES_AT_ONCE, (left + 31) // 32)
        for lane in range(lanes):
            normals_block(ids, 0, np.uint64(lane), seed, np.uint64(DATA), drawn, 8)
        count = min(left, 32 * lanes)
        one, two, three, four = zero, zero, zero, 0
        for j in range(count):
            x = drawn[j]
            out = abs(x) > edge
            one += x if out else zero
            two += math.copysign(np.float32(1), x) if out else zero
            three += zero if out else x
            four += 0 if out else 1
        beyond, signs, within, inside, left = beyond + one, signs + two, within + three, inside + four, left - count
        for i in range(8):
            ids[i] += np.uint64(8)
    return beyond, signs, within, inside


@part
def _few_patches(seed: Any, first: Any, num: Any, share: Any, alpha: Any, sums: Any, batch: Any) -> None:
    """sums[s] = (sum of xi, of signs, number) of the patches of sample s that pass: gaps are geometric."""
    step, place, lane = math.log1p(-share), -1.0, 0
    total = np.float64(num) * batch
    for s in range(batch):
        sums[s, 0], sums[s, 1], sums[s, 2] = 0.0, 0.0, 0.0
    while True:
        w0, w1, w2, _ = philox(first, np.uint64(lane), seed, np.uint64(DATA))
        lane += 1
        place += 1.0 + np.floor(math.log(_uniform(w0)) / step)  # a float: it may be infinite
        if not place < total:
            return
        s = np.int64(place) // num
        x = upper_quantile(0.5 * share * _uniform(w1))
        sign = 1.0 if w2 & np.uint64(1) else -1.0
        sums[s, 0] += sign * max(x, alpha)
        sums[s, 1] += sign
        sums[s, 2] += 1.0


@part
def _sum_batch(seed: Any, first: Any, num: Any, batch: Any, alpha: Any, b: Any, ids: Any, drawn: Any, sums: Any) -> Any:
    """sums[s] = sums over patches of ind xi, of signs beyond the threshold and of ind^2, for every sample."""
    share = math.erfc(alpha / math.sqrt(2.0))
    if b < 0.0 and share < FEW:
        _few_patches(seed, first, num, share, alpha, sums, batch)
        return
    each = np.uint64((num + 31) // 32 // _LANES_AT_ONCE + 1) * np.uint64(8)
    for s in range(batch):
        beyond, signs, within, inside = _every_patch(seed, first + each * np.uint64(s), num, alpha, ids, drawn)
        sums[s, 1] = signs
        if b < 0.0:
            sums[s, 0], sums[s, 2] = beyond, num - inside
        else:
            sums[s, 0], sums[s, 2] = beyond + 2.0 * within, num + 3.0 * inside


@exact
def _across(seed: Any, id: Any, num: Any) -> Any:
    """A normal, and the sum of squares of num - 1 others."""
    first, squares = 0.0, 0.0
    for j in range((num + 1) // 2):
        w0, w1, _, _ = philox(id, np.uint64(j), seed, np.uint64(DATA))
        radius, angle = math.sqrt(-2.0 * math.log(_uniform(w0))), 2.0 * math.pi * _uniform(w1)
        one, two = radius * math.cos(angle), radius * math.sin(angle)
        if j == 0:
            first = one
        else:
            squares += one * one
        if 2 * j + 1 < num:
            squares += two * two
    return first, squares


@kernel
def advance(
    seed: Any, run: Any, step: Any, until: Any, num: Any, dim: Any, sigma: Any, batch: Any, rates: Any, state: Any,
    ids: Any, drawn: Any, sums: Any,
) -> None:  # fmt: skip
    """Take steps step .. until - 1 of a run: state is (c, v, b), rates those of w and b; the rest is scratch."""
    room = np.uint64((num + 31) // 32 // _LANES_AT_ONCE + 1) * np.uint64(8) * np.uint64(batch)
    base = np.uint64(run) << _RUN_BITS
    while step < until:
        c, v, b = state[0], state[1], state[2]
        length = math.sqrt(c * c + v * v)
        s = sigma * length
        _sum_batch(seed, base + room * np.uint64(step), num, batch, abs(b) / s, b, ids, drawn, sums)
        g = max(c + b, 0.0) - max(b - c, 0.0)
        along, push, squares, slopes = 0.0, 0.0, 0.0, 0.0
        for i in range(batch):
            p = 1.0 / (1.0 + math.exp(g + s * sums[i, 0] + b * sums[i, 1]))
            along += p * sums[i, 0]
            push += p * sums[i, 1]
            squares += p * p * sums[i, 2]
            slopes += p
        seen = (1.0 if c > -b else 0.0) + (1.0 if -c > -b else 0.0)
        passed = 0.0 if abs(c) <= abs(b) else (1.0 if c > 0.0 else -1.0)
        first, others = _across(seed, base + _SIDE_BIT + np.uint64(step), dim - 1)
        spread, turn = sigma * math.sqrt(squares), rates[0] / batch
        c_new = c + turn * (seen * slopes + (sigma * along * c - spread * first * v) / length)
        v_new = v + turn * (sigma * along * v + spread * first * c) / length
        state[0], state[1] = c_new, math.sqrt(v_new * v_new + turn * turn * spread * spread * others)
        state[2] = b + rates[1] / batch * (push + passed * slopes)
        step += 1
