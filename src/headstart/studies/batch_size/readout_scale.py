"""The scale of the readout: how much of the student's own output the loss may see.

Paper     Online Learning and Information Exponents, Section on the correlation loss
Claim     What keeps the squared error from using large batches is the student's own output in its residual. It is
          proportional to the scale a of the second layer, so a small readout takes it away, and the correlation loss is
          the limit a -> 0. How much of the final recovery that costs is not said.
Setting   f(z) = a s(<w, z>) with a fixed a from 1 to 0; He_3 student and target, one neuron, one direction, on the
          sphere; n_b = d^1.75. The gradient of w has a factor a, so the rate is g / a: what changes with a is the
          feedback alone. g = g0 n_b d^(-3/2), g0 = 0.0125 (the paper does not state it; it fits its curves of the
          correlation loss). Runs are those of the reduced chain, exact in law, and start on the side that can recover.
          Beside the common g, some scales at a rate that 16 other runs choose, by the time that is compared.
Measured  Steps to an overlap of 0.5 and to 0.99: restricted means, runs that do not get there count with the horizon.
          How far the overlap ends from 1. 95% bootstrap over runs, paired by their starts. That the least scale is the
          correlation loss is claimed within 5%, declared beforehand.
Expected  E[s' lam E] at m = 0 is -a E[z s s'] = -18 a: the feedback is linear in a. At a = 1 the common rate is above
          what the squared error bears. Near m = 1 the residual is (1 - a) s, so a small a leaves noise of that size and
          the overlap stays further away from 1. So some scale in between should leave the start and still arrive.
Tried     Looked at on 16 runs first: at one rate the steps are not monotone in a. A scale of 0.4 to 0.6 leaves the
          start sooner than the correlation loss does: a feedback below what destroys the neuron shortens it, and the
          rest of the step turns it further. The claim on that was added then, and is marked so.
Open      With a trained a the scale would follow the overlap: a = m^3 is where it rests. That is not simulated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.lab.colours import cold, warm
from headstart.studies.batch_size import GREY, PAPER_TITLE, Floats, Recovered, StepsRatio, draw_overlaps, steps_of
from headstart.tasks import Hermite
from headstart.theory import Objective, Process, RecoveryRuns, ReducedSGD, TunedRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINK = Hermite(3)
NO_EFFECT = lab.Within(0.95, 1.05)
FINDING = (
    "At one rate the squared error with the whole readout recovers in {whole_recovers} of the runs; with the least "
    "readout its steps are {limit} times those of the correlation loss. With each scale at its own best rate, a "
    "readout in between takes {tuned_escape_middle} of the steps of the whole one to weak recovery and "
    "{tuned_end_middle} of those to an overlap of 0.99; the correlation loss takes {tuned_escape_none} and "
    "{tuned_end_none}."
)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """num_seeds runs a scale; those in `tuned` at a rate of their own too. A scale of 0 is the correlation loss."""

    dim: int = 512
    other_dims: tuple[int, ...] = (256, 1024)
    mu: float = 1.75
    scale: float = 0.0125
    steps: int = 200
    readouts: tuple[float, ...] = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05, 0.01)
    tuned: tuple[float, ...] = (1.0, 0.4, 0.1)
    level: float = 0.5
    end_level: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        falling = all(a > b > 0 for a, b in zip(self.readouts, self.readouts[1:], strict=False))
        if not falling or len(self.readouts) < 3 or self.readouts[0] != 1:
            raise HeadstartError(f"readouts={self.readouts}: give at least three, falling from 1 to above 0")
        if len(self.tuned) < 2 or self.tuned[0] != 1 or not set(self.tuned) <= set(self.readouts):
            raise HeadstartError(f"tuned={self.tuned}: give 1 and others of readouts")

    @property
    def middle(self) -> float:
        """The scale in between that the finding speaks of."""
        return self.tuned[1]

    @property
    def few(self) -> int:
        """Runs of what is shown once."""
        return max(2, self.num_seeds // 4)


LAPTOP = Knobs(num_seeds=128)
PAPER = Knobs(num_seeds=512)
SMOKE = Knobs(num_seeds=4, num_selection_seeds=2, dim=20, other_dims=(16,), steps=20, readouts=(1.0, 0.4, 0.1),
              tuned=(1.0, 0.4), end_level=0.9)  # fmt: skip


def process(k: Knobs, readout: float, dim: int | None = None) -> ReducedSGD:
    """A scale at the common rate; 0 is the correlation loss."""
    dim = dim or k.dim
    batch = round(dim**k.mu)
    plain = ReducedSGD(LINK, LINK, dim, batch, k.scale * batch * dim**-1.5)
    if not readout:
        return replace(plain, loss=Objective.CORRELATION)
    return replace(plain, rate=plain.rate / readout, readout=(readout,))


def name_of(readout: float, kind: str = "scale") -> str:
    """The part with this scale."""
    return f"{kind}_{readout:g}"


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """Every scale at the common rate; some in other dimensions, and tuned to both levels."""
    parts: dict[str, Any] = {}
    shared: dict[str, Any] = {"stop_at": k.level, "right_side_only": True, "seed": k.first_seed}
    for readout in (*k.readouts, 0.0):
        parts[name_of(readout)] = RecoveryRuns(process(k, readout), k.num_seeds, k.steps, tuple(range(k.steps + 1)),
                                               go_on=True, **shared)  # fmt: skip
    for readout in (*k.tuned, 0.0):
        for kind, level in (("escape", k.level), ("end", k.end_level)):
            parts[name_of(readout, kind)] = TunedRuns(process(k, readout), k.num_seeds, level, k.first_seed,
                                                      num_choosing=k.num_selection_seeds)  # fmt: skip
    for dim in k.other_dims:
        for readout in (1.0, k.readouts[-1]):
            own = process(k, readout, dim)
            parts[name_of(readout, f"dim_{dim}")] = RecoveryRuns(own, k.few, k.steps, **shared)
    return parts


def missing(results: lab.Results, name: str) -> Floats:
    """1 - m at the end, [n]."""
    return np.asarray(1 - results.computed[name]["overlaps"][:, -1, 0, 0])


@dataclass(frozen=True)
class MissingRatio:
    """The mean of 1 - m at the end of part `one` over that of part `other`, runs paired."""

    one: str
    other: str

    arms: ClassVar[tuple[str, ...]] = ()

    def _bootstrap(self, results: lab.Results, middle: Callable[[Floats], float]) -> lab.Estimate:
        a, b = (missing(results, name) for name in (self.one, self.other))
        return lab.bootstrap(lambda rows: middle(a[rows]) / middle(b[rows]), len(a))

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        return self._bootstrap(results, lambda values: float(values.mean()))

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The median run."""
        return {"median run": self._bootstrap(results, lambda values: float(np.median(values)))}


def feedback(k: Knobs, readout: float) -> float:
    """E[s' lam E] at m = 0, the pull of a step along the neuron itself."""
    part = Process(LINK, LINK, readout=(readout,)) if readout else Process(LINK, LINK, loss=Objective.CORRELATION)
    return float(part.expectations(np.zeros((1, 1)), np.eye(1)).gf[0, 0])


def linear(results: lab.Results) -> lab.Estimate:
    """The largest distance of the feedback from a times that of a = 1, over all scales; arithmetic, no interval."""
    k = results.knobs
    whole = feedback(k, 1.0)
    return lab.Estimate(*(float(max(abs(feedback(k, a) - a * whole) for a in (*k.readouts, 0.0))),) * 3)


def claims(k: Knobs) -> list[lab.Claim]:
    """The limit, the feedback, the final recovery, and what remains with rates of their own."""
    below, least = lab.below(1.0), k.readouts[-1]
    grows = "the feedback is proportional to a"
    out = [
        lab.Claim("limit", f"steps to m = {k.level:g}, a = {least:g} over the correlation loss, is 1 within 5%",
                  "the limit a -> 0", NO_EFFECT, StepsRatio(name_of(least), name_of(0.0)), lab.Kind.PRIMARY),
        lab.Claim("feedback", f"steps to m = {k.level:g} at one rate, a = {least:g} over a = 1, is below 1", grows,
                  below, StepsRatio(name_of(least), name_of(1.0)), lab.Kind.PRIMARY, NO_EFFECT),
        lab.Claim("linear", "E[s' lam E] at m = 0 is a times that of a = 1: the largest difference is 0", grows,
                  lab.Within(-1e-9, 1e-9), linear, lab.Kind.IDENTITY),
        lab.Claim("whole_recovers", f"a = 1 at the common rate: the share of runs that recover in {k.steps} steps is "
                  "below 10%", "it does not recover", lab.below(0.1), Recovered(name_of(1.0))),
        lab.Claim("least_recovers", f"a = {least:g} at the common rate: the same share is above 90%",
                  "correlation recovers", lab.above(0.9), Recovered(name_of(least))),
        lab.Claim("final", f"1 - m after {k.steps} steps at one rate, a = {k.middle:g} over the correlation loss, is "
                  "below 1", "not said", below, MissingRatio(name_of(k.middle), name_of(0.0)), smallest=NO_EFFECT),
        lab.Claim("sooner", f"steps to m = {k.level:g} at one rate, a = {k.middle:g} over the correlation loss, is "
                  "below 1", "not said", below, StepsRatio(name_of(k.middle), name_of(0.0)), lab.Kind.POST_HOC,
                  NO_EFFECT),
    ]  # fmt: skip
    for one, other in zip(k.readouts[1:], k.readouts, strict=False):
        words = f"steps to m = {k.level:g} at one rate, a = {one:g} over a = {other:g}, is below 1"
        estimate = StepsRatio(name_of(one), name_of(other))
        out.append(lab.Claim(f"from_{other:g}_to_{one:g}", words, grows, below, estimate, smallest=NO_EFFECT))
    for readout in (*k.tuned[1:], 0.0):
        id = "middle" if readout == k.middle else f"{readout:g}" if readout else "none"
        who = f"a = {readout:g}" if readout else "the correlation loss"
        for kind, level in (("escape", k.level), ("end", k.end_level)):
            words = f"steps to m = {level:g}, each at its best rate, {who} over a = 1, is below 1"
            estimate = StepsRatio(name_of(readout, kind), name_of(1.0, kind))
            out.append(lab.Claim(f"tuned_{kind}_{id}", words, "rates not tuned", below, estimate, smallest=NO_EFFECT))
    for dim in k.other_dims:
        words = f"d = {dim}: steps to m = {k.level:g} at one rate, a = {least:g} over a = 1, is below 1"
        estimate = StepsRatio(name_of(least, f"dim_{dim}"), name_of(1.0, f"dim_{dim}"))
        out.append(lab.Claim(f"feedback_{dim}", words, grows, below, estimate, smallest=NO_EFFECT))
    return out


def draw_scales(ax: "Axes", results: lab.Results) -> None:
    """Steps and what is missing at the end against the scale, at the common rate."""
    k = results.knobs
    times = [steps_of(results, name_of(a)).restricted.mean() for a in k.readouts]
    ax.plot(k.readouts, times, "o-", color=cold(), markersize=3.5, label="steps to weak recovery")
    ax.axhline(steps_of(results, name_of(0.0)).restricted.mean(), color=cold(), linestyle=":", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="scale a (dotted: correlation loss)", ylabel="restricted mean steps")
    other = ax.twinx()
    other.plot(k.readouts, [np.median(missing(results, name_of(a))) for a in k.readouts], "s-", color=warm(),
               markersize=3.5, label="1 - m at the end")  # fmt: skip
    other.axhline(np.median(missing(results, name_of(0.0))), color=warm(), linestyle=":", linewidth=1)
    other.set(yscale="log", ylabel="1 - m at the end, median run")
    other.grid(False)
    ax.set_title("One rate for all")
    ax.legend(handles=[*ax.lines[:1], *other.lines[:1]], loc="upper left")


def draw_tuned(ax: "Axes", results: lab.Results) -> None:
    """Mean steps to both levels at the best rates, with a bar that holds 80% of the runs."""
    k = results.knobs
    shown = (*k.tuned, 0.0)
    for kind, colour, level in (("escape", cold(), k.level), ("end", warm(), k.end_level)):
        for place, readout in enumerate(shown):
            times = steps_of(results, name_of(readout, kind)).restricted
            ax.plot([place] * 2, np.quantile(times, (0.1, 0.9)), color=colour, linewidth=2, alpha=0.5)
            label = f"to m = {level:g}" if not place else None
            ax.plot(place, times.mean(), "o", color=colour, markersize=5, label=label)
    rates = [results.computed[name_of(a, "end")]["rate"] * (a or 1.0) for a in shown]
    names = [f"a = {a:g}" if a else "correlation" for a in shown]
    ax.set_xticks(range(len(shown)), [f"{n}\ng = {g:.2g}" for n, g in zip(names, rates, strict=True)])
    ax.set(yscale="log", ylabel="steps", title="Each at its best rate (g: that to the second level)")
    ax.legend()


def figure(results: lab.Results, picture: "Figure") -> None:
    """Overlap by step, steps and final recovery by scale, and tuned rates."""
    k = results.knobs
    picture.set_size_inches(12.5, 3.8)
    overlaps, scales, tuned = picture.subplots(1, 3)
    for place, readout in enumerate(k.readouts):
        draw_overlaps(overlaps, results, name_of(readout), cold(place, max(7, len(k.readouts))), f"a = {readout:g}",
                      share=0.0)  # fmt: skip
    draw_overlaps(overlaps, results, name_of(0.0), GREY, "correlation", 0.0, "--")
    overlaps.set_title(f"Median run, d = {k.dim}, n_b = d^{k.mu:g}")
    lab.legend_below(overlaps, columns=3)
    draw_scales(scales, results)
    draw_tuned(tuned, results)


STUDY = lab.Study(
    name="batch_size/readout_scale",
    title="The scale of the readout",
    paper=PAPER_TITLE,
    figures="the feedback of the student's output",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 4.0, "paper": 15.0},
    computed=computed,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("theory", "chain"),
)
