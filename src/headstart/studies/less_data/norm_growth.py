"""Small sets grow the readout relative to the input layer faster.

Paper     Less Data, Faster Training, Section 5, Figs. 12 and 13
Claim     Early in training |a|_2 / |W|_F is larger when the set is smaller, for parity and for the single-index model.
Setting   GD, two ReLU layers of width 64, mean squared error, the arms of Fig. 2 (b) and (d): a fixed set of N samples
          against the exact population of (d, 6)-parity, without biases; 100 steps on a small set, then a large one,
          against the large one throughout, for y = He_3(<w*, x>) with biases.
Measured  The ratio of norms after 100 steps, the length of the first phase, as seed means, small over large: at each
          arm's own best learning rate, which the two arms need not share, and at one common rate, where the data alone
          differ. 95% paired bootstrap over seeds.
Expected  Curves without numbers: the ratio rises faster for the smaller set.
Shrunk    The laptop preset has d = 18 instead of 20, 1,000 and 8,000 samples instead of 8,000 and 64,000.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.core.units import FullBatch
from headstart.lab.figures import Curve, house_style
from headstart.measures import readout_ratio
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import (
    ACCURACY,
    FIRST_PHASE_STEPS,
    PAPER_TITLE,
    RELATIVE_LOSS,
    Panel,
    after_first_phase,
    arms_of,
    at_common_rate,
    draw_lines,
    index_run,
    parity_run,
    small_and_large,
    two_phases,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = (
    Curve(r"$\|a\|_2 / \|W\|_F$", readout_ratio),
    Curve(r"$\|a\|_2$", lambda trace: trace["norm_readout"]),
    Curve(r"$\|W\|_F$", lambda trace: trace["norm_input"]),
)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Sizes, lengths in steps, where each sweep begins, and the common learning rates."""

    width: int = 64
    dim: int = 20
    degree: int = 6
    samples: int = 2**14
    steps: int = 2500
    rates: tuple[float, float] = (0.2, 0.28)
    common_rate: float = 0.24
    index_dim: int = 40
    index_samples: tuple[int, int] = (8000, 64000)
    index_steps: int = 1000
    index_rates: tuple[float, float] = (0.16, 0.23)
    index_common_rate: float = 0.16


PAPER = Knobs(num_seeds=64, num_selection_seeds=16)
LAPTOP = Knobs(num_seeds=24, num_selection_seeds=6, dim=18, steps=1500, index_samples=(1000, 8000), index_steps=360)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    width=8,
    dim=6,
    degree=2,
    samples=48,
    steps=120,
    rates=(0.4, 0.58),
    index_dim=4,
    index_samples=(64, 256),
    index_steps=120,
    index_rates=(0.15, 0.26),
)


def panels(k: Knobs) -> list[Panel]:
    """Parity and the single-index model."""
    few, many = k.index_samples
    return [
        Panel(
            name="parity",
            title=f"GD, ({k.dim},{k.degree})-parity",
            run=parity_run(k.dim, k.degree, FullBatch(), k.steps, MLP(k.width, bias=False)),
            rates=k.rates,
            lines=small_and_large(Fixed(k.samples), Online(), (f"{k.samples:,} samples", f"all {2**k.dim:,} points")),
            target=ACCURACY,
        ),
        Panel(
            name="index",
            title=f"GD, single index, d = {k.index_dim}",
            run=index_run(k.index_dim, FullBatch(), k.index_steps, MLP(k.width)),
            rates=k.index_rates,
            lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
            target=RELATIVE_LOSS,
        ),
    ]


def arms(k: Knobs) -> list[lab.Arm]:
    """The arms of both panels, and each again at the common rate."""
    parity, index = panels(k)
    common = at_common_rate(parity, k.common_rate) + at_common_rate(index, k.index_common_rate)
    return arms_of((parity, index)) + common


def early(trace: Trace) -> float:
    """|a| / |W|_F after 100 steps."""
    return after_first_phase(trace, readout_ratio(trace))


def claims(k: Knobs) -> list[lab.Claim]:
    """For each panel, at the best rates and at a common one."""
    out = []
    for panel in panels(k):
        for suffix, rate in (("", "the best rates"), ("_common_rate", "one common rate")):
            small, large = (panel.arm(line) + suffix for line in ("small", "large"))
            out.append(
                lab.Claim(
                    id=f"{panel.name}{suffix or '_best_rate'}",
                    statement=f"{panel.title}: |a|/|W| at step {FIRST_PHASE_STEPS}, {rate}, small over large, above 1",
                    paper="increases more rapidly when the dataset is smaller",
                    rule=lab.above(1.0),
                    estimate=lab.StatisticRatio(small, large, early),
                )
            )
    return out


def figure(results: lab.Results) -> "Figure":
    """Fig. 12 in the first column; the norms of the two layers, Fig. 13, in the others."""
    with house_style() as module:
        picture = module.Figure(figsize=(11, 5.6), layout="constrained")
        grid = picture.subplots(2, 3)
        for row, panel in enumerate(panels(results.knobs)):
            for ax, curve in zip(grid[row], CURVES, strict=True):
                draw_lines(ax, results, panel, curve=curve)
        return picture


STUDY = lab.Study(
    name="less_data/norm_growth",
    title="Small sets grow the readout faster than the input layer",
    paper=PAPER_TITLE,
    figures="Figs. 12 and 13",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 3.0, "paper": 90.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
