"""Products of matrices whose factors stay in cache, register-blocked."""

from typing import Any

import numpy as np

from headstart.core.kernels.compile import inlined, part
from headstart.engines.fused.simd import fma, larger, load, splat, spread, store

# Rows this long or longer lie too many bytes apart to stay in the first-level cache, and are packed.
_PACKED_WIDTH = 256
# Products go this deep at a time, so that sixteen columns of the right factor fit in the first-level cache.
DEPTH = 256
_ZERO = np.float32(0)
# Typed, since numba would compile a function anew for every literal it is called with.
FROM_ZERO, FROM_BIAS, ACCUMULATE = np.int64(0), np.int64(1), np.int64(2)
AS_IS, RECTIFIED = np.int64(0), np.int64(1)
_START, _PANEL = np.int64(0), np.int64(16)


@inlined
def positive(z: Any) -> Any:
    """max(z, 0); not a number stays one."""
    return larger(splat(_ZERO), z)


@part
def matmul(
    out: Any, o: Any, ldo: Any, left: Any, at: Any, lr: Any, lk: Any, right: Any, r: Any, ldr: Any,
    rows: Any, columns: Any, inner: Any, mode: Any, bias: Any, b: Any, ends: Any, panel: Any,
) -> None:  # fmt: skip
    """out[i, j] = start + sum_k left[i, k] right[k, j], in tiles of 4 x 16 held in registers.

    out at o with row stride ldo; left at `at` with strides (lr, lk); right at r with row stride ldr. `mode` says
    whether sums start from zero, from bias[b + j] or from out itself, `ends` whether they end at max(sum, 0). rows and
    columns are multiples of 4 and 16.
    """
    for j in range(0, columns, 16):
        for first in range(0, inner, DEPTH):
            depth = min(DEPTH, inner - first)
            source, base, ld = right, r + j + first * ldr, ldr
            if ldr >= _PACKED_WIDTH:
                for k in range(depth):
                    store(panel, 16 * k, load(right, base + k * ldr))
                    store(panel, 16 * k + 8, load(right, base + k * ldr + 8))
                source, base, ld = panel, _START, _PANEL
            for i in range(0, rows, 4):
                c = o + i * ldo + j
                if mode == ACCUMULATE or first > 0:
                    c00, c01, c10, c11 = load(out, c), load(out, c + 8), load(out, c + ldo), load(out, c + ldo + 8)
                    c20, c21 = load(out, c + 2 * ldo), load(out, c + 2 * ldo + 8)
                    c30, c31 = load(out, c + 3 * ldo), load(out, c + 3 * ldo + 8)
                else:
                    c00 = load(bias, b + j) if mode == FROM_BIAS else splat(_ZERO)
                    c01 = load(bias, b + j + 8) if mode == FROM_BIAS else splat(_ZERO)
                    c10, c11, c20, c21, c30, c31 = c00, c01, c00, c01, c00, c01
                a = at + i * lr + first * lk
                for k in range(depth):
                    b0, b1 = load(source, base + k * ld), load(source, base + k * ld + 8)
                    a0, a1 = spread(left, a + k * lk), spread(left, a + lr + k * lk)
                    c00, c01, c10, c11 = fma(a0, b0, c00), fma(a0, b1, c01), fma(a1, b0, c10), fma(a1, b1, c11)
                    a2, a3 = spread(left, a + 2 * lr + k * lk), spread(left, a + 3 * lr + k * lk)
                    c20, c21, c30, c31 = fma(a2, b0, c20), fma(a2, b1, c21), fma(a3, b0, c30), fma(a3, b1, c31)
                if ends == RECTIFIED and first + depth == inner:
                    c00, c01, c10, c11 = positive(c00), positive(c01), positive(c10), positive(c11)
                    c20, c21, c30, c31 = positive(c20), positive(c21), positive(c30), positive(c31)
                store(out, c, c00)
                store(out, c + 8, c01)
                store(out, c + ldo, c10)
                store(out, c + ldo + 8, c11)
                store(out, c + 2 * ldo, c20)
                store(out, c + 2 * ldo + 8, c21)
                store(out, c + 3 * ldo, c30)
                store(out, c + 3 * ldo + 8, c31)
