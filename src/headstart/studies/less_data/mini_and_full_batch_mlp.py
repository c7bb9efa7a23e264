"""The small-vs-large gap of MLPs: a small set, repeated, learns in fewer steps and less compute than a large one.

Paper     Less Data, Faster Training, Section 3 and Fig. 2 (a-d); settings from Appendix B.1
Claim     With mini-batches and with full batches, on sparse parity and on a single-index model, the arm with less
          data reaches the target in fewer steps and fewer samples processed, each arm at its own best learning rate.
Setting   Two-layer ReLU networks of width 64, PyTorch's initialisation, plain SGD or GD, mean squared error.
          (a) SGD on (d, k)-parity, batch 128: a fixed set of N samples against fresh samples.
          (b) GD on (d, k)-parity: a fixed set of N samples against the exact population of 2^d points.
          (c) SGD on y = He_3(<w*, x>), batch 128: 100 steps on 1% of the online samples, then fresh samples, against
              fresh samples throughout.
          (d) GD on the same: 100 steps on a small set, then a set 8 times as large, against the large set throughout.
          The paper states neither loss nor biases. Parity uses no biases and He_3 uses them: with mean squared error
          and no biases parity takes the paper's numbers of steps, and a ReLU network without biases cannot express
          an odd link. Both are knobs.
Measured  The seed-mean test curve (4096 points for parity, 5000 for the single-index model), as its nearest monotone
          curve, since training near the edge of stability flickers: the step, and the number of samples processed,
          at which accuracy is 95% or loss / Var(y) is 0.3; the loss at the end.
          Intervals are 95% paired bootstraps over seeds. Learning rates: grid of ratio 1.2, the same for both arms,
          extended until the best rate is inside, chosen on seeds that no claim uses.
Arithmetic  In (b) each step of the large arm processes 2^d / N times the samples of the small arm, which alone
          makes up most of the factor in compute. The effect of the data is the ratio of steps. In (a) and (c) both
          arms take 128 samples a step, so the ratios of compute and of steps are one number.
Shrunk    The laptop preset has d = 18 in (b), where the population is 16 times the small set instead of 64 times, and
          1,000 then 8,000 samples for 360 steps in (d) instead of 8,000 then 64,000 for 1,000 steps. At d = 14 and
          below the gap in (b) is not there. SGD is cheap, so (a) and (c) have four times the seeds.
Tried     The reported laptop preset is the third that was looked at. The first (32 seeds, 4 to choose rates, raw
          crossings, 1800 steps in (b)) and the second (24 and 6 seeds, monotone fits, 1500 steps) left all three
          claims of (c) undecided, 0.75 [0.65, 1.06] and 1.01 [0.53, 1.40] in steps; so did the paper's dimension with
          64 SGD seeds, 1.26 [0.60, 1.35]. The other claims held each time. The third has four times the SGD seeds, the
          earlier ones among them. On three further blocks of 96 seeds that no one had looked at, rates frozen, the
          steps of (c) are 0.69 [0.63, 0.81], 0.70 [0.61, 0.82], 0.69 [0.62, 0.74] and those of (a) 0.82 [0.70, 0.90],
          0.81 [0.67, 0.89], 0.77 [0.70, 0.83]: these hold. The final loss of (c) is 0.24 [0.08, 1.02],
          0.60 [0.49, 0.73], 0.79 [0.62, 1.01]: it holds in one block of three, so take that verdict as fragile.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.units import Batch, FullBatch
from headstart.lab.panels import Panel, arms_of, draw_lines, small_and_large
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import PAPER_TITLE, index_run, mean_curve_panel, parity_run, two_phases

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Sizes, lengths in steps, and where each sweep of learning rates begins; SGD is cheap and has more seeds."""

    sgd_seeds_factor: int = 4
    width: int = 64
    accuracy: float = 0.95
    relative_loss: float = 0.3
    parity_bias: bool = False
    single_index_bias: bool = True
    sgd_parity_dim: int = 20
    sgd_parity_degree: int = 6
    sgd_parity_samples: int = 2**14
    sgd_parity_steps: int = 4000
    sgd_parity_rates: tuple[float, float] = (0.16, 0.23)
    gd_parity_dim: int = 20
    gd_parity_degree: int = 6
    gd_parity_samples: int = 2**14
    gd_parity_steps: int = 2500
    gd_parity_rates: tuple[float, float] = (0.2, 0.28)
    single_index_dim: int = 40
    sgd_index_steps: int = 1000
    sgd_index_rates: tuple[float, float] = (0.08, 0.115)
    gd_index_samples: tuple[int, int] = (8000, 64000)
    gd_index_steps: int = 1000
    gd_index_rates: tuple[float, float] = (0.16, 0.23)


PAPER = Knobs(num_seeds=64, num_selection_seeds=16)
LAPTOP = Knobs(
    num_seeds=24,
    num_selection_seeds=6,
    sgd_parity_steps=3000,
    gd_parity_dim=18,
    gd_parity_steps=1500,
    gd_index_samples=(1000, 8000),
    gd_index_steps=360,
)
SMOKE = Knobs(
    num_seeds=3,
    num_selection_seeds=2,
    sgd_seeds_factor=1,
    width=8,
    accuracy=0.55,
    relative_loss=0.97,
    sgd_parity_dim=6,
    sgd_parity_degree=2,
    sgd_parity_samples=48,
    sgd_parity_steps=60,
    sgd_parity_rates=(0.6, 0.86),
    gd_parity_dim=6,
    gd_parity_degree=2,
    gd_parity_samples=48,
    gd_parity_steps=60,
    gd_parity_rates=(0.576, 0.83),
    single_index_dim=4,
    sgd_index_steps=120,
    sgd_index_rates=(0.12, 0.18),
    gd_index_samples=(64, 512),
    gd_index_steps=120,
    gd_index_rates=(0.15, 0.26),
)
PAPER_SAYS = {
    ("sgd_parity", "steps"): "fewer (Fig. 2a, no number)",
    ("sgd_parity", "samples"): "less (Fig. 2a, no number)",
    ("gd_parity", "steps"): "1500 against more than 2000 steps: at most 0.75",
    ("gd_parity", "samples"): "a 100x speed-up: 0.01, of which 1/64 is arithmetic",
    ("sgd_index", "steps"): "fewer (Fig. 2c, no number)",
    ("sgd_index", "samples"): "less (Fig. 2c, no number)",
    ("gd_index", "steps"): "fewer (Fig. 2d, no number)",
    ("gd_index", "samples"): "less (Fig. 2d, no number)",
}


def panels(k: Knobs) -> list[Panel]:
    """The four panels of Fig. 2."""
    few, many = k.gd_index_samples
    sgd, gd = Batch(128), FullBatch()
    parity, index = MLP(k.width, bias=k.parity_bias), MLP(k.width, bias=k.single_index_bias)
    return [
        mean_curve_panel(
            name="sgd_parity",
            title=f"(a) SGD, ({k.sgd_parity_dim},{k.sgd_parity_degree})-parity",
            run=parity_run(k.sgd_parity_dim, k.sgd_parity_degree, sgd, k.sgd_parity_steps, parity),
            rates=k.sgd_parity_rates,
            lines=small_and_large(
                Fixed(k.sgd_parity_samples), Online(), (f"{k.sgd_parity_samples:,} samples", "fresh samples")
            ),
            target=k.accuracy,
            seeds_factor=k.sgd_seeds_factor,
        ),
        mean_curve_panel(
            name="gd_parity",
            title=f"(b) GD, ({k.gd_parity_dim},{k.gd_parity_degree})-parity",
            run=parity_run(k.gd_parity_dim, k.gd_parity_degree, gd, k.gd_parity_steps, parity),
            rates=k.gd_parity_rates,
            lines=small_and_large(
                Fixed(k.gd_parity_samples),
                Online(),
                (f"{k.gd_parity_samples:,} samples", f"all {2**k.gd_parity_dim:,} points"),
            ),
            target=k.accuracy,
        ),
        mean_curve_panel(
            name="sgd_index",
            title=f"(c) SGD, single index, d = {k.single_index_dim}",
            run=index_run(k.single_index_dim, sgd, k.sgd_index_steps, index),
            rates=k.sgd_index_rates,
            lines=small_and_large(two_phases(None, None), Online(), ("small pool, then fresh", "fresh samples")),
            target=k.relative_loss,
            seeds_factor=k.sgd_seeds_factor,
        ),
        mean_curve_panel(
            name="gd_index",
            title=f"(d) GD, single index, d = {k.single_index_dim}",
            run=index_run(k.single_index_dim, gd, k.gd_index_steps, index),
            rates=k.gd_index_rates,
            lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
            target=k.relative_loss,
        ),
    ]


def claims(knobs: Knobs) -> list[lab.Claim]:
    """For every panel steps and samples to the target; for the single-index model also the loss at the end."""
    out = []
    for panel in panels(knobs):
        goal = f"{panel.target:.0%} accuracy" if panel.metric.higher_is_better else f"{panel.target} Var(y)"
        for axis, thing in (("steps", "steps"), ("samples", "samples processed")):
            out.append(
                lab.Claim(
                    id=f"{panel.name}_{axis}",
                    statement=f"{panel.title}: fewer {thing} to {goal}; small over large is below 1",
                    paper=PAPER_SAYS[panel.name, axis],
                    rule=lab.below(1.0),
                    estimate=panel.ratio("small", "large", axis),
                )
            )
        if not panel.metric.higher_is_better:
            steps = panel.run.budget.steps
            out.append(
                lab.Claim(
                    id=f"{panel.name}_final_loss",
                    statement=f"{panel.title}: lower test loss at step {steps}; small over large is below 1",
                    paper="lower loss at each step (Fig. 2)",
                    rule=lab.below(1.0),
                    estimate=lab.FinalRatio(panel.arm("small"), panel.arm("large")),
                )
            )
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 2, and below it the same curves against compute."""
    picture.set_size_inches(13.5, 5.6)
    grid = picture.subplots(2, 4)
    for column, panel in enumerate(panels(results.knobs)):
        for row, axis in enumerate(("steps", "samples")):
            draw_lines(grid[row][column], results, panel, axis)


STUDY = lab.Study(
    name="less_data/mini_and_full_batch_mlp",
    title="The small-vs-large gap of MLPs, mini-batch and full-batch",
    paper=PAPER_TITLE,
    figures="Fig. 2 (a-d)",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 3.0, "paper": 60.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
