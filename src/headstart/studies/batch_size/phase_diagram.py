"""Which batches and rates learn: the plane of their exponents, and steps against the batch.

Paper     Online Learning and Information Exponents, the phase diagrams
Claim     With n_b = d^mu, g = g0 d^(-delta) and T = d^theta steps to weak recovery, l >= 3: the squared error learns if
          delta >= max(l/2 - mu, 0), with the best theta = max(l - 1 - mu, l/2 - 1). The correlation loss learns down to
          max(l/2 - mu, (1 - mu)/2, (1 - l)/2), with max(l - 1 - mu, 0). Below these lines there is no learning. So
          samples are d^(l-1) up to n_b = d^(l/2), and the best batches are d^(l/2) and d^(l-1).
Setting   Student and teacher He_3, one neuron, one direction, no noise, projected SGD; the reduced chain, exact in law.
          l is odd: runs start on the side that can recover. Rays: d = 2^7 ... 2^14 and on to 2^20 for each mu, as far
          as draws reach: every sample is drawn where a run is expected to take at most 1.2 10^8 draws, sums over a
          batch are Gaussians with exact moments above where the batch is large enough for that (held to the exact chain
          where both run), and other sizes are left out. So n_b = 1 ends at 2^9 and 2^11. Rates of rays are not tuned
          but those of theory: g d^(3/2) / n_b at the escape threshold, 0.0104 and 1/3, and at most 1 / (2 E[z s s'])
          for the squared error and sqrt(n_b / (d phiHD)) for the correlation loss. Beside them n_b = 1, d^(3/2) and d^2
          at rates that 16 other runs choose, by one procedure. Plane: d = 512, g0 is the threshold, cells a half apart
          in mu and a quarter in delta.
Measured  Steps T until |m| >= 1/2. theta is the slope of the logarithm of the median T in log d, 95% bootstrap over
          runs, paired by their starts; claimed within 0.2 of the paper's, declared beforehand, since logarithms of d
          are not small. A cell of the plane learns if half of its runs recover within 5 times the steps expected on the
          line. Cells on or above a line should; those half a unit of delta or more below it should not.
Expected  Constants count at finite d. As g -> infinity a step on the correlation loss forgets w and takes the direction
          of the gradient, which has an overlap of order m^(l-1) d^((mu-1)/2) with the target and noise of order
          d^(-1/2): for mu >= l - 1 that grows. So rates below the line (1 - mu)/2 should learn too.
Tried     Looked at first, on 4 to 32 runs of seed 0, which no preset but smoke uses: rays, the plane and huge rates. So
          they do learn, and for mu = 7/4 too up to d = 2^20. After that look the margin of theta was set to 0.2 (0.15
          was thought of), the constants of budgets, and the half unit below a line, since cells a quarter below that of
          the squared error learn. Shares below the line of the correlation loss by batch were chosen after it too, and
          are post hoc; the primary claim has all of its cells.
Errata    The theorems say where SGD learns. That it does not below these lines is said by the diagram alone.
Shrunk    48 runs and the draws of a run; the paper preset draws 16 times as many.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, factorial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.lab.colours import COLD, WARM
from headstart.studies.batch_size import (
    GREY,
    PAPER_TITLE,
    StepsExponent,
    StepsRatio,
    batch_of,
    draw_times,
    steps_of,
)
from headstart.tasks import Hermite
from headstart.theory import Objective, RecoveryRuns, ReducedSGD, TunedRuns, escape_threshold
from headstart.theory.reduced_sgd.paths import has_moments

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MSE, CORRELATION = Objective.MSE, Objective.CORRELATION
COLOURS = {MSE: WARM[0], CORRELATION: COLD[0]}
DEGREE = 3
LINK = Hermite(DEGREE)
SLOPE = DEGREE * factorial(DEGREE)  # E[s'^2], which is E[z s s'] too
THRESHOLDS = {loss: escape_threshold(LINK, LINK, loss) for loss in Objective}
# For budgets: about how many times d^theta steps a run takes; in draws, what a step costs besides its own, and by sums.
CONSTANTS, OVERHEAD, SUMS = {MSE: 12.0, CORRELATION: 0.3}, 32, 150
BEST = {MSE: DEGREE / 2, CORRELATION: DEGREE - 1.0}
SIDE_BY_SIDE = (0.0, DEGREE / 2, DEGREE - 1.0)
MARGIN, BELOW = 0.2, 0.5
FINDING = (
    "Steps grow as d^theta with theta = {mse_theta_0} and {correlation_theta_0} at n_b = 1 (squared error, correlation "
    "loss; paper: 2), {mse_theta_150} and {correlation_theta_150} at d^(3/2) (1/2), {mse_theta_200} and "
    "{correlation_theta_200} at d^2 (1/2 and 0). On and above the paper's lines {mse_above} and {correlation_above} of "
    "the cells learn; below them {mse_below} and {correlation_below} do not. For the correlation loss that is "
    "{correlation_below_small} with n_b <= d, {correlation_below_middle} between d and d^2, and "
    "{correlation_below_large} from d^2 on."
)


def line(loss: Objective, mu: float) -> float:
    """The least delta at which the paper says that SGD learns."""
    noise = DEGREE / 2 - mu
    return max(noise, 0.0) if loss is MSE else max(noise, (1 - mu) / 2, (1 - DEGREE) / 2)


def theta(delta: float) -> float:
    """The paper's exponent of steps on and above the line: t ~ g^-1 d^(l/2 - 1)."""
    return max(delta + DEGREE / 2 - 1, 0.0)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """num_seeds runs a part, `cell_runs` a cell of the plane; `draws` are the most that a run may be expected to take.

    Rays have d = 2^e for e in `powers`; the plane has `dim`, and tuned rates `tuned_dim`.
    """

    mus: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 1.75, 2.0, 2.5)
    powers: tuple[int, ...] = (7, 8, 9, 10, 11, 12, 13, 14, 17, 20)
    draws: float = 1.2e8
    plane_mus: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    dim: int = 512
    cell_runs: int = 24
    tuned_dim: int = 256
    level: float = 0.5
    patience: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not set(SIDE_BY_SIDE) <= set(self.mus):
            raise HeadstartError(f"mus={self.mus}: give at least {SIDE_BY_SIDE}")
        if any(len(rays(self, loss, mu)) < 2 for loss in Objective for mu in self.mus):
            raise HeadstartError(
                f"draws={self.draws:g}: an exponent needs two of powers={self.powers}; give more draws"
            )


def is_exact(process: ReducedSGD, steps: float, draws: float) -> bool | None:
    """Whether every sample can be drawn, or sums over a batch; None where neither can."""
    if steps * (OVERHEAD + process.batch) <= draws:
        return True
    return False if steps * SUMS <= draws and has_moments(process) else None


def expected(loss: Objective, dim: float, delta: float) -> float:
    """About how many steps a run takes on or above the line."""
    return CONSTANTS[loss] * dim ** theta(delta) + 4


def ray(loss: Objective, mu: float, dim: int) -> ReducedSGD:
    """A batch at the rate of theory."""
    batch = batch_of(dim, mu)
    most = 0.5 / SLOPE if loss is MSE else (batch / dim / (SLOPE * factorial(DEGREE))) ** 0.5
    return ReducedSGD(LINK, LINK, dim, batch, min(THRESHOLDS[loss] * batch * dim ** (-DEGREE / 2), most), loss)


def rays(k: Knobs, loss: Objective, mu: float) -> dict[int, bool]:
    """The powers of a ray that draws reach, and whether every sample is drawn."""
    found = {e: is_exact(ray(loss, mu, 2**e), expected(loss, 2.0**e, line(loss, mu)), k.draws) for e in k.powers}
    return {power: exact for power, exact in found.items() if exact is not None}


LAPTOP = Knobs(num_seeds=48, first_seed=100)
PAPER = Knobs(num_seeds=256, first_seed=100, draws=2e9, cell_runs=128, dim=1024, tuned_dim=512)
SMOKE = Knobs(num_seeds=8, num_selection_seeds=2, powers=(4, 5, 6), draws=5e5, dim=32, cell_runs=4, tuned_dim=16)


def cells(k: Knobs, loss: Objective) -> dict[tuple[float, float], RecoveryRuns]:
    """Runs by (mu, delta): from one below the line to where draws end, at most a half above the squared error's."""
    out = {}
    about: dict[str, Any] = {"stop_at": k.level, "right_side_only": True, "seed": k.first_seed}
    for mu, delta in ((mu, n / 4) for mu in k.plane_mus for n in range(-12, 9)):
        process = ReducedSGD(LINK, LINK, k.dim, batch_of(k.dim, mu), THRESHOLDS[loss] * k.dim**-delta, loss)
        steps = expected(loss, k.dim, max(delta, line(loss, mu)))
        exact = is_exact(process, steps, k.draws / 6)
        if line(loss, mu) - 1 <= delta <= line(MSE, mu) + 0.5 and exact is not None:
            horizon = ceil(k.patience / 2 * steps)
            out[mu, delta] = RecoveryRuns(process, k.cell_runs, horizon, exact=exact, **about)
    return out


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """ray_* of every loss, mu and d; sums_*: one of them again by Gaussian sums; tuned_*; plane_*."""
    parts: dict[str, Any] = {}
    about: dict[str, Any] = {"stop_at": k.level, "right_side_only": True, "seed": k.first_seed}
    for loss in Objective:
        for mu in k.mus:
            for power, exact in rays(k, loss, mu).items():
                steps = ceil(k.patience * expected(loss, 2.0**power, line(loss, mu)))
                runs = RecoveryRuns(ray(loss, mu, 2**power), k.num_seeds, steps, exact=exact, **about)
                parts[name_of("ray", loss, mu, power)] = runs
                if power == both_ways(k, loss) and mu == DEGREE / 2:
                    parts[f"sums_{loss}"] = RecoveryRuns(runs.process, k.num_seeds, steps, exact=False, **about)
        for mu in SIDE_BY_SIDE:
            process = ray(loss, mu, k.tuned_dim)
            exact = is_exact(process, expected(loss, k.tuned_dim, line(loss, mu)), k.draws) is not False
            parts[name_of("tuned", loss, mu)] = TunedRuns(
                process, k.num_seeds, k.level, k.first_seed, num_choosing=k.num_selection_seeds, exact=exact
            )
        parts |= {name_of("plane", loss, *place): part for place, part in cells(k, loss).items()}
    return parts


def name_of(kind: str, loss: Objective, *at: float) -> str:
    """The name of a part."""
    return "_".join((kind, str(loss), *(f"{value:g}" for value in at)))


def both_ways(k: Knobs, loss: Objective) -> int | None:
    """The largest power at n_b = d^(l/2) where every sample is drawn and sums could be."""
    known = rays(k, loss, DEGREE / 2).items()
    return max((e for e, exact in known if exact and has_moments(ray(loss, DEGREE / 2, 2**e))), default=None)


@dataclass(frozen=True)
class AsSaid:
    """The share of cells in which half of the runs recover, or do not, as the paper says; bootstrap over runs."""

    loss: Objective
    places: tuple[tuple[float, float], ...]
    learn: bool

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share with its interval."""
        names = [name_of("plane", self.loss, *place) for place in self.places]
        reached = np.array([steps_of(results, name).reached for name in names])
        return lab.bootstrap(
            lambda rows: float(((reached[:, rows].mean(axis=1) >= 0.5) == self.learn).mean()), reached.shape[1]
        )


def ray_claims(k: Knobs, loss: Objective) -> list[lab.Claim]:
    """theta of every mu, samples up to n_b = d^(l/2), and the check of Gaussian sums."""
    out = []
    for mu in k.mus:
        known, said = rays(k, loss, mu), theta(line(loss, mu))
        to = f"n_b = d^{mu:g}, d = 2^{min(known)} to 2^{max(known)}"
        names = tuple(name_of("ray", loss, mu, power) for power in known)
        kind = lab.Kind.PRIMARY if mu in SIDE_BY_SIDE else lab.Kind.SECONDARY
        out.append(lab.Claim(f"{loss}_theta_{round(100 * mu)}", f"{loss}, {to}: theta is {said:g} within {MARGIN}",
                             f"{said:g}", lab.Within(said - MARGIN, said + MARGIN),
                             StepsExponent(names, tuple(2.0**e for e in known)), kind))  # fmt: skip
    small = [mu for mu in k.mus if mu <= DEGREE / 2]
    top = max(set.intersection(*(set(rays(k, loss, mu)) for mu in small)))
    names, x = zip(*((name_of("ray", loss, mu, top), float(batch_of(2**top, mu))) for mu in small), strict=True)
    out.append(lab.Claim(f"{loss}_flat", f"{loss}, d = 2^{top}, n_b = 1 to d^(3/2): the exponent of samples in n_b is "
                         "0 within 0.1", "N = d^(l-1) up to mu = l/2", lab.Within(-0.1, 0.1),
                         StepsExponent(names, x, "samples"), lab.Kind.PRIMARY))  # fmt: skip
    power = both_ways(k, loss)
    if power is not None:
        exact = name_of("ray", loss, DEGREE / 2, power)
        words = f"{loss}, n_b = d^(3/2), d = 2^{power}: steps with Gaussian sums over exact ones are in 0.8 to 1.25"
        out.append(lab.Claim(f"{loss}_sums", words, "not in the paper", lab.Within(0.8, 1.25),
                             StepsRatio(f"sums_{loss}", exact), lab.Kind.CONTROL))  # fmt: skip
    return out


def plane_claims(k: Knobs, loss: Objective) -> list[lab.Claim]:
    """Cells on or above the line, and below it."""
    places = cells(k, loss)
    above = tuple((mu, delta) for mu, delta in places if delta >= line(loss, mu))
    below = tuple((mu, delta) for mu, delta in places if delta <= line(loss, mu) - BELOW)
    groups = [("", below, "", lab.Kind.PRIMARY)]
    if loss is CORRELATION:
        for mark, low, high, words in (("_small", 0.0, 1.0, "n_b <= d"), ("_middle", 1.25, 1.75, "d < n_b < d^2"),
                                       ("_large", 2.0, 9.0, "n_b >= d^2")):  # fmt: skip
            some = tuple(place for place in below if low <= place[0] <= high)
            groups.append((mark, some, f" with {words}", lab.Kind.POST_HOC))
    return [
        lab.Claim(f"{loss}_above", f"{loss}, d = {k.dim}: of {len(above)} cells on or above the line, the share that "
                  "learn is above 90%", "SGD learns", lab.above(0.9), AsSaid(loss, above, True), lab.Kind.PRIMARY),
        *(lab.Claim(f"{loss}_below{mark}",
                    f"{loss}, d = {k.dim}: of {len(group)} cells{words}, {BELOW:g} or more below the line, the "
                    "share that do not learn is above 90%", "no learning", lab.above(0.9), AsSaid(loss, group, False),
                    kind) for mark, group, words, kind in groups),
    ]  # fmt: skip


def claims(k: Knobs) -> list[lab.Claim]:
    """Rays and plane; n_b = 1, d^(l/2) and d^(l-1) side by side at rates of their own."""
    out = [claim for loss in Objective for claim in (*ray_claims(k, loss), *plane_claims(k, loss))]
    for loss in Objective:
        one, middle, last = (name_of("tuned", loss, mu) for mu in SIDE_BY_SIDE)
        at, half = f"{loss}, d = {k.tuned_dim}, tuned rates", k.tuned_dim**-0.25
        out.append(lab.Claim(f"{loss}_tuned_flat", f"{at}: samples at n_b = d^(3/2) over n_b = 1 are between 1/2 and 2",
                             "T = I(l) / n_b up to d^(l/2)", lab.Within(0.5, 2.0),
                             StepsRatio(middle, one, "samples")))  # fmt: skip
        rule, side, said = (
            (lab.below(half), "below", "d^(-1/2)") if loss is CORRELATION else (lab.above(half), "above", "no gain")
        )
        out.append(lab.Claim(f"{loss}_tuned_beyond", f"{at}: steps at n_b = d^2 over d^(3/2) are {side} d^(-1/4)", said,
                             rule, StepsRatio(last, middle)))  # fmt: skip
    return out


def draw_plane(ax: "Axes", results: lab.Results, loss: Objective) -> None:
    """Median steps by cell; crosses where fewer than half of the runs recover; the paper's line."""
    k = results.knobs
    places = np.array(list(cells(k, loss)))
    medians = np.array([steps_of(results, name_of("plane", loss, *place)).median for place in places])
    learned = np.isfinite(medians)
    x, y = places[learned].T
    drawn = ax.scatter(x, y, s=60, c=np.log10(medians[learned]), marker="s", cmap="viridis_r", vmin=0, vmax=6, zorder=2)
    ax.plot(*places[~learned].T, "x", color=GREY, markersize=5)
    mus = np.linspace(min(k.plane_mus), max(k.plane_mus), 101)
    ax.plot(mus, [line(loss, mu) for mu in mus], color="black", linewidth=1.2, zorder=3)
    ax.plot(BEST[loss], line(loss, BEST[loss]), "o", markersize=14, markerfacecolor="none", color="black")
    ax.set(xlabel="mu", ylabel="delta", title=f"{loss}, d = {k.dim}: colour learns, x does not")
    ax.figure.colorbar(drawn, ax=ax, label="log10 of median steps")


def draw_theta(ax: "Axes", results: lab.Results) -> None:
    """theta against mu with intervals, and the paper's."""
    k = results.knobs
    for shift, (loss, colour) in zip((-0.015, 0.015), COLOURS.items(), strict=True):
        for place, mu in enumerate(k.mus):
            known = rays(k, loss, mu)
            names = tuple(name_of("ray", loss, mu, power) for power in known)
            found = StepsExponent(names, tuple(2.0**e for e in known))(results)
            ends = [[found.value - found.low], [found.high - found.value]]
            ax.errorbar(mu + shift, found.value, ends, fmt="o", color=colour, markersize=4, capsize=2,
                        label=None if place else f"{loss}, 95%")  # fmt: skip
        ax.plot(k.mus, [theta(line(loss, mu)) for mu in k.mus], ":", color=colour, label=f"{loss}, paper")
    ax.set(xlabel="mu", ylabel="theta", title="Exponent of steps in d")
    ax.legend()


def draw_batches(ax: "Axes", results: lab.Results, axis: str) -> None:
    """Steps or samples against the batch at two d, rays, and tuned rates at one."""
    k = results.knobs
    common = set.intersection(*(set(rays(k, loss, mu)) for loss in Objective for mu in k.mus))
    for loss, colour in COLOURS.items():
        for power, marker in zip((min(common), max(common)), ("o-", "s--"), strict=False):
            mus = [mu for mu in k.mus if power in rays(k, loss, mu)]
            names = [name_of("ray", loss, mu, power) for mu in mus]
            draw_times(ax, results, names, [batch_of(2**power, mu) for mu in mus], colour, f"{loss}, d = 2^{power}",
                       axis, marker)  # fmt: skip
        names = [name_of("tuned", loss, mu) for mu in SIDE_BY_SIDE]
        times = [steps_of(results, name).on(axis).median for name in names]
        ax.plot([batch_of(k.tuned_dim, mu) for mu in SIDE_BY_SIDE], times, "*", color=colour, markersize=9,
                markeredgecolor="black", markeredgewidth=0.5, label=f"{loss}, d = {k.tuned_dim}, tuned")  # fmt: skip
    ax.set(xlabel="n_b", title=f"{axis.capitalize()} against the batch: median, 80% of runs")


def draw_dims(ax: "Axes", results: lab.Results) -> None:
    """Steps against d: n_b = 1, d^(l/2) and d^(l-1) side by side."""
    k = results.knobs
    for loss, colour in COLOURS.items():
        for mu, marker in zip(SIDE_BY_SIDE, ("o-", "s--", "^:"), strict=True):
            names = [name_of("ray", loss, mu, power) for power in rays(k, loss, mu)]
            draw_times(ax, results, names, [2.0**e for e in rays(k, loss, mu)], colour, f"{loss}, n_b = d^{mu:g}",
                       marker=marker)  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set(xlabel="d", title="Three batches side by side")
    lab.legend_below(ax)


def figure(results: lab.Results, picture: "Figure") -> None:
    """The planes and exponents above; steps and samples below."""
    picture.set_size_inches(13.0, 8.0)
    top, bottom = picture.subplots(2, 3)
    draw_plane(top[0], results, MSE)
    draw_plane(top[1], results, CORRELATION)
    draw_theta(top[2], results)
    draw_batches(bottom[0], results, "steps")
    draw_batches(bottom[1], results, "samples")
    lab.legend_below(bottom[0])
    draw_dims(bottom[2], results)


STUDY = lab.Study(
    name="batch_size/phase_diagram",
    title="Which batches and rates learn",
    paper=PAPER_TITLE,
    figures="phase diagrams",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 6.5, "paper": 300.0},
    computed=computed,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("theory", "single_index"),
)
