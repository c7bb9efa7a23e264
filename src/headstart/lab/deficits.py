"""Whether an arm is better at every step: its largest deficit, and where it has one."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headstart.lab.estimates import check_paired
from headstart.lab.results import Results
from headstart.measures import Estimate, simultaneous_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class LargestDeficit:
    """How much worse the seed-mean test curve of arm `small` is than that of arm `large` where it is worst.

    D = max over recorded steps of the mean deficit, at least 0 as the arms begin alike. The interval is that of the
    largest value of a band that holds the mean deficits of all steps together with 95%.
    """

    small: str
    large: str

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def band(self, results: Results) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(low, mean, high) of the deficit at every record."""
        check_paired(results, self.arms)
        metric, num = results.metric(self.small), len(self._steps(results))
        # An arm all of whose runs diverged is at chance from then on.
        small, large = (
            np.pad(curves, ((0, 0), (0, num - curves.shape[1])), constant_values=metric.chance)
            for curves in (results.curves(arm) for arm in self.arms)
        )
        deficits = (large - small) * (1.0 if metric.higher_is_better else -1.0)
        low, high = simultaneous_band(deficits)
        return low, deficits.mean(axis=0), high

    def _steps(self, results: Results) -> NDArray[np.float64]:
        return max((results.traces[arm].grid().axis("steps") for arm in self.arms), key=len)

    def where(self, results: Results) -> NDArray[np.float64]:
        """The recorded steps at which the whole band says that it is worse."""
        low, _, _ = self.band(results)
        return self._steps(results)[low > 0]

    def __call__(self, results: Results) -> Estimate:
        """The deficit with its interval."""
        low, mean, high = self.band(results)
        return Estimate(float(mean.max()), float(low.max()), float(high.max()))

    def beside(self, results: Results) -> dict[str, Estimate]:
        """The first and the last recorded step at which the whole band says that it is worse, if there is one."""
        steps = self.where(results)
        ends = {"worse first at step": steps[0], "worse last at step": steps[-1]} if len(steps) else {}
        return {name: Estimate(*(float(step),) * 3) for name, step in ends.items()}


def mark_deficits(ax: "Axes", results: Results, small: str, large: str) -> None:
    """A bar at the foot of the axes over the steps at which arm `small` is worse than arm `large`."""
    steps = LargestDeficit(small, large).where(results)
    foot = ax.get_xaxis_transform()
    ax.plot(steps, np.full(len(steps), 0.02), "s", color="#CC3311", markersize=2.5, transform=foot)
