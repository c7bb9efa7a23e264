"""Which parameters need the small set: some learn from fresh batches, the rest from six phases.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 30
Claim     Of single matrices W_v needs the small set most; W_q and W_k alone hardly matter, and together they do.
Setting   The 6-phase parity run of mini_batch_transformers, except that the named matrices of all layers take their
          gradient from a fresh batch at the same weights; one AdamW step uses both gradients. All of them have the
          learning rate that the sweep of plain six phases chooses.
Measured  Steps to 95% of the seed-mean test curve over those of six phases for all parameters; 95% paired bootstraps.
          Compute counts both batches, so an arm's step has twice the samples of the plain arm's: claims are on steps.
          At that rate some runs of most arms never learn, so gains are also claimed by area, the mean accuracy over the
          run (added after the curves had been seen).
Shrunk    Laptop: as mini_batch_transformers; five singles and the pair (W_q, W_k) of the paper's pairs, 12 seeds.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.roles import Role
from headstart.lab.areas import Gain, better
from headstart.lab.figures import draw_curve, legend_below
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, shaded, with_medians
from headstart.plans import ByRole
from headstart.studies.less_data import PAPER_TITLE, TIME
from headstart.studies.less_data._parity import SIX_PHASES, ParityKnobs, three_arms
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of parity, and the roles that learn from fresh batches in each arm."""

    singles: tuple[tuple[Role, ...], ...] = (
        (Role.QUERY,),
        (Role.KEY,),
        (Role.VALUE,),
        (Role.PROJECTION,),
        (Role.HIDDEN,),
    )
    pairs: tuple[tuple[Role, ...], ...] = ((Role.QUERY, Role.KEY), (Role.QUERY, Role.VALUE), (Role.KEY, Role.VALUE))


SYMBOLS = {
    Role.QUERY: "W_q",
    Role.KEY: "W_k",
    Role.VALUE: "W_v",
    Role.PROJECTION: "W_o",
    Role.HIDDEN: "the MLPs",
}


PRESETS = presets(
    Knobs,
    smoke={"singles": ((Role.QUERY,), (Role.KEY,), (Role.VALUE,)), "pairs": ((Role.QUERY, Role.KEY),)},
    laptop={"pairs": ((Role.QUERY, Role.KEY),)},
)


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """One panel for single matrices and one for pairs; the plain arms of parity are in the first."""

    def lines(groups: tuple[tuple[Role, ...], ...]) -> tuple[Line, ...]:
        return tuple(
            Line(
                "_".join(roles),
                "fresh for " + " and ".join(SYMBOLS[role] for role in roles),
                ByRole(SIX_PHASES, tuple(roles)),
            )
            for roles in groups
        )

    six, hundred, online = three_arms(k.steps)
    singles = (six, hundred, *shaded(lab.cold, (online, *lines(k.singles))))
    return (
        k.parity_panel("single", f"{k.parity}-parity, single matrices", singles),
        k.parity_panel("pair", f"{k.parity}-parity, pairs", shaded(lab.cold, lines(k.pairs))),
    )


def arms(k: Knobs) -> list[lab.Arm]:
    """The plain arms are swept; the others have the rate of six phases."""
    single, pair = panels(k)
    own = {single.arm(line.name) for line in three_arms(k.steps)}
    shared = lab.RateOf(single.arm("six"))
    return [arm if arm.name in own else replace(arm, sweep=shared) for arm in arms_of((single, pair))]


def claims(k: Knobs) -> list[lab.Claim]:
    """Fresh batches for the values, and for queries and keys together, slow six phases; for queries alone hardly."""
    single, pair = panels(k)

    def ratio(panel: Panel, line: str) -> lab.TimeRatio:
        return lab.TimeRatio(panel.arm(line), single.arm("six"), k.accuracy, of=TIME)

    def slower(panel: Panel, line: str, paper: str) -> lab.Claim:
        return lab.Claim(
            id=f"fresh_{line}",
            statement=f"{panel.title}: steps to {panel.goal}, {panel.label(line)} over plain 6 phases, above 1",
            paper=paper,
            rule=lab.above(1.0),
            estimate=ratio(panel, line),
        )

    return [
        slower(single, "value", "W_v relies on small-set training the most (Fig. 30 left)"),
        slower(pair, "query_key", "a significant slowdown (Fig. 30 right)"),
        *(
            lab.Claim(
                id=f"fresh_{line}",
                statement=f"{single.title}: steps to {single.goal}, {single.label(line)} over plain 6 phases, "
                "between 2/3 and 3/2",
                paper="the effects on W_q, W_k are mild (Fig. 30 left)",
                rule=lab.Within(2 / 3, 3 / 2),
                estimate=ratio(single, line),
            )
            for line in ("query", "key")
        ),
        *(
            lab.Claim(
                id=f"value_over_{roles[0]}",
                statement=f"{single.title}: steps to {single.goal}, fresh for W_v over fresh for {SYMBOLS[roles[0]]}, "
                "above 1",
                paper="W_v relies on small-set training the most (Fig. 30 left)",
                rule=lab.above(1.0),
                estimate=single.ratio("value", roles[0]),
            )
            for roles in k.singles
            if roles != (Role.VALUE,)
        ),
        better(single, "six", "value", "W_v relies on small-set training the most (Fig. 30 left)"),
        *(
            better(single, line, "value", "the effects on W_q, W_k are mild (Fig. 30 left)")
            for line in ("query", "key")
        ),
        lab.Claim(
            id="six_better_than_query_key",
            statement=f"{pair.title}: mean accuracy over the run, plain 6 phases against "
            f"{pair.label('query_key')}; gain above 0",
            paper="a significant slowdown (Fig. 30 right)",
            rule=lab.above(0.0),
            estimate=Gain(single.arm("six"), pair.arm("query_key")),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 30; plain six phases are in both panels."""
    single, pair = panels(results.knobs)
    draw_panels(picture, results, (single, pair))
    draw_curve(picture.axes[1], results, single.arm("six"))
    legend_below(picture.axes[1])


STUDY = lab.Study(
    name="less_data/parameter_wise",
    title="Which parameters need the small set",
    paper=PAPER_TITLE,
    figures="Fig. 30",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 17.0, "paper": 100_000.0},
    arms=arms,
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
