"""Scores: what a sweep chooses by. The score of a study is its primary endpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.trace import AXES, Status, Summary, Traces
from headstart.measures import restricted_times
from headstart.run import Run, higher_is_better, recorded_metrics


@dataclass(frozen=True)
class Scored:
    """What the selection seeds say of one cell.

    `score`: lower is better. `arrivals`: the share of seeds that reach the target, None where there is none. `area`:
    the area under the mean test curve. `diverged`: the share of seeds that did.
    """

    score: float
    area: float
    diverged: float
    arrivals: float | None = None
    num_seeds: int = 1


class Score(Protocol):
    """A frozen dataclass that reads one number off the runs of a cell. Lower is better."""

    semantics: ClassVar[int]
    needs_curves: ClassVar[bool]

    @property
    def words(self) -> str:
        """What it is, for a page."""
        ...

    def check(self, run: Run) -> None:
        """Raise a HeadstartError where runs of this kind cannot be scored so."""
        ...

    def __call__(self, run: Run, summaries: Sequence[Summary], traces: Traces) -> tuple[float, float | None]:
        """The score, and the share of seeds that arrive, if there is something to arrive at."""
        ...


@dataclass(frozen=True)
class Area:
    """The area under the seed-mean test curve of the leading metric: the mean over the run."""

    semantics: ClassVar[int] = 1
    needs_curves: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """In words."""
        return "the area under the mean test curve"

    def check(self, run: Run) -> None:
        """Every run has one."""

    def __call__(self, run: Run, summaries: Sequence[Summary], traces: Traces) -> tuple[float, float | None]:
        """The mean of the areas, which is the area under the mean curve."""
        area = float(np.mean([summary.area for summary in summaries]))
        return (-area if run.task.metrics[0].higher_is_better else area), None


@dataclass(frozen=True)
class Final:
    """The seed-mean of the last recorded value of a metric, such as "test_loss"; runs that diverge are infinitely bad.

    For runs whose end is what counts, not how soon they get there.
    """

    metric: str

    semantics: ClassVar[int] = 1
    needs_curves: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """In words."""
        return f"{self.metric} at the end"

    def check(self, run: Run) -> None:
        """The run must record the metric."""
        if self.metric not in recorded_metrics(run):
            raise HeadstartError(f"Final({self.metric!r}): its runs record {', '.join(recorded_metrics(run))}")

    def __call__(self, run: Run, summaries: Sequence[Summary], traces: Traces) -> tuple[float, float | None]:
        """The mean of the last values."""
        if any(summary.status is not Status.FINISHED for summary in summaries):
            return float("inf"), None
        mean = float(np.mean([summary.last[self.metric] for summary in summaries]))
        return (-mean if higher_is_better(run, self.metric) else mean), None


@dataclass(frozen=True)
class TimeToTarget:
    """The restricted mean time to `target` of the leading test metric: the mean over seeds of min(T, horizon).

    T is when the monotone fit of a seed's curve first reaches the target, on `axis`; the horizon is the end of the run.
    """

    target: float
    axis: str = "steps"

    semantics: ClassVar[int] = 1
    needs_curves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("TimeToTarget", "target", self.target)
        if self.axis not in AXES:
            raise HeadstartError(f"TimeToTarget(axis={self.axis!r}): choose {', '.join(AXES)}")

    @property
    def words(self) -> str:
        """In words."""
        return f"the restricted mean time to {self.target:g}, in {self.axis}"

    def check(self, run: Run) -> None:
        """Every run has a leading metric."""

    def __call__(self, run: Run, summaries: Sequence[Summary], traces: Traces) -> tuple[float, float | None]:
        """The mean of min(T, horizon), and the share of seeds with T below the horizon."""
        metric, grid = run.task.metrics[0], traces.grid()
        if len(grid.steps) < 2:  # everything diverged at once
            return float("inf"), 0.0
        # A run that diverged has no horizon of its own: all of a cell have the same budget.
        axis = grid.axis(self.axis)
        share = run.budget.steps / max(float(grid.steps[-1]), 1.0)
        horizon = float(axis[-1]) * share
        curves = traces.stack(f"test_{metric.name}", metric.chance)
        times = restricted_times(axis, curves, self.target, metric.higher_is_better, horizon)
        return float(times.mean()), float((times < horizon).mean())


def score_cell(score: Score, run: Run, summaries: Sequence[Summary], traces: Traces) -> Scored:
    """What these runs of a cell say."""
    value, arrivals = score(run, summaries, traces)
    area = float(np.mean([summary.area for summary in summaries]))
    diverged = float(np.mean([summary.status is Status.DIVERGED for summary in summaries]))
    return Scored(value, area, diverged, arrivals, len(summaries))
