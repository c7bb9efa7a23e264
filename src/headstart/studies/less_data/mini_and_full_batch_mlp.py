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
Measured  The restricted mean time to the target, small over large: for every seed the step, or the number of samples
          processed, at which the monotone fit of its test curve (4096 points for parity, 5000 for the single-index
          model) reaches 95% accuracy or a loss of 0.3 Var(y), at most the end of the run, averaged over seeds. Beside
          it the median seed, the mean curve, and the loss at the end. Intervals are 95% paired bootstraps over seeds.
          A ratio within 0.95 to 1.05 would be no effect. The same endpoint chooses the learning rates, on 16 seeds that
          no claim uses: a grid of ratio 1.2 that begins alike for both arms, is extended until the best rate is inside
          and has as many tries for both, at least 8 under SGD; 4 under GD, narrowed by half on 2, 4, 8 and 16 seeds.
Arithmetic  In (b) each step of the large arm processes 2^d / N times the samples of the small arm, which alone
          makes up most of the factor in compute. The effect of the data is the ratio of steps. In (a) and (c) both
          arms take 128 samples per step, so the ratios of compute and of steps are one number.
Shrunk    The laptop preset has d = 18 in (b), where the population is 16 times the small set instead of 64 times, and
          1,000 then 8,000 samples for 360 steps in (d) instead of 8,000 then 64,000 for 1,000 steps. At d = 14 and
          below the gap in (b) is not there. SGD is cheap, so (a) and (c) have four times the seeds.
Tried     Under the rules of version 0.1 (mean curves, rates by area on 6 seeds, 1500 steps in (b)) the population of
          (b) took a rate at which it stays at 87%, so that its ratio was a bound. By the endpoint it takes one at which
          it arrives. A first run under the present rules narrowed the rates of SGD from 2 seeds on too, too few there;
          its primary claims came out as 0.92 [0.87, 0.98], 0.90 [0.78, 1.04], 0.88 [0.82, 0.95], 0.83 [0.77, 0.90]. A
          second one, with 5 tries under GD, chose the rates that are reported. Of (c) two earlier presets with a
          quarter of the seeds were undecided, and its loss at the end held in one of three further blocks of 96 seeds.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import headstart.lab as lab
from headstart.core.units import Batch, FullBatch
from headstart.lab.panels import Panel, arms_of, draw_lines, small_and_large
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import PAPER_TITLE, index_run, parity_run, two_phases

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


PAPER = Knobs(num_seeds=64)
LAPTOP = Knobs(
    num_seeds=24,
    sgd_parity_steps=3000,
    gd_parity_dim=18,
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


FINDING = (
    "Small over large, the restricted mean number of steps to the target is {sgd_parity_steps} for SGD and "
    "{gd_parity_steps} for GD on parity, and {sgd_index_steps} and {gd_index_steps} on a single-index model. "
    "That the small side is faster {sgd_parity_steps.says}, {gd_parity_steps.says}, {sgd_index_steps.says} and "
    "{gd_index_steps.says}, in this order."
)
# A ratio in here would be too near to 1 to matter; declared before the runs that are reported.
NO_EFFECT = lab.Within(0.95, 1.05)
gd_panel = partial(Panel, tries=4, rungs=(2, 4, 8))


def panels(k: Knobs) -> list[Panel]:
    """The four panels of Fig. 2."""
    few, many = k.gd_index_samples
    sgd, gd = Batch(128), FullBatch()
    parity, index = MLP(k.width, bias=k.parity_bias), MLP(k.width, bias=k.single_index_bias)
    return [
        Panel(
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
        gd_panel(
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
        Panel(
            name="sgd_index",
            title=f"(c) SGD, single index, d = {k.single_index_dim}",
            run=index_run(k.single_index_dim, sgd, k.sgd_index_steps, index),
            rates=k.sgd_index_rates,
            lines=small_and_large(two_phases(None, None), Online(), ("small pool, then fresh", "fresh samples")),
            target=k.relative_loss,
            seeds_factor=k.sgd_seeds_factor,
        ),
        gd_panel(
            name="gd_index",
            title=f"(d) GD, single index, d = {k.single_index_dim}",
            run=index_run(k.single_index_dim, gd, k.gd_index_steps, index),
            rates=k.gd_index_rates,
            lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
            target=k.relative_loss,
        ),
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """For every panel steps and samples to the target; for the single-index model also the loss at the end."""
    out = []
    for panel in panels(k):
        steps = panel.ratio("small", "large")
        cheaper = k.gd_parity_samples / 2**k.gd_parity_dim  # of a step of (b)
        ways: dict[str, tuple[Any, lab.Kind]] = {
            "gd_parity": (lab.Times(steps, cheaper), lab.Kind.IDENTITY),
            "gd_index": (panel.ratio("small", "large", "samples"), lab.Kind.SECONDARY),
        }
        samples, kind = ways.get(panel.name, (steps, lab.Kind.IDENTITY))
        for axis, thing, its, estimate in (
            ("steps", "steps", lab.Kind.PRIMARY, steps),
            ("samples", "samples processed", kind, samples),
        ):
            out.append(
                lab.Claim(
                    id=f"{panel.name}_{axis}",
                    statement=f"{panel.title}: fewer {thing} to {panel.goal}; small over large is below 1",
                    paper=PAPER_SAYS[panel.name, axis],
                    rule=lab.below(1.0),
                    estimate=estimate,
                    kind=its,
                    smallest=NO_EFFECT,
                )
            )
        if not panel.metric.higher_is_better:
            out.append(
                lab.Claim(
                    id=f"{panel.name}_final_loss",
                    statement=f"{panel.title}: lower test loss at step {panel.run.budget.steps}; small over large is "
                    "below 1",
                    paper="lower loss at each step (Fig. 2)",
                    rule=lab.below(1.0),
                    estimate=lab.FinalRatio(panel.arm("small"), panel.arm("large")),
                    smallest=NO_EFFECT,
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
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
