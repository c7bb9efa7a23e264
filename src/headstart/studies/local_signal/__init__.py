"""Local Signal Adaptivity: what a convolution finds among patches of noise, and what kernels of it miss."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.measures import Geometric, View, When
from headstart.tasks import LocalSignal
from headstart.theory.local_signal import Filters, events

PAPER_TITLE = "Local Signal Adaptivity: Provable Feature Learning in Neural Networks Beyond Kernels"
GREY = "#777777"


def number(value: float) -> lab.Estimate:
    """A number that is computed and not measured: it has no interval."""
    return lab.Estimate(*(float(value),) * 3)


@dataclass(frozen=True)
class FilterEvents:
    """What the lemmas speak of, of the filter that a run trains: w . w*, |w_perp|, b and all of `events`."""

    at: When = Geometric(20)

    semantics: ClassVar[int] = 1

    def __call__(self, view: View) -> Mapping[str, ArrayLike]:
        """The events now."""
        by_role = {p.role: view.weights[p.name] for p in view.parameters}
        if not isinstance(view.task, LocalSignal) or Role.BIAS not in by_role:
            raise HeadstartError(f"FilterEvents: give LocalSignal and ThresholdFilter, not {view.task}, {view.model}")
        w, teacher = by_role[Role.INPUT][0].astype(np.float64), view.task.teacher(view.seed)
        c = float(w @ teacher)
        return events(Filters.on(view.task, c, np.linalg.norm(w - c * teacher), by_role[Role.BIAS][0]))
