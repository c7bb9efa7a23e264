"""What the studies of queries and keys share: a task's arms with their multiples, claims on them, figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import headstart.lab as lab
from headstart.lab.figures import Curve, draw_curve, legend_below, metric_label
from headstart.lab.panels import Line, Panel
from headstart.methods import LayerScale
from headstart.studies.less_data._transformers import OfTimes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINING = Curve("training accuracy", lambda trace: trace["train_accuracy"])
# "Almost closed" is a ratio of times, small over online, above this.
ALMOST = 0.8
WHAT = {"rate": "learning rate", "init": "initial scale"}


@dataclass(frozen=True)
class Family:
    """A task's untouched panel, and the multiples of rate and of initial scale that its arms are trained with too."""

    panel: Panel
    rates: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    @property
    def normed(self) -> Panel:
        """The panel with normalised queries and keys."""
        model: Any = self.panel.run.model
        run = replace(self.panel.run, model=replace(model, qk_norm=True))
        lines = tuple(replace(line, label=f"{line.label}, normalised") for line in self.panel.lines)
        return replace(self.panel, name=f"{self.panel.name}_norm", run=run, lines=lines)

    def multiples(self, kind: str) -> tuple[float, ...]:
        """1, the untouched run, and the others of a kind."""
        return (1.0, *(self.rates if kind == "rate" else self.scales))

    def names(self, line: str, kind: str) -> tuple[str, ...]:
        """The arms of a line with each multiple, such as rate2.5 or init8, the untouched one first."""
        plain = self.panel.arm(line)
        return tuple(plain if factor == 1 else f"{plain}_{kind}{factor:g}" for factor in self.multiples(kind))

    def arms(self) -> list[lab.Arm]:
        """Every arm untouched, normalised and with other scales, each swept; rates are multiples of the first's."""
        out = [*self.panel.arms(), *self.normed.arms()]
        for line, plain in zip(self.panel.lines, self.panel.arms(), strict=True):
            for kind in WHAT:
                for name, factor in zip(self.names(line.name, kind)[1:], self.multiples(kind)[1:], strict=True):
                    run = replace(plain.run, methods=(LayerScale.query_key(**{kind: factor}),))
                    sweep = lab.RateOf(plain.name) if kind == "rate" else plain.sweep
                    label = f"{line.label}, {kind} x {factor:g}"
                    out.append(replace(plain, name=name, label=label, run=run, sweep=sweep))
        return out


def narrows(family: Family, kind: str, small: str, its: lab.Kind = lab.Kind.SECONDARY) -> lab.Claim:
    """The claim that the best multiples narrow the gap: they shorten online training more than that of `small`."""
    arms, num = family.names(small, kind) + family.names("online", kind), len(family.multiples(kind))
    return lab.Claim(
        id=f"{kind}_narrows_{family.panel.arm(small)}",
        statement=f"{family.panel.title}: the ratio of steps, {family.panel.label(small)} over online, with the best "
        f"{WHAT[kind]} of W_q and W_k on each side over the ratio without; above 1",
        paper="the gap is reduced, since online training gains most (Figs. 8, 9)",
        rule=lab.above(1.0),
        estimate=OfTimes(arms, family.panel.target, lambda t: (t[:num].min() / t[num:].min()) / (t[0] / t[num])),
        kind=its,
        smallest=lab.NO_EFFECT,
    )


def norm_claim(family: Family, line: str, helps: bool, paper: str, its: lab.Kind = lab.Kind.SECONDARY) -> lab.Claim:
    """The claim that normalised queries and keys help, or hurt, an arm."""
    return lab.Claim(
        id=f"norm_{family.panel.arm(line)}",
        statement=f"{family.panel.title}, {family.panel.label(line)}: steps to {family.panel.goal} with normalised "
        "queries and keys over those without; " + ("below 1" if helps else "above 1"),
        paper=paper,
        rule=lab.below(1.0) if helps else lab.above(1.0),
        estimate=lab.TimeRatio(family.normed.arm(line), family.panel.arm(line), family.panel.target),
        kind=its,
        smallest=lab.NO_EFFECT,
    )


def norm_closes(family: Family, small: str, paper: str, its: lab.Kind = lab.Kind.SECONDARY) -> lab.Claim:
    """The claim that with normalised queries and keys almost no gap is left."""
    return lab.Claim(
        id=f"norm_closes_{family.panel.arm(small)}",
        statement=f"{family.panel.title}: with normalised queries and keys the ratio of steps to {family.panel.goal}, "
        f"{family.panel.label(small)} over online, is above {ALMOST:g}",
        paper=paper,
        rule=lab.closed(ALMOST),
        estimate=family.normed.ratio(small, "online"),
        kind=its,
    )


def draw_rows(picture: "Figure", results: lab.Results, rows: Sequence[tuple[Family, tuple[Line, ...]]]) -> None:
    """A row for some arms of a family: rates and scales if it has them, the norm on test and on training data."""
    drawn = [_row(family, lines) for family, lines in rows]
    columns = max(len(row) for row in drawn)
    picture.set_size_inches(3.8 * columns, 3.0 * len(rows))
    for axes, row, (family, lines) in zip(picture.subplots(len(rows), columns), drawn, rows, strict=True):
        metric = family.panel.metric
        what = lines[0].label if len(lines) == 1 else family.panel.title
        for ax, (title, curve, arms) in zip(axes, row, strict=False):
            for line, names in zip(lines, arms, strict=True):
                shades = lab.cold if line.name == "online" else lab.warm
                for i, name in enumerate(names):
                    draw_curve(ax, results, name, curve=curve, colour=shades(i, len(names)))
            for step in replace(family.panel, lines=lines).boundaries:
                ax.axvline(step, color="#888888", linewidth=0.8, linestyle="--", zorder=0)
            if metric.higher_is_better:  # the same heights along a row and between rows
                ax.set_ylim(metric.chance - 0.05, 1.03)
            ax.set_ylabel(curve.label if curve else metric_label(metric))
            legend_below(ax)
            ax.set_title(f"{what}: {title}", fontsize=8.5)
        for ax in axes[len(row) :]:
            ax.set_axis_off()


def _row(family: Family, lines: tuple[Line, ...]) -> list[tuple[str, Curve | None, list[tuple[str, ...]]]]:
    """The panels of a row: title, curve if not the test metric, and the arms of every line in the order of shades."""
    norm: list[tuple[str, ...]] = [(family.panel.arm(line.name), family.normed.arm(line.name)) for line in lines]
    return [
        *(
            (WHAT[kind], None, [family.names(line.name, kind) for line in lines])
            for kind in WHAT
            if len(family.multiples(kind)) > 1
        ),
        ("norm", None, norm),
        *([("norm, training", TRAINING, norm)] if family.panel.metric.higher_is_better else []),
    ]
