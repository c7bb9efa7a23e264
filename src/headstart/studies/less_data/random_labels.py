"""A first phase on random labels speeds up learning as one on true labels does.

Paper     Less Data, Faster Training, Section 5.1, Corollary 2 and Fig. 4 (a-d)
Claim     Training first on a small set with random labels, then on the large set with true ones, is faster than the
          large set alone; accuracy and |a| / |W|_F depend on the size of the first set, not on its labels.
Setting   GD, two ReLU layers of width 64, mean squared error. (d, k)-parity without biases: the exact population; a
          fixed set of N samples; the same N samples with labels drawn once from uniform signs for 100 steps, then the
          population. y = He_3(<w*, x>) with biases: the large set; a small set for 100 steps, then the large set; the
          same with labels He_3(<w_r, x>) in the first phase, w_r another random direction as long as w*.
          The paper does not say how long the random phase is; 100 steps is the length it gives for the first phase of
          the single-index model.
Measured  Steps to 95% accuracy or a loss of 0.3 Var(y), as in the other studies, each arm at its own best learning
          rate; |a| / |W|_F at the end of the first phase. "Depends on the size alone": ratios in [0.8, 1.25], declared
          beforehand.
Tried     By area, the population arms of parity choose rates near the edge of stability in 1,500 steps, where they
          flicker below 95% and their times are censored. After the first laptop run had shown that, the claims on steps
          were repeated at one common rate (0.24 and 0.16), with no change to the others.
Shrunk    The laptop preset has d = 18 instead of 20, 1,000 and 8,000 samples instead of 8,000 and 64,000.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.core.units import FullBatch
from headstart.lab.figures import Curve
from headstart.lab.panels import Line, Panel, draw_lines
from headstart.measures import readout_ratio
from headstart.methods import RandomLabels
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import (
    FIRST_PHASE_STEPS,
    FULL_BATCH_PRESETS,
    PAPER_TITLE,
    TIME,
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

SAME = lab.Within(0.8, 1.25)
RATIO = Curve(r"$\|a\|_2 / \|W\|_F$", readout_ratio)


def panels(k: FullBatchKnobs) -> tuple[Panel, Panel]:
    """Parity and the single-index model, three arms each."""
    few, many = k.index_samples
    parity = mean_curve_panel(
        name="parity",
        title=f"GD, ({k.dim},{k.degree})-parity",
        run=parity_run(k.dim, k.degree, FullBatch(), k.steps, MLP(k.width, bias=False)),
        rates=k.rates,
        lines=(
            Line("small", f"{k.samples:,} samples", Fixed(k.samples), lab.warm()),
            Line("random", "random labels first", two_phases(k.samples, None), lab.warm(1), (RandomLabels(),)),
            Line("large", f"all {2**k.dim:,} points", Online(), lab.cold()),
        ),
        target=k.accuracy,
    )
    index = mean_curve_panel(
        name="index",
        title=f"GD, single index, d = {k.index_dim}",
        run=index_run(k.index_dim, FullBatch(), k.index_steps, MLP(k.width)),
        rates=k.index_rates,
        lines=(
            Line("small", f"{few:,}, then {many:,}", two_phases(few, many), lab.warm()),
            Line("random", "random labels first", two_phases(few, many), lab.warm(1), (RandomLabels(),)),
            Line("large", f"{many:,} samples", Fixed(many), lab.cold()),
        ),
        target=k.relative_loss,
    )
    return parity, index


def ratio_after_first_phase(trace: Trace) -> float:
    """|a| / |W|_F at the last record of the first phase."""
    return after_first_phase(trace, readout_ratio(trace))


def claims(k: FullBatchKnobs) -> list[lab.Claim]:
    """For each panel: faster than the large set, as fast as true labels, and the same for the norm ratio."""
    out = []
    for panel in panels(k):
        large, small, random = (panel.arm(line) for line in ("large", "small", "random"))
        suffix = "_common_rate"
        for name, line, rule, says in (
            ("faster", "large", lab.below(1.0), "random labels lead to a significant speedup"),
            ("labels_do_not_matter", "small", SAME, "sensitive only to the dataset size, not to the label choice"),
        ):
            out.append(
                lab.Claim(
                    id=f"{panel.name}_{name}{suffix}",
                    statement=f"{panel.title}, one common rate: steps to {panel.goal}, random first over {line}, "
                    + ("below 1" if line == "large" else "in [0.8, 1.25]"),
                    paper=says,
                    rule=rule,
                    estimate=lab.TimeRatio(random + suffix, panel.arm(line) + suffix, panel.target, of=TIME),
                )
            )
        out += [
            panel.faster("random", "large", "random labels lead to a significant speedup", "random labels first"),
            lab.Claim(
                id=f"{panel.name}_labels_do_not_matter",
                statement=f"{panel.title}: steps to {panel.goal}, random over true first labels, in [0.8, 1.25]",
                paper="sensitive only to the dataset size, not to the label choice",
                rule=SAME,
                estimate=panel.ratio("random", "small"),
            ),
            lab.Claim(
                id=f"{panel.name}_norms_grow",
                statement=f"{panel.title}: |a|/|W| at step {FIRST_PHASE_STEPS}, random labels over large set, above 1",
                paper="faster growth of |a|/|W|_F",
                rule=lab.above(1.0),
                estimate=lab.StatisticRatio(random, large, ratio_after_first_phase),
            ),
            lab.Claim(
                id=f"{panel.name}_norms_same",
                statement=f"{panel.title}: |a|/|W| at step {FIRST_PHASE_STEPS}, random over true, in [0.8, 1.25]",
                paper="sensitive only to the dataset size, not to the label choice",
                rule=SAME,
                estimate=lab.StatisticRatio(random, small, ratio_after_first_phase),
            ),
        ]
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 4 (a-d)."""
    picture.set_size_inches(13.5, 3.2)
    grid = picture.subplots(1, 4)
    for column, panel in enumerate(panels(results.knobs)):
        draw_lines(grid[2 * column], results, panel)
        draw_lines(grid[2 * column + 1], results, panel, curve=RATIO)
        for ax in grid[2 * column : 2 * column + 2]:
            ax.axvline(FIRST_PHASE_STEPS, color="#888888", linewidth=0.8, linestyle="--")


STUDY = lab.Study(
    name="less_data/random_labels",
    title="A first phase on random labels speeds up learning",
    paper=PAPER_TITLE,
    figures="Fig. 4",
    presets=FULL_BATCH_PRESETS,
    minutes={"smoke": 0.2, "laptop": 3.0, "paper": 90.0},
    arms=lambda knobs: full_batch_arms(panels(knobs), knobs),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
