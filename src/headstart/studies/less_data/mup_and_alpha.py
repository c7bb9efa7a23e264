"""muP and a single scale alpha against the standard parametrisation: which of them closes the small-vs-large gap.

Paper     Less Data, Faster Training, Section 5.2.1 and Fig. 7, 21, 22, 23
Claim     muP closes the gap of two-layer networks on parity at widths of 64 and more, not at 32, and does not close it
          on the single-index model, even at width 1024. Dividing the first layer's initial values by alpha and
          multiplying the second's by alpha closes both, and the best alpha is the same at every width.
Setting   The arms of Fig. 2 (a) and (c) under other parametrisations and at other widths. muP has base width 1:
          readouts with standard deviation proportional to 1 / m, rates eta m and eta / m (with base width 64 it would
          be the standard network at width 64). alpha divides the first bias too.
Measured  The restricted mean number of steps to 95% accuracy or a loss of 0.3 Var(y), small over large; "closes" means
          a ratio above 0.9 and 80% arrivals, declared beforehand, and a gap is there where it is below 1. Each arm has
          its own best learning rate, by the same endpoint on 16 other seeds; so has alpha, on the small side (Fig. 23
          shows N = 2^14 only), and both sides use it. The best alpha of a width is that of the least mean time over the
          claims' seeds; two widths agree if the interval of the ratio lies within 0.4 to 2.5, that is within one step
          of the grid of alphas. 95% paired bootstraps.
Shrunk    The paper uses full batches. The exact population at width 1024 takes a minute per run, so the laptop preset
          uses batches of 128 and fresh samples as the large set; the desk preset has full batches, (18,6), 16 seeds up
          to width 64 and 8 above, 8 that choose, and no width 1024 on parity. Runs on parity under other
          parametrisations than Fig. 2's end once settled. Single-index models of width 1024 have muP only (Fig. 22).
Tried     The first laptop grid of alphas was 1, 8, 16, ..., 128: in two seeds at rates that were too low, areas had
          risen up to 64. With rates swept, 8 was the best at every width, next to the end of that grid, so the grid
          now is the powers of 2 up to 32. In version 0.1 "no gap" had two sides, 0.9 to 1.1: on the single-index model
          the small side spends 100 steps on 1,280 samples, about as many as the large side needs to learn with alpha.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.lab.panels import NO_EFFECT, NO_GAP, Panel, draw_lines
from headstart.methods import LayerScale, Method, MuP
from headstart.models import MLP
from headstart.studies.less_data import (
    FEW_SEEDS,
    FIGURE_2,
    PAPER_TITLE,
    Figure2Knobs,
    gd_index,
    gd_parity,
    sgd_index,
    sgd_parity,
    with_model,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAME_ALPHA = lab.Within(0.4, 2.5)
# A number with the first rate of its sweep.
Rates = tuple[tuple[float, float], ...]
Family = Mapping[float, Panel]
FINDING = (
    "Under muP the ratio of steps, small over large, is {parity_mup} on parity and {index_mup} on the single-index "
    "model at width 64; at the best alpha it is {parity_alpha} and {index_alpha}. That muP closes the gap on parity "
    "{parity_mup.says}, that it leaves one on the single-index model {index_mup.says}, and that alpha closes both "
    "{parity_alpha.says} and {index_alpha.says}."
)


@dataclass(frozen=True)
class Knobs(Figure2Knobs):
    """Widths and alphas with the first rate of each sweep; `width` is that of Fig. 7, with Fig. 2's seeds."""

    full_batch: bool = True
    widths: Rates = ((32, 0.2), (256, 0.1), (1024, 0.028))
    index_widths: tuple[int, ...] = (1024,)
    mup_rate: float = 0.1
    index_mup_rate: float = 0.07
    alphas: Rates = ((2, 0.16), (4, 0.12), (8, 0.065), (16, 0.02), (32, 0.0055))
    index_alphas: Rates = ((2, 0.13), (4, 0.1), (8, 0.06), (16, 0.04), (32, 0.01))


PRESETS = {
    "smoke": Knobs(
        **{**FIGURE_2["smoke"], "sgd_parity_samples": 128},
        full_batch=False,
        widths=((4, 0.6),),
        index_widths=(),
        mup_rate=0.2,
        alphas=((2, 0.3),),
        index_alphas=((2, 0.1),),
    ),
    "laptop": Knobs(**FIGURE_2["laptop"], full_batch=False, widths=((32, 0.14), (256, 0.083), (1024, 0.025))),
    "desk": Knobs(**FIGURE_2["laptop"] | FEW_SEEDS, widths=((32, 0.2), (256, 0.1))),
    "paper": Knobs(**FIGURE_2["paper"]),
}


def _parity(k: Knobs) -> Panel:
    return gd_parity(k) if k.full_batch else sgd_parity(k)


def _index(k: Knobs) -> Panel:
    return gd_index(k) if k.full_batch else sgd_index(k)


def _under(base: Panel, width: int, name: str, title: str, rate: float, *methods: Method) -> Panel:
    """A panel of Fig. 2 at a width under a parametrisation, with fewer seeds where that is not Fig. 2's width."""
    main = base.run.model
    assert isinstance(main, MLP)
    panel = with_model(
        base, f"{width}_{name}", f"width {width}, {title}", replace(main, width=width), (rate, 1.44 * rate)
    )
    lines = tuple(replace(line, methods=methods) for line in base.lines)
    factor = base.seeds_factor if width <= main.width else 1
    return replace(panel, lines=lines, seeds_factor=factor, tries=min(5, base.tries), rungs=base.rungs or (4, 8))


def parity_family(k: Knobs, width: int) -> Family:
    """The panels of a width by alpha; alpha = 1 is the standard parametrisation."""
    base = _parity(k)
    standard = base if width == k.width else _under(base, width, "standard", "standard", dict(k.widths)[width])
    return {1.0: standard} | {
        alpha: _under(base, width, f"alpha{alpha:g}", f"alpha = {alpha:g}", rate, LayerScale.alpha(alpha))
        for alpha, rate in k.alphas
    }


def index_family(k: Knobs) -> Family:
    """The same for the single-index model at the main width."""
    return {1.0: _index(k)} | {
        alpha: _under(_index(k), k.width, f"alpha{alpha:g}", f"alpha = {alpha:g}", rate, LayerScale.alpha(alpha))
        for alpha, rate in k.index_alphas
    }


def parity_widths(k: Knobs) -> list[int]:
    """All widths on parity, the main one among them."""
    return sorted({k.width, *(int(width) for width, _ in k.widths)})


def parity_mup(k: Knobs, width: int) -> Panel:
    """Parity under muP."""
    return _under(_parity(k), width, "mup", "muP", k.mup_rate, MuP())


def index_mup(k: Knobs, width: int) -> Panel:
    """The single-index model under muP."""
    base = _index(k)
    panel = _under(base, width, "mup", "muP", k.index_mup_rate, MuP())
    return replace(panel, seeds_factor=base.seeds_factor)  # at every width, as there is a primary claim on each


def arms(k: Knobs) -> list[lab.Arm]:
    """Both sides of every panel; away from the main width only the small side has other alphas than 1."""
    out = [arm for width in parity_widths(k) for arm in parity_mup(k, width).arms()]
    out += [arm for width in (k.width, *k.index_widths) for arm in index_mup(k, width).arms()]
    out += [arm for panel in index_family(k).values() for arm in panel.arms()]
    for width in parity_widths(k):
        for panel in parity_family(k, width).values():
            out += [arm for arm in panel.arms() if width == k.width or arm.name == panel.arm("small")]
    return out


def best_alpha(results: lab.Results, family: Family) -> float:
    """The alpha whose small side has the best score on the seeds that choose learning rates."""

    def score(alpha: float) -> float:
        tries = [scored for _, scored in results.tuned[family[alpha].arm("small")].tries]
        most = max(scored.num_seeds for scored in tries)
        return min(scored.score for scored in tries if scored.num_seeds == most)

    return min(family, key=score)


@dataclass(frozen=True)
class AtBestAlpha:
    """The time ratio, small over large, at the best alpha; or that of its large side over the standard large side."""

    family: Family
    over_standard: bool = False

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it may compare."""
        return tuple(panel.arm(line) for panel in self.family.values() for line in ("small", "large"))

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval; alpha is chosen on other seeds than it uses."""
        best = self.family[best_alpha(results, self.family)]
        if not self.over_standard:
            return best.ratio("small", "large")(results)
        return lab.TimeRatio(best.arm("large"), self.family[1].arm("large"), best.target)(results)


@dataclass(frozen=True)
class BestAlphaRatio:
    """The best alpha of one width over that of another, by mean times of the small side over resampled seeds."""

    one: Family
    other: Family

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it compares."""
        return tuple(panel.arm("small") for family in (self.one, self.other) for panel in family.values())

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval, on the seeds that both widths have."""
        one, other = _times(results, self.one), _times(results, self.other)
        num = min(one.shape[1], other.shape[1])

        def best(family: Family, times: NDArray[np.float64], rows: NDArray[np.int64]) -> float:
            return list(family)[int(times[:, rows].mean(axis=1).argmin())]

        return lab.bootstrap(lambda rows: best(self.one, one, rows) / best(self.other, other, rows), num)


def _times(results: lab.Results, family: Family) -> NDArray[np.float64]:
    """min(T, horizon) of the small side in steps, [alphas, seeds]."""
    arms = [panel.arm("small") for panel in family.values()]
    ratios = [lab.TimeRatio(arm, arms[0], family[1].target) for arm in arms]
    return np.array([ratio.times(results, arm) for ratio, arm in zip(ratios, arms, strict=True)])


def claims(k: Knobs) -> list[lab.Claim]:
    """What Fig. 7, 21, 22 and 23 say, and that the gap closes because the large side gains."""
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY
    out = []
    for width in parity_widths(k):
        panel, suffix = parity_mup(k, width), "" if width == k.width else f"_{width}"
        if width < k.width:
            claim = panel.faster(
                "small", "large", "muP cannot close the gap at m = 32 (Fig. 21)", "a gap", kind=primary
            )
        else:
            says = "no gap for width 64 or above (Fig. 7, 21)"
            claim = panel.closes("small", "large", says, "no gap", kind=primary if width == k.width else secondary)
        out.append(replace(claim, id=f"parity_mup{suffix}"))
    for width in (k.width, *k.index_widths):
        says = (
            "the gap exists for SIM (Fig. 7)" if width == k.width else "muP does not close it at width 1024 (Fig. 22)"
        )
        claim = index_mup(k, width).faster("small", "large", says, "the gap is still there", kind=primary)
        out.append(replace(claim, id="index_mup" if width == k.width else f"index_mup_{width}"))
    families = {"parity": parity_family(k, k.width), "index": index_family(k)}
    for name, family in families.items():
        mup = parity_mup(k, k.width) if name == "parity" else index_mup(k, k.width)
        out += _alpha_claims(name, family, mup)
    for width in parity_widths(k):
        if width != k.width:
            widest = width == max(parity_widths(k))
            out.append(
                lab.Claim(
                    id=f"best_alpha_{width}",
                    statement=f"parity: the best alpha at width {width} over that at {k.width} is within "
                    f"{SAME_ALPHA.low:g} to {SAME_ALPHA.high:g}",
                    paper="the optimal alpha remains constant across model widths (Fig. 23)",
                    rule=SAME_ALPHA,
                    estimate=BestAlphaRatio(parity_family(k, width), families["parity"]),
                    kind=primary if widest else secondary,
                )
            )
    return out


def _alpha_claims(name: str, family: Family, mup: Panel) -> list[lab.Claim]:
    """At the main width: alpha closes the gap; alpha and muP make the large side faster than the standard one is."""
    standard = family[1]
    task, target = standard.title, standard.goal
    faster = f"{task}: steps to {target} of the large side"
    return [
        lab.Claim(
            id=f"{name}_alpha",
            statement=f"{task}, best alpha: no gap; the ratio of steps to {target} is above {NO_GAP.low:g}",
            paper="alpha scaling suffices to bridge the gap in both parity and SIM (Fig. 7)",
            rule=lab.closed(NO_GAP.low),
            estimate=AtBestAlpha(family),
            kind=lab.Kind.PRIMARY,
        ),
        lab.Claim(
            id=f"{name}_alpha_speeds_up_large",
            statement=f"{faster} with the best alpha over standard are below 1",
            paper="it bridges the gap (Fig. 7, no number)",
            rule=lab.below(1.0),
            estimate=AtBestAlpha(family, over_standard=True),
            smallest=NO_EFFECT,
        ),
        lab.Claim(
            id=f"{name}_mup_speeds_up_large",
            statement=f"{faster} under muP over standard are below 1",
            paper="a strong starting point (Section 5.2.1, no number)",
            rule=lab.below(1.0),
            estimate=lab.TimeRatio(mup.arm("large"), standard.arm("large"), standard.target),
            smallest=NO_EFFECT,
        ),
    ]


def draw_alphas(ax: "Axes", results: lab.Results, families: Mapping[str, Family], title: str) -> None:
    """Fig. 23: the mean time of the small side to the target against alpha, a line for each family."""
    for shade, (label, family) in enumerate(families.items()):
        times = _times(results, family)
        error = 1.96 * times.std(axis=1) / times.shape[1] ** 0.5
        colour = lab.warm(shade, len(families))
        ax.errorbar(list(family), times.mean(axis=1), error, color=colour, marker="o", markersize=3, label=label)
    ax.set_xscale("log", base=2)
    ax.set(xlabel="alpha", ylabel="restricted mean steps", title=title)
    lab.legend_below(ax)


def figure(results: lab.Results, picture: "Figure") -> None:
    """Standard and best alpha of both tasks; muP at every width; mean times against alpha."""
    k = results.knobs
    parity, index = parity_family(k, k.width), index_family(k)
    best = [family[best_alpha(results, family)] for family in (parity, index)]
    rows = [
        [parity[1], best[0], index[1], best[1]],
        [parity_mup(k, width) for width in parity_widths(k)],
        [index_mup(k, width) for width in (k.width, *k.index_widths)],
    ]
    picture.set_size_inches(14, 10)
    grid = picture.subplots(3, 4)
    for axes, panels in zip(grid, rows, strict=True):
        for ax, panel in zip(axes, panels, strict=False):
            draw_lines(ax, results, panel)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
    widths = {f"width {width}": parity_family(k, width) for width in parity_widths(k)}
    for ax, families, title in (
        (grid[2][2], widths, "parity, small side"),
        (grid[2][3], {f"width {k.width}": index}, "single index, small side"),
    ):
        ax.set_axis_on()
        draw_alphas(ax, results, families, title)


STUDY = lab.Study(
    name="less_data/mup_and_alpha",
    title="muP and alpha-scaling against the small-vs-large gap",
    paper=PAPER_TITLE,
    figures="Fig. 7, 21, 22, 23",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 8.0, "desk": 50.0, "paper": 1200.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp",),
)
