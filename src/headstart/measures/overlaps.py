"""How far the neurons of a first layer have turned towards the directions of a target."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.measures.on_the_way import Recorded, View, When


@dataclass(frozen=True)
class Overlaps:
    """The overlaps of the p neurons of the first layer, the rows of W, with k hidden directions, those of W*.

        "M"  W W*^T, float64[p, k]: with the target, cosines where both have norm 1, as under OnSphere()
        "Q"  W W^T,  float64[p, p]: with each other

    On Gaussian inputs they decide the loss: the student sees an input through W x alone. For tasks that have a
    `teacher(seed)`: SingleIndex and MultiIndex. Reference: Online Learning and Information Exponents, where a direction
    is recovered weakly once |M|_F passes a level that does not depend on the dimension.
    """

    at: When = Recorded()

    semantics: ClassVar[int] = 1

    def __call__(self, view: View) -> dict[str, NDArray[np.float64]]:
        """The overlaps now."""
        task: Any = view.task
        if not hasattr(task, "teacher"):
            raise HeadstartError(
                f"Overlaps: {type(task).__name__} has no hidden directions; use SingleIndex(...) or MultiIndex(...)"
            )
        first = [p for p in view.parameters if p.role is Role.INPUT and len(p.shape) == 2]
        if len(first) != 1:
            raise HeadstartError(
                f"Overlaps: {view.model} has no layer of neurons on the inputs; use MLP(width, depth=2)"
            )
        w = view.weights[first[0].name].astype(np.float64)
        teacher = np.atleast_2d(task.teacher(view.seed))
        return {"M": w @ teacher.T, "Q": w @ w.T}
