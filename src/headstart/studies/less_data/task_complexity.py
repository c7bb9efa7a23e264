"""Harder tasks have wider gaps: the single-index model in two dimensions.

Paper     Less Data, Faster Training, Section 6 and Fig. 10a
Claim     The small-vs-large gap of an MLP on a single-index model is wider in the higher dimension.
Setting   y = He_3(<w*, x>), two ReLU layers of width 64 with biases, mean squared error, GD: a small set for 100 steps,
          then a set 8 times as large, against the large set throughout; dimensions 40 and 80 in the paper. At d = 40
          the arms are those of Fig. 2 (d).
Measured  The restricted mean number of steps to a loss of 0.3 Var(y), each arm at its own best learning rate, which
          the same endpoint chooses on 16 other seeds; the gap is small over large, and gaps are compared by the ratio
          of these ratios. 95% paired bootstrap over seeds. Within 0.95 to 1.05 it would be no effect.
Expected  The paper shows curves: a wider gap at d = 80 than at d = 40.
Shrunk    The laptop preset compares d = 20 with d = 40, with 1,000 and 8,000 samples instead of 8,000 and 64,000. The
          desk preset has the paper's dimensions and samples with 24 seeds.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import NO_EFFECT, Panel, arms_of, draw_panels
from headstart.studies.less_data import FULL_BATCH, PAPER_TITLE, FullBatchKnobs, gd_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "The ratio of steps, small over large, in the higher dimension is {harder_is_wider} of that in the lower one. That "
    "harder tasks have wider gaps {harder_is_wider.says}."
)


@dataclass(frozen=True)
class Knobs(FullBatchKnobs):
    """The easier and the harder dimension."""

    dims: tuple[int, int] = (40, 80)


PRESETS = {
    "smoke": Knobs(**FULL_BATCH["smoke"], dims=(3, 4)),
    "laptop": Knobs(**FULL_BATCH["laptop"], dims=(20, 40)),
    "desk": Knobs(num_seeds=24),
    "paper": Knobs(**FULL_BATCH["paper"]),
}


def panels(k: Knobs) -> list[Panel]:
    """One panel per dimension."""
    return [replace(gd_index(replace(k, single_index_dim=dim)), name=f"dim{dim}") for dim in k.dims]


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
            kind=lab.Kind.PRIMARY,
            smallest=NO_EFFECT,
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
    presets=PRESETS,
    minutes={"smoke": 0.1, "laptop": 1.5, "desk": 70.0, "paper": 120.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
