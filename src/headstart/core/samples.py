"""Inputs with their targets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Samples:
    """Inputs x[n, ...] with targets y[n, ...], of any shape and dtype.

    Whole numbers in x are symbols, which models look up; y holds real targets, or the numbers of classes. `weight`
    is of the shape of y: losses and metrics are means with these weights, so that a weight of 0 hides a token. None
    counts every target once.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    weight: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> "Samples":
        """The samples at these rows (a slice or an array of row numbers)."""
        return Samples(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])


def joined(parts: Sequence[Samples]) -> Samples:
    """Samples one after another."""
    if len(parts) == 1:
        return parts[0]
    weights = [part.weight for part in parts if part.weight is not None]
    assert len(weights) in (0, len(parts)), "either all of these samples have weights, or none"
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    return Samples(x, y, np.concatenate(weights) if weights else None)
