"""Where a traced step puts its tensors: in a few buffers, chosen once, that stay in the cache.

A step of a Transformer makes about a hundred tensors of the same size. Allocated anew, each comes from memory that has
not been used for longest, and its operation waits for memory twice as long as it computes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter, Node

from headstart.engines.ensemble.kernels import KERNELS

# Buffers by their number of bytes; steps that are never under way together share them.
Pool = dict[int, list[torch.UntypedStorage]]


def _relu(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return torch.clamp_min(x, 0, out=out)


def _clone(x: torch.Tensor, out: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
    return out.copy_(x)


# Operations whose own variant of that kind makes a tensor first and copies it, so that it waits for memory.
_WRITTEN_OUT: dict[Any, Any] = {torch.ops.aten.relu.default: _relu, torch.ops.aten.clone.default: _clone}


def plan(graph: GraphModule, args: Sequence[Any], pool: Pool) -> None:
    """Give every tensor that a traced step makes and does not return a buffer, and drop views that change nothing.

    A buffer is free again after the last use of what it holds, and the one freed last is taken first.
    """
    recorder = _Recorder(graph)
    recorder.run(*args)
    values = recorder.values
    _drop_idle_views(graph, values)
    nodes = list(graph.graph.nodes)
    made = _storages(values, [node for node in nodes if node.op in ("placeholder", "get_attr")])
    returned = _storages(values, nodes[-1].all_input_nodes)
    last = {storage: i for i, node in enumerate(nodes) for storage in _storages(values, [node, *node.all_input_nodes])}
    free: dict[int, list[int]] = {}
    taken: dict[int, tuple[int, int]] = {}

    def release(storages: Iterable[int]) -> None:
        for storage in storages:
            size, number = taken.pop(storage)
            free.setdefault(size, []).append(number)

    for i, node in enumerate(nodes):
        fresh = _storages(values, [node]) - made
        made |= fresh
        done = {storage for storage in taken if last[storage] == i}
        if fresh and not fresh & returned and (target := _into(node)) is not None:
            same = {s for s in done if _may_overwrite(node, s, values)}
            release(same)
            done -= same
            outs = [_buffer(value, free, taken, pool) for value in _tensors(values[node])]
            _redirect(graph, node, *target, outs)
        release(done)
    graph.graph.lint()
    graph.recompile()


class _Recorder(Interpreter):
    """Runs a graph once and remembers what every node made."""

    def __init__(self, graph: GraphModule) -> None:
        # Nothing is freed, so that no two tensors that differ lie in the same place.
        super().__init__(graph, garbage_collect_values=False)
        self.values: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        """The value of a node."""
        self.values[n] = super().run_node(n)
        return self.values[n]


def _tensors(value: Any) -> list[torch.Tensor]:
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return [part for part in parts if isinstance(part, torch.Tensor)]


def _storages(values: dict[Node, Any], nodes: Iterable[Node]) -> set[int]:
    """Where the tensors of these nodes lie."""
    return {_storage(tensor) for node in nodes for tensor in _tensors(values.get(node))}


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return _storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def _drop_idle_views(graph: GraphModule, values: dict[Node, Any]) -> None:
    """An operation that changes its operand lies in the same place too, and stays."""
    for node in list(graph.graph.nodes):
        source = node.args[0] if isinstance(node.target, OpOverload) and node.args else None
        if not isinstance(source, Node) or node.target._schema.is_mutable:
            continue
        one, other = values[node], values[source]
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and _place(one) == _place(other):
            node.replace_all_uses_with(source)
            graph.graph.erase_node(node)


def _into(node: Node) -> tuple[Any, str] | None:
    """The variant of an operation that writes where it is told, and the name of that argument, or None."""
    if node.target in KERNELS:
        return node.target, "out"
    if node.target in _WRITTEN_OUT:
        return _WRITTEN_OUT[node.target], "out"
    if not isinstance(node.target, OpOverload):
        return None
    wanted = [(a.name, str(a.type)) for a in node.target._schema.arguments]
    packet = node.target.overloadpacket
    for name in packet.overloads():
        arguments = getattr(packet, name)._schema.arguments
        outs = [a for a in arguments if a.is_out]
        if torch.Tag.generated in getattr(packet, name).tags:
            continue  # it makes a tensor of its own, and copies it
        if len(outs) == 1 and [(a.name, str(a.type)) for a in arguments if not a.is_out] == wanted:
            return getattr(packet, name), outs[0].name
    return None


def _may_overwrite(node: Node, storage: int, values: dict[Node, Any]) -> bool:
    """Whether an operation may write its result over an operand: number by number, in the same places."""
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return False
    inputs = [t for n in node.all_input_nodes for t in _tensors(values[n]) if _storage(t) == storage]
    return all(_place(t)[1:] == _place(values[node])[1:] and t.dtype == values[node].dtype for t in inputs)


def _buffer(like: torch.Tensor, free: dict[int, list[int]], taken: dict[int, tuple[int, int]], pool: Pool) -> Any:
    """A tensor of the same shape in the buffer of its size that was freed last."""
    size = like.untyped_storage().nbytes()
    buffers, numbers = pool.setdefault(size, []), free.setdefault(size, [])
    if not numbers:
        numbers.append(sum(s == size for s, _ in taken.values()))
    number = numbers.pop()
    if number == len(buffers):
        buffers.append(torch.UntypedStorage(size, device=like.device))
    taken[_storage(like)] = size, number
    out = torch.empty(0, dtype=like.dtype, device=like.device)
    return out.set_(buffers[number], like.storage_offset(), like.shape, like.stride())


def _redirect(graph: GraphModule, node: Node, target: Any, name: str, outs: list[Any]) -> None:
    with graph.graph.inserting_before(node):
        places = []
        for out in outs:
            attribute = f"_buffer_{len(list(graph.buffers()))}"
            graph.register_buffer(attribute, out)
            places.append(graph.graph.get_attr(attribute))
    node.target = target
    node.kwargs = {**node.kwargs, name: tuple(places) if len(places) > 1 else places[0]}
