"""Phases that end by themselves: as good as a schedule chosen by hand.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 19
Claim     Six pools of geometric sizes, each left once 75% of its training batches' labels are right or after 50
          epochs, train about as fast as the six phases chosen by hand, and much faster than online.
Setting   The parity runs of mini_batch_transformers. Pools from 1/320 to 1/50 of the online samples; the training
          accuracy is the mean over an epoch of each batch's accuracy before its step; the last pool has no exit.
Measured  As in mini_batch_transformers. Comparable is a ratio within 2/3 to 3/2, stated before any run.
Shrunk    Laptop: as mini_batch_transformers; pools of 200 to 1280 of the 2^20 points.
Tried     Under the rules of version 0.1, on (10,6), where online training learns nothing: automatic over by hand 0.83
          [0.72, 1.02] in the median seed.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Line, Panel, arms_of, draw_panels
from headstart.plans import AutoPhases
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._transformers import ParityKnobs, presets, similar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "Phases that end by themselves take {parity_auto_like_six} of the steps of the six chosen by hand and "
    "{parity_auto_vs_online} of those of online training. That they are comparable {parity_auto_like_six.says}; that "
    "they are faster than online {parity_auto_vs_online.says}."
)


def panels(k: ParityKnobs) -> list[Panel]:
    """One panel: the three arms of parity, and automatic."""
    six, hundred, online = k.three_arms()
    auto = Line("auto", "automatic", AutoPhases(), lab.warm(3))
    return [k.parity_panel(lines=(six, hundred, auto, online))]


def claims(k: ParityKnobs) -> list[lab.Claim]:
    """Faster than online, and comparable to six phases by hand."""
    (panel,) = panels(k)
    primary, faster = lab.Kind.PRIMARY, "much faster than online (Fig. 19)"
    return [
        panel.faster("auto", "online", faster, "automatic phases against online", kind=primary),
        similar(panel, "auto", "six", "comparable (Fig. 19)", primary),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 19."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/auto_schedule",
    title="Phases that end by themselves",
    paper=PAPER_TITLE,
    figures="Fig. 19",
    presets=presets(ParityKnobs),
    minutes={"smoke": 0.1, "laptop": 8.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
