"""Exact asymptotics: single runs of SGD beside the overlap process, its differential equations, and where they break.

Paper     Online Learning and Information Exponents, the figure of simulations against sufficient statistics
Claim     For large d a run of SGD follows the deterministic process of (M, Q). Where steps are small the process is a
          differential equation: of drift and noise for g of order n_b / d, of the drift alone for smaller g.
Setting   Two erf neurons on a committee of two, d = 10^4, label noise D = 0.01, 10^4 steps, g = 10 p g0, as printed:
          noise: n_b = d^(1/4), g0 = 0.015 d^(-1/8); both: n_b = d^(1/2), g0 = 0.4 d^(-1/2); drift: n_b = d^(1/2),
          g0 = 0.5 / d. At d = 10^3 the same with steps in proportion to 1 / g. All runs, the process and the equations
          share one cold start. Runs are those of the reduced chain, every sample drawn: exact in law.
          Where it breaks: He_3, p = k = 1. One step from m = d^(-1/2) on the correlation loss with g = 0.1 d^(-delta),
          n_b = d^mu from 2^12 to 2^21; and one step from m = 0.2 on the squared error, d = 100, n_b = 20,000.
Measured  Distance of a run: the largest |L - L'| / L' over recorded steps, L its test loss, L' that of the process or
          equation; the median run, 95% bootstrap over runs. A run follows if it stays within 10%. One cold step: the
          median of |m - m'| / |m'|, m' by the process, and its exponent in d, claimed within 0.1. From m = 0.2: m of
          the process less the mean of SGD, over the same of the first-order form m + dM - (m/2) dQ, claimed to be
          below 1/2 in size. Margins were set before the runs of the presets, which have seeds of their own.
Expected  Noise moves m by g sqrt(phiHD / n_b) in a step, so relative to d^(-1/2) by d^((1-mu)/2 - delta): with n_b = d
          any g = omega(1) drowns a cold start; with a larger batch rates may grow up to d^((mu-1)/2). The squared error
          has another end before: a step takes m to (1 - 18 g) m over its norm, and g > 1/18 turns the neuron round.
Tried     Looked at on 8 to 32 runs of seed 0 first. One cold step was first taken at d = 2^8 to 2^14 for both mu: at
          n_b = d the exponents were -0.35, 0.16 and 0.57 instead of -0.5, 0 and 0.5, two of them off by more than the
          margin. Sums of so few terms of degree 5 are far from Gaussian, so batches were made the same for both mu,
          2^12 to 2^21: the claims are on that range, and smaller batches are a case against them. On paths at
          n_b = d^(1/2), g of order d^(-1/2), the distance is largest where neurons leave the plateau on which both are
          alike: when they do is the one thing that noise decides.
Errata    The paper exchanges delta + mu and 2 delta + mu in the conditions for its equations. Its first pair, as
          printed, has 2 delta + mu = 1/2: steps do not become small, there is no equation, and nothing is learned.
Shrunk    Nothing: tens of runs where the paper has one. The paper preset adds d = 10^5.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.lab.colours import COLD, WARM
from headstart.measures import exponent
from headstart.studies.batch_size import GREY, PAPER_TITLE, Floats, batch_of, recorded
from headstart.studies.batch_size._errors import draw_errors, error_curves
from headstart.tasks import Committee, Erf, Hermite
from headstart.theory import Kept, Objective, Process, ProcessPath, RecoveryRuns, ReducedSGD, cold_overlaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLLOWS, MARGIN = 0.1, 0.1
HE3 = Hermite(3)
DRIFT = Kept(noise=False)
FINDING = (
    "At the printed d the median run stays within a share {follows_noise}, {follows_both} and {follows_drift} of the "
    "process in the three regimes, and within {ode_both} and {ode_drift} of the differential equations where there are "
    "any. From a cold start at n_b = d a step strays from the process by a share that goes as d to the {breaks_1_0.5} "
    "for g = d^(-1/2), to the {breaks_1_0} for g = O(1) and to the {breaks_1_-0.5} for g = d^(1/2)."
)


@dataclass(frozen=True)
class Regime:
    """n_b = d^mu, g = scale p d^-delta, and the terms of its differential equation, if there is one."""

    mu: float
    scale: float
    delta: float
    colour: str
    kept: Kept | None = None


REGIMES = {
    "noise": Regime(0.25, 0.15, 0.125, WARM[0]),
    "both": Regime(0.5, 4.0, 0.5, COLD[0], Kept()),
    "drift": Regime(0.5, 5.0, 1.0, COLD[2], DRIFT),
}
# One step from a cold start: (mu, delta).
CELLS = ((1.0, 0.5), (1.0, 0.0), (1.0, -0.5), (1.5, 0.0), (1.5, -0.25), (1.5, -0.5))


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """num_seeds runs a regime and d; `steps` at the printed d; one step has n_b = 2^e, e in `batch_powers`."""

    dims: tuple[int, ...] = (1000, 10_000)
    printed_dim: int = 10_000
    steps: int = 10_000
    batch_powers: tuple[int, ...] = (12, 15, 18, 21)
    constant: float = 0.1
    num_one_step: int = 256
    rates: tuple[float, ...] = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.dims) < 2 or list(self.dims) != sorted(set(self.dims)) or self.printed_dim not in self.dims:
            raise HeadstartError(f"dims={self.dims}: give rising numbers, printed_dim={self.printed_dim} among them")
        if not {0.02, 0.04, 0.08} <= set(self.rates):
            raise HeadstartError(f"rates={self.rates}: give 0.02, 0.04 and 0.08 among them")


LAPTOP = Knobs(num_seeds=64, first_seed=1000)
PAPER = Knobs(
    num_seeds=256, first_seed=1000, dims=(1000, 10_000, 100_000), batch_powers=(12, 15, 18, 21, 24), num_one_step=512
)
SMOKE = Knobs(num_seeds=4, dims=(50, 200), printed_dim=200, steps=60, batch_powers=(6, 9), num_one_step=40,
              rates=(0.02, 0.04, 0.08))  # fmt: skip


def process_of(k: Knobs, regime: str, dim: int) -> tuple[Process, int]:
    """A regime in d dimensions, and its steps."""
    at = REGIMES[regime]
    link, steps = Committee(Erf(), 2), max(1, round(k.steps * (dim / k.printed_dim) ** at.delta))
    return Process(
        link, Erf(), dim, batch_of(dim, at.mu), 2 * at.scale * dim**-at.delta, num_neurons=2, noise=0.01
    ), steps


def chain_of(process: Process) -> ReducedSGD:
    """SGD of which the process is the mean."""
    return ReducedSGD(process.link, process.student, process.dim, process.batch, process.rate, process.loss,
                      num_neurons=process.num_neurons, noise=process.noise)  # fmt: skip


def cold_step(k: Knobs, mu: float, delta: float, power: int) -> Process:
    """One neuron on He_3 with the correlation loss, n_b = d^mu = 2^power."""
    dim = round(2 ** (power / mu))
    return Process(HE3, HE3, dim, 2**power, k.constant * dim**-delta, Objective.CORRELATION)


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """runs_*, process_* and ode_* of each regime and d; cold_*: one step from m = d^(-1/2); warm_*: from m = 0.2."""
    parts: dict[str, Any] = {}
    for regime, at in REGIMES.items():
        for dim in k.dims:
            process, steps = process_of(k, regime, dim)
            start, record = cold_overlaps(process, k.first_seed), recorded(steps)
            path = ProcessPath(process, steps, start, record)
            parts[f"runs_{regime}_{dim}"] = RecoveryRuns(chain_of(process), k.num_seeds, steps, record,
                                                         seed=k.first_seed, start=start)  # fmt: skip
            parts[f"process_{regime}_{dim}"] = path
            if at.kept and dim == k.printed_dim:
                parts[f"ode_{regime}_{dim}"] = replace(path, limit=at.kept)
                if at.kept.noise:
                    parts[f"ode_without_{regime}_{dim}"] = replace(path, limit=DRIFT)
    about: dict[str, Any] = {"num_runs": k.num_one_step, "steps": 1, "record": (1,), "seed": k.first_seed}
    for mu, delta in CELLS:
        for power in k.batch_powers:
            chain = chain_of(cold_step(k, mu, delta, power))
            begin: Any = (((chain.dim**-0.5,),), ((1.0,),))
            parts[f"cold_{mu:g}_{delta:g}_{power}"] = RecoveryRuns(chain, start=begin, **about)
    for rate in k.rates:
        chain = chain_of(Process(HE3, HE3, 100, 20_000, rate))
        parts[f"warm_{rate:g}"] = RecoveryRuns(chain, start=(((0.2,),), ((1.0,),)), **about)
    return parts


@dataclass(frozen=True)
class Distance:
    """The median over runs of the largest relative distance between their loss and that of a path, in one regime.

    With `over` it is divided by that at another d.
    """

    regime: str
    dim: int
    path: str = "process"
    over: int | None = None

    arms: ClassVar[tuple[str, ...]] = ()

    def of_runs(self, results: lab.Results, dim: int) -> Floats:
        """Of each run, [n]."""
        runs, path = (error_curves(results, f"{kind}_{self.regime}_{dim}")[1] for kind in ("runs", self.path))
        return np.asarray(np.abs(runs / path - 1).max(axis=1))

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The median, or the ratio of two, with its interval."""
        values = self.of_runs(results, self.dim)
        other = np.ones(len(values)) if self.over is None else self.of_runs(results, self.over)
        return lab.bootstrap(lambda rows: float(np.median(values[rows]) / np.median(other[rows])), len(values))


def strays(results: lab.Results, mu: float, delta: float) -> Floats:
    """|m - m'| / |m'| after one step from m = d^(-1/2), m' by the process, [dims, runs]."""
    rows = []
    for power in results.knobs.batch_powers:
        found = results.computed[f"cold_{mu:g}_{delta:g}_{power}"]["overlaps"][:, -1, 0, 0]
        process = cold_step(results.knobs, mu, delta, power)
        rows.append(np.abs(found / process.next_overlap(process.dim**-0.5) - 1))
    return np.array(rows)


def dims_of(results: lab.Results, mu: float) -> list[float]:
    """d of one step, for each batch."""
    return [2.0 ** (power / mu) for power in results.knobs.batch_powers]


@dataclass(frozen=True)
class StraysExponent:
    """The exponent in d of the median of |m - m'| / |m'| after one step."""

    mu: float
    delta: float

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The exponent with its interval."""
        return exponent(dims_of(results, self.mu), strays(results, self.mu, self.delta))


def warm_step(results: lab.Results, rate: float) -> tuple[Floats, float, float]:
    """m after one step from 0.2: of each run [n], by the process, and by its first order m + dM - (m/2) dQ."""
    chain = results.parts[f"warm_{rate:g}"].process
    process = Process(chain.link, chain.student, chain.dim, chain.batch, chain.rate)
    dm, dq = process.change(np.full((1, 1), 0.2), np.eye(1))
    found = results.computed[f"warm_{rate:g}"]["overlaps"][:, -1, 0, 0]
    return found, float(process.next_overlap(0.2)), float(0.2 + dm[0, 0] - 0.1 * dq[0, 0])


@dataclass(frozen=True)
class OverFirstOrder:
    """The bias of the process over that of its first-order form, one step at this rate."""

    rate: float

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        runs, process, first = warm_step(results, self.rate)
        return lab.bootstrap(lambda rows: float((process - runs[rows].mean()) / (first - runs[rows].mean())), len(runs))


def claims(k: Knobs) -> list[lab.Claim]:
    """Each regime: the process, its equation, and whether runs come closer; and where they break."""
    out, dim = [], k.printed_dim
    for regime, at in REGIMES.items():
        where, follows = f"{regime}, d = {dim}", lab.below(FOLLOWS)
        out += [
            lab.Claim(f"follows_{regime}", f"{where}: the largest distance of the median run from the process is below "
                      f"{FOLLOWS:.0%}", "they agree", follows, Distance(regime, dim), lab.Kind.PRIMARY),
            lab.Claim(f"closer_{regime}", f"{regime}: that at d = {k.dims[-1]} over d = {k.dims[0]} is below 1",
                      "exact for large d", lab.below(1.0), Distance(regime, k.dims[-1], over=k.dims[0])),
        ]  # fmt: skip
        if at.kept:
            words = f"{where}: the same from its differential equation is below {FOLLOWS:.0%}"
            estimate = Distance(regime, dim, "ode")
            out.append(lab.Claim(f"ode_{regime}", words, "they agree", follows, estimate, lab.Kind.PRIMARY))
    words = f"both, d = {dim}: the same from the equation without noise is above {FOLLOWS:.0%}"
    out.append(lab.Claim("ode_without", words, "both terms stay at delta + mu = 1", lab.above(FOLLOWS),
                         Distance("both", dim, "ode_without"), lab.Kind.CONTROL))  # fmt: skip
    for mu, delta in CELLS:
        value = (1 - mu) / 2 - delta
        words = f"one cold step, n_b = d^{mu:g}, g = d^{0 - delta:g}: the exponent in d of its distance is "
        out.append(lab.Claim(f"breaks_{mu:g}_{delta:g}", f"{words}{value:g} within {MARGIN}", "no number",
                             lab.Within(value - MARGIN, value + MARGIN), StraysExponent(mu, delta)))  # fmt: skip
    for rate in (0.02, 0.04, 0.08):
        words = f"one step from m = 0.2, g = {rate:g}: bias of the process over its first order is between -1/2 and 1/2"
        out.append(lab.Claim(f"first_order_{rate:g}", words, "no number", lab.Within(-0.5, 0.5), OverFirstOrder(rate)))
    return out


def draw_regime(ax: "Axes", results: lab.Results, regime: str) -> None:
    """Losses of the runs, of the process and of the equation."""
    k = results.knobs
    at, process = REGIMES[regime], results.parts[f"process_{regime}_{k.printed_dim}"].process
    draw_errors(ax, results, f"runs_{regime}_{k.printed_dim}", at.colour, "SGD, 80% of runs")
    for kind, style, width in (("process", "--", 1.2), ("ode", ":", 2.0), ("ode_without", "-.", 1.0)):
        name = f"{kind}_{regime}_{k.printed_dim}"
        if name in results.computed:
            label = {"process": "process", "ode": "equation", "ode_without": "equation without noise"}[kind]
            colour = GREY if kind == "ode_without" else "black"
            ax.plot(*error_curves(results, name), style, color=colour, linewidth=width, label=label)
    ax.set(xscale="log", yscale="linear", title=f"{regime}: n_b = {process.batch}, g = {process.rate:.2g}")
    ax.legend(loc="lower left")


def draw_strays(ax: "Axes", results: lab.Results) -> None:
    """The distance from the process after one cold step against d."""
    for place, (mu, delta) in enumerate(CELLS):
        colour = (WARM if mu == 1 else COLD)[place % 3]
        label = f"n_b = d^{mu:g}, g = d^{0 - delta:g}"
        ax.plot(
            dims_of(results, mu),
            np.median(strays(results, mu, delta), axis=1),
            "o-",
            color=colour,
            markersize=3.5,
            label=label,
        )
    ax.axhline(1, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="d", ylabel="|m - m'| / |m'|, median run")
    ax.set_title("One step from m = d^(-1/2), correlation")
    lab.legend_below(ax, columns=2)


def draw_warm(ax: "Axes", results: lab.Results) -> None:
    """One step from m = 0.2 against the rate."""
    rates = results.knobs.rates
    rows = [warm_step(results, rate) for rate in rates]
    ax.errorbar(rates, [row[0].mean() for row in rows], [row[0].std() for row in rows], fmt="o", color=WARM[0],
                markersize=4, capsize=2, label="SGD: mean and deviation")  # fmt: skip
    ax.plot(rates, [row[1] for row in rows], "--", color="black", label="process")
    ax.plot(rates, [row[2] for row in rows], ":", color=GREY, label="first order")
    ax.set(xscale="log", xlabel="g", ylabel="m after one step", ylim=(-0.35, 0.35))
    ax.set_title("Squared error from m = 0.2, n_b = 20,000")
    ax.legend(loc="lower left")


def figure(results: lab.Results, picture: "Figure") -> None:
    """Losses in three regimes above; where the process breaks below."""
    picture.set_size_inches(12.0, 7.0)
    grid = picture.subplot_mosaic([[*"aabbcc"], [*"dddeee"]])
    for place, regime in zip("abc", REGIMES, strict=True):
        draw_regime(grid[place], results, regime)
    draw_strays(grid["d"], results)
    draw_warm(grid["e"], results)


STUDY = lab.Study(
    name="batch_size/exact_asymptotics",
    title="Exact asymptotics, and where they break",
    paper=PAPER_TITLE,
    figures="simulations against sufficient statistics, erf",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 1.5, "paper": 15.0},
    computed=computed,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("theory", "chain"),
)
