"""Phases that end by themselves: as good as a schedule chosen by hand.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 19
Claim     Six pools of geometric sizes, each left once 75% of its training batches' labels are right or after 50
          epochs, train about as fast as the six phases chosen by hand, and faster than online.
Setting   The parity runs of mini_batch_transformers. Pools from 1/320 to 1/50 of the online samples; the training
          accuracy is the mean over an epoch of each batch's accuracy before its step; the last pool has no exit.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; 95% paired bootstraps.
          Comparable means a ratio of steps between 2/3 and 3/2, stated before any run.
Shrunk    Laptop: as mini_batch_transformers; pools of 300 to 1920 samples, of which about 260 to 867 of the 1024 points
          are distinct.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, with_medians
from headstart.plans import AutoPhases
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._parity import ParityKnobs, three_arms
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def panels(k: ParityKnobs) -> list[Panel]:
    """One panel: the three arms of parity, and automatic."""
    six, hundred, online = three_arms(k.steps)
    auto = Line("auto", "automatic", AutoPhases(), lab.warm(2))
    return [k.parity_panel(lines=(six, hundred, auto, online))]


def claims(k: ParityKnobs) -> list[lab.Claim]:
    """Faster than online, and comparable to six phases by hand."""
    (panel,) = panels(k)
    return [
        panel.faster("auto", "online", "much faster than online (Fig. 19)", "automatic phases against online"),
        lab.Claim(
            id="auto_like_six",
            statement=f"{panel.title}: steps to {panel.goal}, automatic over by hand, lie between 2/3 and 3/2",
            paper="comparable (Fig. 19)",
            rule=lab.Within(2 / 3, 3 / 2),
            estimate=panel.ratio("auto", "six"),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 19."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/auto_schedule",
    title="Phases that end by themselves",
    paper=PAPER_TITLE,
    figures="Fig. 19",
    presets=presets(ParityKnobs, laptop={"num_seeds": 24}),
    minutes={"smoke": 0.2, "laptop": 13.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
