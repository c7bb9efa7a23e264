"""Deeper Transformers have wider gaps.

Paper     Less Data, Faster Training, Section 6, Figs. 25 and 26
Claim     The small-vs-large gap of Transformers on (10,6)-parity widens with depth.
Setting   The parity runs of mini_batch_transformers, at several depths; 6 phases, 100 epochs on a 1% pool, online.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; the gap is the ratio of
          steps, 6 phases over online, and gaps are compared by the ratio of ratios. 95% paired bootstraps.
Shrunk    Laptop: width 64 instead of 256, depths 1 and 2 instead of 2, 4, 6 and 8, 3000 steps, beta2 = .95, few seeds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.studies.less_data import ACCURACY, PAPER_TITLE, Panel, arms_of, draw_panels
from headstart.studies.less_data._transformers import BETA2, Size, in_order, parity_panel, parity_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Task, model, length in steps, and where the sweeps begin."""

    parity: tuple[int, int] = (10, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    beta2: tuple[float, ...] = BETA2
    accuracy: float = ACCURACY
    depths: tuple[int, ...] = (2, 4, 6, 8)


PAPER = Knobs(num_seeds=32, num_selection_seeds=8)
LAPTOP = Knobs(
    num_seeds=6,
    num_selection_seeds=2,
    parity=(10, 6),
    size=(64, 2, 4, 64),
    steps=3000,
    rates=(1e-3, 1.44e-3),
    beta2=(),
    depths=(1, 2),
)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    parity=(4, 2),
    size=(8, 1, 2, 8),
    steps=40,
    rates=None,
    beta2=(),
    accuracy=0.55,
    depths=(1, 2),
)


def panels(k: Knobs) -> list[Panel]:
    """One panel a depth."""
    width, _, heads, mlp_width = k.size
    return [
        parity_panel(
            f"depth{depth}",
            f"{k.parity}-parity, {depth} layers",
            parity_run(*k.parity, k.steps, Size(width, depth, heads, mlp_width)),
            k.rates,
            k.accuracy,
            k.beta2,
        )
        for depth in k.depths
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """The order of the arms at every depth, and a wider gap at the largest than at the smallest."""
    shallow, *_, deep = panels(k)
    return [
        *(claim for panel in panels(k) for claim in in_order(panel, "a gap at every depth (Fig. 25)")),
        lab.Claim(
            id="deeper_is_wider",
            statement=f"the ratio of steps with {k.depths[-1]} layers over that with {k.depths[0]} is below 1",
            paper="the gap widens with depth (Fig. 26)",
            rule=lab.below(1.0),
            estimate=lab.GapRatio(deep.ratio("six", "online"), shallow.ratio("six", "online")),
        ),
    ]


def figure(results: lab.Results) -> "Figure":
    """Fig. 26."""
    return draw_panels(results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/depth_transformers",
    title="Deeper Transformers have wider gaps",
    paper=PAPER_TITLE,
    figures="Figs. 25, 26",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 8.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
