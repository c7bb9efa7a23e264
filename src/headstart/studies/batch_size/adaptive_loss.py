"""Correlation first, then the squared error: out of the start as fast as one, and as exact as the other.

Paper     Online Learning and Information Exponents, the experiment on adaptive SGD
Claim     Beyond a batch of d^(l/2) the squared error cannot use the rate that the batch would allow, since the
          student's own output turns it back; the correlation loss can, but does not converge. Steps on the correlation
          loss until the loss is under 60% of its start, then steps on the squared error with a rate that is cut to a
          tenth and falls by half a percent a step, have both.
Setting   He_3 student and target, one neuron and one direction, on the sphere; n_b = d^1.85, rate g0 n_b d^(-3/2). g0
          is not stated in the paper; 0.0125 fits its curves of the correlation loss and is used here for all losses.
          Runs are those of the reduced chain, exact in law. It is the loss of the batch, mean (y - f)^2 / 2 before the
          step, that decides on the change, since a training loop sees no more. l = 3 is odd, so runs start on the side
          that can recover; cold starts on either side are shown once. Beside the paper's rate, arms whose rate is
          chosen: on 16 other runs, by the time that is compared, at rates a factor sqrt 2 apart, as many for each loss
          as it takes to have the best inside.
Measured  Steps to an overlap of 0.5 (weak recovery), and to a test loss of 2% of Var(y), 1% of its start: restricted
          means, runs that do not get there count with the horizon; the test loss at the end, exact from the overlap.
          95% bootstrap over runs, paired by their starts.
Expected  At the paper's rate the squared error alone does not leave the start: at d = 512 the rate is twice its limit.
          At its own best rate it does. How much is then left of the gain is measured.
Tried     Near m = 1 a step on the squared error multiplies the distance by 1 - 18 g, since E[s'^2] = 18: a rate of
          0.11 is where it stops to converge, which is the paper's rate at d = 512. So the cut is needed; the decay is
          not. Both are left out in turn.
Shrunk    128 runs at d = 512 instead of 512; the other dimensions have a quarter of the runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.lab.colours import COLD, CYCLE, WARM
from headstart.studies.batch_size import (
    GREY,
    PAPER_TITLE,
    Recovered,
    StepsRatio,
    draw_overlaps,
    steps_of,
)
from headstart.studies.batch_size._errors import ErrorBelow, ErrorRatio, draw_errors
from headstart.tasks import Hermite
from headstart.theory import Objective, RecoveryRuns, ReducedSGD, Switch, TunedRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NO_EFFECT = lab.Within(0.95, 1.05)
LINK = Hermite(3)
FINDING = (
    "At one rate, correlation first reaches weak recovery in {escape} times the steps of the squared error, and ends "
    "with {final} times the loss of the correlation loss alone. With each at its own best rate, the steps to 1% of the "
    "loss at the start are {tuned_end} times those of the squared error and {tuned_end_correlation} times those of the "
    "correlation loss."
)
LABELS = {"mse": "squared error", "correlation": "correlation", "adaptive": "correlation, then squared error"}
COLOURS = {"mse": COLD[0], "correlation": WARM[0], "adaptive": CYCLE[4]}
VARIANTS = {
    "whole_rate": ("rate not cut", Switch(rate=1.0)),
    "no_decay": ("rate cut, no decay", Switch(decay=1.0)),
    "early": ("change at 90%", Switch(below=0.9)),
    "late": ("change at 20%", Switch(below=0.2)),
}


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """num_seeds runs; num_selection_seeds others choose rates. `scale` is g0, `converged` a loss over Var(y)."""

    dim: int = 512
    other_dims: tuple[int, ...] = (256, 1024)
    mu: float = 1.85
    scale: float = 0.0125
    steps: int = 200
    level: float = 0.5
    converged: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.converged < 2 or not 0 < self.level < 1 or not self.other_dims:
            raise HeadstartError("converged lies in (0, 2), level in (0, 1), and other_dims has at least one")

    @property
    def end_level(self) -> float:
        """m at which the loss, 2 (1 - m^3) of Var(y), is `converged`."""
        return float((1 - self.converged / 2) ** (1 / 3))

    @property
    def few(self) -> int:
        """Runs of what is shown once."""
        return max(2, self.num_seeds // 4)


LAPTOP = Knobs(num_seeds=128)
PAPER = Knobs(num_seeds=512)
SMOKE = Knobs(num_seeds=4, num_selection_seeds=2, dim=24, other_dims=(16,), steps=30)


def process(k: Knobs, name: str, dim: int | None = None) -> ReducedSGD:
    """An arm at the paper's rate; names are those of LABELS and VARIANTS."""
    dim = dim or k.dim
    batch = round(dim**k.mu)
    plain = ReducedSGD(LINK, LINK, dim, batch, k.scale * batch * dim**-1.5)
    if name == "mse":
        return plain
    switch = None if name == "correlation" else VARIANTS[name][1] if name in VARIANTS else Switch()
    return replace(plain, loss=Objective.CORRELATION, switch=switch)


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """By loss: at the paper's rate, in other dimensions, from either side, and tuned to each of both levels."""
    parts: dict[str, Any] = {}
    shared: dict[str, Any] = {"stop_at": k.level, "seed": k.first_seed}
    whole: dict[str, Any] = {"record": tuple(range(k.steps + 1)), "go_on": True, "right_side_only": True}
    for name in LABELS:
        parts[name] = RecoveryRuns(process(k, name), k.num_seeds, k.steps, **shared, **whole)
        for dim in k.other_dims:
            own = process(k, name, dim)
            parts[f"{name}_{dim}"] = RecoveryRuns(own, k.few, k.steps, right_side_only=True, **shared)
        for goal, level in (("escape", k.level), ("end", k.end_level)):
            if (goal, name) != ("escape", "adaptive"):  # until the change it is the correlation loss
                parts[f"tuned_{goal}_{name}"] = TunedRuns(process(k, name), k.num_seeds, level, k.first_seed,
                                                          num_choosing=k.num_selection_seeds)  # fmt: skip
    for name in VARIANTS:
        parts[name] = RecoveryRuns(process(k, name), k.few, k.steps, **shared, **whole)
    for name in ("mse", "correlation"):
        parts[f"either_{name}"] = RecoveryRuns(process(k, name), k.num_seeds, k.steps, **shared)
    return parts


@dataclass(frozen=True)
class GapBeforeChange:
    """The largest difference in overlap between adaptive and correlation runs up to the change, over runs and steps."""

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The number; it has no interval."""
        adaptive, correlation = results.computed["adaptive"], results.computed["correlation"]
        last = np.where(adaptive["switched"] < 0, results.knobs.steps, adaptive["switched"] + 1)
        before = adaptive["step"][None, :] <= last[:, None]
        gaps = np.abs(adaptive["overlaps"] - correlation["overlaps"])[:, :, 0, 0]
        return lab.Estimate(*(float(gaps[before].max()),) * 3)


def rate_claims(k: Knobs) -> list[lab.Claim]:
    """All losses at the paper's rate."""
    primary, below = lab.Kind.PRIMARY, lab.below(1.0)
    at = f"d = {k.dim}, the paper's rate"
    never = "the squared error does not leave the start at this rate"
    out = [
        lab.Claim("escape", f"{at}: steps to m = {k.level:g}, correlation first over squared error, is below 1",
                  never, below, StepsRatio("adaptive", "mse"), primary, NO_EFFECT),
        lab.Claim("final", f"{at}: test loss after {k.steps} steps, correlation first over correlation alone, is "
                  "below 1", "correlation alone stays above, adaptive SGD converges", below,
                  ErrorRatio("adaptive", "correlation"), primary, NO_EFFECT),
        lab.Claim("final_mse", f"{at}: the same over the squared error alone is below 1", never, below,
                  ErrorRatio("adaptive", "mse"), smallest=NO_EFFECT),
        lab.Claim("mse_recovers", f"{at}: the share of runs on the squared error that recover is below 5%", never,
                  lab.below(0.05), Recovered("mse")),
        lab.Claim("converges", f"{at}: the share of runs with correlation first whose loss ends below "
                  f"{k.converged:.0%} of Var(y) is above 90%", "it converges", lab.above(0.9),
                  ErrorBelow("adaptive", k.converged)),
        lab.Claim("correlation_stays", f"{at}: the same share on the correlation loss alone is below 10%",
                  "it does not converge", lab.below(0.1), ErrorBelow("correlation", k.converged)),
        lab.Claim("same_before", "until the change, correlation first is the correlation loss: the largest gap is 0",
                  "by construction", lab.Within(-1e-12, 1e-12), GapBeforeChange(), lab.Kind.IDENTITY),
        lab.Claim("either_side", f"{at}, cold starts on either side: the share of runs on the correlation loss that "
                  f"recover in {k.steps} steps is above 50%", "not said", lab.above(0.5),
                  Recovered("either_correlation")),
        lab.Claim("either_side_mse", f"{at}, cold starts on either side: the same on the squared error is below 5%",
                  "not said", lab.below(0.05), Recovered("either_mse")),
    ]  # fmt: skip
    for dim in k.other_dims:
        words = (
            f"d = {dim}, the paper's rate: steps to m = {k.level:g}, correlation first over squared error, is below 1"
        )
        estimate = StepsRatio(f"adaptive_{dim}", f"mse_{dim}")
        out.append(lab.Claim(f"escape_{dim}", words, never, below, estimate, smallest=NO_EFFECT))
    return out


def claims(k: Knobs) -> list[lab.Claim]:
    """At the paper's rate, with the change made otherwise, and with every loss at its best rate."""
    out, below = rate_claims(k), lab.below(1.0)
    for name, (words, _) in VARIANTS.items():
        rule = lab.below(0.5) if name == "whole_rate" else lab.above(0.8)
        side = "below 50%" if name == "whole_rate" else "above 80%"
        statement = f"{words}: the share of runs whose loss ends below {k.converged:.0%} of Var(y) is {side}"
        kind = lab.Kind.POST_HOC if name == "whole_rate" else lab.Kind.SECONDARY
        out.append(lab.Claim(name, statement, "not tried", rule, ErrorBelow(name, k.converged), kind))
    end = f"steps to a loss of {k.converged:.0%} of Var(y), each at its best rate: correlation first over"
    out += [
        lab.Claim("tuned_escape", f"steps to m = {k.level:g}, each at its best rate: correlation over squared error is "
                  "below 1", "fewer beyond n_b = d^(l/2); rates not tuned", below,
                  StepsRatio("tuned_escape_correlation", "tuned_escape_mse"), smallest=NO_EFFECT),
        lab.Claim("tuned_end", f"{end} squared error is below 1", "rates not tuned", below,
                  StepsRatio("tuned_end_adaptive", "tuned_end_mse"), smallest=NO_EFFECT),
        lab.Claim("tuned_end_correlation", f"{end} correlation is below 1", "rates not tuned", below,
                  StepsRatio("tuned_end_adaptive", "tuned_end_correlation"), smallest=NO_EFFECT),
    ]  # fmt: skip
    return out


def draw_tuned(ax: "Axes", results: lab.Results) -> None:
    """Steps to both levels at the best rates, a dot for the mean and a bar that holds 80% of the runs."""
    ticks: list[str] = []
    for goal, words in (("escape", "weak recovery"), ("end", "1% of the loss")):
        for name in LABELS:
            if f"tuned_{goal}_{name}" not in results.computed:
                continue
            times = steps_of(results, f"tuned_{goal}_{name}").restricted
            rate = float(results.computed[f"tuned_{goal}_{name}"]["rate"])
            ax.plot(np.quantile(times, (0.1, 0.9)), [len(ticks)] * 2, color=COLOURS[name], linewidth=3)
            ax.plot(times.mean(), len(ticks), "o", color=COLOURS[name], markersize=5)
            ticks.append(f"{words}\n{LABELS[name].replace(', ', chr(10))}, g = {rate:.2g}")
    ax.set_yticks(range(len(ticks)), ticks)
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="steps (dot: mean, bar: 80% of runs)", title="Each at its best rate")


def figure(results: lab.Results, picture: "Figure") -> None:
    """Overlaps and losses at the paper's rate, the change made otherwise, and tuned rates."""
    k = results.knobs
    picture.set_size_inches(14, 3.6)
    overlaps, errors, variants, tuned = picture.subplots(1, 4)
    for name, label in LABELS.items():
        draw_overlaps(overlaps, results, name, COLOURS[name], label)
        draw_errors(errors, results, name, COLOURS[name], label)
    errors.axhline(k.converged, color=GREY, linewidth=0.8, linestyle=":")
    overlaps.set_title(f"d = {k.dim}, n_b = d^{k.mu:g}, one rate")
    lab.legend_below(overlaps, columns=1)
    errors.set_title("Test loss")
    draw_errors(variants, results, "adaptive", COLOURS["adaptive"], "as in the paper")
    for place, (name, (label, _)) in enumerate(VARIANTS.items()):
        draw_errors(variants, results, name, (*WARM, *COLD)[place], label)
    variants.set_title("The change made otherwise")
    lab.legend_below(variants)
    draw_tuned(tuned, results)


STUDY = lab.Study(
    name="batch_size/adaptive_loss",
    title="Correlation first, then the squared error",
    paper=PAPER_TITLE,
    figures="experiment on adaptive SGD",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 4.5, "paper": 15.0},
    computed=computed,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("theory", "chain"),
)
