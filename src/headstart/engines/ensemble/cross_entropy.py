"""Softmax cross-entropy and class accuracy of a stack, by kernels: every row of logits is read once.

    slopes = (softmax(f) - [y]) d loss

is one operation in a traced step, instead of the nine that autograd makes of logsumexp and gather.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from headstart.core.kernels.compile import kernels
from headstart.core.metric import is_largest
from headstart.losses import CrossEntropy
from headstart.models.operation import operation


def _cross_entropy_slopes(logits: torch.Tensor, y: torch.Tensor, d_loss: torch.Tensor) -> torch.Tensor:
    """d_loss (softmax(logits) - [y]): from logits [n, classes], classes int64[n] and d_loss [n]."""
    shares = torch.softmax(logits, dim=1) * d_loss[:, None]
    return shares.scatter_add(1, y[:, None], -d_loss[:, None])


SLOPES = operation(_cross_entropy_slopes)


class _Loss(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits: torch.Tensor, y: torch.Tensor) -> Any:
        return CrossEntropy()(logits, y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, d_loss: torch.Tensor) -> tuple[Any, None]:
        return SLOPES(*ctx.saved_tensors, d_loss), None


def loss_to_trace(loss: Any, device: str) -> Callable[[Any, Any], Any]:
    """The loss, written for a traced step on this device."""
    if type(loss) is not CrossEntropy or device != "cpu":
        return loss

    def cross_entropy(prediction: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        losses: torch.Tensor = _Loss.apply(prediction.flatten(0, -2), y.flatten().long())
        return losses.unflatten(0, y.shape)

    return cross_entropy


def replacement(node: Any) -> Any:
    """The kernel for the slopes in a traced graph, or None where it does not fit."""
    return slopes if node.args[0].meta["tensor_meta"].dtype == torch.float32 else None


def slopes(
    logits: torch.Tensor, y: torch.Tensor, d_loss: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`headstart::cross_entropy_slopes`, into `out` if it is given."""
    out = torch.empty_like(logits) if out is None else out
    _module().slopes(_flat(logits), _flat(y), _flat(d_loss), out.view(-1).numpy())
    return out


KERNELS = (slopes,)


def score_of(score: Callable[[Any, Any], Any], like: torch.Tensor) -> Callable[[Any, Any], Any]:
    """A score of predictions such as `like` and targets, by a kernel if there is one for it."""
    if like.device.type != "cpu" or like.dtype != torch.float32:
        return score
    if type(score) is CrossEntropy:
        return lambda prediction, y: _by_row(_module().losses, prediction, y, torch.float32)
    if score is is_largest:
        return lambda prediction, y: _by_row(_module().are_largest, prediction, y, torch.bool)
    return score


def _by_row(pass_over: Any, prediction: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty(y.shape, dtype=dtype)
    pass_over(_flat(prediction), _flat(y), out.view(-1).numpy())
    return out


def _flat(x: torch.Tensor) -> Any:
    return x.detach().contiguous().view(-1).numpy()


@cache
def _module() -> Any:
    return kernels("engines.fused.cross_entropy")
