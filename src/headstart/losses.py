"""Training losses: the loss of each target, from predictions and targets. The engine takes the mean over the batch.

Every loss works on torch tensors; those without a torch function work on NumPy arrays too.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from headstart.core.errors import HeadstartError

if TYPE_CHECKING:
    import torch


@runtime_checkable
class Loss(Protocol):
    """A named loss of each target: of a sample, or of each token of a sample."""

    name: ClassVar[str]
    semantics: ClassVar[int]

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The loss of each target, of the shape of `target`."""
        ...


@dataclass(frozen=True)
class MSE:
    """(f - y)^2."""

    name: ClassVar[str] = "mse"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The squared error of each sample."""
        return (prediction - target) ** 2


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - y f)."""

    name: ClassVar[str] = "hinge"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The hinge loss of each sample."""
        return (1 - prediction * target).clip(min=0)


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(-y f))."""

    name: ClassVar[str] = "logistic"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The logistic loss of each sample."""
        from torch.nn.functional import softplus

        return softplus(-prediction * target)


@dataclass(frozen=True)
class Exponential:
    """exp(-y f): it overflows in float32 where y f is below about -88, which ends a run as diverged."""

    name: ClassVar[str] = "exponential"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The exponential loss of each sample."""
        return (-prediction * target).exp()


@dataclass(frozen=True)
class Correlation:
    """-y f: unbounded below, so its runs end by their budget or by divergence."""

    name: ClassVar[str] = "correlation"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The negative correlation of each sample."""
        return -prediction * target


@dataclass(frozen=True)
class CrossEntropy:
    """log sum_c exp(f_c) - f_y: for predictions [n, ..., classes] and targets [n, ...], the numbers of classes."""

    name: ClassVar[str] = "cross_entropy"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The cross-entropy of each sample."""
        from torch import logsumexp

        right = prediction.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        return logsumexp(prediction, dim=-1) - right


@dataclass(frozen=True)
class CorrelationLoss:
    """The correlation loss for a training loop of your own: -y f over a batch, as a mean, a sum or sample by sample.

    With class numbers as targets, int64[n], and scores float[n, classes], y is the centred indicator of the class,
    1[c = target] - 1 / classes. Unbounded below: use it for a first phase, and bound the weights or the steps.
    Reference: Less Data, Faster Training, Section 4 (the loss its theory analyses).
    """

    reduction: str = "mean"

    def __post_init__(self) -> None:
        if self.reduction not in ("mean", "sum", "none"):
            raise HeadstartError(f"CorrelationLoss(reduction={self.reduction!r}): choose mean, sum or none")

    def __call__(self, prediction: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        """The loss of a batch: a scalar, or [n] without a reduction."""
        if target.ndim == prediction.ndim - 1 and not target.is_floating_point():
            loss = prediction.mean(dim=-1) - prediction.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        elif target.shape == prediction.shape:
            loss = Correlation()(prediction, target)
        else:
            raise HeadstartError(
                f"CorrelationLoss: a prediction of shape {tuple(prediction.shape)} and a target of shape "
                f"{tuple(target.shape)} do not fit; give equal shapes, or class numbers for scores"
            )
        return loss if self.reduction == "none" else loss.sum() if self.reduction == "sum" else loss.mean()
