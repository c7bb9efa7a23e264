"""What the studies of queries and keys share: a task's arms with their multiples, estimates on areas, figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.metric import Metric
from headstart.lab.areas import Gain, goodness
from headstart.lab.figures import Curve, draw_curve, legend_below, metric_label
from headstart.lab.panels import Line, Panel
from headstart.measures import Estimate, bootstrap
from headstart.methods import LayerScale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAINING = Curve("training accuracy", lambda trace: trace["train_accuracy"])


@dataclass(frozen=True)
class Family:
    """A task's untouched panel, and the multiples of rate and of initial scale that its arms are trained with too."""

    panel: Panel
    rates: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    def arm(self, line: str, kind: str = "", factor: float = 1.0) -> str:
        """The untouched arm, which is factor 1 of both scales; then rate4, init8 or norm."""
        plain = self.panel.arm(line)
        if kind == "norm":
            return f"{plain}_norm"
        return plain if factor == 1 else f"{plain}_{kind}{factor:g}"

    def multiples(self, kind: str) -> tuple[float, ...]:
        """1 and the others of a kind."""
        return (1.0, *(self.rates if kind == "rate" else self.scales))

    def arms(self) -> list[lab.Arm]:
        """Every arm untouched and normalised, each with its sweep, and with each multiple at the former's rate."""
        model: Any = self.panel.run.model
        normalised = replace(self.panel, run=replace(self.panel.run, model=replace(model, qk_norm=True)))
        out = []
        for line, plain, norm in zip(self.panel.lines, self.panel.arms(), normalised.arms(), strict=True):
            scaled = LayerScale.query_key
            changed = [(self.arm(line.name, "rate", f), f"rate x {f:g}", scaled(rate=f)) for f in self.rates]
            changed += [(self.arm(line.name, "init", f), f"init x {f:g}", scaled(init=f)) for f in self.scales]
            out += [plain, replace(norm, name=self.arm(line.name, "norm"), label=f"{line.label}, normalised")]
            for name, label, method in changed:
                run = replace(plain.run, methods=(method,))
                out.append(
                    replace(plain, name=name, label=f"{line.label}, {label}", run=run, sweep=lab.RateOf(plain.name))
                )
        return out


def by_multiple(results: lab.Results, family: Family, kind: str, line: str) -> NDArray[np.float64]:
    """The goodness of a line with every multiple, [multiples, seeds]."""
    return goodness(results, [family.arm(line, kind, factor) for factor in family.multiples(kind)])


@dataclass(frozen=True)
class GapChange:
    """The gap in area, `small` less online, with the best multiple of each, less the standard one.

    A difference, since the standard gap may be near 0.
    """

    family: Family
    kind: str
    small: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The difference with its interval."""
        small, online = (by_multiple(results, self.family, self.kind, line) for line in (self.small, "online"))

        def change(rows: NDArray[np.int64]) -> float:
            means = [stack[:, rows].mean(axis=1) for stack in (small, online)]
            return float((means[0].max() - means[1].max()) - (means[0][0] - means[1][0]))

        return bootstrap(change, small.shape[1])


def narrows(family: Family, kind: str, what: str, small: str) -> lab.Claim:
    """The claim that the best multiples narrow the gap."""
    return lab.Claim(
        id=f"{kind}_narrows_{family.panel.arm(small)}",
        statement=f"{family.panel.title}: the gap in area, {family.panel.label(small)} less online, with the best "
        f"{what} of W_q and W_k on each side, less the gap without; below 0",
        paper="the gap is reduced (Figs. 8, 9)",
        rule=lab.below(0.0),
        estimate=GapChange(family, kind, small),
    )


def norm_claim(family: Family, line: str, helps: bool, paper: str) -> lab.Claim:
    """The claim that normalised queries and keys help, or hurt, an arm."""
    return lab.Claim(
        id=f"norm_{family.panel.arm(line)}",
        statement=f"{family.panel.title}, {family.panel.label(line)}: normalised queries and keys; gain in area "
        + ("above 0" if helps else "below 0"),
        paper=paper,
        rule=lab.above(0.0) if helps else lab.below(0.0),
        estimate=Gain(family.arm(line, "norm"), family.arm(line)),
    )


def draw_rows(picture: "Figure", results: lab.Results, rows: Sequence[tuple[Family, tuple[Line, ...]]]) -> None:
    """A row for some arms of a family: rates and scales if it has them, the norm on test and on training data."""
    drawn = [_row(family, lines) for family, lines in rows]
    columns = max(len(row) for row in drawn)
    picture.set_size_inches(3.8 * columns, 3.0 * len(rows))
    for axes, row, (family, lines) in zip(picture.subplots(len(rows), columns), drawn, rows, strict=True):
        what = lines[0].label if len(lines) == 1 else family.panel.title
        for ax, (title, curve, arms) in zip(axes, row, strict=False):
            for line, names in zip(lines, arms, strict=True):
                shades = lab.cold if line.name == "online" else lab.warm
                for i, name in enumerate(names):
                    draw_curve(ax, results, name, curve=curve, colour=shades(i, len(names)))
            _finish(ax, family.panel.metric, curve)
            ax.set_title(f"{what}: {title}", fontsize=8.5)
        for ax in axes[len(row) :]:
            ax.set_axis_off()


def _row(family: Family, lines: tuple[Line, ...]) -> list[tuple[str, Curve | None, list[list[str]]]]:
    """The panels of a row: title, curve if not the test metric, and the arms of every line in the order of shades."""

    def changed(kind: str) -> list[list[str]]:
        return [[family.arm(line.name, kind, f) for f in family.multiples(kind)] for line in lines]

    norm = [[family.arm(line.name), family.arm(line.name, "norm")] for line in lines]
    return [
        *([("rate", None, changed("rate"))] if family.rates else []),
        *([("initial scale", None, changed("init"))] if family.scales else []),
        ("norm", None, norm),
        *([("norm, training", TRAINING, norm)] if family.panel.metric.higher_is_better else []),
    ]


def _finish(ax: "Axes", metric: Metric, curve: Curve | None) -> None:
    if metric.higher_is_better:  # the same heights along a row and between rows
        ax.set_ylim(metric.chance - 0.05, 1.03)
    ax.set_ylabel(curve.label if curve else metric_label(metric))
    legend_below(ax)
