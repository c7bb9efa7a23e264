"""What `two_phase_theory` computes from its simulations, and its figure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.lab.colours import COLD, WARM
from headstart.lab.computed import Arrays
from headstart.measures import exponent, medians
from headstart.theory import INEQUALITIES, PROBABILITIES, Inequality, Labels, TwoPhase, predict, switch_terms
from headstart.theory.two_phase_bounds import drive_constant, phase1_bound
from headstart.theory.two_phase_statements import Events

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DELTA, FLOOR = 0.1, 1e-9
GREY = "#777777"


def named(results: lab.Results, prefix: str) -> list[tuple[Any, Arrays]]:
    """The simulations whose names begin so, as (part, arrays)."""
    return [(results.parts[n], results.computed[n]) for n in results.computed if n.startswith(prefix)]


def steps(arrays: Arrays) -> NDArray[np.float64]:
    """T1 + T2 as far as simulated; infinite where a neuron did not arrive."""
    phases = [arrays[name].astype(np.float64) for name in ("phase1_steps", "phase2_steps") if name in arrays]
    return np.sum([np.where(phase < 0, np.inf, phase) for phase in phases], axis=0)


def everyone(part: TwoPhase, arrays: Arrays) -> NDArray[np.bool_]:
    """All neurons."""
    return np.ones(len(arrays["readout"]), dtype=bool)


def on_good_event(part: TwoPhase, arrays: Arrays) -> NDArray[np.bool_]:
    """Those on G_0 of Theorem 3."""
    return Events(part, arrays, part.labels).good


def on_theorem_event(part: TwoPhase, arrays: Arrays) -> NDArray[np.bool_]:
    """Those on the event of Theorem 1."""
    return Events(part, arrays, part.labels).theorem


Select = Callable[[TwoPhase, Arrays], NDArray[np.bool_]]


@dataclass(frozen=True)
class StepsExponent:
    """The exponent of the median number of steps in `axis` of the simulations of a prefix, on an event."""

    prefix: str
    axis: Callable[[TwoPhase], float]
    event: Select = everyone
    most_samples: float = float("inf")

    def table(self, results: lab.Results) -> tuple[list[float], NDArray[np.float64], NDArray[np.bool_]]:
        """(x, steps, kept), the last two [settings, neurons]."""
        chosen = [(p, a) for p, a in named(results, self.prefix) if (p.samples or 0) <= self.most_samples]
        kept = np.array([self.event(part, arrays) for part, arrays in chosen])
        return [self.axis(part) for part, _ in chosen], np.array([steps(arrays) for _, arrays in chosen]), kept

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The exponent with its interval."""
        return exponent(*self.table(results))


def samples_of(part: TwoPhase) -> float:
    """N."""
    return float(part.samples or 0)


def samples_times_dim(part: TwoPhase) -> float:
    """N d."""
    return samples_of(part) * part.dim


def width_of(part: TwoPhase) -> float:
    """m."""
    return float(part.width)


@dataclass(frozen=True)
class Violations:
    """How many neurons violate an inequality over every simulation it speaks of; undecided where there is none."""

    id: str

    def found(self, results: lab.Results) -> list[Inequality]:
        """The inequality on each simulation."""
        statement = INEQUALITIES[self.id]
        # (A.6) is about any a_*; the theorem's own constants hold for its a_* only, and phase 2 must have run.
        prefixes = ["both_central", "both_all"]
        if self.id in ("lemma_3", "lemma_4", "lemma_7", "lemma_8", "theorem_3"):
            prefixes += ["fixed_true", "both_order"]
        elif self.id.startswith("lemma"):
            prefixes += ["both_order"]
        chosen = [pair for prefix in prefixes for pair in named(results, prefix)]
        return [statement(part, arrays) for part, arrays in chosen if part.labels is statement.labels]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The number; it has no interval."""
        found = self.found(results)
        if not sum(inequality.num_on_event for inequality in found):
            return lab.Estimate(*(float("nan"),) * 3)
        return lab.Estimate(*(float(sum(inequality.num_violations for inequality in found)),) * 3)


@dataclass(frozen=True)
class Share:
    """The share of neurons with an event, in the simulation in which it is least; of an equality, at the least N."""

    id: str

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share with its exact interval. Simulations share initial weights, so they are not pooled."""
        said = PROBABILITIES[self.id]
        chosen = named(results, f"both_{'central' if said.inside_central else 'all'}_{said.labels}")
        found = [said(part, arrays) for part, arrays in chosen]
        worst = found[0] if self.id == "lemma_2" else min(found, key=lambda chance: chance.share)
        return lab.share(worst.happened, worst.trials)


@dataclass(frozen=True)
class MedianRatio:
    """The median number of steps of one simulation over that of another, neurons paired."""

    one: str
    other: str

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        a, b = (steps(results.computed[name]) for name in (self.one, self.other))
        return lab.bootstrap(lambda rows: float(np.median(a[rows]) / np.median(b[rows])), len(a), resamples=500)


@dataclass(frozen=True)
class BiasExponent:
    """The exponent in N of the median `signal` ("drive" or "fourier") for one degree, over a number."""

    degree: int
    signal: str
    over: float = 1.0

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The exponent with its interval."""
        k = results.knobs
        values = np.array([results.computed[f"bias_{self.degree}_{n}"][self.signal] for n in k.bias_samples])
        found = exponent(k.bias_samples, values)
        low, high = sorted((found.low / self.over, found.high / self.over))
        return lab.Estimate(found.value / self.over, low, high)


def title(id: str) -> str:
    """lemma_6_steps is "Lemma 6 (steps)"."""
    kind, number, *rest = id.split("_")
    return f"{kind.capitalize()} {number}" + (f" ({rest[0]})" if rest else "")


def legend(ax: "Axes", title: str | None = None) -> None:
    """A legend under the axes, where it hides no line."""
    ax.legend(title=title, alignment="left", loc="upper center", bbox_to_anchor=(0.5, -0.17))


def draw_steps(ax: "Axes", results: lab.Results, law: StepsExponent, colour: str, label: str) -> None:
    """Medians, the range from the 10th to the 90th percentile, and the fitted exponent in the legend."""
    places, values, kept = law.table(results)
    order = np.argsort(places)
    x, values, kept = np.array(places)[order], values[order], kept[order]
    fit = law(results)
    low, high = (
        [np.quantile(v[e], q, method="inverted_cdf") for v, e in zip(values, kept, strict=True)] for q in (0.1, 0.9)
    )
    ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    said = f"{label}: {fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}]"
    ax.plot(x, medians(values, kept), "o-", color=colour, markersize=3.5, label=said)
    ax.set_xscale("log")
    ax.set_yscale("log")


def draw_fixed(ax: "Axes", results: lab.Results) -> None:
    """Phase 1 at a fixed switch, with the bound of Theorem 3."""
    k = results.knobs
    for prefix, event, colour, label in (
        ("fixed_true", on_good_event, WARM[0], "good event"),
        ("fixed_true", everyone, WARM[1], "all neurons"),
        ("fixed_random", everyone, WARM[2], "random labels"),
    ):
        law = StepsExponent(prefix, samples_of, event)
        draw_steps(ax, results, law, colour, label)
    bound = [phase1_bound(k.fixed_switch, drive_constant(Labels.TRUE) / n**0.5, k.fixed_eta) for n in k.fixed_samples]
    ax.plot(k.fixed_samples, bound, "--", color=GREY, label="bound of Theorem 3: 0.50")
    ax.set(title=f"Phase 1 at fixed a* = {k.fixed_switch:g}, d = {k.dim}", xlabel="samples N", ylabel="steps T1")
    legend(ax, "exponent in N")


def draw_total(ax: "Axes", results: lab.Results) -> None:
    """Both phases with the paper's switch, a line per dimension, and Theorem 1's bounds."""
    k = results.knobs
    for dim, colour in zip(k.dims, (*WARM, COLD[1], COLD[0]), strict=False):
        law = StepsExponent(f"both_central_true_{dim}_", samples_times_dim, on_theorem_event)
        draw_steps(ax, results, law, colour, f"d = {dim}")
        parts = sorted((p for p, _ in named(results, law.prefix)), key=samples_of)
        said = [predict(p.dim, p.samples, p.width, p.eta, p.epsilon).total_steps for p in parts]
        ax.plot([samples_times_dim(p) for p in parts], said, "--", color=colour, linewidth=1)
    ax.set(title="Both phases, the paper's a*", xlabel="N d", ylabel="steps T1 + T2")
    legend(ax, "exponent in N d (dashed: Theorem 1)")


def draw_gain(ax: "Axes", results: lab.Results) -> None:
    """Two phases against the population alone."""
    k = results.knobs
    for prefix, colour, label in (
        ("both_all_true", WARM[0], "paper's a*"),
        ("both_order", WARM[1], "a* = (Nd)^(-1/4)"),
    ):
        draw_steps(ax, results, StepsExponent(prefix, samples_of), colour, label)
    ax.axhline(np.median(steps(results.computed["population"])), color=COLD[0], label="population only")
    ax.set(title=f"Two phases against one, d = {k.dim}", xlabel="samples N", ylabel="steps T1 + T2", yscale="linear")
    ax.set_ylim(bottom=0)
    legend(ax, "exponent in N")


def draw_widths(ax: "Axes", results: lab.Results) -> None:
    """The population alone against the width, with the bound of Lemma 6."""
    k = results.knobs
    draw_steps(ax, results, StepsExponent("population_", width_of), COLD[0], "measured")
    said = [predict(k.dim, k.dim, m, k.eta, k.epsilon).population_only for m in sorted(k.widths)]
    ax.plot(sorted(k.widths), said, "--", color=GREY, label="bound of Lemma 6: 0.50")
    ax.set(title="Population only", xlabel="width m", ylabel="steps")
    legend(ax, "exponent in m")


def draw_caps(ax: "Axes", results: lab.Results) -> None:
    """What limits the paper's switch at learning rate 1/2."""
    dim = results.knobs.dim
    grid = np.unique(np.geomspace(dim, dim**2, 40).round().astype(int)).tolist()
    for name, colour in (("stability", GREY), ("last step", COLD[0]), ("drift", WARM[0])):
        ax.plot(grid, [switch_terms(dim, n, 0.5, DELTA)[name] for n in grid], color=colour, label=name)
    ax.set(title=f"Caps on a*, d = {dim}, rate 1/2", xlabel="samples N", ylabel="a*", xscale="log", yscale="log")
    legend(ax)


def draw_statements(ax: "Axes", results: lab.Results) -> None:
    """The shares of Appendix A's events with their intervals, and the bounds."""
    for row, (id, probable) in enumerate(reversed(PROBABILITIES.items())):
        share, bound = Share(id)(results), probable.bound(DELTA)
        ax.plot([max(share.low, FLOOR), share.high], [row, row], color=WARM[0], linewidth=3, solid_capstyle="butt")
        ax.plot(max(share.value, FLOOR), row, "o", color=WARM[0], markersize=4)
        if bound > FLOOR:
            ax.plot(bound, row, "|", color=COLD[0], markersize=11, markeredgewidth=2)
        else:
            ax.plot(FLOOR, row, "<", color=COLD[0], markersize=5)
    ax.set_yticks(range(len(PROBABILITIES)), [title(id) for id in reversed(PROBABILITIES)])
    ax.set_xscale("log")
    ax.set(title="Probabilities of Appendix A", xlabel="share of neurons (dot), bound (bar; arrow: below 0)")


def draw_tightness(ax: "Axes", results: lab.Results) -> None:
    """How much of each bound was used by the neuron that used most."""
    shown = {id: np.array([i.tightness for i in Violations(id).found(results)]) for id in INEQUALITIES}
    shown = {id: values for id, values in shown.items() if np.isfinite(values).any()}
    for row, values in enumerate(reversed(shown.values())):
        ax.plot(values, np.full(len(values), row), "o", color=WARM[0], alpha=0.5, markersize=4, markeredgewidth=0)
    ax.set_yticks(range(len(shown)), [title(id) for id in reversed(shown)])
    ax.axvline(1.0, color=COLD[0])
    ax.set_xscale("log")
    ax.set(title="Inequalities of Appendix A", xlabel="largest measured / bound, a dot per simulation")


def draw_bias(ax: "Axes", results: lab.Results) -> None:
    """Both signals of Section 4.1.3 against N."""
    k = results.knobs
    for shade, degree in enumerate(k.bias_degrees[:3]):
        for signal, colours in (("drive", WARM), ("fourier", COLD)):
            sizes = np.array([results.computed[f"bias_{degree}_{n}"][signal] for n in k.bias_samples])
            low, found, high = np.quantile(sizes, (0.1, 0.5, 0.9), axis=1)
            ax.fill_between(k.bias_samples, low, high, color=colours[shade], alpha=0.08, linewidth=0)
            name = "sampling bias" if signal == "drive" else "Fourier signal"
            ax.plot(k.bias_samples, found, "o-", color=colours[shade], markersize=3.5, label=f"{name}, k = {degree}")
    ax.set(title=f"Two signals of ({k.bias_dim}, k)-parity", xlabel="samples N", ylabel="median size")
    ax.set(xscale="log", yscale="log")
    legend(ax)


def figure(results: lab.Results, picture: "Figure") -> None:
    """Rates above, statements and Section 4.1.3 below."""
    picture.set_size_inches(14, 9.4)
    panels = (draw_fixed, draw_total, draw_widths, draw_gain, draw_statements, draw_tightness, draw_bias, draw_caps)
    for ax, draw in zip(picture.subplots(2, 4).flat, panels, strict=True):
        draw(ax, results)
