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

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.core.units import FullBatch
from headstart.lab.figures import Curve
from headstart.lab.panels import Panel, draw_lines, small_and_large
from headstart.measures import readout_ratio
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import (
    FIRST_PHASE_STEPS,
    FULL_BATCH_PRESETS,
    PAPER_TITLE,
    FullBatchKnobs,
    after_first_phase,
    full_batch_arms,
    index_run,
    mean_curve_panel,
    parity_run,
    two_phases,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = (
    Curve(r"$\|a\|_2 / \|W\|_F$", readout_ratio),
    Curve(r"$\|a\|_2$", lambda trace: trace["norm_readout"]),
    Curve(r"$\|W\|_F$", lambda trace: trace["norm_input"]),
)


def panels(k: FullBatchKnobs) -> tuple[Panel, Panel]:
    """Parity and the single-index model."""
    few, many = k.index_samples
    return (
        mean_curve_panel(
            name="parity",
            title=f"GD, ({k.dim},{k.degree})-parity",
            run=parity_run(k.dim, k.degree, FullBatch(), k.steps, MLP(k.width, bias=False)),
            rates=k.rates,
            lines=small_and_large(Fixed(k.samples), Online(), (f"{k.samples:,} samples", f"all {2**k.dim:,} points")),
            target=k.accuracy,
        ),
        mean_curve_panel(
            name="index",
            title=f"GD, single index, d = {k.index_dim}",
            run=index_run(k.index_dim, FullBatch(), k.index_steps, MLP(k.width)),
            rates=k.index_rates,
            lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
            target=k.relative_loss,
        ),
    )


def early(trace: Trace) -> float:
    """|a| / |W|_F after 100 steps."""
    return after_first_phase(trace, readout_ratio(trace))


def claims(k: FullBatchKnobs) -> list[lab.Claim]:
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


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 12 in the first column; the norms of the two layers, Fig. 13, in the others."""
    picture.set_size_inches(11, 5.6)
    grid = picture.subplots(2, 3)
    for row, panel in enumerate(panels(results.knobs)):
        for ax, curve in zip(grid[row], CURVES, strict=True):
            draw_lines(ax, results, panel, curve=curve)


STUDY = lab.Study(
    name="less_data/norm_growth",
    title="Small sets grow the readout faster than the input layer",
    paper=PAPER_TITLE,
    figures="Figs. 12 and 13",
    presets=FULL_BATCH_PRESETS,
    minutes={"smoke": 0.1, "laptop": 3.0, "paper": 90.0},
    arms=lambda knobs: full_batch_arms(panels(knobs), knobs),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
