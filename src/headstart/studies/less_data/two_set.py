"""Two-set training against phases at equal compute.

Paper     Less Data, Faster Training, Section 2, which names two-set training (Charton and Kempe, 2024) as similar to
          two phases and shows no comparison
Claim     At equal compute two-set training beats online training, and six phases beat two-set training.
Setting   The parity runs of mini_batch_transformers. Two sets: each example of a batch comes from a fixed set of 1% of
          the online samples with probability 1/4 or 1/2, else it is fresh.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; 95% paired bootstraps. All
          arms take 32 samples a step, so steps are compute.
Shrunk    Laptop: as mini_batch_transformers; the small set is 960 samples, about 623 of the 1024 points.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, shaded, with_medians
from headstart.plans import TwoSet
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._parity import ParityKnobs, pool_size, three_arms
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBABILITIES = (0.25, 0.5)


def panels(k: ParityKnobs) -> list[Panel]:
    """One panel: the three arms of parity and two sets."""
    six, hundred, online = three_arms(k.steps)
    small = pool_size(k.steps)
    mixed = [Line(f"two_set_{p:.2g}", f"two sets, {p:.0%} from {small:,}", TwoSet(small, p)) for p in PROBABILITIES]
    return [k.parity_panel(lines=(*shaded(lab.warm, (six, hundred, *mixed)), online))]


def claims(k: ParityKnobs) -> list[lab.Claim]:
    """Each probability against online, and six phases against each probability."""
    (panel,) = panels(k)
    names = [line.name for line in panel.lines if line.name.startswith("two_set")]
    said = "similar to two-phase training (Section 2, no figure)"
    return [
        *(panel.faster(name, "online", said, f"{panel.label(name)}, against online") for name in names),
        *(panel.faster("six", name, "not compared", f"6 phases against {panel.label(name)}") for name in names),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """One panel."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/two_set",
    title="Two-set training against phases at equal compute",
    paper=PAPER_TITLE,
    figures="no figure",
    presets=presets(ParityKnobs, laptop={"num_seeds": 24}),
    minutes={"smoke": 0.2, "laptop": 16.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
