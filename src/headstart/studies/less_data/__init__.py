"""Less Data, Faster Training: repeating smaller datasets speeds up learning via sampling biases (2026).

What its studies on MLPs share: the settings of Appendix B.1 as runs, panels of arms that differ in their data or
methods, and how panels are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.core.units import Batch, Budget, FullBatch
from headstart.lab.figures import Curve, draw_curve, house_style, legend_below
from headstart.losses import MSE
from headstart.methods import Method
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed, Phase, Phases, Plan
from headstart.run import Run
from headstart.tasks import Hermite, Parity, SingleIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER_TITLE = "Less Data, Faster Training"
ACCURACY, RELATIVE_LOSS = 0.95, 0.3
# The first phase on a single-index model: so many steps, under SGD on this share of the online samples.
FIRST_PHASE_STEPS, POOL_FRACTION = 100, 0.01
NUM_RECORDS = 100
# More bands than this hide each other.
MOST_BANDS = 5
# A single spike of one seed would flatten every curve.
LARGEST_LOSS_SHOWN = 2.0
# Studies of version 0.1 read times off mean curves, and do so until they are run again.
TIME = lab.Typical.MEAN_CURVE
# "No gap" means, declared before any run: the ratio of the two times lies between these.
NO_GAP = lab.Within(0.9, 1.1)


def parity_run(dim: int, degree: int, batch: Batch | FullBatch, steps: int, model: MLP | None = None) -> Run:
    """Parity with mean squared error under SGD (or GD), two ReLU layers of width 64 without biases by default."""
    return _run(Parity(dim, degree), model or MLP(64, bias=False), batch, steps)


def index_run(dim: int, batch: Batch | FullBatch, steps: int, model: MLP | None = None) -> Run:
    """y = He_3(<w*, x>) likewise, with biases: a ReLU network without them cannot express an odd link."""
    return _run(SingleIndex(dim, Hermite(3)), model or MLP(64), batch, steps)


def _run(task: Any, model: MLP, batch: Batch | FullBatch, steps: int) -> Run:
    budget = Budget(steps, record_every=max(1, steps // NUM_RECORDS))
    return Run(task, model, Fixed(1), MSE(), SGD(lr=1.0), batch=batch, budget=budget)


def two_phases(few: int | None, many: int | None) -> Phases:
    """100 steps on the first `few` samples (None: 1% of the online samples), then `many` (None: fresh ones)."""
    small = Phase(fraction=POOL_FRACTION) if few is None else Phase(size=few)
    return Phases((replace(small, steps=FIRST_PHASE_STEPS), Phase(size=many)))


@dataclass(frozen=True)
class FullBatchKnobs(lab.Knobs):
    """GD on parity and on the single-index model: sizes, lengths in steps, where sweeps begin, and common rates."""

    width: int = 64
    dim: int = 20
    degree: int = 6
    samples: int = 2**14
    steps: int = 2500
    rates: tuple[float, float] = (0.2, 0.28)
    common_rate: float = 0.24
    index_dim: int = 40
    index_samples: tuple[int, int] = (8000, 64000)
    index_steps: int = 1000
    index_rates: tuple[float, float] = (0.16, 0.23)
    index_common_rate: float = 0.16
    accuracy: float = ACCURACY
    relative_loss: float = RELATIVE_LOSS


FULL_BATCH_PRESETS = {
    "smoke": FullBatchKnobs(
        num_seeds=2,
        num_selection_seeds=1,
        width=8,
        dim=6,
        degree=2,
        samples=48,
        steps=140,
        rates=(0.3, 0.43),
        index_dim=4,
        index_samples=(64, 256),
        index_steps=140,
        index_rates=(0.15, 0.26),
        accuracy=0.55,
        relative_loss=0.97,
    ),
    "laptop": FullBatchKnobs(
        num_seeds=24, num_selection_seeds=6, dim=18, steps=1500, index_samples=(1000, 8000), index_steps=360
    ),
    "paper": FullBatchKnobs(num_seeds=64, num_selection_seeds=16),
}


def after_first_phase(trace: Trace, curve: NDArray[np.float64]) -> float:
    """A curve's value at the last record of the first phase, 100 steps long."""
    return float(curve[np.searchsorted(trace.steps, FIRST_PHASE_STEPS, side="right") - 1])


@dataclass(frozen=True)
class Line:
    """One arm of a panel: its name there, its label, its side, and what is its own."""

    name: str
    label: str
    side: lab.Side
    plan: Plan
    methods: tuple[Method, ...] = ()


@dataclass(frozen=True)
class Panel:
    """Arms that share a run but for plan and methods, the grid their sweeps begin with, and the target to reach.

    Without a grid they keep the run's rate.
    """

    name: str
    title: str
    run: Run
    rates: tuple[float, float] | None
    lines: tuple[Line, ...]
    target: float
    seeds_factor: int = 1
    beta2: tuple[float, ...] = ()

    def arm(self, line: str) -> str:
        """The name of a line's arm in the study."""
        return f"{self.name}_{line}"

    def label(self, line: str) -> str:
        """What a line is called."""
        return next(its.label for its in self.lines if its.name == line)

    def arms(self) -> list[lab.Arm]:
        """The arms of the study."""
        return [
            lab.Arm(
                name=self.arm(line.name),
                label=line.label,
                run=replace(self.run, plan=line.plan, methods=line.methods),
                sweep=None if self.rates is None else lab.rates(*self.rates, beta2=self.beta2),
                side=line.side,
                seeds_factor=self.seeds_factor,
            )
            for line in self.lines
        ]

    @property
    def learns_signs(self) -> bool:
        """Whether the metric is accuracy."""
        return self.run.task.metrics[0].higher_is_better

    @property
    def goal(self) -> str:
        """The target in words."""
        return f"{self.target:.0%} accuracy" if self.learns_signs else f"a loss of {self.target:g} Var(y)"

    def ratio(self, small: str, large: str, axis: str = "steps") -> lab.TimeRatio:
        """Time to the target of line `small` over that of line `large`."""
        return lab.TimeRatio(self.arm(small), self.arm(large), self.target, axis, TIME)

    def faster(self, small: str, large: str, paper: str, what: str, axis: str = "steps") -> lab.Claim:
        """The claim that line `small` reaches the target in less than line `large`."""
        return lab.Claim(
            id=f"{self.name}_{small}_vs_{large}" + ("" if axis == "steps" else f"_{axis}"),
            statement=f"{self.title}: {what}; ratio of {axis} to {self.goal} below 1",
            paper=paper,
            rule=lab.below(1.0),
            estimate=self.ratio(small, large, axis),
        )

    def level(self, small: str, large: str, paper: str, what: str) -> lab.Claim:
        """The claim that there is no gap between two lines: neither is faster by more than a margin."""
        return lab.Claim(
            id=f"{self.name}_{small}_level_with_{large}",
            statement=f"{self.title}: {what}; the ratio of steps to {self.goal} is within "
            f"{NO_GAP.low:g} to {NO_GAP.high:g}",
            paper=paper,
            rule=NO_GAP,
            estimate=self.ratio(small, large),
        )


def small_and_large(small: Plan, large: Plan, labels: tuple[str, str]) -> tuple[Line, Line]:
    """The two lines of most panels."""
    return Line("small", labels[0], lab.Side.SMALL, small), Line("large", labels[1], lab.Side.LARGE, large)


def arms_of(panels: Sequence[Panel]) -> list[lab.Arm]:
    """The arms of all panels."""
    return [arm for panel in panels for arm in panel.arms()]


def full_batch_arms(panels: tuple[Panel, Panel], k: FullBatchKnobs) -> list[lab.Arm]:
    """The arms of parity and of the single-index model, and each again at a common rate."""
    parity, index = panels
    return arms_of(panels) + at_common_rate(parity, k.common_rate) + at_common_rate(index, k.index_common_rate)


def at_common_rate(panel: Panel, rate: float) -> list[lab.Arm]:
    """The arms of a panel again, all at one learning rate, so that their data alone differ."""
    return [
        replace(arm, name=f"{arm.name}_common_rate", run=replace(arm.run, optimizer=SGD(rate)), sweep=None)
        for arm in panel.arms()
    ]


def draw_lines(ax: "Axes", results: lab.Results, panel: Panel, axis: str = "steps", curve: Curve | None = None) -> None:
    """The lines of a panel, small sides warm and large ones cold, each side in shades."""
    for side in lab.Side:
        lines = [line for line in panel.lines if line.side is side]
        for shade, line in enumerate(lines):
            band = len(panel.lines) <= MOST_BANDS
            draw_curve(ax, results, panel.arm(line.name), axis, shade, len(lines), curve, band)
    ax.set_title(panel.title)
    legend_below(ax)
    if curve is None:
        ax.axhline(panel.target, color="#888888", linewidth=0.8, linestyle=":")
        ax.set_ylabel("test accuracy" if panel.learns_signs else "test loss / Var(y)")
        if not panel.learns_signs and ax.get_ylim()[1] > LARGEST_LOSS_SHOWN:
            ax.set_ylim(0, LARGEST_LOSS_SHOWN)
    else:
        ax.set_ylabel(curve.label)


def draw_panels(results: lab.Results, panels: Sequence[Panel], columns: int = 4, axis: str = "steps") -> "Figure":
    """A grid of panels."""
    with house_style() as module:
        rows, columns = -(-len(panels) // columns), min(columns, len(panels))
        picture = module.Figure(figsize=(3.5 * columns, 3.1 * rows), layout="constrained")
        grid = picture.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(grid, panels, strict=False):
            draw_lines(ax, results, panel, axis)
        for ax in grid[len(panels) :]:
            ax.set_axis_off()
        return picture
