"""Do deeper Transformers have wider gaps?

Paper     Less Data, Faster Training, Section 6, Figs. 25 and 26
Claim     The small-vs-large gap of Transformers on parity widens with depth.
Setting   The parity runs of mini_batch_transformers, at several depths; 6 phases, 100 epochs on a 1% pool, online. The
          paper has (10,6)-parity with 2, 4, 6 and 8 layers.
Measured  As in mini_batch_transformers. The gap is the ratio of steps, a small side over online; the claim is on the
          factor by which it changes with every doubling of the depth, a least-squares line in logarithms, which is no
          effect within 0.95 to 1.05.
Shrunk    Laptop: (20,3), width 32, 2 and 4 layers, as mini_batch_transformers. Desk: 8 layers too.
Tried     Version 0.1, on (10,6) with 2 and 4 layers, where online training learns nothing: 0.010 [-0.074, 0.115] wider
          in area. Of eight layers a pilot was stopped: online at 7e-4, one of two other seeds arrived before step 800.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Panel, arms_of, draw_panels
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._transformers import ParityKnobs, presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "With every doubling of the depth the ratio of steps, 6 phases over online, changes by a factor "
    "{deeper_is_wider_six}, and that of 100 epochs by {deeper_is_wider_hundred}. That the gap widens with depth "
    "{deeper_is_wider_six.says} for 6 phases and {deeper_is_wider_hundred.says} for 100 epochs."
)


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of parity, and the depths."""

    depths: tuple[int, ...] = (2, 4, 6, 8)


def panels(k: Knobs) -> list[Panel]:
    """One panel per depth."""
    width, _, heads, mlp_width = k.size

    def panel(depth: int) -> Panel:
        run = replace(k, size=(width, depth, heads, mlp_width)).parity_run()
        return k.parity_panel(f"depth{depth}", f"{k.parity}-parity, {depth} layers", run=run)

    return [panel(depth) for depth in k.depths]


def claims(k: Knobs) -> list[lab.Claim]:
    """Wider gaps with more layers, and a gap at every depth."""
    found = panels(k)
    trends = [
        lab.Claim(
            id=f"deeper_is_wider_{small}",
            statement=f"{k.parity}-parity: the ratio of steps, {found[0].label(small)} over online, changes with every "
            "doubling of the depth by a factor below 1",
            paper="the gap widens with depth (Figs. 25, 26)",
            rule=lab.below(1.0),
            estimate=lab.GapTrend(tuple(panel.ratio(small, "online") for panel in found), k.depths),
            kind=kind,
            smallest=lab.NO_EFFECT,
        )
        for small, kind in (("six", lab.Kind.PRIMARY), ("hundred", lab.Kind.SECONDARY))
    ]
    return trends + [
        panel.faster(small, "online", "a gap at every depth (Fig. 25)", f"{panel.label(small)} against online")
        for panel in found
        for small in ("six", "hundred")
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Figs. 25 and 26."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/depth_transformers",
    title="Do deeper Transformers have wider gaps?",
    paper=PAPER_TITLE,
    figures="Figs. 25, 26",
    presets=presets(
        Knobs,
        smoke={"depths": (1, 2)},
        laptop={"depths": (2, 4)},
        desk={"depths": (2, 4, 8)},
        paper={"parity": (10, 6)},
    ),
    minutes={"smoke": 0.1, "laptop": 16.0, "desk": 30.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
