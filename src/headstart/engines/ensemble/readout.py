"""A narrow readout under cross-entropy in a traced step: three products and the slopes between them as one kernel."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from headstart.core.kernels.compile import kernels
from headstart.core.roles import Parameter, Role
from headstart.engines.ensemble.cross_entropy import CLASSIFIED, SLOPES
from headstart.losses import CrossEntropy

# More classes, or features, do not fit into registers; fewer logits per member are not worth compiling for.
_MOST_CLASSES, _MOST_FEATURES, _LEAST_LOGITS = 128, 64, 2**15
_LANES = 8
_aten = torch.ops.aten
_VIEWS = {_aten.view.default, _aten._unsafe_view.default, _aten.expand.default}


def is_narrow(parameters: Sequence[Parameter], loss: Any) -> bool:
    """Whether logits may stay in registers: a guess, for the bytes that a pass holds."""
    shapes = [p.shape for p in parameters if p.role is Role.READOUT]
    return type(loss) is CrossEntropy and all(len(shape) == 2 and _fits(*shape) for shape in shapes)


def with_readouts(graph: GraphModule) -> None:
    """Put the kernel where logits are a product that only the slopes read, and only two products read those."""
    for node in list(graph.graph.nodes):
        if node.target is CLASSIFIED and (product := _product(node)) is not None:
            node.target, node.args = scores, (*product, node.args[1])
        if node.target is not SLOPES or (found := _found(node)) is None:
            continue
        h, weights, d_h, d_weights = found
        with graph.graph.inserting_before(node):
            both = graph.graph.call_function(gradients, (h, weights, *node.args[1:]))
            mine = [graph.graph.call_function(_item, (both, i)) for i in range(2)]
            # A step returns the gradient of the weights, which keeps a tensor out of the buffers; only the copy is.
            mine[1] = graph.graph.call_function(_aten.clone.default, (mine[1],))
        for old, new in zip((d_h, d_weights), mine, strict=True):
            old.replace_all_uses_with(new)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _item(both: tuple[torch.Tensor, torch.Tensor], i: int) -> torch.Tensor:
    return both[i]


def _found(slopes: Any) -> tuple[Any, Any, Any, Any] | None:
    """The features [members, n, width], the weights [members, classes, width], and the nodes of both gradients."""
    if (product := _product(slopes)) is None:
        return None
    (h, weights), logits = product, _behind_views(slopes.args[0])
    found: dict[str, Any] = {}
    for user in _users(slopes):
        for product in _users(user) if user.target is _aten.transpose.int else [user]:
            if product.target is not _aten.bmm.default:
                return None
            left, right = product.args
            if _same(_transposed(left), slopes) and _same(right, h):
                found["weights"] = product
            elif _same(left, slopes) and _same(_transposed(right), logits.args[1]):
                found["h"] = product
            else:
                return None
    return (h, weights, found["h"], found["weights"]) if len(found) == 2 else None


def _product(node: Any) -> tuple[Any, Any] | None:
    """The features and the weights of the logits that a node alone reads, or None."""
    logits = _behind_views(node.args[0])
    if logits.target is not _aten.bmm.default or not _shape_fits(logits):
        return None
    weights = _transposed(logits.args[1])
    if weights is None or any(user is not node for user in _users(logits)):
        return None
    return logits.args[0], weights


def _shape_fits(logits: Any) -> bool:
    (_, num, classes), width = _meta(logits).shape, _meta(logits.args[0]).shape[2]
    enough = num * classes >= _LEAST_LOGITS and _meta(logits).dtype == torch.float32
    return enough and _fits(classes, width)


def _fits(classes: int, width: int) -> bool:
    return classes <= _MOST_CLASSES and width <= _MOST_FEATURES and width % _LANES == 0


def _meta(node: Any) -> Any:
    return node.meta["tensor_meta"]


def _is_view(node: Any) -> bool:
    """Whether a node gives the same numbers in the same order, perhaps in another shape."""
    if node.target is _aten.permute.default:
        return list(node.args[1]) == sorted(node.args[1])
    return node.target in _VIEWS and _meta(node).shape.numel() == _meta(node.args[0]).shape.numel()


def _behind_views(node: Any) -> Any:
    while _is_view(node):
        node = node.args[0]
    return node


def _users(node: Node) -> list[Any]:
    """What reads a tensor, behind views of it."""
    return [end for user in node.users for end in (_users(user) if _is_view(user) else [user])]


def _transposed(node: Any) -> Any:
    """What a node is the transpose of, the last two axes swapped, or None."""
    node = _behind_views(node)
    return node.args[0] if node.target is _aten.transpose.int and set(node.args[1:]) == {1, 2} else None


def _same(node: Any, other: Any) -> bool:
    return node is not None and _behind_views(node) is _behind_views(other)


def gradients(
    h: torch.Tensor, weights: torch.Tensor, y: torch.Tensor, d_loss: torch.Tensor, out: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of h [members, n, width] and weights [members, classes, width], into `out` if it is given."""
    members, num, width = h.shape
    out = (torch.empty_like(h), torch.empty_like(weights)) if out is None else out
    pass_over = kernels("engines.fused.readout").gradients(width, weights.shape[1])
    arrays = [x.detach().contiguous().view(-1).numpy() for x in (h, weights, y, d_loss)]
    pass_over(members, num, *arrays, *(x.view(-1).numpy() for x in out))
    return out


def scores(h: torch.Tensor, weights: torch.Tensor, y: torch.Tensor, out: Any = None) -> tuple[Any, Any]:
    """`headstart::classified` of the logits h W^T, [members * n] each, into `out` if it is given."""
    out = (h.new_empty(y.shape), torch.empty(y.shape, dtype=torch.bool)) if out is None else out
    pass_over = kernels("engines.fused.readout").scores(h.shape[2], weights.shape[1])
    arrays = [x.detach().contiguous().view(-1).numpy() for x in (h, weights, y)]
    pass_over(*h.shape[:2], *arrays, *(x.numpy() for x in out))
    return out


KERNELS = (gradients, scores)
