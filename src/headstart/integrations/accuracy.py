"""The accuracy of a training batch, for the heads of Hugging Face's models."""

from collections.abc import Mapping
from typing import Any

import torch

from headstart.core.errors import HeadstartError

_IGNORED = -100  # labels that no loss counts


class BatchAccuracy:
    """The share of a batch's labels that have the largest logit, those of -100 left out: int labels, float logits.

    Classification has one label per example or token, masked language modelling one per masked token. A causal model
    predicts label t + 1 at place t, and shifts the labels within its loss. Whether it does, the loss itself says: its
    gradient at the logits is zero at every place that learns nothing, which is the last one where labels are shifted.
    """

    def __init__(self) -> None:
        self.shift: int | None = None  # how far the labels of tokens are shifted, once a batch has told

    def __call__(self, loss: torch.Tensor, outputs: Any, inputs: Mapping[str, Any]) -> float | None:
        """The accuracy; None where no label counts, or where the batch does not tell how the labels are shifted."""
        logits, labels = _logits(outputs), inputs.get("labels")
        if not isinstance(logits, torch.Tensor) or not isinstance(labels, torch.Tensor):
            raise _unknown("there are no logits, or no labels")
        if labels.dtype.is_floating_point or logits.shape[-1] < 2:
            raise _unknown("the labels are no classes")
        if logits.shape[:-1] != labels.shape or labels.ndim > 2:
            raise _unknown(f"logits of shape {tuple(logits.shape)} and labels of shape {tuple(labels.shape)}")
        labels = labels.to(logits.device)
        if labels.ndim == 2 and self.shift is None:
            self.shift = _shift(loss, logits, labels)
        if labels.ndim == 2 and self.shift is None:
            return None
        right = _shifted(labels, self.shift or 0)
        counted = right != _IGNORED
        if not bool(counted.any()):
            return None
        return float((logits.detach().argmax(dim=-1) == right)[counted].float().mean())


def _logits(outputs: Any) -> Any:
    return outputs.get("logits") if isinstance(outputs, Mapping) else getattr(outputs, "logits", None)


def _shifted(labels: torch.Tensor, shift: int) -> torch.Tensor:
    """The label that each place learns: int64[n, places]."""
    return labels if not shift else torch.nn.functional.pad(labels[:, shift:], (0, shift), value=_IGNORED)


def _shift(loss: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor) -> int | None:
    """0 or 1, whichever explains where the loss has a gradient; None if both do."""
    gradient = _gradient(loss, logits)
    if gradient is None:
        raise _unknown("the loss has no gradient at the logits")
    learns = (gradient != 0).any(dim=-1)
    explain = [shift for shift in (0, 1) if not bool((learns & (_shifted(labels, shift) == _IGNORED)).any())]
    if not explain:
        raise _unknown("the loss counts other labels than those in the batch")
    if len(explain) == 1:
        return explain[0]
    # A place whose label counts but which learns nothing speaks against a shift.
    idle = [int((~learns & (_shifted(labels, shift) != _IGNORED)).sum()) for shift in (0, 1)]
    return None if idle[0] == idle[1] else int(idle[1] < idle[0])


def _gradient(loss: torch.Tensor, logits: torch.Tensor) -> torch.Tensor | None:
    """That of the loss at the logits, or at what they were cast from: mixed precision returns a cast copy."""
    if not loss.requires_grad or logits.grad_fn is None:
        return None
    (gradient,) = torch.autograd.grad(loss, logits, retain_graph=True, allow_unused=True)
    if gradient is None and logits.grad_fn.name().startswith("ToCopyBackward"):
        edge = torch.autograd.graph.GradientEdge(*logits.grad_fn.next_functions[0])
        (gradient,) = torch.autograd.grad(loss, edge, retain_graph=True, allow_unused=True)
    return gradient


def _unknown(why: str) -> HeadstartError:
    return HeadstartError(
        f"PhasedTrainer: an auto schedule needs the accuracy of its batches, which is not known here ({why}); give "
        "PhasedTrainer(metric=...), a function metric(outputs, inputs) -> float, higher being better"
    )
