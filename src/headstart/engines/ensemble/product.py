"""Products of stacked matrices in a traced step, by a kernel of our own where it is faster than the library's.

On AMD's processors with AVX-512 torch's library takes a path made for older ones: 60 to 100 GFLOP/s where the kernel
makes 85 to 110, which `python -m benchmarks.grokking` shows in whole steps.
"""

from functools import cache
from math import prod
from typing import Any

import numpy as np
import torch

from headstart.core.kernels.compile import kernels

BMM = torch.ops.aten.bmm.default
# Smaller products are over before a kernel is called: in multiplications, of all members and of one.
_LEAST, _LEAST_EACH = 2**20, 2**16


def replacement(node: Any) -> Any:
    """The kernel for a product in a traced graph, or None where it does not pay."""
    one, other = (operand.meta["tensor_meta"] for operand in node.args)
    each = prod(one.shape[1:]) * other.shape[2]
    pays = one.dtype == torch.float32 and each >= _LEAST_EACH and each * one.shape[0] >= _LEAST and faster_here()
    return bmm if pays else None


def bmm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """a b for a [members, rows, depth] and b [members, depth, columns], into `out` if it is given."""
    out = a.new_empty(*a.shape[:2], b.shape[2]) if out is None else out
    shape = np.array((*a.shape, b.shape[2]))
    _kernel()(_flat(a), np.array(a.stride()), _flat(b), np.array(b.stride()), out.view(-1).numpy(), shape)
    return out


KERNELS = (bmm,)


@cache
def faster_here() -> bool:
    """Whether the processor is one of those on which the kernel was found faster."""
    from llvmlite import binding  # type: ignore[import-untyped]

    return binding.get_host_cpu_name() in ("znver4", "znver5") and bool(binding.get_host_cpu_features()["avx512f"])


def _flat(x: torch.Tensor) -> Any:
    """All that lies between the first and the last number of a tensor."""
    length = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.detach().as_strided((length,), (1,)).numpy()


@cache
def _kernel() -> Any:
    return kernels("engines.fused.product").product
