"""Softmax cross-entropy and class accuracy of a stack, by kernels: every row of logits is read once.

    slopes = (softmax(f) - [y]) d loss

is one operation in a traced step, instead of the nine that autograd makes of logsumexp and gather.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from headstart.core.kernels.compile import kernels
from headstart.core.metric import Metric, is_largest
from headstart.losses import CrossEntropy
from headstart.models.operation import operation


def _cross_entropy_slopes(logits: torch.Tensor, y: torch.Tensor, d_loss: torch.Tensor) -> torch.Tensor:
    """d_loss (softmax(logits) - [y]): from logits [n, classes], classes int64[n] and d_loss [n]."""
    shares = torch.softmax(logits, dim=1) * d_loss[:, None]
    return shares.scatter_add(1, y[:, None], -d_loss[:, None])


def _classified(logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The cross-entropy of each row [n, classes], and whether its class has the largest score."""
    return CrossEntropy()(logits, y), is_largest(logits, y)


SLOPES, CLASSIFIED = operation(_cross_entropy_slopes), operation(_classified)


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


def scores_to_trace(prediction: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy and accuracy of each target, in one operation."""
    losses, right = CLASSIFIED(prediction.flatten(0, -2), y.flatten().long())
    return losses.unflatten(0, y.shape), right.unflatten(0, y.shape)


def is_classifier(loss: Any, metrics: Sequence[Metric]) -> bool:
    """Whether cross-entropy and accuracy are all that is recorded."""
    return type(loss) is CrossEntropy and [metric.score for metric in metrics] == [is_largest]


def replacement(node: Any) -> Any:
    """The kernel for an operation in a traced graph, or None where it does not fit."""
    kernel = slopes if node.target is SLOPES else classified
    return kernel if node.args[0].meta["tensor_meta"].dtype == torch.float32 else None


def slopes(
    logits: torch.Tensor, y: torch.Tensor, d_loss: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    """`headstart::cross_entropy_slopes`, into `out` if it is given."""
    out = torch.empty_like(logits) if out is None else out
    _module().slopes(_flat(logits), _flat(y), _flat(d_loss), out.view(-1).numpy())
    return out


def classified(logits: torch.Tensor, y: torch.Tensor, out: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """`headstart::classified`, into `out` if it is given."""
    out = (logits.new_empty(y.shape), torch.empty(y.shape, dtype=torch.bool)) if out is None else out
    _module().classified(_flat(logits), _flat(y), *(x.numpy() for x in out))
    return out


KERNELS = (slopes, classified)


def _flat(x: torch.Tensor) -> Any:
    return x.detach().contiguous().view(-1).numpy()


@cache
def _module() -> Any:
    return kernels("engines.fused.cross_entropy")
