"""A metric is the mean over samples of a score of (prediction, target)."""

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
