"""Attention in a traced step by the kernels for short sequences, where they have the shape for it."""

from functools import cache
from typing import Any

import numpy as np
import torch

from headstart.core.kernels.compile import kernels
from headstart.models.attend import FORWARD

# Longer rows of logits leave the registers; heads must be whole vectors.
_MOST_KEYS, _LANES = 64, 8


def replacement(node: Any) -> Any:
    """The kernel for an operation of attention in a traced graph, or None where it does not fit."""
    forwards = node.target is FORWARD
    q, k = (n.meta["tensor_meta"] for n in (node.args[:2] if forwards else node.args[1:3]))
    heads = node.args[3] if forwards else node.args[4].meta["tensor_meta"].shape[1]
    whole = q.dtype == torch.float32 and q.shape[2] % (heads * _LANES) == 0
    return KERNELS[0 if forwards else 1] if whole and k.shape[1] <= _MOST_KEYS else None


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, causal: bool, out: Any = None
) -> tuple[torch.Tensor, ...]:
    """`headstart::attend`, into `out` if it is given. Behind p there is room for a row of a whole number of vectors."""
    num, queries, width = q.shape
    keys, (passes, hidden) = k.shape[1], _shape(queries, k.shape[1], heads, width // heads, causal)
    if out is None:
        room = torch.empty(num * heads * queries * keys + hidden.shape[1])
        out = torch.empty(q.shape), room[: -hidden.shape[1]].view(num, heads, queries, keys)
    assert _has_room(out[1], hidden.shape[1])
    passes[0](num, *_flat(q, k, v), hidden.ravel(), *_flat(*out))
    return out


def backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    p: torch.Tensor,
    causal: bool,
    out: Any = None,
) -> tuple[torch.Tensor, ...]:
    """`headstart::attend_backward`, into `out` if it is given; p is that of `forward`."""
    num, heads, queries, keys = p.shape
    passes, hidden = _shape(queries, keys, heads, q.shape[2] // heads, causal)
    out = tuple(torch.empty(x.shape) for x in (q, k, v)) if out is None else out
    assert _has_room(p, hidden.shape[1])
    passes[1](num, *_flat(d_out, q, k, v, p), hidden.ravel(), *_flat(*out))
    return out


KERNELS = (forward, backward)


def _has_room(p: torch.Tensor, lanes: int) -> bool:
    """Whether the kernels, which take whole vectors, stay in the memory of p."""
    return p.is_contiguous() and p.untyped_storage().nbytes() >= 4 * (p.storage_offset() + p.numel() + lanes)


def _flat(*tensors: torch.Tensor) -> list[Any]:
    return [x.detach().contiguous().view(-1).numpy() for x in tensors]


@cache
def _shape(queries: int, keys: int, heads: int, size: int, causal: bool) -> tuple[Any, Any]:
    """The kernels of a shape, and what each query does not see."""
    module = kernels("engines.fused.attention")
    hidden = np.full((queries, module.padded(keys)), -np.inf, dtype=np.float32)
    for i in range(queries):
        hidden[i, : keys - queries + i + 1 if causal else keys] = 0.0
    return module.passes(queries, keys, heads, size), hidden
