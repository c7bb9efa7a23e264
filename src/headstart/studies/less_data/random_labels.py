"""A first phase on random labels speeds up learning as one on true labels does.

Paper     Less Data, Faster Training, Section 5.1, Corollary 2 and Fig. 4 (a-d)
Claim     Training first on a small set with random labels, then on the large set with true ones, is faster than the
          large set alone; accuracy and |a| / |W|_F depend on the size of the first set, not on its labels.
Setting   GD, two ReLU layers of width 64, mean squared error. (d, k)-parity without biases: the exact population; a
          fixed set of N samples; the same N samples with labels drawn once from uniform signs for 100 steps, then the
          population. y = He_3(<w*, x>) with biases: the large set; a small set for 100 steps, then the large set; the
          same with labels He_3(<w_r, x>) in the first phase, w_r another random direction as long as w*. The arms with
          true labels are those of Fig. 2 (b) and (d). The paper does not say how long the random phase is; 100 steps is
          the length it gives for the first phase of the single-index model.
Measured  The restricted mean number of steps to 95% accuracy or a loss of 0.3 Var(y), each arm at its own best learning
          rate, which the same endpoint chooses on 16 other seeds; |a| / |W|_F at the end of the first phase, all arms
          at one learning rate, as a rate is a growth too. 95% paired bootstrap over seeds. "Depends on the size alone":
          ratios in [0.8, 1.25], declared beforehand. Within 0.95 to 1.05 a speed-up would be none.
Tried     In version 0.1 the population chose rates by area at which it flickers below 95%, so that claims on steps were
          bounds, and norms were compared at different rates. Claims at one rate were added then, after that was seen.
Shrunk    The laptop preset has d = 18 instead of 20, 1,000 and 8,000 samples instead of 8,000 and 64,000.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.lab.panels import NO_EFFECT, Line, Panel, arms_of, draw_lines
from headstart.measures import readout_ratio
from headstart.methods import RandomLabels
from headstart.studies.less_data import (
    FIRST_PHASE_STEPS,
    FULL_BATCH,
    PAPER_TITLE,
    at_rate,
    gd_index,
    gd_parity,
    two_phases,
)
from headstart.studies.less_data.norm_growth import RATIO, Knobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = lab.Within(0.8, 1.25)
FINDING = (
    "With random labels first, the steps to the target are {gd_parity_random_vs_large} of the population's on parity "
    "and {gd_index_random_vs_large} of the large set's on the single-index model: that they speed up learning "
    "{gd_parity_random_vs_large.says} and {gd_index_random_vs_large.says}. Over the arms with true labels they take "
    "{gd_parity_labels_do_not_matter} and {gd_index_labels_do_not_matter}, so that labels do not matter "
    "{gd_parity_labels_do_not_matter.says} and {gd_index_labels_do_not_matter.says}."
)
LONGER = {"gd_parity_steps": 140, "gd_parity_rates": (0.3, 0.43)}
PRESETS = {name: Knobs(**{**values, **(LONGER if name == "smoke" else {})}) for name, values in FULL_BATCH.items()}


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """Parity and the single-index model, three arms each."""
    parity, index = gd_parity(k), gd_index(k)
    random = Line(
        "random", "random labels first", two_phases(k.gd_parity_samples, None), lab.warm(1), (RandomLabels(),)
    )
    return (
        replace(parity, lines=(*parity.lines, random)),
        replace(index, lines=(*index.lines, replace(random, plan=two_phases(*k.gd_index_samples)))),
    )


def common_panels(k: Knobs) -> tuple[Panel, Panel]:
    """The same at one learning rate, with the study's seeds alone: norms vary less than times."""
    parity, index = (replace(panel, seeds_factor=1) for panel in panels(k))
    return at_rate(parity, k.parity_rate), at_rate(index, k.index_rate)


def after_first_phase(trace: Trace) -> float:
    """|a| / |W|_F at the last record of the first phase."""
    return float(readout_ratio(trace)[np.searchsorted(trace.steps, FIRST_PHASE_STEPS, side="right") - 1])


def claims(k: Knobs) -> list[lab.Claim]:
    """For each panel: faster than the large set, as fast as true labels, and the same of the norm ratio."""
    out = []
    for panel, common in zip(panels(k), common_panels(k), strict=True):
        speeds, ignores = "random labels lead to a significant speedup", "sensitive to the dataset size, not to labels"
        at = f"{common.title}: |a|/|W| at step {FIRST_PHASE_STEPS}, random labels over"
        out += [
            panel.faster("random", "large", speeds, "random labels first", kind=lab.Kind.PRIMARY),
            lab.Claim(
                id=f"{panel.name}_labels_do_not_matter",
                statement=f"{panel.title}: steps to {panel.goal}, random over true labels, in [0.8, 1.25]",
                paper=ignores,
                rule=replace(SAME, arrivals=0.8),
                estimate=panel.ratio("random", "small"),
                kind=lab.Kind.PRIMARY,
            ),
            lab.Claim(
                id=f"{panel.name}_norms_grow",
                statement=f"{at} the large set, above 1",
                paper="faster growth of |a|/|W|_F",
                rule=lab.above(1.0),
                estimate=lab.StatisticRatio(common.arm("random"), common.arm("large"), after_first_phase),
                kind=lab.Kind.PRIMARY,
                smallest=NO_EFFECT,
            ),
            lab.Claim(
                id=f"{panel.name}_norms_same",
                statement=f"{at} true ones, in [0.8, 1.25]",
                paper=ignores,
                rule=SAME,
                estimate=lab.StatisticRatio(common.arm("random"), common.arm("small"), after_first_phase),
            ),
            common.faster("random", "large", speeds, "random labels first"),
        ]
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 4 (a-d): test curves at the best rates, norms at a common one."""
    picture.set_size_inches(14, 3.4)
    axes = iter(picture.subplots(1, 4))
    for panel, common in zip(panels(results.knobs), common_panels(results.knobs), strict=True):
        draw_lines(next(axes), results, panel)
        draw_lines(next(axes), results, common, curve=RATIO)


STUDY = lab.Study(
    name="less_data/random_labels",
    title="A first phase on random labels speeds up learning",
    paper=PAPER_TITLE,
    figures="Fig. 4",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 8.0, "paper": 90.0},
    arms=lambda knobs: arms_of([*panels(knobs), *common_panels(knobs)]),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
