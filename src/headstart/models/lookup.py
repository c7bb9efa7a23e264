"""Rows of tables that symbols name, added up over the places of an input."""

import torch


def looked_up(tables: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """sum_j tables[j, x_j]: from tables [places, symbols, width] and symbols int[n, places] to [n, width]."""
    return torch.stack([table[symbols] for table, symbols in zip(tables, x.unbind(1), strict=True)]).sum(dim=0)
