"""Do harder parities have wider gaps in Transformers?

Paper     Less Data, Faster Training, Section 6 and Fig. 10b
Claim     The small-vs-large gap of Transformers on parity is wider for the harder problem.
Setting   The parity runs of mini_batch_transformers on an easier and a harder parity; (10,6) and (20,6) in the paper.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; the gap is the ratio of
          steps, 6 phases over online, and gaps are compared by the ratio of ratios; also in area, the mean
          accuracy over the run, since online training does not arrive on (10,6) (added after that had been seen). 95%
          paired bootstraps.
Shrunk    Laptop: (10,3) and (10,6), 12 seeds, else as mini_batch_transformers. Looked at first, two selection seeds at
          two rates: (10,2), which online training learns as fast as 6 phases; (10,4) and (10,5), which it does not
          learn in 2000 steps.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.areas import GapDifference
from headstart.lab.panels import Panel, arms_of, draw_panels, with_medians
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._parity import ParityKnobs, in_order
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of the harder parity, and the easier one."""

    easier: tuple[int, int] = (10, 6)


PRESETS = presets(Knobs, smoke={"easier": (4, 1)}, laptop={"easier": (10, 3)})


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """The easier and the harder parity."""
    return replace(k, parity=k.easier).parity_panel("easy"), k.parity_panel("hard")


def claims(k: Knobs) -> list[lab.Claim]:
    """The order of the arms on each, and a wider gap on the harder."""
    easy, hard = panels(k)
    return [
        *(claim for panel in (easy, hard) for claim in in_order(panel, "a gap (Fig. 10b)")),
        lab.Claim(
            id="harder_is_wider",
            statement=f"steps, 6 phases over online: the ratio on {k.parity}-parity over that on {k.easier} is below 1",
            paper="(20,6)-parity sees a bigger gap than (10,6)-parity",
            rule=lab.below(1.0),
            estimate=lab.GapRatio(hard.ratio("six", "online"), easy.ratio("six", "online")),
        ),
        lab.Claim(
            id="harder_is_wider_area",
            statement=f"the gap in area, 6 phases less online, on {k.parity}-parity less that on {k.easier} is above 0",
            paper="(20,6)-parity sees a bigger gap than (10,6)-parity",
            rule=lab.above(0.0),
            estimate=GapDifference(hard, easy, "six"),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 10b."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/task_complexity_transformers",
    title="Do harder parities have wider gaps in Transformers?",
    paper=PAPER_TITLE,
    figures="Fig. 10b",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 12.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
