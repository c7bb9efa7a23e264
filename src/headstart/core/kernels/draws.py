"""Long stretches of one id of a stream, whole lanes of four numbers, as `headstart.core.draws` asks for them."""

import math
from typing import Any

import numpy as np

from headstart.core.kernels.compile import kernel, part
from headstart.core.kernels.random import philox

_TO_ONE = 2.0**-32


@part
def _symmetric(word: Any, scale: Any) -> Any:
    """scale (2 u - 1). Only the product with the scale rounds, so that the order of operations is free."""
    return np.float32(scale * ((2.0 * np.float64(word) + 1.0) * _TO_ONE - 1.0))


@kernel
def symmetric_uniforms(seed: Any, stream: Any, id: Any, lane: Any, scale: Any, out: Any) -> None:
    """scale (2 u - 1) of the numbers of lanes lane .. : float32[lanes, 4]."""
    for n in range(len(out)):
        w0, w1, w2, w3 = philox(id, np.uint64(lane + n), seed, stream)
        out[n, 0], out[n, 1] = _symmetric(w0, scale), _symmetric(w1, scale)
        out[n, 2], out[n, 3] = _symmetric(w2, scale), _symmetric(w3, scale)


@part
def _pair(one: Any, two: Any, scale: Any) -> Any:
    """scale z of both normals of a pair of words: by Box-Muller in float64, z rounded to float32."""
    radius = math.sqrt(-2.0 * math.log((np.float64(one) + 0.5) * _TO_ONE))
    angle = 2.0 * math.pi * ((np.float64(two) + 0.5) * _TO_ONE)
    cos, sin = np.float32(radius * math.cos(angle)), np.float32(radius * math.sin(angle))
    return np.float32(scale * np.float64(cos)), np.float32(scale * np.float64(sin))


@kernel
def scaled_normals(seed: Any, stream: Any, id: Any, lane: Any, scale: Any, out: Any) -> None:
    """scale z of the numbers of lanes lane .. : float32[lanes, 4]."""
    for n in range(len(out)):
        w0, w1, w2, w3 = philox(id, np.uint64(lane + n), seed, stream)
        out[n, 0], out[n, 1] = _pair(w0, w1, scale)
        out[n, 2], out[n, 3] = _pair(w2, w3, scale)
