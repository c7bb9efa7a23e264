"""How much of a first layer lies off the coordinates that carry the signal."""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Role
from headstart.measures.on_the_way import Recorded, View, When


def norm_ratio(weights: ArrayLike, num_signal: int = 2) -> float:
    """r_W: the root mean square of the weights [width, p] off the signal, over that on its first coordinates.

        r_W = (|W_{3:p}|_F / sqrt(p - 2)) / (|W_{1:2}|_F / sqrt 2)   for two

    Reference: Let Me Grok For You, Section 3.2 (its W is the transpose of ours).
    """
    check_count("norm_ratio", "num_signal", num_signal)
    w = np.asarray(weights)
    if w.ndim != 2 or w.shape[1] <= num_signal:
        raise HeadstartError(f"norm_ratio(weights of shape {w.shape}): give [width, p] with p above {num_signal}")
    on, off = (float(np.square(part, dtype=np.float64).sum()) for part in (w[:, :num_signal], w[:, num_signal:]))
    if not on:
        raise HeadstartError(f"norm_ratio(weights): those of the first {num_signal} coordinates are all 0")
    return sqrt(off / (w.shape[1] - num_signal)) / sqrt(on / num_signal)


@dataclass(frozen=True)
class NormRatio:
    """ "norm_ratio" of the first layer, and its weights on the first coordinates, "signal" [width, num_signal]."""

    num_signal: int = 2
    at: When = Recorded()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("NormRatio", "num_signal", self.num_signal)

    def __call__(self, view: View) -> dict[str, float | NDArray[np.floating]]:
        """Both now."""
        first = next((p.name for p in view.parameters if p.role is Role.INPUT), None)
        if first is None:
            raise HeadstartError("NormRatio(): the model has no first layer on raw inputs")
        weights = view.weights[first]
        return {"norm_ratio": norm_ratio(weights, self.num_signal), "signal": weights[:, : self.num_signal].copy()}
