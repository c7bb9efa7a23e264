"""Initial scales by layer: the right ones close the small-vs-large gap, and a small set needs them less.

Paper     Less Data, Faster Training, Section 5.2.1 and Fig. 5 (its text and Appendix B.1 call it Figure 6)
Claim     Over a grid of initial scales, the large arm's best cell is as good as the small arm's; at the default
          initialisation the small arm is better; and the small arm is good in more of the grid.
Setting   (20, 6)-parity, ReLU networks of width 64 without biases, PyTorch's initialisation times s_1 in the first
          layer and s_2 in all others, mean squared error, SGD with batch 128: a fixed set of 2^14 samples against
          fresh samples. The paper says "2-hidden-layer" here while its default has two layers, so both are drawn:
          depth 2 and depth 3. Its 42 million runs in four hours of one accelerator rule out full batches at the
          stated sizes; full-batch GD on the exact population is a separate, coarser panel at a smaller dimension.
Measured  Test accuracy after the last step, mean over seeds, each cell at its own best learning rate: ratio 1.2,
          extended until the best is inside, chosen on other seeds by the area under the mean curve.
          Robustness: the share of cells whose mean accuracy is at least 0.9. Intervals: 95% bootstrap over seeds,
          arms and cells paired. "As good" and "no gap": the best cells differ by less than 0.02, declared beforehand.
Expected  The paper shows a heatmap and no numbers: the large arm is worse at the default initialisation (marked by a
          star), and shrinking the first layer while growing the others makes the gap vanish.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.losses import MSE
from headstart.methods import LayerScale
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed, Online
from headstart.run import Run
from headstart.tasks import Parity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD, MARGIN = 0.9, 0.02
INTERVAL_RESAMPLES = 500


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Scales are powers of two: 2^i for i in `first_exponents` and `other_exponents`.

    The panels of depth 2 and 3 use `seeds_factors` times the seeds of the population's.
    """

    seeds_factors: tuple[int, int] = (1, 1)
    width: int = 64
    dim: int = 20
    degree: int = 6
    samples: int = 2**14
    steps: int = 1500
    first_exponents: tuple[float, ...] = (-3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1)
    other_exponents: tuple[float, ...] = (-1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3)
    rates: tuple[float, float] = (0.1, 0.3)
    population_dim: int = 20
    population_samples: int = 2**14
    population_steps: int = 1500
    population_first_exponents: tuple[float, ...] = (-2, -1, 0, 1)
    population_other_exponents: tuple[float, ...] = (0, 1, 2)
    population_rates: tuple[float, float] = (0.15, 0.3)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("first", "other", "population_first", "population_other"):
            if 0 not in getattr(self, f"{name}_exponents"):
                raise HeadstartError(f"{name}_exponents: the default initialisation, exponent 0, must be in the grid")


PAPER = Knobs(num_seeds=256, num_selection_seeds=16)
LAPTOP = Knobs(
    num_seeds=8,
    num_selection_seeds=2,
    first_exponents=(-3, -2, -1, 0, 1),
    other_exponents=(-1, 0, 1, 2, 3),
    seeds_factors=(4, 2),
    population_dim=18,
    population_steps=1000,
    population_first_exponents=(-2, -1, 0),
    population_other_exponents=(0, 1),
)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    width=4,
    dim=6,
    degree=2,
    samples=64,
    steps=40,
    first_exponents=(-1, 0),
    other_exponents=(0, 1),
    rates=(0.2, 0.4),
    population_dim=6,
    population_samples=32,
    population_steps=40,
    population_first_exponents=(0,),
    population_other_exponents=(0, 1),
    population_rates=(0.2, 0.4),
)


@dataclass(frozen=True)
class Panel:
    """One pair of heatmaps: a network and how it is trained, over a grid of scales."""

    name: str
    title: str
    run: Run
    samples: int
    first: tuple[float, ...]
    other: tuple[float, ...]
    rates: tuple[float, float]
    seeds_factor: int

    def arms(self) -> list[lab.Arm]:
        """One arm a cell of the grid and side."""
        return [
            lab.Arm(
                name=self.arm(side, i, j),
                label=f"{side}, s1 = 2^{i:g}, s2 = 2^{j:g}",
                run=self._run(side, i, j),
                sweep=lab.rates(*self.rates),
                keep=lab.Keep.SUMMARY,
                seeds_factor=self.seeds_factor,
            )
            for side in ("small", "large")
            for i in self.first
            for j in self.other
        ]

    def arm(self, side: str, first: float, other: float) -> str:
        """The name of a cell's arm."""
        return f"{self.name}_{side}_{first:g}_{other:g}"

    def _run(self, side: str, first: float, other: float) -> Run:
        scale = LayerScale(init={Role.INPUT: 2.0**first, Role.HIDDEN: 2.0**other, Role.READOUT: 2.0**other})
        plan = Fixed(self.samples) if side == "small" else Online()
        return Run(**{**{name: getattr(self.run, name) for name in PARTS}, "plan": plan, "methods": (scale,)})

    def accuracies(self, results: lab.Results, side: str) -> NDArray[np.float64]:
        """Final test accuracy, [first, other, seeds]."""
        return np.array([[results.finals(self.arm(side, i, j)) for j in self.other] for i in self.first])

    @property
    def default(self) -> tuple[int, int]:
        """Where in the grid the default initialisation is."""
        return self.first.index(0), self.other.index(0)


PARTS = ("task", "model", "plan", "loss", "optimizer", "batch", "methods", "start", "budget")


def panels(k: Knobs) -> list[Panel]:
    """Two depths under SGD, and the exact population under GD."""

    def run(dim: int, depth: int, batch: Batch | FullBatch, steps: int) -> Run:
        return Run(
            task=Parity(dim, k.degree),
            model=MLP(k.width, depth, bias=False),
            plan=Online(),
            loss=MSE(),
            optimizer=SGD(lr=k.rates[0]),
            batch=batch,
            budget=Budget(steps, record_every=max(1, steps // 30)),
        )

    factors = k.seeds_factors
    sgd = f"SGD, ({k.dim},{k.degree})-parity"
    gd = f"GD, ({k.population_dim},{k.degree})-parity"
    grid, coarse = (
        (k.first_exponents, k.other_exponents),
        (k.population_first_exponents, k.population_other_exponents),
    )
    return [
        Panel("depth2", f"{sgd}, 2 layers", run(k.dim, 2, Batch(128), k.steps), k.samples, *grid, k.rates, factors[0]),
        Panel("depth3", f"{sgd}, 3 layers", run(k.dim, 3, Batch(128), k.steps), k.samples, *grid, k.rates, factors[1]),
        Panel(
            "population",
            f"{gd}, 2 layers",
            run(k.population_dim, 2, FullBatch(), k.population_steps),
            k.population_samples,
            *coarse,
            k.population_rates,
            1,
        ),
    ]


@dataclass(frozen=True)
class Contrast:
    """A number of the small arm's heatmap minus the same of the large arm's, with seeds resampled together."""

    panel: Panel
    number: Callable[[NDArray[np.float64], Panel], float]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The difference with its interval; each map is the mean over seeds, [first, other]."""
        small, large = (self.panel.accuracies(results, side) for side in ("small", "large"))

        def difference(rows: NDArray[np.int64]) -> float:
            maps = (grid[:, :, rows].mean(axis=2) for grid in (small, large))
            one, other = (self.number(grid, self.panel) for grid in maps)
            return one - other

        return lab.bootstrap(difference, small.shape[2], resamples=INTERVAL_RESAMPLES)


def at_default(grid: NDArray[np.float64], panel: Panel) -> float:
    """The accuracy at the default initialisation."""
    return float(grid[panel.default])


def at_best(grid: NDArray[np.float64], panel: Panel) -> float:
    """The accuracy of the best cell."""
    return float(grid.max())


def share_good(grid: NDArray[np.float64], panel: Panel) -> float:
    """The share of cells at or above 0.9."""
    return float((grid >= GOOD).mean())


def claims(knobs: Knobs) -> list[lab.Claim]:
    """Three claims a panel."""
    out = []
    for panel in panels(knobs):
        out += [
            lab.Claim(
                id=f"{panel.name}_default_gap",
                statement=f"{panel.title}: small minus large accuracy at the default initialisation is above 0",
                paper="the larger dataset performs worse at the default init",
                rule=lab.above(0.0),
                estimate=Contrast(panel, at_default),
            ),
            lab.Claim(
                id=f"{panel.name}_best_gap",
                statement=f"{panel.title}: small minus large accuracy of the best cells is within {MARGIN} of 0",
                paper="there exist scales that completely close the gap",
                rule=lab.Within(-MARGIN, MARGIN),
                estimate=Contrast(panel, at_best),
            ),
            lab.Claim(
                id=f"{panel.name}_robust",
                statement=f"{panel.title}: small minus large share of cells at {GOOD:.0%} accuracy is above 0",
                paper="small-set training is much more robust to initialisation scale",
                rule=lab.above(0.0),
                estimate=Contrast(panel, share_good),
            ),
        ]
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """A row a panel: the large arm, the small arm; a star marks the default initialisation."""
    rows = panels(results.knobs)
    picture.set_size_inches(8.2, 3.3 * len(rows))
    grid = picture.subplots(len(rows), 2, squeeze=False)
    for row, panel in enumerate(rows):
        for column, side in enumerate(("large", "small")):
            ax = grid[row][column]
            shown = panel.accuracies(results, side).mean(axis=2)
            image = ax.imshow(shown, origin="lower", vmin=0.5, vmax=1.0, cmap="viridis", aspect="auto")
            first, other = panel.default
            ax.plot(other, first, marker="*", color="red", markersize=12, markeredgecolor="white")
            ax.set_xticks(range(len(panel.other)), [f"$2^{{{e:g}}}$" for e in panel.other])
            ax.set_yticks(range(len(panel.first)), [f"$2^{{{e:g}}}$" for e in panel.first])
            ax.set_xlabel("scale of the other layers")
            ax.set_ylabel("scale of the first layer")
            everything = "all points" if isinstance(panel.run.batch, FullBatch) else "fresh samples"
            data = f"{panel.samples:,} samples" if side == "small" else everything
            ax.set_title(f"{panel.title}\n{data}")
            ax.grid(False)
        picture.colorbar(image, ax=list(grid[row]), label="test accuracy after the last step")


STUDY = lab.Study(
    name="less_data/init_scale_heatmap",
    title="Initial scales by layer close the small-vs-large gap",
    paper="Less Data, Faster Training",
    figures="Fig. 5",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 6.0, "paper": 440.0},
    arms=lambda knobs: [arm for panel in panels(knobs) for arm in panel.arms()],
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
