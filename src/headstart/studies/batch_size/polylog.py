"""Polylogarithmic time: with a batch of d and a constant rate He_2 is found in a + b log d steps, to d = 2^32.

Paper     Online Learning and Information Exponents, the figure of steps against log d (process only)
Claim     For l = 2, g = O(1) and n_b = O(d), steps to weak recovery grow as log d: their exponent in d is 0.
Setting   Student and teacher He_2, one neuron, one direction, no noise, projected SGD, n_b = d, d = 2^5 ... 2^32, with
          g = 0.05 for the squared error and 0.1 for the correlation loss, below the thresholds of 1/6 and 1 that
          g d / n_b has. The paper follows the deterministic process; here SGD itself runs beside it, by the reduced
          chain: every sample drawn up to d = 2^18, and above, where a batch has from half a million to 4 billion
          samples, the sums over a batch as Gaussians with exact moments: approximate, and held to the exact chain at
          2^18. The process begins at the cold starts of the runs, so both are paired.
Measured  Steps T until |m| >= 1/2, which all runs reach; medians over runs, 95% bootstrap over runs. The slope of log T
          in log d is 1 / log d for a logarithm, never 0 at finite d, so the exponent is claimed to be 0 within 0.1 on
          the upper three fifths of the range, declared beforehand. T = a + b log d and T = a d^b are fitted by least
          squares on T, and the squared residuals compared. Near m = 0 a step multiplies m by lambda, which the process
          has in closed form: then b is 1 / (2 log lambda), claimed within 5%. As a control, n_b = sqrt d with the rate
          in proportion, where T is of order sqrt d log d and the exponent must be seen.
Expected  b near 3.6 steps for the squared error and 1.7 for the correlation loss.
Errata    n_b = O(d) and g = O(1) need g d / n_b below a threshold: at g = 0.2 the squared error has lambda < 1.
Shrunk    Nothing but runs, and the d up to which every sample is drawn: 2^22 in the paper preset.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.lab.colours import COLD, WARM
from headstart.studies.batch_size import GREY, PAPER_TITLE, StepsExponent, StepsRatio, draw_times, steps_of
from headstart.tasks import Hermite
from headstart.theory import Objective, Process, ProcessTimes, RecoveryRuns, ReducedSGD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {Objective.MSE: WARM[0], Objective.CORRELATION: COLD[0]}
MARGIN, CLOSE = 0.1, 0.05
FINDING = (
    "Towards the largest d the exponent of the steps in d is {mse_exponent} for the squared error and "
    "{correlation_exponent} for the correlation loss, and a + b log d leaves {mse_linear} and {correlation_linear} of "
    "the squared residuals of a power law. The slope b is {mse_slope} and {correlation_slope} times what the process "
    "has in closed form."
)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """d = 2^e for e in `powers`; every sample is drawn up to `exact_to`; `control_powers` have n_b = sqrt d."""

    powers: tuple[int, ...] = tuple(range(5, 33))
    exact_to: int = 18
    control_powers: tuple[int, ...] = (6, 8, 10, 12, 14)
    mse_rate: float = 0.05
    correlation_rate: float = 0.1
    steps: int = 1000
    level: float = 0.5

    @property
    def rates(self) -> dict[Objective, float]:
        """The rate of each loss."""
        return {Objective.MSE: self.mse_rate, Objective.CORRELATION: self.correlation_rate}

    @property
    def upper(self) -> tuple[int, ...]:
        """The upper three fifths of the powers, on which exponents are claimed."""
        return self.powers[len(self.powers) * 2 // 5 :]


LAPTOP = Knobs(num_seeds=256)
PAPER = Knobs(num_seeds=1024, exact_to=22, control_powers=(6, 8, 10, 12, 14, 16, 18))
SMOKE = Knobs(num_seeds=24, powers=(5, 7, 9, 12, 16, 24), exact_to=12, control_powers=(6, 8))


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """chain_* and process_* of every loss and d; gaussian_* where the chain is still exact; control_*: n_b = sqrt d."""
    parts: dict[str, Any] = {}
    he = Hermite(2)
    for loss, rate in k.rates.items():
        for power in k.powers:
            dim, exact = 2**power, power <= k.exact_to
            process = ReducedSGD(he, he, dim, dim, rate, loss)
            about: dict[str, Any] = {"stop_at": k.level, "seed": k.first_seed}
            parts[f"chain_{loss}_{power}"] = RecoveryRuns(process, k.num_seeds, k.steps, exact=exact, **about)
            parts[f"process_{loss}_{power}"] = ProcessTimes(
                Process(he, he, dim, dim, rate, loss), k.num_seeds, k.steps, k.level, k.first_seed
            )
        dim = 2**k.exact_to
        process = ReducedSGD(he, he, dim, dim, rate, loss)
        parts[f"gaussian_{loss}"] = RecoveryRuns(process, k.num_seeds, k.steps, exact=False, **about)
        for power in k.control_powers:
            dim, batch = 2**power, round(2 ** (power / 2))
            process = ReducedSGD(he, he, dim, batch, rate * batch / dim, loss)
            steps = ceil(k.steps * dim / batch)
            parts[f"control_{loss}_{power}"] = RecoveryRuns(process, k.num_seeds, steps, exact=True, **about)
    return parts


def names(kind: str, loss: Objective, powers: Sequence[int]) -> tuple[str, ...]:
    """Parts over d."""
    return tuple(f"{kind}_{loss}_{power}" for power in powers)


def dims(powers: Sequence[int]) -> tuple[float, ...]:
    """2^e."""
    return tuple(2.0**power for power in powers)


def times_of(results: lab.Results, kind: str, loss: Objective) -> NDArray[np.float64]:
    """T of every run, [dims, runs], ascending in d."""
    return np.array([steps_of(results, name).censored for name in names(kind, loss, results.knobs.powers)])


@dataclass(frozen=True)
class Residuals:
    """The squared residuals of T = a + b log d over those of T = a d^b, medians over runs, least squares on T."""

    loss: Objective

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        times, powers = times_of(results, "chain", self.loss), np.array(results.knobs.powers, dtype=np.float64)
        return lab.bootstrap(lambda rows: _residuals(powers, np.median(times[:, rows], axis=1)), times.shape[1], 0.95,
                             200)  # fmt: skip


def _residuals(powers: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    """Of one set of medians; not a number where some are infinite."""
    from scipy.optimize import least_squares

    if not np.isfinite(times).all():
        return float("nan")
    straight = np.polyfit(powers, times, 1)
    start = np.polyfit(powers, np.log2(times), 1)
    fit = least_squares(lambda ab: 2 ** (ab[0] * powers + ab[1]) - times, start)
    return float(((np.polyval(straight, powers) - times) ** 2).sum() / (2 * fit.cost))


@dataclass(frozen=True)
class Slope:
    """b of T = a + b log d over 1 / (2 log lambda), lambda the growth of a step near m = 0 by the process."""

    loss: Objective
    kind: str = "chain"

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        times, powers = times_of(results, self.kind, self.loss), np.array(results.knobs.powers)
        growth = float(results.computed[f"process_{self.loss}_{powers[-1]}"]["growth"])
        unit = 1 / (2 * log(growth)) if growth > 1 else float("nan")

        def slope(rows: NDArray[np.int64]) -> float:
            middle = np.median(times[:, rows], axis=1)
            return float(np.polyfit(powers * log(2), middle, 1)[0]) / unit if np.isfinite(middle).all() else np.nan

        return lab.bootstrap(slope, times.shape[1], resamples=500)


def claims(k: Knobs) -> list[lab.Claim]:
    """For each loss: no exponent, a straight line in log d, its slope; the process; and controls."""
    out = []
    for loss in Objective:
        upper, top = k.upper, k.powers[-1]
        near = lab.Within(-MARGIN, MARGIN)
        to = f"d = 2^{upper[0]} to 2^{top}"
        out += [
            lab.Claim(f"{loss}_exponent", f"{loss}, {to}: the exponent of steps in d is 0 within {MARGIN}", "T ~ log d",
                      near, StepsExponent(names("chain", loss, upper), dims(upper)), lab.Kind.PRIMARY),
            lab.Claim(f"{loss}_linear", f"{loss}: squared residuals of a + b log d over those of a power law are "
                      "below 1", "T ~ log d", lab.below(1.0), Residuals(loss), lab.Kind.PRIMARY),
            lab.Claim(f"{loss}_slope", f"{loss}: b over 1 / (2 log lambda) is 1 within {CLOSE:.0%}", "no number",
                      lab.Within(1 - CLOSE, 1 + CLOSE), Slope(loss)),
            lab.Claim(f"{loss}_process", f"{loss}, d = 2^{top}: steps of the chain over those of the process are 1 "
                      f"within {CLOSE:.0%}", "the process only", lab.Within(1 - CLOSE, 1 + CLOSE),
                      StepsRatio(f"chain_{loss}_{top}", f"process_{loss}_{top}")),
            lab.Claim(f"{loss}_process_slope", f"{loss}, process: b over 1 / (2 log lambda) is 1 within {CLOSE:.0%}",
                      "T ~ log d", lab.Within(1 - CLOSE, 1 + CLOSE), Slope(loss, "process")),
            lab.Claim(f"{loss}_gaussian", f"{loss}, d = 2^{k.exact_to}: steps with Gaussian sums over those with every "
                      f"sample drawn are 1 within {CLOSE:.0%}", "not in the paper",
                      lab.Within(1 - CLOSE, 1 + CLOSE),
                      StepsRatio(f"gaussian_{loss}", f"chain_{loss}_{k.exact_to}"), lab.Kind.CONTROL),
            lab.Claim(f"{loss}_control", f"{loss}, n_b = sqrt d: the exponent of steps in d is above 0.4",
                      "d log d / n_b: 0.5 and a log", lab.above(0.4),
                      StepsExponent(names("control", loss, k.control_powers), dims(k.control_powers)),
                      lab.Kind.CONTROL),
        ]  # fmt: skip
    return out


def draw_steps(ax: "Axes", results: lab.Results, logs: bool) -> None:
    """T against d: chain with its band, process dashed, and the line that lambda predicts."""
    k = results.knobs
    for loss, colour in COLOURS.items():
        x, chain, process = dims(k.powers), names("chain", loss, k.powers), names("process", loss, k.powers)
        draw_times(ax, results, chain, x, colour, f"{loss}: SGD, 80% of runs")
        ax.plot(x, [steps_of(results, name).median for name in process], "--", color="black", linewidth=0.9,
                label="process" if loss is Objective.MSE else None)  # fmt: skip
    ax.axvline(2.0**k.exact_to, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xlabel="d = n_b (right of the dotted line: Gaussian sums)", ylabel="steps to |m| = 1/2")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log" if logs else "linear")
    ax.set_title("The same as a power law would need it" if logs else "Steps against log d")
    ax.legend(loc="upper left")


def draw_control(ax: "Axes", results: lab.Results) -> None:
    """n_b = sqrt d beside n_b = d."""
    k = results.knobs
    for loss, colour in COLOURS.items():
        fit = StepsExponent(names("control", loss, k.control_powers), dims(k.control_powers))(results)
        label = f"{loss}, n_b = sqrt d: exponent {fit.value:.2f}"
        draw_times(ax, results, names("control", loss, k.control_powers), dims(k.control_powers), colour, label)
        small = [power for power in k.powers if power <= max(k.control_powers)]
        draw_times(ax, results, names("chain", loss, small), dims(small), colour, f"{loss}, n_b = d", marker="s:")
    ax.set_xscale("log", base=2)
    ax.set(xlabel="d", title="Control: a smaller batch", ylabel="steps to |m| = 1/2")
    ax.legend(loc="upper left")


def figure(results: lab.Results, picture: "Figure") -> None:
    """Linear and logarithmic in T, and the control."""
    picture.set_size_inches(12.0, 3.6)
    one, two, three = picture.subplots(1, 3)
    draw_steps(one, results, logs=False)
    draw_steps(two, results, logs=True)
    draw_control(three, results)


STUDY = lab.Study(
    name="batch_size/polylog",
    title="Logarithmic time to d = 2^32",
    paper=PAPER_TITLE,
    figures="steps against log d, He_2",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 2.0, "paper": 60.0},
    computed=computed,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("theory", "single_index"),
)
