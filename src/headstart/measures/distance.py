"""How far weights have gone from where they began."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.state import Arrays
from headstart.measures.on_the_way import Recorded, View, When


def distance(one: Arrays, other: Arrays) -> float:
    """|w - w'|_2 over all weights of two networks of one architecture."""
    return float(np.sqrt(sum(_square(one[name], other[name]) for name in one)))


def _square(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    return float(np.square(one.astype(np.float64) - other.astype(np.float64)).sum())


@dataclass(frozen=True)
class Distance:
    """|w_t - w_0|_2 in all, "distance", and of the weights of each role, such as "distance_readout"."""

    at: When = Recorded()

    semantics: ClassVar[int] = 1

    def __call__(self, view: View) -> dict[str, float]:
        """The distances now."""
        squares: dict[str, float] = {}
        for parameter in view.parameters:
            square = _square(view.weights[parameter.name], view.initial[parameter.name])
            squares[f"distance_{parameter.role}"] = squares.get(f"distance_{parameter.role}", 0.0) + square
        return {name: square**0.5 for name, square in {"distance": sum(squares.values()), **squares}.items()}
