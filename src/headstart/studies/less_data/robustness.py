"""The small-vs-large gap under other initialisations, activations, samplings and learning rates.

Paper     Less Data, Faster Training, footnote 2 (subsets) and Appendix B.1 (activations, learning rates for parity,
          replacement)
Claim     The direction of Fig. 2 stays as it is with Gaussian initial values, with GELU (single index) and sigmoid
          (parity), with batches drawn without replacement, with phases on independent instead of nested subsets; and
          no learning rate up to divergence makes the population as fast as the small set.
Setting   Fig. 2's: two layers of width 64, mean squared error, plain SGD (batch 128) or GD, a fixed set of N samples,
          or 100 steps on few, against everything, each with one change. Gaussian: standard deviation 1 / sqrt(fan_in),
          sqrt(3) times that of PyTorch's uniform values. Sigmoid networks have biases. Independent subsets share no
          sample; the phase that follows has a finite set, as under fresh samples there is nothing to nest.
Measured  The ratio of steps, small over large, to 95% accuracy or a loss of 0.3 Var(y), on the monotone fit of the
          seed-mean test curve; 95% paired bootstraps over seeds. "Similar" means within 0.9 to 1.1, declared
          beforehand. Learning rates: grid of ratio 1.2, extended until the best is inside, by the area under the
          seed-mean curve on seeds that no claim uses. For the last claim the population is trained at every rate of a
          grid, and the fastest of them, on the claim's own seeds and so in its favour, is compared with the small set
          at the rate that other seeds chose.
Shrunk    The laptop preset has GD on parity at d = 18 and 1,000 then 8,000 samples in GD on the single-index model, as
          that of less_data/mini_and_full_batch_mlp has, whose runs it shares.
Tried     Sigmoid networks on (20,6)- and (20,4)-parity learned nothing in 3000 to 5000 steps at rates 0.04 to 3 (two
          seeds each; small sets on (20,6), fresh samples on (20,4), also with Gaussian values). (20,3) is learned in
          about 3400 steps at 0.04, so the sigmoid panel has degree 3. The population's first grid of rates began at
          0.24. None of them reached 95% in time, which gave 0.67 [0, 0.78], a bound; at 0.2, a rate that the grid now
          has, the population does.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.units import Batch, FullBatch
from headstart.lab.figures import draw_curve
from headstart.lab.panels import Line, Panel, arms_of, draw_lines, small_and_large
from headstart.measures import bootstrap_bounds
from headstart.models import MLP, Activation, Init
from headstart.optimizers import SGD
from headstart.plans import Fixed, Online
from headstart.studies.less_data import (
    ACCURACY,
    PAPER_TITLE,
    RELATIVE_LOSS,
    index_run,
    mean_curve_panel,
    parity_run,
    two_phases,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rates = tuple[float, float]


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Fig. 2's sizes and lengths in steps, those of the sigmoid panel, and where each sweep begins."""

    sgd_seeds_factor: int = 4
    width: int = 64
    accuracy: float = ACCURACY
    relative_loss: float = RELATIVE_LOSS
    parity_dim: int = 20
    parity_degree: int = 6
    parity_samples: int = 2**14
    parity_steps: int = 4000
    parity_rates: Rates = (0.16, 0.23)
    gaussian_parity_rates: Rates = (0.12, 0.17)
    sigmoid_degree: int = 3
    sigmoid_steps: int = 5000
    sigmoid_rates: Rates = (0.05, 0.07)
    index_dim: int = 40
    index_steps: int = 1000
    index_rates: Rates = (0.08, 0.115)
    gaussian_index_rates: Rates = (0.1, 0.14)
    gelu_rates: Rates = (0.12, 0.17)
    gd_index_samples: tuple[int, int] = (8000, 64000)
    gd_index_steps: int = 1000
    gd_index_rates: Rates = (0.16, 0.23)
    gd_parity_dim: int = 20
    gd_parity_steps: int = 2500
    gd_parity_rates: Rates = (0.2, 0.28)
    population_rates: tuple[float, ...] = (0.1157, 0.1389, 0.1667, 0.2, 0.24, 0.288, 0.3456, 0.4147, 0.4977)


PAPER = Knobs(num_seeds=64, num_selection_seeds=16)
LAPTOP = Knobs(
    num_seeds=16,
    num_selection_seeds=4,
    parity_steps=3000,
    gd_index_samples=(1000, 8000),
    gd_index_steps=360,
    gd_parity_dim=18,
    gd_parity_steps=1500,
    population_rates=(0.1389, 0.1667, 0.2, 0.24, 0.3456, 0.4977),
)
SMOKE = Knobs(
    num_seeds=3,
    num_selection_seeds=2,
    sgd_seeds_factor=1,
    width=8,
    accuracy=0.55,
    relative_loss=0.97,
    parity_dim=6,
    parity_degree=2,
    parity_samples=256,
    parity_steps=60,
    parity_rates=(0.6, 0.86),
    gaussian_parity_rates=(0.5, 0.7),
    sigmoid_degree=1,
    sigmoid_steps=60,
    sigmoid_rates=(0.2, 0.4),
    index_dim=4,
    index_steps=120,
    gd_index_samples=(64, 512),
    gd_index_steps=110,
    gd_parity_dim=6,
    gd_parity_steps=60,
    gd_parity_rates=(0.576, 0.83),
    population_rates=(0.4, 0.8),
)


def parity_panel(k: Knobs, name: str, title: str, model: MLP, rates: Rates, degree: int, steps: int) -> Panel:
    """SGD on parity, Fig. 2 (a), with another network."""
    return mean_curve_panel(
        name=f"{name}_parity",
        title=f"{title}, SGD, ({k.parity_dim},{degree})-parity",
        run=parity_run(k.parity_dim, degree, Batch(128), steps, model),
        rates=rates,
        lines=small_and_large(Fixed(k.parity_samples), Online(), (f"{k.parity_samples:,} samples", "fresh samples")),
        target=k.accuracy,
        seeds_factor=k.sgd_seeds_factor,
    )


def index_panel(k: Knobs, name: str, title: str, model: MLP, rates: Rates) -> Panel:
    """SGD on the single-index model, Fig. 2 (c), with another network."""
    return mean_curve_panel(
        name=f"{name}_index",
        title=f"{title}, SGD, single index",
        run=index_run(k.index_dim, Batch(128), k.index_steps, model),
        rates=rates,
        lines=small_and_large(two_phases(None, None), Online(), ("small pool, then fresh", "fresh samples")),
        target=k.relative_loss,
        seeds_factor=k.sgd_seeds_factor,
    )


def network_panels(k: Knobs) -> list[Panel]:
    """Other initial values and other activations."""
    gaussian, gelu = Init.GAUSSIAN, Activation.GELU
    sigmoid = MLP(k.width, activation=Activation.SIGMOID)
    return [
        parity_panel(
            k,
            "gaussian",
            "Gaussian",
            MLP(k.width, bias=False, init=gaussian),
            k.gaussian_parity_rates,
            k.parity_degree,
            k.parity_steps,
        ),
        parity_panel(k, "sigmoid", "sigmoid", sigmoid, k.sigmoid_rates, k.sigmoid_degree, k.sigmoid_steps),
        index_panel(k, "gaussian", "Gaussian", MLP(k.width, init=gaussian), k.gaussian_index_rates),
        index_panel(k, "gelu", "GELU", MLP(k.width, activation=gelu), k.gelu_rates),
    ]


def replacement_panels(k: Knobs) -> list[Panel]:
    """Fig. 2 (a) and (c), the small side with and without replacement."""
    parity = parity_panel(
        k,
        "replacement",
        "replacement",
        MLP(k.width, bias=False),
        k.parity_rates,
        k.parity_degree,
        k.parity_steps,
    )
    index = index_panel(k, "replacement", "replacement", MLP(k.width), k.index_rates)
    out = []
    for panel, without in (
        (parity, Fixed(k.parity_samples, replacement=False)),
        (index, replace(two_phases(None, None), replacement=False)),
    ):
        small, large = panel.lines
        lines = (
            replace(small, name="with", label="with replacement"),
            Line("without", "without", without, lab.warm(1)),
            large,
        )
        out.append(replace(panel, lines=lines))
    return out


def subset_panel(k: Knobs) -> Panel:
    """Fig. 2 (d) with nested and with independent subsets."""
    few, many = k.gd_index_samples
    nested = two_phases(few, many)
    return mean_curve_panel(
        name="subsets_index",
        title="subsets, GD, single index",
        run=index_run(k.index_dim, FullBatch(), k.gd_index_steps, MLP(k.width)),
        rates=k.gd_index_rates,
        lines=(
            Line("nested", f"{few:,}, nested in {many:,}", nested, lab.warm()),
            Line("independent", f"{few:,}, then {many:,} others", replace(nested, nested=False), lab.warm(1)),
            Line("large", f"{many:,} samples", Fixed(many), lab.cold()),
        ),
        target=k.relative_loss,
    )


def rates_panel(k: Knobs) -> Panel:
    """Fig. 2 (b): the small set, at its best rate; the population is trained at every rate of a grid beside it."""
    return mean_curve_panel(
        name="rates_parity",
        title=f"every rate, GD, ({k.gd_parity_dim},{k.parity_degree})-parity",
        run=parity_run(k.gd_parity_dim, k.parity_degree, FullBatch(), k.gd_parity_steps, MLP(k.width, bias=False)),
        rates=k.gd_parity_rates,
        lines=(Line("small", f"{k.parity_samples:,} samples", Fixed(k.parity_samples), lab.warm()),),
        target=k.accuracy,
    )


def population_arms(k: Knobs) -> list[lab.Arm]:
    """The exact population at every rate of the grid."""
    panel = rates_panel(k)
    return [
        lab.Arm(
            name=panel.arm(f"large_{rate:g}"),
            label="population",
            run=replace(panel.run, plan=Online(), optimizer=SGD(rate)),
            sweep=None,
            colour=lab.cold(shade, len(k.population_rates)),
        )
        for shade, rate in enumerate(k.population_rates)
    ]


def swept_panels(k: Knobs) -> list[Panel]:
    """The panels whose arms are at their best rates."""
    return [*network_panels(k), *replacement_panels(k), subset_panel(k)]


def arms(k: Knobs) -> list[lab.Arm]:
    """Those of the panels, and the population at every rate."""
    return [*arms_of(swept_panels(k)), *rates_panel(k).arms(), *population_arms(k)]


@dataclass(frozen=True)
class OverTheFastest:
    """Steps to `target` of arm `small` over those of the fastest of some other arms, chosen on the same seeds."""

    small: str
    others: tuple[str, ...]
    target: float

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it compares."""
        return (self.small, *self.others)

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval; arms that miss the target take from their budget to infinity."""
        small = lab.time_bounds(results, self.small, self.target)
        others = [lab.time_bounds(results, arm, self.target) for arm in self.others]

        def bounds(rows: NDArray[np.int64]) -> tuple[float, float]:
            (least, most), them = small(rows), [other(rows) for other in others]
            return least / min(high for _, high in them), most / min(low for low, _ in them)

        return bootstrap_bounds(bounds, len(results.summaries[self.small]))


def claims(k: Knobs) -> list[lab.Claim]:
    """The direction under every change; where two ways of sampling are compared, that they are similar."""
    said = {
        "gaussian_parity": "not stated; the direction of Fig. 2a",
        "gaussian_index": "not stated; the direction of Fig. 2c",
        "sigmoid_parity": "sigmoid for parity has similar results (Appendix B.1)",
        "gelu_index": "GELU for SIM has similar results (Appendix B.1)",
    }
    out = [panel.faster("small", "large", said[panel.name], "there is a gap") for panel in network_panels(k)]
    for panel in replacement_panels(k):
        paper = "no empirical difference between the two (Appendix B.1)"
        out += [
            panel.faster("without", "large", paper, "without replacement there is a gap"),
            panel.level("without", "with", paper, "without replacement is like with it"),
        ]
    panel, paper = subset_panel(k), "the results were similar (Section 2)"
    out += [
        panel.faster("independent", "large", paper, "independent subsets show a gap"),
        panel.level("independent", "nested", paper, "independent subsets are like nested ones"),
    ]
    panel = rates_panel(k)
    out.append(
        lab.Claim(
            id="no_rate_makes_the_population_as_fast",
            statement=f"{panel.title}: steps to {panel.goal} of the small set over those of the population at its "
            "fastest rate are below 1",
            paper="no strict speed-up from increasing the learning rate (Remark 7)",
            rule=lab.below(1.0),
            estimate=OverTheFastest(panel.arm("small"), tuple(arm.name for arm in population_arms(k)), panel.target),
        )
    )
    return out


def draw_rates(ax: "Axes", results: lab.Results, k: Knobs) -> None:
    """The small set, and the population at every rate."""
    panel, population = rates_panel(k), population_arms(k)
    for arm in population:
        draw_curve(ax, results, arm.name)
    draw_lines(ax, results, panel)
    ax.legend(loc="lower right", fontsize=6.5, ncols=2)


def figure(results: lab.Results, picture: "Figure") -> None:
    """A panel a change."""
    k = results.knobs
    picture.set_size_inches(14, 5.8)
    grid = picture.subplots(2, 4).ravel()
    for ax, panel in zip(grid, swept_panels(k), strict=False):
        draw_lines(ax, results, panel)
    draw_rates(grid[-1], results, k)


STUDY = lab.Study(
    name="less_data/robustness",
    title="The small-vs-large gap under other networks, samplings and rates",
    paper=PAPER_TITLE,
    figures="Fig. 2 (a-d), varied",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 4.0, "paper": 300.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
