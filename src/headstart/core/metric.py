"""A metric is the mean over targets of a score of (prediction, target)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """A named score. `score(prediction, target)` works elementwise on NumPy arrays and torch tensors alike.

    `chance` is the value of a model that has learned nothing; a diverged run counts as that from then on.
    """

    name: str
    score: Callable[[Any, Any], Any]
    higher_is_better: bool
    chance: float


def sign_accuracy(ties: float = 0.5) -> Metric:
    """The share of samples whose prediction has the sign of the target, +-1. A prediction of exactly 0 counts `ties`.

    One half is what a coin would get; 0 makes sign(0) an error, as some proofs need it.
    """

    def agrees(prediction: Any, target: Any) -> Any:
        product = prediction * target
        return (product > 0) + ties * (product == 0)

    return Metric("accuracy", agrees, higher_is_better=True, chance=0.5)


def is_largest(prediction: Any, target: Any) -> Any:
    """Whether the class of each target has the largest score."""
    return prediction.argmax(-1) == target


def class_accuracy(num_classes: int) -> Metric:
    """The share of targets whose class has the largest score, for predictions [n, ..., classes]."""
    return Metric("accuracy", is_largest, higher_is_better=True, chance=1 / num_classes)
