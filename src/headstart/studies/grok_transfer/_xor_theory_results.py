"""What `xor_theory` computes from its simulations and weak models, and its figure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.lab.colours import COLD, WARM
from headstart.lab.computed import Arrays
from headstart.measures import exponent
from headstart.studies.grok_transfer._xor import WEAK_WIDTH
from headstart.studies.grok_transfer._xor_step import VARIANTS
from headstart.theory import EVENTS, assumptions, cluster_mean_ratio, least_constant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY = "#777777"
COLOURS = dict(zip(VARIANTS, (WARM[0], COLD[0], WARM[1], COLD[2], WARM[2], WARM[3]), strict=True))


def grid_arm(noise: float, samples: int, dim: int) -> str:
    """The name of a cell of the grid of r_W."""
    return f"ratio_{1 / noise:.0f}_{samples}_{dim}"


def known(value: float) -> Callable[[lab.Results], lab.Estimate]:
    """A number that needs no results."""
    return lambda results: lab.Estimate(value, value, value)


def search_best(width: int) -> Callable[[lab.Results], lab.Estimate]:
    """The best accuracy that the searches of a width found; it has no interval."""

    def best(results: lab.Results) -> lab.Estimate:
        found = [results.computed[n]["accuracy"].max() for n in results.computed if n.startswith(f"search_{width}_")]
        return lab.Estimate(*(float(max(found)),) * 3)

    return best


def mean(values: NDArray[Any]) -> lab.Estimate:
    """The mean with its bootstrap interval; not a number of nothing."""
    if not len(values):
        return lab.Estimate(*(float("nan"),) * 3)
    return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def ideal_error(name: str) -> Callable[[lab.Results], lab.Estimate]:
    """The mean test error after one step over the draws of a simulation."""
    return lambda results: mean(results.computed[name]["test_error"][:, 1])


def weak_models(results: lab.Results, noise: float, three: bool = True) -> list[Arrays]:
    """The weak models of a noise, each with its targets: all, or those with three features."""
    found = [a for name, a in results.computed.items() if name.startswith(f"step_{noise:.5f}_")]
    return [arrays for arrays in found if not three or arrays["num_features"][0] == WEAK_WIDTH]


@dataclass(frozen=True)
class StepError:
    """The mean error after some steps of a variant, over weak models with three features. No arm is looked at."""

    variant: str
    noise: float
    steps: int = 1
    test: bool = True
    arms: tuple[str, ...] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The error with its interval."""
        return mean(
            np.array([arrays[self.variant][self.steps, int(self.test)] for arrays in weak_models(results, self.noise)])
        )


@dataclass(frozen=True)
class EventShare:
    """The share of draws with an event of the proof, in the ideal simulation of a noise."""

    event: str
    noise: float

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share: exact interval for events, the bootstrap for Lemma A.3's, which is a share itself."""
        values = results.computed[f"ideal_{self.noise:.5f}"][self.event]
        if np.isin(values, (0.0, 1.0)).all():
            return lab.share(int(values.sum()), len(values))
        return mean(values)


@dataclass(frozen=True)
class LeastConstant:
    """A function of the least C with which (A1) to (A5) hold of the weak models of a noise, its mean.

    No arm is looked at.
    """

    noise: float
    of: Callable[[float], float] = float
    arms: tuple[str, ...] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean with its interval."""
        found = [least_constant(checklist(results, self.noise, arrays)) for arrays in weak_models(results, self.noise)]
        return mean(np.array([self.of(constant) for constant in found]))


def checklist(results: lab.Results, noise: float, arrays: Arrays) -> dict[str, Any]:
    """(A1) to (A5) of one weak model and its target, C = 1."""
    k = results.knobs
    delta = float(arrays["complement"][0])
    return assumptions(k.samples, k.dim, noise, delta, k.init, k.step_rate, k.width)


@dataclass(frozen=True)
class RatioOverLaw:
    """r_W of the weak models of a noise over 2 eps / sqrt n, its mean."""

    noise: float

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean with its interval."""
        law = cluster_mean_ratio(self.noise, results.knobs.samples)
        return mean(np.array([arrays["norm_ratio"][0] for arrays in weak_models(results, self.noise, False)]) / law)


def ratios(results: lab.Results, arms: Sequence[str]) -> NDArray[np.float64]:
    """r_W at the end of the runs of each arm, [arms, seeds]."""
    seen = [results.traces[arm].measured(results.knobs.seen)["norm_ratio"] for arm in arms]
    return np.array([values[:, -1] for values in seen])


@dataclass(frozen=True)
class RatioExponent:
    """The exponent of the median r_W of some arms in what they stand for: n, p or eps."""

    places: tuple[float, ...]
    arms: tuple[str, ...]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The exponent with its interval."""
        return exponent(self.places, ratios(results, self.arms))


def draw_ratios(ax: "Axes", results: lab.Results, places: Sequence[int], arm_of: Callable[[float, int], str]) -> None:
    """r_W of every run, and its median, a line per noise."""
    for number, noise in enumerate(results.knobs.noises):
        values = ratios(results, [arm_of(noise, place) for place in places])
        colour = lab.cold(number)
        ax.plot(np.repeat(places, values.shape[1]), values.ravel(), ".", color=colour, markersize=3, alpha=0.5)
        ax.plot(places, np.median(values, axis=1), "o-", color=colour, markersize=4, label=f"eps = 1/{1 / noise:.0f}")
    ax.set(xscale="log", yscale="log", ylabel="$r_W$")
    ax.set_xticks(places, [f"{place:,}" for place in places])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def draw_step(ax: "Axes", results: lab.Results) -> None:
    """Test error after one step against the noise, a line per variant."""
    noises, floor = sorted(results.knobs.step_noises), 0.5 / results.knobs.num_test
    for variant, words in VARIANTS.items():
        errors = [StepError(variant, noise)(results).value for noise in noises]
        ax.plot(noises, np.maximum(errors, floor), "o-", color=COLOURS[variant], markersize=4, label=words)
    errors = [ideal_error(f"ideal_{noise:.5f}")(results).value for noise in noises]
    ax.plot(noises, np.maximum(errors, floor), "s--", color=GREY, markersize=3.5, label="U as assumed")
    ax.set(xscale="log", yscale="log", xlabel="noise eps", ylabel="test error", title="After one step (bottom: none)")
    ax.set_xticks(noises, [f"1/{1 / noise:.0f}" for noise in noises])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    ax.legend(fontsize=6.5, ncols=2, loc="lower center", bbox_to_anchor=(0.5, -0.52))


def draw_steps(ax: "Axes", results: lab.Results) -> None:
    """Fig. 9 at the largest noise: accuracies over steps."""
    noise = max(results.knobs.step_noises)
    models = weak_models(results, noise)
    for variant, words in VARIANTS.items() if models else ():
        right = 1 - np.mean([arrays[variant] for arrays in models], axis=0)
        ax.plot(right[:, 1], color=COLOURS[variant], label=words)
        ax.plot(right[:, 0], "--", color=COLOURS[variant], linewidth=0.9)
    ax.set(xlabel="steps", ylabel="accuracy (dashed: training)", ylim=(-0.02, 1.02))
    ax.set_title(f"Further steps at eps = 1/{1 / noise:.0f}")


def draw_events(ax: "Axes", results: lab.Results) -> None:
    """The share of draws with each event, at the least and the largest noise."""
    places = np.arange(len(EVENTS))
    for noise, colour, shift in ((min(results.knobs.step_noises), COLD[0], -0.2),
                                 (max(results.knobs.step_noises), WARM[0], 0.2)):  # fmt: skip
        shares = [EventShare(name, noise)(results).value for name in EVENTS]
        ax.barh(places + shift, shares, 0.38, color=colour, label=f"eps = 1/{1 / noise:.0f}")
    ax.set_yticks(places, [name.replace("_", " ").replace("inequality 1", "(1)") for name in EVENTS])
    ax.invert_yaxis()
    ax.set_axisbelow(True)
    ax.set(title="Events of the proof", xlabel="share of draws", xlim=(0, 1))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)


def draw_constants(ax: "Axes", results: lab.Results) -> None:
    """The least C that each assumption with a C needs, by noise."""
    names = ("A2", "A3", "A4_low")
    noises = sorted(results.knobs.step_noises)
    for name, colour in zip(names, (WARM[0], COLD[0], COLD[2]), strict=True):
        least = [np.mean([checklist(results, e, a)[name].least_constant for a in weak_models(results, e)] or [np.nan])
                 for e in noises]  # fmt: skip
        ax.plot(noises, least, "o-", color=colour, markersize=4, label=name.replace("_low", ", lower"))
    ax.axhline(2 * sqrt(3), color=GREY, linestyle=":", label="(A2) for $r_W = 2\\epsilon/\\sqrt{n}$")
    ax.set(xscale="log", xlabel="noise eps", ylabel="least C", title="The constant that assumptions need")
    ax.set_xticks(noises, [f"1/{1 / noise:.0f}" for noise in noises])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    ax.set_ylim(bottom=0)
    ax.legend()


def figure(results: lab.Results, picture: "Figure") -> None:
    """r_W over n and p; the step over the noise and over steps; events and constants."""
    k = results.knobs
    picture.set_size_inches(12.0, 7.2)
    grid = picture.subplots(2, 3)
    draw_ratios(grid[0][0], results, k.grid_samples, lambda noise, n: grid_arm(noise, n, k.dim))
    law = [[cluster_mean_ratio(noise, n) for n in k.grid_samples] for noise in k.noises]
    grid[0][0].plot(k.grid_samples, np.transpose(law), "--", color=GREY, linewidth=0.9)
    grid[0][0].set(title=f"$r_W$, p = {k.dim:,} (dashed: $2\\epsilon/\\sqrt{{n}}$)", xlabel="rows n")
    draw_ratios(grid[0][1], results, k.grid_dims, lambda noise, p: grid_arm(noise, k.dims_samples, p))
    grid[0][1].set(title=f"$r_W$, n = {k.dims_samples}", xlabel="dimension p")
    for ax in grid[0][:2]:
        ax.legend()
    draw_step(grid[0][2], results)
    draw_steps(grid[1][0], results)
    draw_events(grid[1][1], results)
    draw_constants(grid[1][2], results)
