"""Learning rates of their own for the two layers close the gap: a larger one for the input layer.

Paper     Less Data, Faster Training, Section 5.2.1 and Fig. 6
Claim     At the best pair (eta_1, eta_2) of input and readout rates the gap between a small set and the population is
          much smaller than at one rate for both, and there eta_1 is larger than eta_2.
Setting   (d, 6)-parity, two ReLU layers of width 64 without biases, mean squared error, GD: a fixed set of 2^14
          samples against the exact population, over a grid of eta_1 and eta_2, powers of two times a base rate.
Measured  The area under the test accuracy curve (accuracies at the end tie at 1), mean over seeds; diverged runs count
          as chance from then on. The gap is the small side's area minus the large side's, each at its own best cell:
          of the whole grid, or of the diagonal eta_1 = eta_2. "Closed": within 0.02 at the best cells, declared
          beforehand. 95% paired bootstrap over seeds; the best cells are chosen anew in every resample.
          For ReLU without biases rates (alpha^2 eta, eta / alpha^2) are the alpha-scaling of the initial weights, an
          identity that a contract test checks, so this study and mup_and_alpha must agree.
Expected  The paper shows heatmaps: the best eta_1 is much larger than the best eta_2.
Tried     The first laptop grid ended at a readout rate of 0.015, where both sides were best; the second, with two lower
          ones, at its corner. The grid was extended each time after that was seen. The gap at the best pairs was
          -0.013 [-0.022, -0.005] and then -0.010 [-0.013, -0.007]. The third is best at its corner too: the less the
          readout moves and the more the input layer does, the better, so the best pair is not inside this grid.
Shrunk    The laptop preset has d = 18 and 1,000 steps instead of 20 and 1,500, and fewer seeds.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import FullBatch
from headstart.methods import LayerScale
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed, Online
from headstart.studies.less_data import PAPER_TITLE, parity_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 0.02
Map = NDArray[np.float64]


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Rates are base_rate times 2^i for i in `input_exponents` and `readout_exponents`."""

    width: int = 64
    dim: int = 20
    degree: int = 6
    samples: int = 2**14
    steps: int = 1500
    base_rate: float = 0.24
    input_exponents: tuple[int, ...] = (-2, -1, 0, 1, 2, 3, 4, 5, 6)
    readout_exponents: tuple[int, ...] = (-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not set(self.input_exponents) & set(self.readout_exponents):
            raise HeadstartError(
                f"input_exponents={self.input_exponents}, readout_exponents={self.readout_exponents}: "
                "give them one in common, for the diagonal eta_1 = eta_2"
            )


PAPER = Knobs(num_seeds=32)
LAPTOP = Knobs(
    num_seeds=6,
    dim=18,
    steps=1000,
    input_exponents=(-1, 0, 1, 2, 3, 4, 5),
    readout_exponents=(-8, -7, -6, -5, -4, -3, -2, -1, 0),
)
SMOKE = Knobs(
    num_seeds=2,
    width=4,
    dim=6,
    degree=2,
    samples=48,
    steps=40,
    input_exponents=(0, 1),
    readout_exponents=(-1, 0),
)


def arm_name(side: str, i: int, j: int) -> str:
    """The arm of a cell."""
    return f"{side}_{i}_{j}"


def arms(k: Knobs) -> list[lab.Arm]:
    """One arm a cell and side, each at its own pair of rates."""
    run = parity_run(k.dim, k.degree, FullBatch(), k.steps, MLP(k.width, bias=False))
    out = []
    for side, plan in (("small", Fixed(k.samples)), ("large", Online())):
        for i in k.input_exponents:
            for j in k.readout_exponents:
                factors: dict[Role | int, float] = {Role.INPUT: 2.0**i, Role.READOUT: 2.0**j}
                eta1, eta2 = (k.base_rate * factor for factor in factors.values())
                out.append(
                    lab.Arm(
                        name=arm_name(side, i, j),
                        label=f"{side}, eta1 = {eta1:g}, eta2 = {eta2:g}",
                        run=replace(run, plan=plan, optimizer=SGD(k.base_rate), methods=(LayerScale(rate=factors),)),
                        sweep=None,
                        keep=lab.Keep.SUMMARY,
                    )
                )
    return out


def areas(results: lab.Results, side: str) -> NDArray[np.float64]:
    """Areas under the accuracy curves, [eta_1, eta_2, seeds]."""
    k = results.knobs
    return np.array(
        [
            [[s.area for s in results.summaries[arm_name(side, i, j)]] for j in k.readout_exponents]
            for i in k.input_exponents
        ]
    )


def best(grid: Map, k: Knobs) -> float:
    """The best cell."""
    return float(grid.max())


def best_on_diagonal(grid: Map, k: Knobs) -> float:
    """The best cell with eta_1 = eta_2."""
    both = set(k.input_exponents) & set(k.readout_exponents)
    return max(float(grid[k.input_exponents.index(e), k.readout_exponents.index(e)]) for e in both)


def log_ratio(grid: Map, k: Knobs) -> float:
    """log2(eta_1 / eta_2) of the best cell."""
    i, j = np.unravel_index(int(grid.argmax()), grid.shape)
    return float(k.input_exponents[i] - k.readout_exponents[j])


@dataclass(frozen=True)
class OfMaps:
    """A number of the two maps, [eta_1, eta_2] means over seeds, with seeds resampled together."""

    number: Callable[[Map, Map, Knobs], float]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The number with its interval."""
        small, large = (areas(results, side) for side in ("small", "large"))

        def statistic(rows: NDArray[np.int64]) -> float:
            return self.number(small[:, :, rows].mean(axis=2), large[:, :, rows].mean(axis=2), results.knobs)

        return lab.bootstrap(statistic, small.shape[2])


def claims(k: Knobs) -> list[lab.Claim]:
    """The gap at one rate, at two, and what the best rates are."""
    title = f"GD, ({k.dim},{k.degree})-parity"
    return [
        lab.Claim(
            id="gap_at_one_rate",
            statement=f"{title}: small minus large area at the best single rate is above 0",
            paper="a gap at the default",
            rule=lab.above(0.0),
            estimate=OfMaps(lambda s, g, k: best_on_diagonal(s, k) - best_on_diagonal(g, k)),
        ),
        lab.Claim(
            id="gap_at_two_rates",
            statement=f"{title}: small minus large area at the best pairs of rates is within {MARGIN} of 0",
            paper="layer-wise learning rates remove the gap",
            rule=lab.Within(-MARGIN, MARGIN),
            estimate=OfMaps(lambda s, g, k: best(s, k) - best(g, k)),
        ),
        lab.Claim(
            id="gap_shrinks",
            statement=f"{title}: the gap at the best pairs minus that at the best single rates is below 0",
            paper="significantly reduces the gap",
            rule=lab.below(0.0),
            estimate=OfMaps(
                lambda s, g, k: (best(s, k) - best(g, k)) - (best_on_diagonal(s, k) - best_on_diagonal(g, k))
            ),
        ),
        lab.Claim(
            id="input_rate_is_larger",
            statement=f"{title}: log2(eta_1 / eta_2) of the large side's best pair is above 0",
            paper="eta_1 much larger than eta_2",
            rule=lab.above(0.0),
            estimate=OfMaps(lambda s, g, k: log_ratio(g, k)),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 6: the large side, the small side; stars mark the best cells, the line eta_1 = eta_2."""
    k = results.knobs
    picture.set_size_inches(8.4, 3.6)
    grid = picture.subplots(1, 2)
    for ax, side in zip(grid, ("large", "small"), strict=True):
        shown = areas(results, side).mean(axis=2)
        image = ax.imshow(shown, origin="lower", vmin=0.5, vmax=1.0, cmap="viridis", aspect="auto")
        i, j = np.unravel_index(int(shown.argmax()), shown.shape)
        ax.plot(j, i, marker="*", color="red", markersize=13, markeredgecolor="white", label="best")
        both = sorted(set(k.input_exponents) & set(k.readout_exponents))
        diagonal = [(k.readout_exponents.index(e), k.input_exponents.index(e)) for e in both]
        ax.plot(*zip(*diagonal, strict=True), "o--", color="white", markersize=3, label=r"$\eta_1 = \eta_2$")
        rates = [f"{k.base_rate * 2.0**e:.2g}" for e in k.readout_exponents]
        ax.set_xticks(range(len(rates)), rates, rotation=45)
        ax.set_yticks(range(len(k.input_exponents)), [f"{k.base_rate * 2.0**e:.3g}" for e in k.input_exponents])
        ax.set_xlabel(r"readout rate $\eta_2$")
        ax.set_ylabel(r"input rate $\eta_1$")
        ax.set_title(f"{k.samples:,} samples" if side == "small" else f"all {2**k.dim:,} points")
        ax.grid(False)
        ax.legend(loc="upper right", labelcolor="white")
    picture.colorbar(image, ax=list(grid), label="area under the test accuracy curve")


STUDY = lab.Study(
    name="less_data/layerwise_learning_rate",
    title="Learning rates by layer close the small-vs-large gap",
    paper=PAPER_TITLE,
    figures="Fig. 6",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 3.5, "paper": 130.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
