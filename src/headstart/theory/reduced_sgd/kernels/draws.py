"""The numbers of `draws` inside kernels: the same to rounding."""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import exact, part
from headstart.core.kernels.random import DATA, normals_block, philox
from headstart.theory.reduced_sgd.kernels.codes import RUN_BITS, TRIES

BLOCK = 256
_TO_ONE = 2.0**-32


@part
def id_of(run: Any, number: Any) -> Any:
    """Id `number` of a run."""
    return (np.uint64(run) << np.uint64(RUN_BITS)) + np.uint64(number)


@part
def fill_normals(seed: Any, num: Any, ids: Any, lanes: Any, out: Any) -> None:
    """out[j * BLOCK + i] = normal j of ids[i], j < 4 lanes, i < num <= BLOCK: float32; ids has room for 7 more."""
    for i in range(num, (num + 7) // 8 * 8):
        ids[i] = 0
    for lane in range(lanes):
        for i in range(0, num, 8):
            normals_block(ids, i, np.uint64(lane), seed, np.uint64(DATA), out, BLOCK)


@part
def uniform(word: Any) -> Any:
    """(word + 1/2) / 2^32."""
    return (np.float64(word) + 0.5) * _TO_ONE


@exact
def chi_square(seed: Any, id: Any, degrees: Any, lane: Any) -> Any:
    """chi^2 with this many degrees of freedom, by Marsaglia and Tsang, a lane a try; 0 for none."""
    if degrees <= 0:
        return 0.0
    shape = degrees / 2.0
    d = (shape + 1.0 if shape < 1.0 else shape) - 1.0 / 3.0
    step = 1.0 / math.sqrt(9.0 * d)
    for attempt in range(TRIES):
        w0, w1, w2, w3 = philox(id, np.uint64(lane + attempt), seed, np.uint64(DATA))
        x = math.sqrt(-2.0 * math.log(uniform(w0))) * math.cos(2.0 * math.pi * uniform(w1))
        v = (1.0 + x * step) ** 3
        u = uniform(w2)
        # The first test implies the second, and has no logarithms.
        if u < 1.0 - 0.0331 * x * x * x * x or (v > 0.0 and math.log(u) < x * x / 2.0 + d * (1.0 - v + math.log(v))):
            return 2.0 * d * v * (uniform(w3) ** (1.0 / shape) if shape < 1.0 else 1.0)
    return 2.0 * d


@exact
def normal_pair(seed: Any, id: Any, pair: Any, lane: Any) -> Any:
    """Normals 2 pair and 2 pair + 1 of an id, counted from a lane."""
    w0, w1, w2, w3 = philox(id, np.uint64(lane + pair // 2), seed, np.uint64(DATA))
    one, two = (w0, w1) if pair % 2 == 0 else (w2, w3)
    radius = math.sqrt(-2.0 * math.log(uniform(one)))
    angle = 2.0 * math.pi * uniform(two)
    return radius * math.cos(angle), radius * math.sin(angle)
