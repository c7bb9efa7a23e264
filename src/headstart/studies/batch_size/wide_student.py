"""Four neurons on one direction: what the laws of one neuron say of a wider student.

Paper     Online Learning and Information Exponents, the experiment on a wide student
Claim     A student of p neurons with a fixed readout 1/p follows the laws of one neuron if its rate is p times as
          large. So at n_b = d both losses find the direction, and at n_b = d^1.75, with a rate beyond what the squared
          error of one neuron bears, only the correlation loss does.
Setting   He_3 student and target, p = 4, k = 1, d = 256, label noise D = 10^-6, rows on the sphere, all a_j = 1; rate
          g0 p n_b d^(-3/2). Small batch: n_b = d, 3000 steps, g0 = 0.005. Large batch: n_b = d^1.75, 50 steps,
          g0 = 0.032. Runs are those of the reduced chain, exact in law, from cold starts, neurons on either side.
          Beside the paper's g0 five other factors of it, the same for both losses; 16 other runs choose among all six,
          once by the time that is compared and once by the loss at the end.
Measured  Steps to |M| >= 0.5, which one neuron can bring alone: restricted means, runs that do not get there count
          with all steps. The test loss at the end and the share of neurons with m > 0.5, exact from the overlaps. One
          neuron at g0 n_b d^(-3/2), four times as many runs: the time of the best of four. 95% bootstrap over runs.
          That the law of one neuron holds is claimed within 15%, declared beforehand.
Expected  On the correlation loss neurons do not feel each other, so a wide student is the best of p; they share their
          samples. The squared error of a wide student has a p-th of the feedback of one neuron near the start.
Tried     Looked at on 32 runs first: at n_b = d^1.75 the squared error finds the direction with one or two neurons,
          sooner than the correlation loss, and its loss then rises again, while on the correlation loss nearly all
          neurons get there. The claims on neurons and on the loss at the end were added then, and are marked so.
          The overlap process, followed from the starts of some runs, falls back to 0 from many on the squared error:
          what takes these out at d = 256 is the noise that the process averages away.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.studies.batch_size import GREY, PAPER_TITLE, Recovered, StepsRatio, draw_overlaps, steps_of
from headstart.studies.batch_size._errors import ErrorRatio, draw_errors, last_errors
from headstart.tasks import Hermite
from headstart.theory import Objective, Process, ProcessPath, RecoveryRuns, ReducedSGD, cold_overlaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINK = Hermite(3)
LEVEL = 0.5
NO_EFFECT = lab.Within(0.95, 1.05)
ONE_NEURON = lab.Within(0.85, 1.15)
CHOOSING = 500_000  # added to the seed of runs that choose a rate
LABELS = {Objective.MSE: "squared error", Objective.CORRELATION: "correlation"}
COLOURS = {Objective.MSE: lab.cold(), Objective.CORRELATION: lab.warm()}
FINDING = (
    "At n_b = d^1.75 and the paper's rate {large_mse_recovers} of the runs on the squared error find the direction, "
    "where the theory of one neuron says none: the claim {large_mse_recovers.says}. The correlation loss ends with "
    "{large_final} times the loss of the squared error: {large_neurons_correlation} of its neurons get there, of those "
    "on the squared error {large_neurons_mse}."
)


@dataclass(frozen=True)
class Regime:
    """A batch of d^mu, how many steps, and g0."""

    mu: float
    steps: int
    scale: float


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """num_seeds runs of every arm, of which num_paths lend their starts to the process; rates are tried at factors."""

    dim: int = 256
    neurons: int = 4
    small: tuple[float, int, float] = (1.0, 3000, 0.005)
    large: tuple[float, int, float] = (1.75, 50, 0.032)
    factors: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
    num_paths: int = 16
    num_records: int = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        if 1.0 not in self.factors or self.num_paths < 1 or self.neurons < 2:
            raise HeadstartError("factors hold 1, num_paths is at least 1 and neurons at least 2")

    def regime(self, name: str) -> Regime:
        """The batch "small" or "large"."""
        return Regime(*(self.small if name == "small" else self.large))


LAPTOP = Knobs(num_seeds=128)
PAPER = Knobs(num_seeds=1024)
SMOKE = Knobs(num_seeds=4, num_selection_seeds=2, dim=20, small=(1.0, 40, 0.02), large=(1.75, 10, 0.032),
              factors=(0.5, 1.0), num_paths=2)  # fmt: skip
REGIMES = ("small", "large")


def process(k: Knobs, regime: str, loss: Objective, factor: float = 1.0, neurons: int | None = None) -> ReducedSGD:
    """A student at a factor of the paper's rate."""
    at, neurons = k.regime(regime), neurons or k.neurons
    batch = round(k.dim**at.mu)
    rate = factor * at.scale * neurons * batch * k.dim**-1.5
    return ReducedSGD(LINK, LINK, k.dim, batch, rate, loss, num_neurons=neurons, noise=1e-6)


def name_of(regime: str, loss: Objective, factor: float = 1.0) -> str:
    """The part with these runs."""
    return f"{regime}_{loss}_{factor:g}"


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """Each regime and loss at every rate, the runs that choose, single neurons, and paths of the process."""
    parts: dict[str, Any] = {}
    for regime in REGIMES:
        steps = k.regime(regime).steps
        record = tuple(int(t) for t in np.unique(np.linspace(0, steps, k.num_records).round()))
        for loss in Objective:
            for factor in k.factors:
                whole = RecoveryRuns(process(k, regime, loss, factor), k.num_seeds, steps, record, LEVEL, True,
                                     seed=k.first_seed)  # fmt: skip
                parts[name_of(regime, loss, factor)] = whole
                parts[f"choose_{name_of(regime, loss, factor)}"] = replace(
                    whole, num_runs=k.num_selection_seeds, record=(steps,), seed=k.first_seed + CHOOSING
                )
            alone = process(k, regime, loss, neurons=1)
            parts[f"alone_{regime}_{loss}"] = RecoveryRuns(alone, k.neurons * k.num_seeds, steps, stop_at=LEVEL,
                                                           seed=k.first_seed)  # fmt: skip
    for loss in Objective:
        chain = process(k, "large", loss)
        path = Process(LINK, LINK, k.dim, chain.batch, chain.rate, loss, num_neurons=k.neurons, noise=1e-6)
        for run in range(k.num_paths):
            start = cold_overlaps(chain, k.first_seed, run)
            parts[f"path_{loss}_{run}"] = ProcessPath(path, k.regime("large").steps, start)
    return parts


def best_factor(results: lab.Results, regime: str, loss: Objective, by_error: bool = False) -> float:
    """The factor that the runs that choose like best: by their mean time, or by their mean loss at the end."""

    def score(factor: float) -> float:
        name = f"choose_{name_of(regime, loss, factor)}"
        return float((last_errors(results, name) if by_error else steps_of(results, name).restricted).mean())

    return min(results.knobs.factors, key=score)


@dataclass(frozen=True)
class TunedRatio:
    """Correlation over squared error, each at the rate that other runs chose: steps, or the loss at the end."""

    regime: str
    by_error: bool = False

    arms: ClassVar[tuple[str, ...]] = ()

    def ratio(self, results: lab.Results) -> StepsRatio | ErrorRatio:
        """The ratio of the parts at the chosen rates."""
        one, other = (
            name_of(self.regime, loss, best_factor(results, self.regime, loss, self.by_error))
            for loss in (Objective.CORRELATION, Objective.MSE)
        )
        return ErrorRatio(one, other) if self.by_error else StepsRatio(one, other)

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        return self.ratio(results)(results)

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The median run."""
        return self.ratio(results).beside(results)


@dataclass(frozen=True)
class OverBestOfAlone:
    """The restricted mean time of a wide student over that of the best of as many single neurons."""

    regime: str
    loss: Objective

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval; that runs are resampled in pairs adds nothing, since they are independent."""
        wide = steps_of(results, name_of(self.regime, self.loss))
        alone = steps_of(results, f"alone_{self.regime}_{self.loss}")
        best = alone.restricted.reshape(-1, results.knobs.neurons).min(axis=1)
        arrivals = min(wide.arrivals, float((best < alone.horizon).mean()))
        if not wide.reached.any() and not alone.reached.any():
            return lab.Estimate(*(float("nan"),) * 3, arrivals=arrivals, horizon=wide.horizon)
        found = lab.bootstrap(lambda rows: float(wide.restricted[rows].mean() / best[rows].mean()), len(best))
        return replace(found, arrivals=arrivals, horizon=wide.horizon)


@dataclass(frozen=True)
class NeuronShare:
    """The mean over runs of the share of neurons that end with m > 0.5."""

    name: str

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share with its interval over runs."""
        shares = (results.computed[self.name]["overlaps"][:, -1, :, 0] > LEVEL).mean(axis=1)
        return lab.bootstrap(lambda rows: float(shares[rows].mean()), len(shares))


@dataclass(frozen=True)
class PathGap:
    """The share of starts from which the process reaches |M| >= 0.5, less the share of runs from these that do."""

    loss: Objective

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The difference with its interval over starts."""
        num = min(results.knobs.num_paths, results.knobs.num_seeds)
        ends = [results.computed[f"path_{self.loss}_{run}"]["overlaps"][-1] for run in range(num)]
        path = np.array([np.linalg.norm(m) >= LEVEL for m in ends], dtype=float)
        runs = steps_of(results, name_of("large", self.loss)).reached[:num].astype(float)
        return lab.bootstrap(lambda rows: float((path - runs)[rows].mean()), num)


def regime_claims(k: Knobs, regime: str) -> list[lab.Claim]:
    """One batch: who recovers, the law of one neuron, and what remains with rates that are chosen."""
    at, below = k.regime(regime), lab.below(1.0)
    where = f"n_b = d^{at.mu:g}"
    out = []
    for loss, words in LABELS.items():
        learns = regime == "small" or loss is Objective.CORRELATION
        rule, side = (lab.above(0.5), "above 50%") if learns else (lab.below(0.1), "below 10%")
        says = "it learns" if learns else "only the correlation loss learns (mu > l/2, delta < 0)"
        statement = f"{where}, {words}: the share of runs that recover in {at.steps} steps is {side}"
        name = name_of(regime, loss)
        out.append(lab.Claim(f"{regime}_{loss}_recovers", statement, says, rule, Recovered(name), lab.Kind.PRIMARY))
        statement = (
            f"{where}, {words}: steps of {k.neurons} neurons over the best of {k.neurons} alone are 1 within 15%"
        )
        out.append(lab.Claim(f"{regime}_{loss}_alone", statement, "g_net / p = g_glm", ONE_NEURON,
                             OverBestOfAlone(regime, loss)))  # fmt: skip
        statement = f"{where}, {words}: the share of neurons that end with m > {LEVEL} is above 50%"
        out.append(lab.Claim(f"{regime}_neurons_{loss}", statement, "not said", lab.above(0.5), NeuronShare(name),
                             lab.Kind.POST_HOC))  # fmt: skip
    over = "correlation over squared error, is below 1"
    pair = name_of(regime, Objective.CORRELATION), name_of(regime, Objective.MSE)
    out += [
        lab.Claim(f"{regime}_steps", f"{where}, the paper's rate: steps to |M| = {LEVEL}, {over}", "no number", below,
                  StepsRatio(*pair), smallest=NO_EFFECT),
        lab.Claim(f"{regime}_final", f"{where}, the paper's rate: loss after {at.steps} steps, {over}", "no number",
                  below, ErrorRatio(*pair), lab.Kind.POST_HOC, NO_EFFECT),
        lab.Claim(f"{regime}_tuned_steps", f"{where}, rates chosen by it: steps to |M| = {LEVEL}, {over}",
                  "rates not tuned", below, TunedRatio(regime), smallest=NO_EFFECT),
        lab.Claim(f"{regime}_tuned_final", f"{where}, rates chosen by it: loss after {at.steps} steps, {over}",
                  "rates not tuned", below, TunedRatio(regime, by_error=True), smallest=NO_EFFECT),
    ]  # fmt: skip
    return out


def claims(k: Knobs) -> list[lab.Claim]:
    """Both batches, and the process."""
    out = [claim for regime in REGIMES for claim in regime_claims(k, regime)]
    for loss, words in LABELS.items():
        statement = f"n_b = d^{k.regime('large').mu:g}, {words}: the share of cold starts from which the process "
        statement += "recovers, less that of runs, is 0 within 0.1"
        out.append(lab.Claim(f"process_{loss}", statement, "the process is the limit of large d",
                             lab.Within(-0.1, 0.1), PathGap(loss)))  # fmt: skip
    return out


def draw_rates(ax: "Axes", results: lab.Results, regime: str) -> None:
    """The loss at the end against the rate, for both losses."""
    k = results.knobs
    for loss in Objective:
        names = [name_of(regime, loss, factor) for factor in k.factors]
        means = [last_errors(results, name).mean() for name in names]
        rates = [results.parts[name].process.rate for name in names]
        ax.plot(rates, means, "o-", color=COLOURS[loss], markersize=3.5, label=LABELS[loss])
    ax.axvline(process(k, regime, Objective.MSE).rate, color=GREY, linestyle=":", linewidth=0.9)
    ax.set(xscale="log", xlabel="rate (dotted: the paper's)", ylabel="test loss at the end / Var(y)")
    ax.set_title(f"n_b = d^{k.regime(regime).mu:g}, every rate")


def figure(results: lab.Results, picture: "Figure") -> None:
    """Overlaps, losses and rates; a row a batch."""
    k = results.knobs
    picture.set_size_inches(11, 6.2)
    for row, regime in zip(picture.subplots(2, 3), REGIMES, strict=True):
        for loss in Objective:
            draw_overlaps(row[0], results, name_of(regime, loss), COLOURS[loss], LABELS[loss])
            draw_errors(row[1], results, name_of(regime, loss), COLOURS[loss], LABELS[loss])
        row[0].set(title=f"n_b = d^{k.regime(regime).mu:g}, p = {k.neurons}, d = {k.dim}", ylim=(0, k.neurons**0.5))
        row[1].set(title="Test loss", yscale="linear", ylim=(0, None))
        row[0].legend(loc="upper left")
        draw_rates(row[2], results, regime)


STUDY = lab.Study(
    name="batch_size/wide_student",
    title="Four neurons on one direction",
    paper=PAPER_TITLE,
    figures="experiment on a wide student",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 3.0, "paper": 20.0},
    computed=computed,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("theory", "chain"),
)
