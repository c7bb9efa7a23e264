"""Harder tasks have wider gaps: the single-index model in two dimensions.

Paper     Less Data, Faster Training, Section 6 and Fig. 10a
Claim     The small-vs-large gap of an MLP on a single-index model is wider in the higher dimension.
Setting   y = He_3(<w*, x>), two ReLU layers of width 64 with biases, mean squared error, GD: a small set for 100 steps,
          then a set 8 times as large, against the large set throughout; dimensions 40 and 80 in the paper.
Measured  Steps to a loss of 0.3 Var(y) of the seed-mean test curve, each arm at its own best learning rate; the gap is
          the ratio of steps, small over large, and gaps are compared by the ratio of these ratios. 95% paired
          bootstrap over seeds.
Expected  The paper shows curves: a wider gap at d = 80 than at d = 40.
Shrunk    The laptop preset compares d = 20 with d = 40, with 1,000 and 8,000 samples instead of 8,000 and 64,000.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.units import FullBatch
from headstart.lab.panels import Panel, arms_of, draw_panels, small_and_large
from headstart.models import MLP
from headstart.plans import Fixed
from headstart.studies.less_data import PAPER_TITLE, RELATIVE_LOSS, index_run, mean_curve_panel, two_phases

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """The easier and the harder dimension, samples of the two phases, length in steps."""

    width: int = 64
    dims: tuple[int, int] = (40, 80)
    samples: tuple[int, int] = (8000, 64000)
    steps: int = 1000
    rates: tuple[float, float] = (0.16, 0.23)
    relative_loss: float = RELATIVE_LOSS


PAPER = Knobs(num_seeds=64, num_selection_seeds=16)
LAPTOP = Knobs(num_seeds=24, num_selection_seeds=6, dims=(20, 40), samples=(1000, 8000), steps=360)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    width=8,
    dims=(3, 4),
    samples=(64, 256),
    steps=120,
    rates=(0.15, 0.26),
    relative_loss=0.97,
)


def panels(k: Knobs) -> list[Panel]:
    """One panel a dimension."""
    few, many = k.samples
    return [
        mean_curve_panel(
            name=f"dim{dim}",
            title=f"GD, single index, d = {dim}",
            run=index_run(dim, FullBatch(), k.steps, MLP(k.width)),
            rates=k.rates,
            lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
            target=k.relative_loss,
        )
        for dim in k.dims
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """A gap in each dimension, and a wider one in the higher."""
    easy, hard = panels(k)
    return [
        *(panel.faster("small", "large", "a gap (Fig. 10a)", "small phase first") for panel in (easy, hard)),
        lab.Claim(
            id="harder_is_wider",
            statement=f"GD, single index: the ratio of steps at d = {k.dims[1]} over that at {k.dims[0]} is below 1",
            paper="the gap is wider on d = 80 than on d = 40",
            rule=lab.below(1.0),
            estimate=lab.GapRatio(hard.ratio("small", "large"), easy.ratio("small", "large")),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 10a."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/task_complexity",
    title="Harder tasks have wider gaps",
    paper=PAPER_TITLE,
    figures="Fig. 10a",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 1.5, "paper": 60.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
