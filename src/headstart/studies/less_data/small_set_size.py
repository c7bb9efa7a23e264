"""How small a small set should be: fast, but not so small that it is merely memorised.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 18
Claim     A set of the right size is faster than a larger one and still generalises; on the single-index model smaller
          sets are faster at first but end at a worse loss.
Setting   GD, two ReLU layers of width 64, mean squared error. (d, 6)-parity without biases: fixed sets of 2^m samples
          and the exact population. y = He_3(<w*, x>), d = 40, with biases: fixed sets of several sizes, one phase.
Measured  Steps to 95% accuracy; test accuracy and test loss at the end and, for the single-index model, the loss after
          100 steps; seed means, each arm at its own best learning rate. 95% paired bootstrap over seeds.
Expected  Curves without numbers; "a proper dataset provides learning speedup without incurring severe overfitting".
Shrunk    The laptop preset has d = 18 instead of 20, and sets of 500 to 8,000 instead of 4,000 to 64,000.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.core.units import FullBatch
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, shaded
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import (
    ACCURACY,
    FIRST_PHASE_STEPS,
    PAPER_TITLE,
    RELATIVE_LOSS,
    after_first_phase,
    index_run,
    mean_curve_panel,
    parity_run,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Set sizes (powers of two for parity), lengths in steps, and where each sweep begins."""

    width: int = 64
    dim: int = 20
    degree: int = 6
    exponents: tuple[int, ...] = (10, 11, 12, 13, 14, 15, 16, 17)
    steps: int = 2500
    rates: tuple[float, float] = (0.2, 0.28)
    index_dim: int = 40
    index_samples: tuple[int, ...] = (4000, 8000, 16000, 32000, 64000)
    index_steps: int = 1000
    index_rates: tuple[float, float] = (0.16, 0.23)
    accuracy: float = ACCURACY


PAPER = Knobs(num_seeds=64, num_selection_seeds=16)
LAPTOP = Knobs(
    num_seeds=16,
    num_selection_seeds=4,
    dim=18,
    exponents=(10, 12, 14, 16),
    steps=1500,
    index_samples=(500, 1000, 2000, 8000),
    index_steps=360,
)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    width=8,
    dim=6,
    degree=2,
    exponents=(4, 5),
    steps=60,
    rates=(0.4, 0.58),
    index_dim=4,
    index_samples=(32, 128),
    index_steps=120,
    index_rates=(0.15, 0.26),
    accuracy=0.55,
)


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """Parity and the single-index model; the largest set of each is the large side."""
    parity = mean_curve_panel(
        name="parity",
        title=f"GD, ({k.dim},{k.degree})-parity",
        run=parity_run(k.dim, k.degree, FullBatch(), k.steps, MLP(k.width, bias=False)),
        rates=k.rates,
        lines=(
            *shaded(lab.warm, [Line(f"2^{m}", f"$2^{{{m}}}$ samples", Fixed(2**m)) for m in k.exponents]),
            Line("large", f"all {2**k.dim:,} points", Online(), lab.cold()),
        ),
        target=k.accuracy,
    )
    *few, many = sorted(k.index_samples)
    index = mean_curve_panel(
        name="index",
        title=f"GD, single index, d = {k.index_dim}",
        run=index_run(k.index_dim, FullBatch(), k.index_steps, MLP(k.width)),
        rates=k.index_rates,
        lines=(
            *shaded(lab.warm, [Line(f"{n}", f"{n:,} samples", Fixed(n)) for n in few]),
            Line("large", f"{many:,} samples", Fixed(many), lab.cold()),
        ),
        target=RELATIVE_LOSS,
    )
    return parity, index


def early_loss(trace: Trace) -> float:
    """The relative test loss after 100 steps."""
    return after_first_phase(trace, trace["test_relative_loss"])


def claims(k: Knobs) -> list[lab.Claim]:
    """A speed-up at the right size, overfitting below it, and the two ends of the single-index model."""
    parity, index = panels(k)
    smallest, right = min(k.exponents), max(m for m in k.exponents if m <= 14)
    few = sorted(k.index_samples)[0]
    return [
        parity.faster(f"2^{right}", "large", "a proper size provides a speedup", f"2^{right} samples"),
        lab.Claim(
            id="parity_smallest_overfits",
            statement=f"{parity.title}: final accuracy with 2^{smallest} over 2^{right} samples is below 1",
            paper="without incurring severe overfitting: smaller sets do",
            rule=lab.below(1.0),
            estimate=lab.FinalRatio(parity.arm(f"2^{smallest}"), parity.arm(f"2^{right}")),
        ),
        lab.Claim(
            id="index_smaller_is_faster_at_first",
            statement=f"{index.title}: loss at step {FIRST_PHASE_STEPS} with {few:,} samples over the largest, below 1",
            paper="a smaller dataset can lead to speedup initially",
            rule=lab.below(1.0),
            estimate=lab.StatisticRatio(index.arm(f"{few}"), index.arm("large"), early_loss),
        ),
        lab.Claim(
            id="index_smaller_ends_worse",
            statement=f"{index.title}: loss at the end with {few:,} samples over the largest set is above 1",
            paper="but a worse loss at convergence",
            rule=lab.above(1.0),
            estimate=lab.FinalRatio(index.arm(f"{few}"), index.arm("large")),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 18."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/small_set_size",
    title="How small a small set should be",
    paper=PAPER_TITLE,
    figures="Fig. 18",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 3.0, "paper": 120.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
