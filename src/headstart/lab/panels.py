"""Panels: arms that share a run but for plan and methods, what is claimed of them, and how they are drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.lab.arms import Arm
from headstart.lab.claims import LEAST_ARRIVALS, Claim, Kind, Within, below, closed
from headstart.lab.colours import check_colour, cold, cycle, warm
from headstart.lab.estimates import GapRatio, TimeRatio, Typical
from headstart.lab.figures import Curve, draw_curve, legend_below, metric_label
from headstart.lab.results import Results
from headstart.lab.scores import Area, TimeToTarget
from headstart.lab.sweep import Sweep, rates
from headstart.methods import Method
from headstart.plans import Phases, Plan
from headstart.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# "No gap" means, declared before any run: the ratio of the two times lies between these, and most runs arrive.
NO_GAP = Within(0.9, 1.1, LEAST_ARRIVALS)
# A ratio of restricted mean times in here is too near to 1 to matter.
NO_EFFECT = Within(0.95, 1.05)
# Up to this many bands are drawn as dark as one; more are paler, as they hide each other.
DARK_BANDS = 5
# Inches per panel of a grid.
WIDTH, HEIGHT = 3.5, 3.1


@dataclass(frozen=True)
class Line:
    """One arm of a panel: its name there, its label, its plan, and what else is its own.

    Its colour is "#RRGGBB", such as `warm()` and `cold()` return; without one it takes that of its place in the panel.
    """

    name: str
    label: str
    plan: Plan
    colour: str | None = None
    methods: tuple[Method, ...] = ()

    def __post_init__(self) -> None:
        check_colour("Line", self.colour)


@dataclass(frozen=True)
class Panel:
    """Arms that share a run but for plan and methods, the grid their sweeps begin with, and the target to reach.

    Without a grid they keep the run's rate. `of` is the time to the target that its claims compare; the restricted mean
    chooses the rates too. `tries`, `rungs` and `spacing`, the ratio of neighbours, are its sweeps'.
    """

    name: str
    title: str
    run: Run
    rates: tuple[float, float] | None
    lines: tuple[Line, ...]
    target: float
    seeds_factor: int = 1
    beta2: tuple[float, ...] = ()
    of: Typical = Typical.RESTRICTED_MEAN
    tries: int = 8
    rungs: tuple[int, ...] = ()
    spacing: float = 1.2

    def arm(self, line: str) -> str:
        """The name of a line's arm in the study."""
        return f"{self.name}_{line}"

    def label(self, line: str) -> str:
        """What a line is called."""
        return self.lines[self._place(line)].label

    def colour(self, line: str) -> str:
        """The colour of a line."""
        place = self._place(line)
        return self.lines[place].colour or cycle(place)

    def _place(self, line: str) -> int:
        names = [its.name for its in self.lines]
        if line not in names:
            raise HeadstartError(f"panel {self.name!r} has no line {line!r}; there are {', '.join(names)}")
        return names.index(line)

    @property
    def sweep(self) -> Sweep | None:
        """How the rate of each line is chosen: by the endpoint of the panel's claims, or the area beside older ones."""
        if self.rates is None:
            return None
        score = TimeToTarget(self.target) if self.of is Typical.RESTRICTED_MEAN else Area()
        return rates(*self.rates, self.spacing, self.beta2, score=score, tries=self.tries, rungs=self.rungs)

    def arms(self) -> list[Arm]:
        """The arms of the study."""
        return [
            Arm(
                name=self.arm(line.name),
                label=line.label,
                run=replace(self.run, plan=line.plan, methods=line.methods),
                sweep=self.sweep,
                colour=self.colour(line.name),
                seeds_factor=self.seeds_factor,
            )
            for line in self.lines
        ]

    @property
    def metric(self) -> Metric:
        """The leading metric of its task."""
        return self.run.task.metrics[0]

    @property
    def goal(self) -> str:
        """The target in words."""
        if self.metric.name == "relative_loss":
            return f"a loss of {self.target:g} Var(y)"
        amount = f"{self.target:.0%}" if self.metric.name == "accuracy" else f"{self.target:g}"
        return f"{amount} {self.metric.name.replace('_', ' ')}"

    @property
    def boundaries(self) -> list[int]:
        """The steps after which a line of it goes on to its next phase."""
        ends: set[int] = set()
        for plan in (line.plan for line in self.lines):
            if isinstance(plan, Phases):
                legs = plan.legs([self.run.batch] * len(plan.phases), self.run.budget.steps)
                ends |= set(accumulate(leg.steps or 0 for leg in legs[:-1]))
        return sorted(ends)

    @property
    def _smallest(self) -> Within | None:
        return NO_EFFECT if self.of is Typical.RESTRICTED_MEAN else None

    def ratio(self, small: str, large: str, axis: str = "steps") -> TimeRatio:
        """Time to the target of line `small` over that of line `large`."""
        return TimeRatio(self.arm(small), self.arm(large), self.target, axis, self.of)

    def faster(
        self, small: str, large: str, paper: str, what: str, axis: str = "steps", kind: Kind = Kind.SECONDARY
    ) -> Claim:
        """The claim that line `small` reaches the target in less than line `large`."""
        return Claim(
            id=f"{self.name}_{small}_vs_{large}" + ("" if axis == "steps" else f"_{axis}"),
            statement=f"{self.title}: {what}; ratio of {axis} to {self.goal} below 1",
            paper=paper,
            rule=below(1.0),
            estimate=self.ratio(small, large, axis),
            kind=kind,
            smallest=self._smallest,
        )

    def level(self, small: str, large: str, paper: str, what: str, kind: Kind = Kind.SECONDARY) -> Claim:
        """The claim that there is no gap between two lines: neither is faster by more than a margin."""
        return Claim(
            id=f"{self.name}_{small}_level_with_{large}",
            statement=f"{self.title}: {what}; the ratio of steps to {self.goal} is within "
            f"{NO_GAP.low:g} to {NO_GAP.high:g}",
            paper=paper,
            rule=NO_GAP,
            estimate=self.ratio(small, large),
            kind=kind,
        )

    def closes(self, small: str, large: str, paper: str, what: str, kind: Kind = Kind.SECONDARY) -> Claim:
        """The claim that line `small` is not faster than line `large`, or by too little to matter."""
        rule = closed(NO_GAP.low)
        return Claim(
            id=f"{self.name}_{small}_not_faster_than_{large}",
            statement=f"{self.title}: {what}; the ratio of steps to {self.goal} is above {rule.low:g}",
            paper=paper,
            rule=rule,
            estimate=self.ratio(small, large),
            kind=kind,
        )


def small_and_large(small: Plan, large: Plan, labels: tuple[str, str]) -> tuple[Line, Line]:
    """The two lines of most panels, the small set warm and the large one cold."""
    return Line("small", labels[0], small, warm()), Line("large", labels[1], large, cold())


def shaded(shades: Callable[[int, int], str], lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines in the shades of `warm` or `cold`, in their order."""
    return tuple(replace(line, colour=shades(i, len(lines))) for i, line in enumerate(lines))


def arms_of(panels: Sequence[Panel]) -> list[Arm]:
    """The arms of all panels."""
    return [arm for panel in panels for arm in panel.arms()]


def with_medians(claims: Sequence[Claim]) -> list[Claim]:
    """Every claim on a ratio of times, followed by the same of the median seed.

    A mean curve stays below 95% for good where one run in twenty never learns, however soon the others do.
    """
    return [each for claim in claims for each in (claim, *_of_the_median(claim))]


def _of_the_median(claim: Claim) -> list[Claim]:
    def median(ratio: TimeRatio) -> TimeRatio:
        return replace(ratio, of=Typical.MEDIAN_SEED)

    estimate: Any = claim.estimate
    if isinstance(estimate, TimeRatio):
        estimate = median(estimate)
    elif isinstance(estimate, GapRatio):
        estimate = GapRatio(median(estimate.one), median(estimate.other))
    else:
        return []
    return [replace(claim, id=f"{claim.id}_median", statement=f"{claim.statement} (median seed)", estimate=estimate)]


def draw_lines(ax: "Axes", results: Results, panel: Panel, axis: str = "steps", curve: Curve | None = None) -> None:
    """The lines of a panel: their test curves with the target, or another curve of theirs; where phases end, a rule."""
    darkness = min(1.0, DARK_BANDS / len(panel.lines))
    for line in panel.lines:
        draw_curve(ax, results, panel.arm(line.name), axis, curve, darkness, colour=panel.colour(line.name))
    for step in panel.boundaries if axis == "steps" else ():
        ax.axvline(step, color="#888888", linewidth=0.8, linestyle="--", zorder=0)
    ax.set_title(panel.title)
    legend_below(ax)
    if curve is not None:
        ax.set_ylabel(curve.label)
        return
    ax.axhline(panel.target, color="#888888", linewidth=0.8, linestyle=":")
    ax.set_ylabel(metric_label(panel.metric))


def draw_panels(
    figure: "Figure", results: Results, panels: Sequence[Panel], columns: int = 4, axis: str = "steps"
) -> None:
    """A grid of panels."""
    rows, columns = -(-len(panels) // columns), min(columns, len(panels))
    figure.set_size_inches(WIDTH * columns, HEIGHT * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, panel in zip(grid, panels, strict=False):
        draw_lines(ax, results, panel, axis)
    for ax in grid[len(panels) :]:
        ax.set_axis_off()
