"""muP and a single scale alpha against the standard parametrisation: which of them closes the small-vs-large gap.

Paper     Less Data, Faster Training, Section 5.2.1 and Fig. 7, 21, 22, 23
Claim     muP closes the gap of two-layer networks on parity at widths of 64 and more, not at 32, and does not close it
          on the single-index model, even at width 1024. Dividing the first layer's initial values by alpha and
          multiplying the second's by alpha closes both, and the best alpha is the same at every width.
Setting   Two-layer ReLU networks, PyTorch's initialisation, mean squared error; (d, k)-parity without biases, a fixed
          set of N samples against everything; y = He_3(<w*, x>) with biases, 100 steps on few samples, then many,
          against many throughout. muP has base width 1: readouts with standard deviation proportional to 1 / m, rates
          eta m and eta / m (with base width 64 it would be the standard network at width 64). Biases keep their scale
          under alpha.
Measured  The ratio of steps, small over large, to 95% accuracy or a loss of 0.3 Var(y), on the monotone fit of the
          seed-mean test curve; "closed" means a 95% paired bootstrap interval within 0.9 to 1.1, declared beforehand.
          Each arm has its own best learning rate, grid of ratio 1.2, by the area under the seed-mean curve on seeds
          that no claim uses. By the same areas of the small set alpha is chosen (Fig. 23 shows N = 2^14 only), and
          both sides use it. The best alpha of a width is that of the best area over the claims' seeds; two widths
          agree if the interval of the ratio lies within 0.4 to 2.5, that is within one step of the grid of alphas.
Shrunk    The paper uses full batches. The exact population at width 1024 takes hours, so the laptop preset uses batches
          of 128 and fresh samples as the large set; single-index models of width 1024 have muP only (Fig. 22).
Tried     The first laptop grid of alphas was 1, 8, 16, ..., 128: in two seeds at rates that were too low, areas had
          risen up to 64. With rates swept, 8 was the best at every width, next to the end of that grid, so the grid
          now is the powers of 2 up to 32. The gaps of the first grid: parity at its best alpha 0.95 [0.86, 1.05],
          single index 1.28 [1.20, 1.45]; the latter's small side spends 100 steps on 1,280 samples, about as many as
          the large side needs to learn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.units import Batch, FullBatch
from headstart.lab.panels import NO_GAP, Line, Panel, draw_lines, small_and_large
from headstart.methods import LayerScale, Method, MuP
from headstart.models import MLP
from headstart.plans import Fixed, Online
from headstart.studies.less_data import (
    ACCURACY,
    PAPER_TITLE,
    RELATIVE_LOSS,
    TIME,
    index_run,
    mean_curve_panel,
    parity_run,
    two_phases,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAME_ALPHA = lab.Within(0.4, 2.5)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Widths, alphas, sizes, and the first rate of each sweep: by width (standard), muP's, and by alpha.

    `main_width` is that of Fig. 7; parity up to it and the single-index model at it have more seeds.
    """

    parity_seeds_factor: int = 1
    index_seeds_factor: int = 1
    accuracy: float = ACCURACY
    relative_loss: float = RELATIVE_LOSS
    full_batch: bool = True
    main_width: int = 64
    parity_widths: tuple[int, ...] = (32, 64, 256, 1024)
    parity_dim: int = 20
    parity_degree: int = 6
    parity_samples: int = 2**14
    parity_steps: int = 2500
    parity_rates: tuple[tuple[int, float], ...] = ((32, 0.2), (64, 0.2), (256, 0.1), (1024, 0.028))
    parity_mup_rate: float = 0.1
    parity_alphas: tuple[tuple[float, float], ...] = ((2, 0.16), (4, 0.12), (8, 0.065), (16, 0.02), (32, 0.0055))
    index_widths: tuple[int, ...] = (64, 1024)
    index_dim: int = 40
    index_samples: tuple[int, int] = (8000, 64000)
    index_steps: int = 1000
    index_rate: float = 0.16
    index_mup_rate: float = 0.07
    index_alphas: tuple[tuple[float, float], ...] = ((2, 0.13), (4, 0.1), (8, 0.06), (16, 0.04), (32, 0.01))


PAPER = Knobs(num_seeds=32, num_selection_seeds=8)
LAPTOP = Knobs(
    num_seeds=16,
    num_selection_seeds=4,
    parity_seeds_factor=4,
    index_seeds_factor=2,
    full_batch=False,
    parity_steps=3000,
    parity_rates=((32, 0.16), (64, 0.16), (256, 0.1), (1024, 0.028)),
    index_rate=0.08,
    index_mup_rate=0.07,
)
SMOKE = Knobs(
    num_seeds=3,
    num_selection_seeds=2,
    accuracy=0.55,
    relative_loss=0.97,
    full_batch=False,
    main_width=8,
    parity_widths=(4, 8),
    parity_dim=6,
    parity_degree=2,
    parity_samples=128,
    parity_steps=60,
    parity_rates=((4, 0.6), (8, 0.6)),
    parity_mup_rate=0.2,
    parity_alphas=((2, 0.3),),
    index_widths=(8,),
    index_alphas=((2, 0.1),),
    index_dim=4,
    index_steps=120,
    index_rate=0.12,
)


def parity_panel(k: Knobs, width: int, name: str, title: str, rate: float, *methods: Method) -> Panel:
    """Parity at one width under one parametrisation."""
    batch = FullBatch() if k.full_batch else Batch(128)
    everything = f"all {2**k.parity_dim:,} points" if k.full_batch else "fresh samples"
    labels = (f"{k.parity_samples:,} samples", everything)
    return mean_curve_panel(
        name=f"parity{width}_{name}",
        title=f"({k.parity_dim},{k.parity_degree})-parity, width {width}, {title}",
        run=parity_run(k.parity_dim, k.parity_degree, batch, k.parity_steps, MLP(width, bias=False)),
        rates=(rate, 1.4 * rate),
        lines=_under(methods, small_and_large(Fixed(k.parity_samples), Online(), labels)),
        target=k.accuracy,
        seeds_factor=k.parity_seeds_factor if width <= k.main_width else 1,
    )


def index_panel(k: Knobs, width: int, name: str, title: str, rate: float, *methods: Method) -> Panel:
    """The single-index model at one width under one parametrisation."""
    few, many = k.index_samples
    if k.full_batch:
        lines = small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples"))
    else:
        lines = small_and_large(two_phases(None, None), Online(), ("small pool, then fresh", "fresh samples"))
    return mean_curve_panel(
        name=f"index{width}_{name}",
        title=f"single index, width {width}, {title}",
        run=index_run(k.index_dim, FullBatch() if k.full_batch else Batch(128), k.index_steps, MLP(width)),
        rates=(rate, 1.4 * rate),
        lines=_under(methods, lines),
        target=k.relative_loss,
        seeds_factor=k.index_seeds_factor if width <= k.main_width else 1,
    )


def _under(methods: tuple[Method, ...], lines: tuple[Line, ...]) -> tuple[Line, ...]:
    return tuple(replace(line, methods=methods) for line in lines)


Family = Mapping[float, Panel]


def parity_family(k: Knobs, width: int) -> Family:
    """The panels of a width by alpha; alpha = 1 is the standard parametrisation."""
    standard = parity_panel(k, width, "standard", "standard", dict(k.parity_rates)[width])
    return {1.0: standard} | {
        alpha: parity_panel(k, width, f"alpha{alpha:g}", f"alpha = {alpha:g}", rate, LayerScale.alpha(alpha))
        for alpha, rate in k.parity_alphas
    }


def index_family(k: Knobs) -> Family:
    """The same for the single-index model at the main width."""
    standard = index_panel(k, k.main_width, "standard", "standard", k.index_rate)
    return {1.0: standard} | {
        alpha: index_panel(k, k.main_width, f"alpha{alpha:g}", f"alpha = {alpha:g}", rate, LayerScale.alpha(alpha))
        for alpha, rate in k.index_alphas
    }


def parity_mup(k: Knobs, width: int) -> Panel:
    """Parity under muP."""
    return parity_panel(k, width, "mup", "muP", k.parity_mup_rate, MuP())


def index_mup(k: Knobs, width: int) -> Panel:
    """The single-index model under muP."""
    return index_panel(k, width, "mup", "muP", k.index_mup_rate, MuP())


def arms(k: Knobs) -> list[lab.Arm]:
    """Both sides of every panel; away from the main width only the small side has other alphas than 1."""
    out = [arm for width in k.parity_widths for arm in parity_mup(k, width).arms()]
    out += [arm for width in k.index_widths for arm in index_mup(k, width).arms()]
    out += [arm for panel in index_family(k).values() for arm in panel.arms()]
    for width in k.parity_widths:
        for alpha, panel in parity_family(k, width).items():
            both = alpha == 1 or width == k.main_width
            out += [arm for arm in panel.arms() if both or arm.name == panel.arm("small")]
    return out


def best_alpha(results: lab.Results, family: Family) -> float:
    """The alpha whose small side has the best area on the seeds that choose learning rates."""
    sign = 1 if next(iter(family.values())).metric.higher_is_better else -1
    return max(family, key=lambda alpha: max(sign * a for a in results.tuned[family[alpha].arm("small")].areas))


@dataclass(frozen=True)
class RatioAtBestAlpha:
    """The time ratio, small over large, of the panel with the best alpha."""

    family: Family

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval; alpha is chosen on other seeds than it uses."""
        return self.family[best_alpha(results, self.family)].ratio("small", "large")(results)


@dataclass(frozen=True)
class SpeedUpAtBestAlpha:
    """The time of the large side with the best alpha over that of the standard large side."""

    family: Family

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        best, standard = self.family[best_alpha(results, self.family)], self.family[1]
        return lab.TimeRatio(best.arm("large"), standard.arm("large"), standard.target, of=TIME)(results)


@dataclass(frozen=True)
class BestAlphaRatio:
    """The best alpha of one width over that of another, by areas of the small side over resampled seeds."""

    one: Family
    other: Family

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval, on the seeds that both widths have."""
        one, other = _areas(results, self.one), _areas(results, self.other)
        num = min(one.shape[1], other.shape[1])

        def best(family: Family, areas: NDArray[np.float64], rows: NDArray[np.int64]) -> float:
            return list(family)[int(areas[:, rows].mean(axis=1).argmax())]

        return lab.bootstrap(lambda rows: best(self.one, one, rows) / best(self.other, other, rows), num)


def _areas(results: lab.Results, family: Family) -> NDArray[np.float64]:
    """Areas under the small side's test curves, [alphas, seeds]."""
    return np.array([[run.area for run in results.summaries[p.arm("small")]] for p in family.values()])


def claims(k: Knobs) -> list[lab.Claim]:
    """What Fig. 7, 21, 22 and 23 say, and that the gap closes because the large side gains."""
    parity, index = parity_family(k, k.main_width), index_family(k)
    out = [panel[1].faster("small", "large", "a gap (Fig. 7)", "there is a gap") for panel in (parity, index)]
    for width in k.parity_widths:
        panel = parity_mup(k, width)
        if width < k.main_width:
            out.append(panel.faster("small", "large", "muP cannot close it (Fig. 21)", "the gap is still there"))
        else:
            out.append(panel.level("small", "large", "no gap at width 64 or above (Fig. 21)", "muP leaves no gap"))
    out += [
        index_mup(k, width).faster("small", "large", "muP does not close it (Fig. 22)", "the gap is still there")
        for width in k.index_widths
    ]
    for name, family, mup in (
        ("parity", parity, parity_mup(k, k.main_width)),
        ("index", index, index_mup(k, k.main_width)),
    ):
        out += _alpha_claims(name, family, mup)
    for width in k.parity_widths:
        if width != k.main_width:
            out.append(
                lab.Claim(
                    id=f"best_alpha_{width}_over_{k.main_width}",
                    statement=f"parity: the best alpha at width {width} over that at {k.main_width} is within "
                    f"{SAME_ALPHA.low:g} to {SAME_ALPHA.high:g}",
                    paper="the optimal alpha stays constant across widths (Fig. 23)",
                    rule=SAME_ALPHA,
                    estimate=BestAlphaRatio(parity_family(k, width), parity),
                )
            )
    return out


def _alpha_claims(name: str, family: Family, mup: Panel) -> list[lab.Claim]:
    """At the main width: alpha closes the gap; alpha and muP make the large side faster than the standard one is."""
    standard = family[1]
    task = standard.title.removesuffix(", standard")
    target = standard.goal
    return [
        lab.Claim(
            id=f"{name}_alpha_closes_the_gap",
            statement=f"{task}, best alpha: no gap; the ratio of steps to {target} is within "
            f"{NO_GAP.low:g} to {NO_GAP.high:g}",
            paper="alpha bridges the gap in both tasks (Fig. 7)",
            rule=NO_GAP,
            estimate=RatioAtBestAlpha(family),
        ),
        lab.Claim(
            id=f"{name}_alpha_speeds_up_large",
            statement=f"{task}: steps to {target} of the large side with the best alpha over standard are below 1",
            paper="it bridges the gap (Fig. 7, no number)",
            rule=lab.below(1.0),
            estimate=SpeedUpAtBestAlpha(family),
        ),
        lab.Claim(
            id=f"{name}_mup_speeds_up_large",
            statement=f"{task}: steps to {target} of the large side under muP over standard are below 1",
            paper="a strong starting point (Section 5.2.1, no number)",
            rule=lab.below(1.0),
            estimate=lab.TimeRatio(mup.arm("large"), standard.arm("large"), standard.target, of=TIME),
        ),
    ]


def draw_alphas(ax: "Axes", results: lab.Results, families: Mapping[str, Family], title: str) -> None:
    """Fig. 23: the area under the small side's test curve against alpha, a line a family."""
    for shade, (label, family) in enumerate(families.items()):
        areas = _areas(results, family)
        ax.errorbar(
            list(family),
            areas.mean(axis=1),
            yerr=1.96 * areas.std(axis=1) / areas.shape[1] ** 0.5,
            color=lab.warm(shade, len(families)),
            marker="o",
            markersize=3,
            label=label,
        )
    ax.set_xscale("log", base=2)
    ax.set_xlabel("alpha")
    ax.set_ylabel("mean of the test curve")
    ax.set_title(title)
    ax.legend()


def figure(results: lab.Results, picture: "Figure") -> None:
    """Parity and single index: standard, muP at every width, the best alpha; then areas against alpha."""
    k = results.knobs
    parity, index = parity_family(k, k.main_width), index_family(k)
    rows = [
        [parity[1], parity[best_alpha(results, parity)], index[1], index[best_alpha(results, index)]],
        [parity_mup(k, width) for width in k.parity_widths],
        [index_mup(k, width) for width in k.index_widths],
    ]
    picture.set_size_inches(14, 8.7)
    grid = picture.subplots(3, 4)
    for row, panels in zip(grid, rows, strict=True):
        for ax, panel in zip(row, panels, strict=False):
            draw_lines(ax, results, panel)
    widths = {f"width {width}": parity_family(k, width) for width in k.parity_widths}
    draw_alphas(grid[2][2], results, widths, f"parity, {k.parity_samples:,} samples")
    draw_alphas(grid[2][3], results, {f"width {k.main_width}": index}, "single index, small side")
    for ax in (*grid[1][len(k.parity_widths) :], *grid[2][len(k.index_widths) : 2]):
        ax.set_axis_off()


STUDY = lab.Study(
    name="less_data/mup_and_alpha",
    title="muP and alpha-scaling against the small-vs-large gap",
    paper=PAPER_TITLE,
    figures="Fig. 7, 21, 22, 23",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 3.5, "paper": 1200.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
