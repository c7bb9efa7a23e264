"""Learning rates of their own for the two layers close the gap: a larger one for the input layer.

Paper     Less Data, Faster Training, Section 5.2.1 and Fig. 6
Claim     At the best pair (eta_1, eta_2) of input and readout rates the gap between a small set and the population is
          much smaller than at one rate for both, and there eta_1 is larger than eta_2.
Setting   (d, 6)-parity, two ReLU layers of width 64 without biases, mean squared error, GD: a fixed set of 2^14
          samples against the exact population, over a grid of eta_1 and eta_2, powers of two times a base rate, and a
          readout that does not move at all. One rate for both: the arms of Fig. 2 (b), swept at a ratio of 1.2.
Measured  The restricted mean number of steps to 95% accuracy. The gap is small over large, each side at its own best
          cell of the grid, chosen anew in every resample of the seeds, or at its one best rate. "Removes": the ratio is
          above 0.9 and 80% arrive at the best cells, declared beforehand. 95% paired bootstrap over seeds.
          For ReLU without biases rates (alpha^2 eta, eta / alpha^2) are the alpha-scaling of the initial weights, an
          identity that a contract test checks, so this study and mup_and_alpha must agree.
Expected  The paper shows heatmaps: the best eta_1 is much larger than the best eta_2.
Tried     Three laptop grids of version 0.1, each extended after it had been seen, were best at the corner of the least
          readout rate, 0.015, then 0.004, then 0.0009: the less the readout moves and the more the input layer does,
          the better. So a readout that does not move is now a column of the grid, and that it is best a post hoc claim.
          The best single rate came from two cells of such a grid then.
Shrunk    The laptop preset has d = 18 and 800 steps in the grid instead of 20 and 1,500, and 8 seeds there. Runs of the
          grid end once settled.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.roles import Role
from headstart.core.units import Budget, Settled
from headstart.lab.heatmaps import Heatmap, mark
from headstart.lab.panels import NO_EFFECT, NO_GAP, Panel
from headstart.measures import restricted_times
from headstart.methods import LayerScale
from headstart.optimizers import SGD
from headstart.studies.less_data import FULL_BATCH, PAPER_TITLE, FullBatchKnobs, gd_parity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIDES = ("large", "small")
# Restricted times of one side, [eta_1, eta_2, seeds].
Times = NDArray[np.float64]
FINDING = (
    "The ratio of steps, small over large, is {one_rate} at one rate for both layers and {removes_the_gap} at the best "
    "pair: that rates by layer remove the gap {removes_the_gap.says}. The population's best pair with eta_1 above "
    "eta_2 takes {input_rate_is_larger} of the steps of its best one without, and with a readout that does not move "
    "{still_readout} of those of the best one that does."
)


@dataclass(frozen=True)
class Knobs(FullBatchKnobs):
    """Rates of the grid are base_rate times 2^i for i in `input_exponents` and `readout_exponents`; or 0 (readout).

    The arms of Fig. 2 have `one_rate_factor` times the seeds of the grid.
    """

    one_rate_factor: int = 4
    base_rate: float = 0.2
    grid_steps: int = 1500
    input_exponents: tuple[int, ...] = (-1, 0, 1, 2, 3, 4, 5, 6)
    readout_exponents: tuple[int, ...] = (-8, -7, -6, -5, -4, -3, -2, -1, 0, 1)


PRESETS = {
    "smoke": Knobs(
        **FULL_BATCH["smoke"],
        one_rate_factor=1,
        base_rate=0.4,
        grid_steps=40,
        input_exponents=(0, 1),
        readout_exponents=(-1, 0),
    ),
    "laptop": Knobs(
        **{**FULL_BATCH["laptop"], "num_seeds": 8},
        one_rate_factor=16,
        grid_steps=800,
        input_exponents=(0, 1, 2, 3, 4, 5),
        readout_exponents=(-8, -6, -4, -2, -1, 0),
    ),
    "paper": Knobs(**{**FULL_BATCH["paper"], "num_seeds": 16}),
}


def one_rate(k: Knobs) -> Panel:
    """Fig. 2 (b)."""
    return replace(gd_parity(k), seeds_factor=k.one_rate_factor)


def readout_factors(k: Knobs) -> list[float]:
    """eta_2 over the base rate, from 0 on."""
    return [0.0, *(2.0**j for j in sorted(k.readout_exponents))]


def arm_name(side: str, first: float, readout: float) -> str:
    """The arm of a cell."""
    return f"{side}_{first:g}_{readout:g}"


def arms(k: Knobs) -> list[lab.Arm]:
    """Those of Fig. 2 (b), and one for each cell and side at its own pair of rates."""
    panel = one_rate(k)
    budget = Budget(k.grid_steps, record_every=max(1, k.grid_steps // 100), settled=Settled(k.accuracy))
    run = replace(panel.run, optimizer=SGD(k.base_rate), budget=budget)
    out = panel.arms()
    for line in panel.lines:
        for i in k.input_exponents:
            for factor in readout_factors(k):
                rates = LayerScale(rate={Role.INPUT: 2.0**i, Role.READOUT: factor})
                said = f"eta1 = {k.base_rate * 2.0**i:g}, eta2 = {k.base_rate * factor:g}"
                cell = replace(run, plan=line.plan, methods=(rates,))
                out.append(lab.Arm(arm_name(line.name, 2.0**i, factor), f"{line.name}, {said}", cell, None))
    return out


def grid_times(results: lab.Results, side: str) -> Times:
    """min(T, end of the run) of every cell in steps, [eta_1, eta_2, seeds]."""
    k = results.knobs

    def times(arm: str) -> NDArray[np.float64]:
        axis, higher = results.traces[arm].grid().axis("steps"), results.metric(arm).higher_is_better
        return restricted_times(axis, results.curves(arm), k.accuracy, higher, float(k.grid_steps))

    return np.array(
        [[times(arm_name(side, 2.0**i, factor)) for factor in readout_factors(k)] for i in k.input_exponents]
    )


@dataclass(frozen=True)
class OfMaps:
    """A number of the mean times of both sides, [eta_1, eta_2] each, and of their ratio at one rate.

    Of the ratio at one rate, which has more seeds than the grid, as many go with each seed of the grid.
    """

    arms: tuple[str, ...]
    number: Callable[[NDArray[np.float64], NDArray[np.float64], float, Knobs], float]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The number with its interval; arrivals are those at the best cells of both sides."""
        k, panel = results.knobs, one_rate(results.knobs)
        small, large = (grid_times(results, side) for side in ("small", "large"))
        ratio, num = panel.ratio("small", "large").bounds(results), small.shape[2]

        def statistic(rows: NDArray[np.int64]) -> float:
            every = np.add.outer(num * np.arange(k.one_rate_factor), rows).ravel()
            return self.number(small[:, :, rows].mean(axis=2), large[:, :, rows].mean(axis=2), ratio(every)[0], k)

        best = [times.reshape(-1, times.shape[2])[times.mean(axis=2).argmin()] for times in (small, large)]
        arrivals = min(float((times < k.grid_steps).mean()) for times in best)
        return replace(lab.bootstrap(statistic, num), arrivals=arrivals)


def diagonal(k: Knobs) -> NDArray[np.bool_]:
    """The cells with eta_1 above eta_2."""
    first = np.array([2.0**i for i in k.input_exponents])
    return np.greater.outer(first, np.array(readout_factors(k)))


def claims(k: Knobs) -> list[lab.Claim]:
    """The gap at one rate, at two, and what the best rates are."""
    panel = one_rate(k)
    title, steps = panel.title, f"steps to {panel.goal}"
    own = (panel.arm("small"), panel.arm("large"))
    primary = lab.Kind.PRIMARY
    control = replace(panel.faster("small", "large", "a gap (Fig. 2b)", "one rate for both layers"), id="one_rate")
    return [
        replace(control, kind=lab.Kind.CONTROL),
        lab.Claim(
            id="removes_the_gap",
            statement=f"{title}: {steps}, small over large, each at its best pair of rates, is above {NO_GAP.low:g}",
            paper="layer-wise learning rate removes the small-vs-large gap (Fig. 6)",
            rule=lab.closed(NO_GAP.low),
            estimate=OfMaps(own, lambda small, large, ratio, k: float(small.min() / large.min())),
            kind=primary,
        ),
        lab.Claim(
            id="gap_shrinks",
            statement=f"{title}: small over large at one rate, over the same at the best pairs, is below 1",
            paper="the optimal choice significantly reduces the gap",
            rule=lab.below(1.0),
            estimate=OfMaps(own, lambda small, large, ratio, k: float(ratio * large.min() / small.min())),
            kind=primary,
            smallest=NO_EFFECT,
        ),
        lab.Claim(
            id="input_rate_is_larger",
            statement=f"{title}: {steps} of the population, best pair with eta_1 > eta_2 over best without, is below 1",
            paper="eta_1 much larger than eta_2",
            rule=lab.below(1.0),
            estimate=OfMaps(
                own, lambda small, large, ratio, k: float(large[diagonal(k)].min() / large[~diagonal(k)].min())
            ),
            kind=primary,
            smallest=NO_EFFECT,
        ),
        lab.Claim(
            id="still_readout",
            statement=f"{title}: {steps} of the population, still readout over best that moves, at most 1.1",
            paper="not stated; eta_1 much larger than eta_2",
            rule=lab.below(NO_GAP.high),
            estimate=OfMaps(own, lambda small, large, ratio, k: float(large[:, 0].min() / large[:, 1:].min())),
            kind=lab.Kind.POST_HOC,
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 6: the large side, the small side and their difference; frames mark the best cells."""
    k = results.knobs
    columns = [f"{k.base_rate * factor:.2g}" for factor in readout_factors(k)]
    rows = [f"{k.base_rate * 2.0**i:.3g}" for i in k.input_exponents]
    labels = (r"readout rate $\eta_2$", r"input rate $\eta_1$", "restricted mean steps")
    heatmap = Heatmap(columns, rows, *labels, 0.0, float(k.grid_steps))
    picture.set_size_inches(14, 3.8)
    axes = picture.subplots(1, 3)
    maps = {side: grid_times(results, side) for side in SIDES}
    names = {line.name: line.label for line in one_rate(k).lines}
    for ax, side in zip(axes, SIDES, strict=False):
        shown = maps[side].mean(axis=2)
        heatmap.draw(ax, shown, f"{names[side]}, {maps[side].shape[2]} seeds per cell")
        row, column = np.unravel_index(int(shown.argmin()), shown.shape)
        mark(ax, int(row), int(column), "best")
    heatmap.draw(axes[2], (maps["small"] - maps["large"]).mean(axis=2), "small less large", signed=True)


STUDY = lab.Study(
    name="less_data/layerwise_learning_rate",
    title="Learning rates by layer close the small-vs-large gap",
    paper=PAPER_TITLE,
    figures="Fig. 6",
    presets=PRESETS,
    minutes={"smoke": 0.1, "laptop": 10.0, "paper": 400.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
