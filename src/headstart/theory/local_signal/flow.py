"""Training on the population with small rates: the gradient flow of a filter with a soft threshold, exactly."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_positive
from headstart.tasks import LocalSignal
from headstart.theory.local_signal.events import events
from headstart.theory.local_signal.threshold import Filters, Floats


@dataclass(frozen=True)
class FilterFlow:
    """dc/dt = -dL/dc and db/dt = -bias_ratio dL/db from c = `start`, v = 0 and b = 0, until t = `end`.

    The limit of Algorithm 3.1 for many samples per batch and a small rate eta for w: step T is t = eta T, and
    bias_ratio the rate of b over that of w, 1 / k in the thesis. `arrived` is the first t with an error of `target`,
    infinite if it does not come. A computed part of a study.
    """

    task: LocalSignal
    bias_ratio: float
    target: float = 0.01
    end: float = 1e6
    start: float = 1e-6
    points: int = 60

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.task, LocalSignal):
            raise HeadstartError(f"FilterFlow(task={self.task!r}): give a LocalSignal")
        for name in ("bias_ratio", "end", "start"):
            check_positive("FilterFlow", name, getattr(self, name))
        check_fraction("FilterFlow", "target", self.target)
        check_count("FilterFlow", "points", self.points, minimum=8)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 2.0

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """arrived; time [t], from a tenth of b's turning point to where it arrives or ends; and `events` there [t]."""
        from scipy.integrate import solve_ivp
        from scipy.optimize import brentq

        def slope(t: float, state: Floats) -> list[float]:
            found = Filters.on(self.task, state[0], 0.0, state[1]).gradients()
            return [-float(found.signal), -self.bias_ratio * float(found.bias)]

        found = solve_ivp(slope, (0.0, self.end), [self.start, 0.0], "LSODA", dense_output=True, rtol=1e-7, atol=1e-12)
        if not found.success:
            raise HeadstartError(f"FilterFlow({self.task}): the equation was not solved: {found.message}")

        def excess(log_t: float) -> float:
            c, b = found.sol(np.exp(log_t))
            return float(Filters.on(self.task, c, 0.0, b).error()) - self.target

        turning = max(found.t[int(found.y[1].argmax())], 1e-3 * self.start)
        grid = np.geomspace(turning / 10, self.end, self.points)
        below = [place for place, t in enumerate(grid) if excess(np.log(t)) <= 0]
        arrived, last = float("inf"), self.end
        if below and below[0]:
            arrived = last = float(np.exp(brentq(excess, *np.log(grid[below[0] - 1 : below[0] + 1]), xtol=1e-4)))
        time = np.geomspace(turning / 10, last, self.points)
        c, b = found.sol(time)
        return {"arrived": np.array(arrived), "time": time, **events(Filters.on(self.task, c, 0.0, b))}
