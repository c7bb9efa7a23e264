"""Estimates of what an arm costs with everything that was needed: sources, restarts, tuning; and of seconds."""

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.trace import AXES, Status
from headstart.core.units import Cost
from headstart.engines import lower
from headstart.engines.lower import samples_processed
from headstart.lab.axes import with_values
from headstart.lab.estimates import TimeRatio, check_paired
from headstart.lab.results import Results
from headstart.lab.sweep import RateOf
from headstart.measures import Estimate, bootstrap, restricted_times
from headstart.run import Run


def training_cost(run: Run) -> Cost:
    """What a run costs that trains to the end of its budget, its sources left out; 0 seconds, which are not known."""
    samples = int(samples_processed(run))
    return Cost(run.budget.steps, samples, samples * lower(run).flops)


def tuning_cost(results: Results, arm: str) -> Cost:
    """What the sweep of an arm cost: every selection run to the end of its budget, and once per seed its sources.

    The sources of selection runs count with the mean of those of the claims, since both are drawn alike. An arm that
    takes the settings of another one owes that arm's sweep; one without a sweep owes nothing.
    """
    if arm not in results.arms:
        raise HeadstartError(f"tuning_cost(arm={arm!r}): the study has {', '.join(results.arms)}")
    sweep = results.arms[arm].sweep
    if isinstance(sweep, RateOf):
        return tuning_cost(results, sweep.arm)
    total, tries = Cost(), results.tuned[arm].tries
    for values, scored in tries:
        each = training_cost(with_values(results.arms[arm].run, values))
        total += Cost(each.steps * scored.num_seeds, each.samples * scored.num_seeds, each.flops * scored.num_seeds)
    if not tries or arm not in results.traces:
        return total
    befores = [asdict(trace.before) for trace in results.traces[arm]]
    num = max(scored.num_seeds for _, scored in tries)
    mean = {name: num * sum(before[name] for before in befores) / len(befores) for name in AXES}
    return total + Cost(round(mean["steps"]), round(mean["samples"]), mean["flops"])


@dataclass(frozen=True)
class TotalCostRatio:
    """What arm `small` costs until `target`, with all that was needed, over what arm `large` does.

    cost = mean over seeds of min(T, horizon) on `axis`, what the runs that it started from had cost included (weak
    models, restarts), plus the cost of choosing its settings over `runs`, the number of runs that the choice is made
    for. `small_needs` and `large_needs` name further arms whose sweeps were needed, such as that of a weak model.
    """

    small: str
    large: str
    target: float
    axis: str = "flops"
    runs: int = 1
    horizon: float | None = None
    small_needs: tuple[str, ...] = ()
    large_needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_count("TotalCostRatio", "runs", self.runs)
        for name in ("small_needs", "large_needs"):
            if isinstance(getattr(self, name), str):
                raise HeadstartError(f"TotalCostRatio({name}={getattr(self, name)!r}): give a tuple of names of arms")
        _ = self._times  # its arguments are checked there

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares; those whose sweeps they need may have tried another number of settings."""
        return self.small, self.large

    @property
    def _times(self) -> TimeRatio:
        return TimeRatio(self.small, self.large, self.target, self.axis, horizon=self.horizon, total=True)

    def tuning(self, results: Results, arm: str) -> float:
        """What choosing the settings of `small` or `large` cost for each of the runs."""
        needs = self.small_needs if arm == self.small else self.large_needs
        costs = [tuning_cost(results, name) for name in (arm, *needs)]
        return float(sum(getattr(cost, self.axis) for cost in costs)) / self.runs

    def __call__(self, results: Results) -> Estimate:
        """The ratio with its interval; not a number where no run of either arm arrives."""
        without = self._times(results)
        if np.isnan(without.value):
            return without
        a, b = (self._times.times(results, arm) + self.tuning(results, arm) for arm in (self.small, self.large))
        found = bootstrap(lambda rows: float(a[rows].mean() / b[rows].mean()), len(a))
        return replace(found, arrivals=without.arrivals, horizon=without.horizon)

    def beside(self, results: Results) -> dict[str, Estimate]:
        """The ratio without the tuning."""
        return {"without tuning": self._times(results)}


@dataclass(frozen=True)
class SecondsRatio:
    """The seconds that arm `small` takes until `target` over those of arm `large`, what it started from included.

    A run's seconds are spread evenly over its steps, evaluation included, so a run that is at the target after a share
    of its steps took that share of its seconds. Times are restricted as in `TimeRatio`; `total=False` leaves sources
    out. Seconds depend on the machine, on what else it did, and on how many runs shared a call of an engine, since
    each counts with its share of it: compare FLOPs where you can.
    """

    small: str
    large: str
    target: float
    horizon: float | None = None
    total: bool = True

    def __post_init__(self) -> None:
        if self.horizon is not None:
            check_positive("SecondsRatio", "horizon", self.horizon)

    @property
    def axis(self) -> str:
        """The unit of its horizon."""
        return "seconds"

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.small, self.large

    def _axes(self, results: Results, arm: str) -> NDArray[np.float64]:
        """The seconds at each record, [seeds, records]."""
        traces = results.traces[arm]
        if results.arms[arm].run.budget.settled is not None:
            raise HeadstartError(f"SecondsRatio: runs of arm {arm!r} end once they are settled; leave that out")
        finished = [t.seconds / t.steps[-1] for t in traces if t.status is Status.FINISHED]
        if not finished:
            raise HeadstartError(f"SecondsRatio: no run of arm {arm!r} finished, so its seconds per step are not known")
        # A run that ended early would have gone on as fast as the others.
        steps = traces.grid().axis("steps")
        each = [t.seconds / t.steps[-1] if t.status is Status.FINISHED else float(np.mean(finished)) for t in traces]
        before = [trace.before.seconds if self.total else 0.0 for trace in traces]
        return np.array(before)[:, None] + np.outer(each, steps)

    def __call__(self, results: Results) -> Estimate:
        """The ratio with its interval; not a number where no run of either arm arrives."""
        check_paired(results, self.arms)
        axes = {arm: self._axes(results, arm) for arm in self.arms}
        ends = [float(seconds[:, -1].min()) for seconds in axes.values()]
        horizon = min(ends if self.horizon is None else [*ends, self.horizon])
        a, b = (
            restricted_times(axes[arm], results.curves(arm), self.target, results.metric(arm).higher_is_better, horizon)
            for arm in self.arms
        )
        arrivals = min(float((times < horizon).mean()) for times in (a, b))
        if (a >= horizon).all() and (b >= horizon).all():
            nothing = float("nan")  # 1 by construction, which says nothing
            return Estimate(nothing, nothing, nothing, arrivals=arrivals, horizon=horizon)
        found = bootstrap(lambda rows: float(a[rows].mean() / b[rows].mean()), len(a))
        return replace(found, arrivals=arrivals, horizon=horizon)
