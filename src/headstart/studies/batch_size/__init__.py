"""Online Learning and Information Exponents: which batch size and loss find hidden directions in the fewest steps.

What the studies share: times of the runs of a computed part, which may be censored; estimates of them for claims; and
overlap curves. A part has runs if its arrays have `first`, the step at which each reached the level, -1 where none did
within the horizon. Parts with one seed have one start for every run, so runs are paired across parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.measures import exponent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_TITLE = "Online Learning and Information Exponents"
GREY = "#777777"
AXES = {"steps": "steps", "samples": "samples"}

Floats = NDArray[np.float64]


def batch_of(dim: int, mu: float) -> int:
    """n_b = d^mu."""
    return max(1, round(float(dim) ** mu))


def recorded(steps: int, num: int = 60) -> tuple[int, ...]:
    """About `num` steps from 0 to `steps`, geometric, for a curve on a logarithmic axis."""
    return (0, *np.unique(np.geomspace(1, max(steps, 1), num).round().astype(int)).tolist())


@dataclass(frozen=True)
class Steps:
    """Times of n runs: min(T, horizon) [n], which runs got there [n], and where times end.

    In steps, or in samples where `in_samples` has been called.
    """

    restricted: Floats
    reached: NDArray[np.bool_]
    horizon: float
    batch: int

    @property
    def censored(self) -> Floats:
        """T, infinite for a run that did not get there, [n]."""
        return np.where(self.reached, self.restricted, np.inf)

    @property
    def median(self) -> float:
        """The median of T over runs; infinite where half of them did not get there."""
        return float(np.median(self.censored))

    @property
    def arrivals(self) -> float:
        """The share of runs that got there."""
        return float(self.reached.mean())

    def within(self, horizon: float) -> "Steps":
        """The same as seen by one who stops at an earlier horizon."""
        reached = self.reached & (self.restricted <= horizon)
        return replace(self, restricted=np.where(reached, self.restricted, horizon), reached=reached, horizon=horizon)

    def in_samples(self) -> "Steps":
        """Times and horizon in samples."""
        return Steps(self.restricted * self.batch, self.reached, self.horizon * self.batch, 1)

    def on(self, axis: str) -> "Steps":
        """In "steps" or in "samples"."""
        if axis not in AXES:
            raise HeadstartError(f"axis={axis!r}: choose one of {', '.join(AXES)}")
        return self.in_samples() if axis == "samples" else self


def steps_of(results: lab.Results, name: str) -> Steps:
    """The times of the runs of a part, such as RecoveryRuns with `stop_at` or TunedRuns."""
    if name not in results.computed or "first" not in results.computed[name]:
        raise HeadstartError(f"steps_of({name!r}): there is no such part with runs; name one of the study's")
    arrays, part = results.computed[name], results.parts[name]
    horizon = float(arrays["horizon"]) if "horizon" in arrays else float(part.steps)
    reached = np.asarray(arrays["first"]) >= 0
    return Steps(np.where(reached, arrays["first"], horizon), reached, horizon, int(part.process.batch))


@dataclass(frozen=True)
class StepsRatio:
    """The restricted mean time of part `one` over that of part `other`, in "steps" or "samples".

    Runs that do not get there count with the horizon, the lesser of both unless all runs of the part that has it got
    there. The bootstrap pairs runs, which share their starts.
    """

    one: str
    other: str
    axis: str = "steps"

    arms: ClassVar[tuple[str, ...]] = ()

    def times(self, results: lab.Results) -> tuple[Steps, Steps]:
        """The times of both parts within their common horizon."""
        both = [steps_of(results, name).on(self.axis) for name in (self.one, self.other)]
        if len({len(times.reached) for times in both}) > 1:
            raise HeadstartError(f"StepsRatio({self.one!r}, {self.other!r}): give parts with one number of runs")
        ends = [times.horizon for times in both if not times.reached.all()] or [max(t.horizon for t in both)]
        return both[0].within(min(ends)), both[1].within(min(ends))

    def _bootstrap(self, results: lab.Results, middle: Callable[[Floats], float], censored: bool) -> lab.Estimate:
        a, b = (times.censored if censored else times.restricted for times in self.times(results))
        with np.errstate(invalid="ignore"):
            return lab.bootstrap(lambda rows: middle(a[rows]) / max(middle(b[rows]), 1e-300), len(a))

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval; not a number where no run of either part got there."""
        one, other = self.times(results)
        if one.reached.any() or other.reached.any():
            found = self._bootstrap(results, lambda times: float(times.mean()), censored=False)
        else:
            found = lab.Estimate(*(float("nan"),) * 3)
        return replace(found, arrivals=min(one.arrivals, other.arrivals), horizon=one.horizon)

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """What the median run says; not a number, or infinite, where half of a part's runs did not get there."""
        return {"median run": self._bootstrap(results, lambda times: float(np.median(times)), censored=True)}


@dataclass(frozen=True)
class StepsMean:
    """The restricted mean time of the runs of a part, in "steps" or "samples"."""

    name: str
    axis: str = "steps"

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean with its interval."""
        times = steps_of(results, self.name).on(self.axis)
        found = lab.bootstrap(lambda rows: float(times.restricted[rows].mean()), len(times.reached))
        return replace(found, arrivals=times.arrivals, horizon=times.horizon)

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The median run."""
        times = steps_of(results, self.name).on(self.axis).censored
        return {"median run": lab.bootstrap(lambda rows: float(np.median(times[rows])), len(times))}


@dataclass(frozen=True)
class StepsExponent:
    """b of median time ~ x^b over parts, one an x, in "steps" or "samples"; 95% bootstrap, runs paired across parts.

    It is not a number where half of the runs of a part did not get there.
    """

    names: tuple[str, ...]
    x: tuple[float, ...]
    of: str = "steps"

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The exponent with its interval."""
        times = [steps_of(results, name).on(self.of).censored for name in self.names]
        least = min(len(row) for row in times)  # runs are paired by number, so a part may have more
        return exponent(self.x, np.array([row[:least] for row in times]))


@dataclass(frozen=True)
class Recovered:
    """The share of the runs of a part that reached its level, with the exact interval."""

    name: str

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share."""
        reached = steps_of(results, self.name).reached
        return lab.share(int(reached.sum()), len(reached))


def overlap_curves(results: lab.Results, name: str) -> tuple[Floats, Floats]:
    """Recorded steps [t], and |M|_F of each run at these, [n, t]. A run that has stopped stays where it was."""
    arrays = results.computed[name]
    curves: Floats = np.linalg.norm(arrays["overlaps"], axis=(2, 3))
    for place in range(1, curves.shape[1]):
        gone = np.isnan(curves[:, place])
        curves[gone, place] = curves[gone, place - 1]
    return np.asarray(arrays["step"], dtype=np.float64), curves


def draw_overlaps(
    ax: "Axes",
    results: lab.Results,
    name: str,
    colour: str,
    label: str,
    share: float = 0.8,
    linestyle: str = "-",
    axis: str = "steps",
) -> None:
    """The median over runs of |M|_F against steps or samples, and a band that holds a `share` of the runs."""
    steps, curves = overlap_curves(results, name)
    x = steps * (results.parts[name].process.batch if axis == "samples" else 1)
    low, middle, high = np.quantile(curves, ((1 - share) / 2, 0.5, (1 + share) / 2), axis=0)
    ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    ax.plot(x, middle, linestyle, color=colour, label=label)
    ax.set(xlabel=AXES[axis], ylabel="overlap |M|", ylim=(0, 1.02))


def draw_times(
    ax: "Axes",
    results: lab.Results,
    names: Sequence[str],
    x: Sequence[float],
    colour: str,
    label: str,
    of: str = "steps",
    marker: str = "o-",
    share: float = 0.8,
) -> None:
    """Median times against x on logarithmic axes, and a band that holds a `share` of the runs; censored runs above."""
    times = [steps_of(results, name).on(of).censored for name in names]
    low, middle, high = (
        [np.quantile(row, at, method="inverted_cdf") for row in times] for at in ((1 - share) / 2, 0.5, (1 + share) / 2)
    )
    top = 10 * max([value for value in (*middle, *high) if np.isfinite(value)], default=1.0)
    ax.fill_between(x, np.minimum(low, top), np.minimum(high, top), color=colour, alpha=0.15, linewidth=0)
    ax.plot(x, middle, marker, color=colour, markersize=3.5, label=label)
    ax.set(xscale="log", yscale="log", ylabel=AXES[of])
