"""Do harder parities have wider gaps in Transformers?

Paper     Less Data, Faster Training, Section 6 and Fig. 10b
Claim     The small-vs-large gap of Transformers on parity is wider in a larger dimension.
Setting   The parity runs of mini_batch_transformers with the same degree in two dimensions; (10,6) and (20,6) in the
          paper.
Measured  As in mini_batch_transformers. The gap is the ratio of steps, a small side over online; gaps are compared by
          the ratio of ratios, which is no effect within 0.95 to 1.05.
Shrunk    Laptop: (10,3) and (20,3), as mini_batch_transformers. At d = 10 there are 1024 points: the 1% pool has 640
          draws, and online training sees each point 62 times. So has the paper's left panel few points. Desk: the
          paper's (10,6) and (20,6), width 128, MLPs of 512, 25,000 steps, 3 seeds, all arms at one rate, which was not
          piloted: is the sign the same?
Tried     Version 0.1 compared (10,3) with (10,6), where online training never arrived. On three other seeds it
          arrives on (10,3) in 193, 193 and 394 steps at 1.4e-3.
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
    "In the larger dimension the ratio of steps, 6 phases over online, is {harder_is_wider_six} times that in the "
    "smaller, and for 100 epochs {harder_is_wider_hundred}. That the gap is wider on the harder parity "
    "{harder_is_wider_six.says} for 6 phases and {harder_is_wider_hundred.says} for 100 epochs."
)


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of the harder parity, and the dimension of the easier one."""

    easier_dim: int = 10


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """The easier and the harder parity."""
    return replace(k, parity=(k.easier_dim, k.parity[1])).parity_panel("easy"), k.parity_panel()


def claims(k: Knobs) -> list[lab.Claim]:
    """A wider gap on the harder parity, and a gap on the easier."""
    easy, hard = panels(k)
    return [
        *(
            lab.Claim(
                id=f"harder_is_wider_{small}",
                statement=f"steps, {hard.label(small)} over online: the ratio on {hard.title} over that on "
                f"{easy.title} is below 1",
                paper="(20,6)-parity sees a bigger gap than (10,6)-parity (Fig. 10b)",
                rule=lab.below(1.0),
                estimate=lab.GapRatio(hard.ratio(small, "online"), easy.ratio(small, "online")),
                kind=kind,
                smallest=lab.NO_EFFECT,
            )
            for small, kind in (("six", lab.Kind.PRIMARY), ("hundred", lab.Kind.SECONDARY))
        ),
        *(
            panel.faster(small, "online", "a gap (Fig. 10b)", f"{panel.label(small)} against online")
            for panel in (easy, hard)
            for small in ("six", "hundred")
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
    presets=presets(
        Knobs,
        smoke={"easier_dim": 3},
        desk={"num_seeds": 3, "parity": (20, 6), "size": (128, 2, 8, 512)}
        | {"steps": 25_000, "rates": None, "rate": 1e-3},
    ),
    minutes={"smoke": 0.1, "laptop": 2.0, "desk": 60.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
