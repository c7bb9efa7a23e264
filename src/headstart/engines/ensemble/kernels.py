"""Kernels in the place of operations of a traced step, where they have the shape for them."""

from collections.abc import Callable
from typing import Any

import torch

from headstart.engines.ensemble import attention, cross_entropy, lookup, product, readout
from headstart.models import attend
from headstart.models import lookup as look_up

# By operation, what gives the kernel for a node that calls it, or None.
_REPLACEMENTS: dict[Any, Callable[[Any], Any]] = {
    attend.FORWARD: attention.replacement,
    attend.BACKWARD: attention.replacement,
    look_up.FORWARD: lookup.replacement,
    look_up.BACKWARD: lookup.replacement,
    cross_entropy.SLOPES: cross_entropy.replacement,
    cross_entropy.CLASSIFIED: cross_entropy.replacement,
    product.BMM: product.replacement,
}
# They take `out`, a tensor or as many as they return, to write into.
KERNELS = (*attention.KERNELS, *lookup.KERNELS, *cross_entropy.KERNELS, *product.KERNELS, *readout.KERNELS)


def with_kernels(graph: torch.fx.GraphModule, device: str) -> None:
    """Put the kernels in the place of the operations they stand for."""
    if device != "cpu":
        return
    readout.with_readouts(graph)
    for node in graph.graph.nodes:
        if node.target in _REPLACEMENTS:
            node.target = _REPLACEMENTS[node.target](node) or node.target
    graph.recompile()
