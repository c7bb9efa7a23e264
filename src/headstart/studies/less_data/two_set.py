"""Two-set training against phases at equal compute.

Paper     Less Data, Faster Training, Section 2, which calls two phases similar to two-set training (Charton and Kempe,
          2024) and shows no comparison: no claim here is primary
Claim     At equal compute two-set training is faster than online training and about as fast as two phases, and six
          phases are faster.
Setting   The parity runs of mini_batch_transformers. Two sets: each example of a batch comes from a fixed set of 1% of
          the online samples with probability 1/4 or 1/2, else it is fresh. Two phases: 10 epochs on that set, then
          fresh samples.
Measured  As in mini_batch_transformers. All arms take 32 samples per step, so steps are compute. Similar is a ratio
          within 2/3 to 3/2, stated before any run.
Shrunk    Laptop: as mini_batch_transformers; the small set has 640 of the 2^20 points.
Tried     Under the rules of version 0.1, on (10,6), half of each batch from 960 samples taught 4 of 24 seeds in 3000
          steps, a quarter none.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Line, Panel, arms_of, draw_panels
from headstart.plans import TwoSet
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._transformers import TWO_PHASES, ParityKnobs, presets, similar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "Two-set training with half of each batch from the small set takes {parity_half_vs_online} of the steps of online "
    "training and {parity_half_like_two} of those of two phases. That it is faster than online "
    "{parity_half_vs_online.says}, that it is like two phases {parity_half_like_two.says}, and that six phases are "
    "faster {parity_six_vs_half.says}, {parity_six_vs_half}."
)


def panels(k: ParityKnobs) -> list[Panel]:
    """One panel: phases, two sets and online."""
    six, _, online = k.three_arms()
    mixed = (
        Line(name, f"two sets, {share:.0%} from {k.pool:,}", TwoSet(k.pool, share), lab.warm(shade))
        for name, share, shade in (("quarter", 0.25, 3), ("half", 0.5, 4))
    )
    return [k.parity_panel(lines=(six, TWO_PHASES, *mixed, online))]


def claims(k: ParityKnobs) -> list[lab.Claim]:
    """Each probability against online, two phases and six."""
    (panel,) = panels(k)
    said = "similar to two-phase training (Section 2, no figure)"
    return [
        claim
        for name in ("quarter", "half")
        for claim in (
            panel.faster(name, "online", "not compared", f"{panel.label(name)}, against online"),
            similar(panel, name, "two", said),
            panel.faster("six", name, "not compared", f"6 phases against {panel.label(name)}"),
        )
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """One panel."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/two_set",
    title="Two-set training against phases at equal compute",
    paper=PAPER_TITLE,
    figures="no figure",
    presets=presets(ParityKnobs),
    minutes={"smoke": 0.1, "laptop": 3.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
