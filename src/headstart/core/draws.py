"""Initial values of parameters: numbers of one id of the init stream, any stretch of them.

A layer on 80,000 inputs has more of them than need be held at once: a stretch costs its own length alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.kernels.compile import kernels
from headstart.core.streams import Stream, normals, uniforms

# NumPy draws a number in about 60 ns, which is no matter up to here; kernels take 4 for a uniform and 20 for a normal.
_LONG = 2**22


def symmetric_uniforms(seed: int, id: int, first: int, num: int, scale: float) -> NDArray[np.float32]:
    """Numbers first .. first + num - 1 of an id: scale (2 u - 1), float32[num], bit for bit the same in any stretch."""
    if num >= _LONG:
        return _filled("symmetric_uniforms", seed, id, first, num, scale)
    return (scale * (2.0 * uniforms(seed, Stream.INIT, [id], num, first)[0] - 1.0)).astype(np.float32)


def scaled_normals(seed: int, id: int, first: int, num: int, scale: float) -> NDArray[np.float32]:
    """The same of normals: scale z, float32[num]. A stretch of 2^22 or more may differ in a last bit, one in 10^8."""
    if num >= _LONG:
        return _filled("scaled_normals", seed, id, first, num, scale)
    return (scale * normals(seed, Stream.INIT, [id], num, first)[0].astype(np.float64)).astype(np.float32)


def _filled(kind: str, seed: int, id: int, first: int, num: int, scale: float) -> NDArray[np.float32]:
    lane, after = first // 4, (first + num + 3) // 4
    out = np.empty((after - lane, 4), dtype=np.float32)
    fill: Any = getattr(kernels("core.kernels.draws"), kind)
    fill(np.uint64(seed), np.uint64(Stream.INIT), np.uint64(id), np.int64(lane), np.float64(scale), out)
    return out.reshape(-1)[first % 4 : first % 4 + num]
