"""Do deeper Transformers have wider gaps?

Paper     Less Data, Faster Training, Section 6, Figs. 25 and 26
Claim     The small-vs-large gap of Transformers on (10,6)-parity widens with depth.
Setting   The parity runs of mini_batch_transformers, at several depths; 6 phases, 100 epochs on a 1% pool, online.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; the gap is the ratio of
          steps of a small side over online, and gaps are compared by the ratio of ratios. Where online training never
          arrives ratios are only bounds, so gaps are also compared in area, the mean accuracy over the run (added after
          it had been seen not to arrive). 95% paired bootstraps.
Shrunk    Laptop: width 64 instead of 256, depths 2 and 4 instead of 2, 4, 6 and 8; 10 seeds, else as
          mini_batch_transformers.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.lab.areas import GapDifference
from headstart.lab.panels import Panel, arms_of, draw_panels, with_medians
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._parity import ParityKnobs, in_order
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of parity, and the depths; that of `size` is not used."""

    depths: tuple[int, ...] = (2, 4, 6, 8)

    def __post_init__(self) -> None:
        if len(self.depths) < 2:
            raise HeadstartError(f"depths={self.depths}: name at least two, since gaps are compared")


PRESETS = presets(
    Knobs, smoke={"depths": (1, 2)}, laptop={"num_seeds": 10, "depths": (2, 4)}, paper={"parity": (10, 6)}
)


def panels(k: Knobs) -> list[Panel]:
    """One panel a depth."""
    width, _, heads, mlp_width = k.size
    return [
        k.parity_panel(
            f"depth{depth}",
            f"{k.parity}-parity, {depth} layers",
            run=replace(k, size=(width, depth, heads, mlp_width)).parity_run(),
        )
        for depth in k.depths
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """The order of the arms at every depth, and wider gaps at the largest than at the smallest."""
    found = panels(k)
    shallow, deep = found[0], found[-1]
    return [
        *(claim for panel in found for claim in in_order(panel, "a gap at every depth (Fig. 25)")),
        *(
            lab.Claim(
                id=f"deeper_is_wider_{small}",
                statement=f"the ratio of steps, {deep.label(small)} over online, with {k.depths[-1]} layers over that "
                f"with {k.depths[0]} is below 1",
                paper="the gap widens with depth (Fig. 26)",
                rule=lab.below(1.0),
                estimate=lab.GapRatio(deep.ratio(small, "online"), shallow.ratio(small, "online")),
            )
            for small in ("six", "hundred")
        ),
        *(
            lab.Claim(
                id=f"deeper_is_wider_{small}_area",
                statement=f"the gap in area, {deep.label(small)} less online, with {k.depths[-1]} layers less that "
                f"with {k.depths[0]} is above 0",
                paper="the gap widens with depth (Fig. 26)",
                rule=lab.above(0.0),
                estimate=GapDifference(deep, shallow, small),
            )
            for small in ("six", "hundred")
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 26."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/depth_transformers",
    title="Do deeper Transformers have wider gaps?",
    paper=PAPER_TITLE,
    figures="Figs. 25, 26",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 19.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
