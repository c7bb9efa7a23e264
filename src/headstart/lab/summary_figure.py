"""The primary claims of many studies in one figure: estimate, interval, verdict and what the paper says."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.lab.claims import Verdict
from headstart.lab.figures import house_style, save_small_figure
from headstart.lab.received import published_reports
from headstart.lab.study import USUAL
from headstart.lab.wording import interval, split_primary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    Verdict.HOLDS: "#009E73",
    Verdict.ABSENT: "#888888",
    Verdict.UNDECIDED: "#E69F00",
    Verdict.DOES_NOT_HOLD: "#D55E00",
}
# Beside the pages of a paper.
SUMMARY = "claims.png"
# Ratios are drawn from here to here; an interval that goes on beyond has an arrow.
LEAST, MOST = 0.2, 5.0
ROW, WIDTH = 0.2, 15.0
LONGEST = 68


def write_summary(folder: Path) -> Path | None:
    """Draw the primary claims of a paper's folder of pages into its claims.png; None if it has no such claim."""
    reports = published_reports(folder, "*.json")
    if not any(split_primary(report["claims"])[0] for report in reports):
        return None
    return save_small_figure(draw_summary(reports), folder / SUMMARY)


def draw_summary(reports: Sequence[Mapping[str, Any]]) -> "Figure":
    """The primary claims of reports as `headstart run` makes them, a row each.

    Ratios of times to a target, the claims that have arrivals, are drawn on one logarithmic axis; of the others, which
    have units of their own, the numbers stand alone.
    """
    rows = [(report, claim) for report in reports for claim in split_primary(report["claims"])[0]]
    if not rows:
        raise HeadstartError("none of these studies has a primary claim; run them first: headstart run PAPER")
    with house_style() as module:
        figure: Figure = module.Figure(figsize=(WIDTH, 1.2 + ROW * len(rows)), layout="constrained")
        ax = figure.subplots()
        for place, (_, claim) in enumerate(rows):
            _draw_row(ax, -place, claim)
        names = [f"{_study(report)}: {claim['id'].replace('_', ' ')}" for report, claim in rows]
        ax.set_yticks([-place for place in range(len(rows))], names, fontsize=6.5)
        _lines_between_studies(ax, [_study(report) for report, _ in rows])
        ax.set_ylim(-len(rows) + 0.5, 0.5)
        ax.axvline(1.0, color="#444444", linewidth=0.8)
        ax.set(
            xscale="log", xlim=(LEAST, MOST), xlabel="ratio of restricted mean times (small over large, or as stated)"
        )
        ax.set_xticks([0.25, 0.5, 1, 2, 4], ["1/4", "1/2", "1", "2", "4"])
        ax.minorticks_off()
        ax.grid(axis="y", visible=False)
        _legend(ax)
    return figure


def _study(report: Mapping[str, Any]) -> str:
    """The name of a study without its paper, and its preset where that is not the usual one."""
    name = str(report["study"]).rpartition("/")[2].replace("_", " ")
    return name if report["preset"] == USUAL else f"{name} ({report['preset']})"


def _draw_row(ax: "Axes", y: float, claim: Mapping[str, Any]) -> None:
    """The interval of a ratio, and to the right of the axes the numbers and what the paper says."""
    colour = COLOURS[Verdict(claim["verdict"])]
    if claim.get("arrivals") is not None and claim["estimate"] is not None:
        low, high = (
            (LEAST if claim["low"] is None else claim["low"]),
            (MOST if claim["high"] is None else claim["high"]),
        )
        ax.plot([max(low, LEAST), min(high, MOST)], [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
        if LEAST <= claim["estimate"] <= MOST:
            ax.plot(claim["estimate"], y, "o", color=colour, markersize=4.5)
        for beyond, place, shape in ((low < LEAST, LEAST, "<"), (high > MOST, MOST, ">")):
            if beyond:
                ax.plot(place, y, shape, color=colour, markersize=4.5, clip_on=False)
    beside = ax.get_yaxis_transform()
    ax.text(1.02, y, interval(claim), transform=beside, va="center", fontsize=6.5, color=colour)
    said = textwrap.shorten(str(claim["paper"]), LONGEST, placeholder=" ...").replace("$", "")
    ax.text(1.24, y, said, transform=beside, va="center", fontsize=6.5, color="#555555")


def _lines_between_studies(ax: "Axes", studies: Sequence[str]) -> None:
    for place in range(1, len(studies)):
        if studies[place] != studies[place - 1]:
            ax.axhline(0.5 - place, color="#DDDDDD", linewidth=0.6)


def _legend(ax: "Axes") -> None:
    """A verdict for each colour, above the axes."""
    for verdict, colour in COLOURS.items():
        ax.plot([], [], "o-", color=colour, label=str(verdict))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(COLOURS))
    ax.text(1.02, 1.0, "ours [95% interval]", transform=ax.transAxes, va="bottom", fontsize=7.5)
    ax.text(1.24, 1.0, "paper", transform=ax.transAxes, va="bottom", fontsize=7.5)
