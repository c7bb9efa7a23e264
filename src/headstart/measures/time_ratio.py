"""How much sooner one arm reaches a target than another, with an interval over seeds."""

import numpy as np
from numpy.typing import NDArray

from headstart.measures.intervals import Estimate, bootstrap_bounds
from headstart.measures.time_to_target import monotone, time_to_target


def time_ratio(
    small: tuple[NDArray[np.float64], NDArray[np.float64]],
    large: tuple[NDArray[np.float64], NDArray[np.float64]],
    target: float,
    higher_is_better: bool,
    level: float = 0.95,
) -> Estimate:
    """Time to `target` of `small` over that of `large`, each (axis [records], curves [seeds, records]).

    Times are those of the monotone fit of the seed-mean curve. An arm that misses the target within its budget is
    censored: its time is anywhere from its budget to infinity, and the interval reaches as far as that allows. The
    bootstrap pairs arms by seed.
    """

    def bounds(rows: NDArray[np.int64]) -> tuple[float, float]:
        least, times = [], []
        for axis, curves in (small, large):
            mean = monotone(curves[rows].mean(axis=0), higher_is_better)
            # Within the first interval between records a time is not resolved, so it counts as that interval.
            time = max(time_to_target(axis, mean, target, higher_is_better), axis[1])
            times.append(time)
            least.append(time if np.isfinite(time) else axis[-1])
        return (least[0] / times[1] if np.isfinite(times[1]) else 0.0), times[0] / least[1]

    return bootstrap_bounds(bounds, len(small[1]), level)
