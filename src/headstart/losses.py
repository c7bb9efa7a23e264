"""Training losses: the loss of each sample, from predictions and targets. The engine takes the mean over the batch.

Every loss works on torch tensors; those without a torch function work on NumPy arrays too.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class Loss(Protocol):
    """A named per-sample loss."""

    name: ClassVar[str]
    semantics: ClassVar[int]

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The loss of each sample, shape [n]."""
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
class Correlation:
    """-y f: unbounded below, so its runs end by their budget or by divergence."""

    name: ClassVar[str] = "correlation"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The negative correlation of each sample."""
        return -prediction * target


@dataclass(frozen=True)
class CrossEntropy:
    """log sum_c exp(f_c) - f_y: for predictions [n, classes] and targets that are numbers of classes."""

    name: ClassVar[str] = "cross_entropy"
    semantics: ClassVar[int] = 1

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The cross-entropy of each sample."""
        from torch import logsumexp

        right = prediction.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        return logsumexp(prediction, dim=-1) - right
