"""Which parameters need the small set: some learn from fresh batches, the rest from six phases.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 30
Claim     Of single matrices W_v needs the small set most; W_q and W_k alone hardly matter, and together they do.
Setting   The 6-phase parity run of mini_batch_transformers, except that the named matrices of all layers take their
          gradient from a fresh batch at the same weights; one AdamW step uses both gradients. Every arm has a sweep
          of its own.
Measured  As in mini_batch_transformers, over six phases for all parameters. Of several arms the slowest is the one of
          the longest time, chosen anew in each resample of the seeds. "Mild" is a ratio within 2/3 to 3/2, declared
          beforehand. Compute counts both batches, so a step of these arms has twice the samples: claims are on steps.
Shrunk    Laptop: as mini_batch_transformers.
Tried     Version 0.1, on (10,6), at the rate of plain six phases for all arms, at which some runs of most never
          learned: fresh batches for W_q and W_k together cost 0.11 [0.01, 0.21] in area, for W_v 0.08 [-0.04, 0.21].
          In a first run no claim had online training in it, so that it had fewer tries, and another rate, than in other
          studies; the control is there since.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.roles import Role
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, shaded
from headstart.plans import ByRole
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._transformers import SIMILAR, SIX_PHASES, OfTimes, ParityKnobs, presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS = {
    Role.QUERY: "W_q",
    Role.KEY: "W_k",
    Role.VALUE: "W_v",
    Role.PROJECTION: "W_o",
    Role.HIDDEN: "the MLPs",
}
SINGLES = tuple((role,) for role in SYMBOLS)
PAIRS = ((Role.QUERY, Role.KEY), (Role.QUERY, Role.VALUE), (Role.KEY, Role.VALUE))
FINDING = (
    "Fresh batches for W_v take {value_most} times the steps of fresh batches for any other single matrix, those for "
    "W_q or W_k alone at most {query_or_key_mild} times the steps of six phases for all parameters, and those for "
    "both {fresh_query_key} times. That W_v needs the small set most {value_most.says}, that W_q and W_k alone matter "
    "little {query_or_key_mild.says}, and that together they slow training {fresh_query_key.says}."
)


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of parity, and the roles that learn from fresh batches in each arm."""

    singles: tuple[tuple[Role, ...], ...] = SINGLES
    pairs: tuple[tuple[Role, ...], ...] = PAIRS


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """One panel for single matrices and one for pairs; the plain arms of parity are in both."""
    six, _, online = k.three_arms()

    def panel(title: str, groups: tuple[tuple[Role, ...], ...]) -> Panel:
        lines = (
            Line("_".join(roles), " and ".join(SYMBOLS[role] for role in roles), ByRole(SIX_PHASES, tuple(roles)))
            for roles in groups
        )
        return k.parity_panel(title=f"{k.parity}-parity, {title}", lines=(six, *shaded(lab.cold, (online, *lines))))

    return panel("fresh for one", k.singles), panel("fresh for two", k.pairs)


def arms(k: Knobs) -> list[lab.Arm]:
    """Those of both panels, once."""
    return list({arm.name: arm for arm in arms_of(panels(k))}.values())


def claims(k: Knobs) -> list[lab.Claim]:
    """W_v most, W_q and W_k alone mild, together slow; then every arm against plain six phases, and the gap itself."""
    single, pair = panels(k)
    others = tuple(single.arm("_".join(roles)) for roles in k.singles if roles != (Role.VALUE,))
    mild = (single.arm("query"), single.arm("key"))
    named = {
        "value_most": "W_v relies on small-set training the most (Fig. 30 left)",
        "query_or_key_mild": "the effects on W_q, W_k are mild (Fig. 30 left)",
        "fresh_query_key": "W_q and W_k jointly: a significant slowdown (Fig. 30 right)",
    }
    primary = [
        lab.Claim(
            id="value_most",
            statement=f"{single.title}: steps to {single.goal}, W_v over the slowest of the others, above 1",
            paper=named["value_most"],
            rule=lab.above(1.0),
            estimate=OfTimes((single.arm("value"), *others), k.accuracy, lambda means: means[0] / means[1:].max()),
            kind=lab.Kind.PRIMARY,
            smallest=lab.NO_EFFECT,
        ),
        lab.Claim(
            id="query_or_key_mild",
            statement=f"{single.title}: steps to {single.goal}, the slower of W_q and W_k over plain 6 phases, within "
            "2/3 to 3/2",
            paper=named["query_or_key_mild"],
            rule=SIMILAR,
            estimate=OfTimes((single.arm("six"), *mild), k.accuracy, lambda means: means[1:].max() / means[0]),
            kind=lab.Kind.PRIMARY,
        ),
    ]
    for panel, groups in ((single, k.singles), (pair, k.pairs)):
        for line in ("_".join(roles) for roles in groups):
            primary.append(
                lab.Claim(
                    id=f"fresh_{line}",
                    statement=f"{panel.title}: steps to {panel.goal}, {panel.label(line)} over plain 6 phases, above 1",
                    paper=named.get(f"fresh_{line}", "shown in Fig. 30, no number"),
                    rule=lab.above(1.0),
                    estimate=panel.ratio(line, "six"),
                    kind=lab.Kind.PRIMARY if f"fresh_{line}" in named else lab.Kind.SECONDARY,
                    smallest=lab.NO_EFFECT,
                )
            )
    gap = single.faster("six", "online", "the gap itself (Fig. 1a)", "6 phases against online", kind=lab.Kind.CONTROL)
    return [*primary, gap]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 30."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/parameter_wise",
    title="Which parameters need the small set",
    paper=PAPER_TITLE,
    figures="Fig. 30",
    presets=presets(Knobs, smoke={"singles": SINGLES[:3], "pairs": PAIRS[:1]}),
    minutes={"smoke": 0.1, "laptop": 24.0, "paper": 100_000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
