"""Rows of tables that symbols name, added up over the places of an input, as one torch operation.

It is linear in the tables; it works under torch.func, and is differentiable as often as one likes.
"""

from typing import Any

import torch

from headstart.models.operation import operation


class Table(torch.nn.Module):
    """The rows A of a table, or, with a map B [dim, rank], the products A B^T. Its values are not set."""

    def __init__(self, shape: tuple[int, ...], map_shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(shape))
        self.map = None if map_shape is None else torch.nn.Parameter(torch.empty(map_shape))

    def forward(self, x: torch.Tensor | None = None) -> torch.Tensor:
        """All rows, or, given real inputs [n, rows], their sums of rows."""
        rows = self.weight if x is None else x @ self.weight
        return rows if self.map is None else rows @ self.map.T


def looked_up(tables: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """sum_j tables[j, x_j]: from tables [places, symbols, width] and symbols int[n, places] to [n, width]."""
    out: torch.Tensor = _LookUp.apply(tables[None], x[None])
    return out.squeeze(0)


def _look_up(tables: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The same with members in front of everything."""
    rows = tables.reshape(-1, tables.shape[-1])
    return torch.nn.functional.embedding(_rows(x, tables.shape[2]), rows).sum(dim=2)


def _look_up_backward(d_out: torch.Tensor, x: torch.Tensor, symbols: int) -> torch.Tensor:
    """Gradients of the tables: to every row, those of the outputs it was added to."""
    members, _, places = x.shape
    shape = members, places, symbols, d_out.shape[-1]
    each = d_out.unsqueeze(2).expand(-1, -1, places, -1)
    dense = torch.ops.aten.embedding_dense_backward
    return dense(each, _rows(x, symbols), members * places * symbols, -1, False).view(shape)


def _rows(x: torch.Tensor, symbols: int) -> torch.Tensor:
    """Which row of all tables, one after another, each symbol names: int[members, n, places]."""
    members, _, places = x.shape
    first = symbols * torch.arange(members * places, device=x.device).view(members, 1, places)
    return x + first


class _LookUp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return FORWARD(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        tables, x = inputs
        ctx.symbols = tables.shape[2]
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def jvp(ctx: Any, d_tables: torch.Tensor, _: Any) -> torch.Tensor:
        return _look_up(d_tables, *ctx.saved_tensors)

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple[Any, None]:
        return _Gather.apply(d_out, *ctx.saved_tensors, ctx.symbols), None


class _Gather(torch.autograd.Function):
    """The gradients of the tables, as a function of those of the outputs: its derivative is the look-up again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return BACKWARD(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, d_tables: torch.Tensor) -> tuple[Any, None, None]:
        return _LookUp.apply(d_tables, *ctx.saved_tensors), None, None


# What a traced step calls, for engines that put something faster in its place.
FORWARD, BACKWARD = operation(_look_up), operation(_look_up_backward)
