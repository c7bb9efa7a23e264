"""Symbols looked up in tables in a traced step, by kernels."""

from functools import cache
from typing import Any

import torch

from headstart.core.kernels.compile import kernels
from headstart.models.lookup import FORWARD


def replacement(node: Any) -> Any:
    """The kernel for an operation of a look-up in a traced graph."""
    return KERNELS[0 if node.target is FORWARD else 1]


def forward(tables: torch.Tensor, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`headstart::look_up`, into `out` if it is given."""
    out = tables.new_empty(*x.shape[:2], tables.shape[3]) if out is None else out
    _passes()[0](_array(tables), _array(x), out.numpy())
    return out


def backward(d_out: torch.Tensor, x: torch.Tensor, symbols: int, out: torch.Tensor | None = None) -> torch.Tensor:
    """`headstart::look_up_backward`, into `out` if it is given."""
    out = d_out.new_empty(len(x), x.shape[2], symbols, d_out.shape[2]) if out is None else out
    _passes()[1](_array(d_out), _array(x), out.numpy())
    return out


KERNELS = (forward, backward)


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


@cache
def _passes() -> tuple[Any, Any]:
    module = kernels("engines.fused.lookup")
    return module.look_up, module.look_up_backward
