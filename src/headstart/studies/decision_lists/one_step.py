"""One step of gradient descent: the permutation stands in V at once, and in how many sequences it can be seen.

Paper     Provable Gradient-Descent-Based Learning of Decision Lists by Transformers; Fig. 4.1 and Section 4.3.4 of the
          first author's thesis
Claim     From a random V and W = 0, after one step with a large rate the structure of c P is visible in V: it can be
          picked up under uniform attention.
Setting   Scores V X softmax(X^T W X); L = 200 tokens, n = 25 of them in a sequence, uniform; V_0 ~ N(0, 1e-8), W_0 = 0,
          rate L^2. L_i = (f(i + 10), f(i + 20), f(i + 30), i) and pi(i) = f(i + 20). As printed, f(i) = i mod (L + 1),
          which is no permutation of L tokens: both readings that are one are run, i mod L on L tokens, and
          i mod (L + 1) on L + 1. The number of sequences is not stated: it is swept, beside the exact population.
Measured  The share of the columns of V whose largest entry is that of P, over seeds, which draw V_0 and sequences; 95%
          bootstrap. "Visible" is read as above 99% of the columns, declared beforehand. Entries of P and the largest
          other one, and the cosine of V with P, means of columns taken away.
Expected  The population in closed form: the entries of P have L / n (1 - n / L) = 7; the largest others, where a token
          asks for another, come from tokens that must be there together. On B sequences a label is seen n B / L times,
          so that hundreds of sequences should do.
Shortcut  Under uniform attention the gradient is a sum over s of (softmax - labels of s) times the set s. Its mean is a
          ratio of binomials for every entry, and the softmax, within 1e-4 of uniform, is taken to first order: exact to
          a relative 1e-8, without a sequence. Held to enumeration where sets can be counted.
Tried     Looked at on seed 0 before: 13%, 45%, 96% and 100% of the columns at 10, 30, 100 and 1000 sequences. That the
          rate need not be L^2 was seen in the closed form: V_0 is small, so any rate that outgrows it shows the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError
from headstart.studies.decision_lists import GREY, OFFSETS, PAPER_TITLE, SHIFT, number
from headstart.tasks import DecisionList
from headstart.theory import ValueStep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VISIBLE, FEW = 0.99, 0.5
FINDING = (
    "After one step on the whole population {exact_mod_l.estimate} of the columns of V have their largest entry where "
    "P has it, and the largest other entry is {others.estimate} of those of P. On the sequences of the figure the "
    "share is {picked_up_mod_l}, with L + 1 tokens {picked_up_mod_l1}; on the fewest it is {few}."
)


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """The figure's setting; `sequences` are the numbers that are tried, of which `shown` is claimed and drawn."""

    vocabulary: int = 200
    length: int = 25
    offsets: tuple[int, ...] = OFFSETS
    shift: int = SHIFT
    std: float = 1e-4
    sequences: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10_000)
    shown: int = 1000
    rates: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shown not in self.sequences or list(self.sequences) != sorted(set(self.sequences)):
            raise HeadstartError(f"shown={self.shown}, sequences={self.sequences}: give increasing ones, with shown")

    @property
    def rate(self) -> float:
        """L^2."""
        return float(self.vocabulary**2)

    @property
    def tasks(self) -> dict[str, DecisionList]:
        """Both indexings."""
        sizes = {"mod_l": self.vocabulary, "mod_l1": self.vocabulary + 1}
        return {name: DecisionList.cyclic(size, self.length, self.offsets, self.shift) for name, size in sizes.items()}


WORDS = {"mod_l": "i mod L", "mod_l1": "i mod (L + 1)"}
LAPTOP = Knobs(num_seeds=16, first_seed=100)
PAPER = Knobs(num_seeds=64, first_seed=100, sequences=(10, 30, 100, 300, 1000, 3000, 10_000, 100_000))
SMOKE = Knobs(num_seeds=2, vocabulary=40, length=8, offsets=(3, 7, 0), shift=5, sequences=(10, 300), shown=300,
              rates=(1.0, 100.0))  # fmt: skip


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """{indexing}_{sequences}_{seed}, the population of every seed, and other rates on it."""
    parts: dict[str, Any] = {}
    for name, task in k.tasks.items():
        for seed in range(k.first_seed, k.first_seed + k.num_seeds):
            first = seed == k.first_seed
            for num in k.sequences:
                keep = first and num == k.shown
                parts[f"{name}_{num}_{seed}"] = ValueStep(task, num, k.rate, k.std, seed, keep)
            parts[f"{name}_None_{seed}"] = ValueStep(task, None, k.rate, k.std, seed, first)
        for rate in k.rates:
            parts[f"{name}_rate_{rate:g}"] = ValueStep(task, None, rate, k.std, k.first_seed)
    return parts


def of_seeds(results: lab.Results, indexing: str, num: int | None, quantity: str) -> NDArray[np.float64]:
    """A quantity of every seed, [seeds]."""
    k = results.knobs
    seeds = range(k.first_seed, k.first_seed + k.num_seeds)
    return np.array([float(results.computed[f"{indexing}_{num}_{seed}"][quantity]) for seed in seeds])


@dataclass(frozen=True)
class OfSeeds:
    """The mean over seeds of a quantity after one step on so many sequences, or of its ratio to another."""

    indexing: str
    num: int | None
    quantity: str = "found"
    over: str | None = None

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean with its interval."""
        values = of_seeds(results, self.indexing, self.num, self.quantity)
        if self.over is not None:
            values = values / of_seeds(results, self.indexing, self.num, self.over)
        return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


@dataclass(frozen=True)
class AtRate:
    """The share of columns on the population with another rate."""

    rate: float

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share of one V_0; no interval."""
        return number(float(results.computed[f"mod_l_rate_{self.rate:g}"]["found"]))


def claims(k: Knobs) -> list[lab.Claim]:
    """The figure in both indexings, on sequences and exactly; how few sequences do, and how small a rate."""
    seen, share = "the structure can be picked up fairly easily", "share of columns of V whose largest entry is P's"
    entry = k.vocabulary / k.length * (1 - k.length / k.vocabulary)
    out = []
    for name, words in WORDS.items():
        out += [
            lab.Claim(f"picked_up_{name}", f"{words}, {k.shown} sequences: the {share} is above {VISIBLE:.0%}", seen,
                      lab.above(VISIBLE), OfSeeds(name, k.shown), lab.Kind.PRIMARY),
            lab.Claim(f"exact_{name}", f"{words}, the population: the {share} is above {VISIBLE:.0%}",
                      "the number of sequences is not stated", lab.above(VISIBLE), OfSeeds(name, None)),
        ]  # fmt: skip
    out += [
        lab.Claim("entries", f"the population: entries of P are L / n (1 - n / L) = {entry:.3g} within 0.1%",
                  "a picture", lab.Within(0.999 * entry, 1.001 * entry), OfSeeds("mod_l", None, "on_p"),
                  lab.Kind.IDENTITY),
        lab.Claim("others", "the population: the largest other entry over those of P is below 0.2", "a picture",
                  lab.below(0.2), OfSeeds("mod_l", None, "next", "on_p")),
        lab.Claim("cosine", "the population: the cosine of V with P is above 0.9", "a picture", lab.above(0.9),
                  OfSeeds("mod_l", None, "cosine")),
        lab.Claim("few", f"{k.sequences[0]} sequences: the {share} is below {FEW:.0%}", "not said", lab.below(FEW),
                  OfSeeds("mod_l", k.sequences[0]), lab.Kind.POST_HOC),
        lab.Claim("small_rate", f"the population, rate {k.rates[-1]:g}: the {share} is above {VISIBLE:.0%}",
                  "with a large learning rate", lab.above(VISIBLE), AtRate(k.rates[-1]), lab.Kind.POST_HOC),
        lab.Claim("rate_one", f"the population, rate {k.rates[0]:g}: the {share} is below {VISIBLE:.0%}: V_0 hides P",
                  "with a large learning rate", lab.below(VISIBLE), AtRate(k.rates[0]), lab.Kind.POST_HOC),
    ]  # fmt: skip
    return out


def draw_value(picture: "Figure", ax: "Axes", value: NDArray[np.float32], title: str) -> None:
    """V as an image, rows labels and columns tokens."""
    top = float(np.quantile(value, 0.999))
    image = ax.imshow(value, cmap="viridis", vmin=-top / 4, vmax=top, interpolation="nearest")
    picture.colorbar(image, ax=ax, shrink=0.85)
    ax.grid(False)
    ax.set(title=title, xlabel="token", ylabel="label")


def draw_shares(ax: "Axes", results: lab.Results) -> None:
    """The share of columns against sequences."""
    k = results.knobs
    for name, colour, marker in (("mod_l", lab.cold(), "o-"), ("mod_l1", lab.warm(), "s--")):
        values = np.array([of_seeds(results, name, num, "found") for num in k.sequences])
        ax.plot(k.sequences, values.mean(axis=1), marker, color=colour, markersize=4, label=WORDS[name])
        ax.fill_between(k.sequences, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    ax.axhline(VISIBLE, color=GREY, linestyle=":", linewidth=1)
    ax.set(xscale="log", xlabel="sequences in the step", ylabel="columns of V with P on top", title="How many it takes")
    ax.legend()


def draw_entries(ax: "Axes", results: lab.Results) -> None:
    """Entries of P and the largest other one against sequences; dotted: the population."""
    k = results.knobs
    for quantity, colour, words in (("on_p", lab.cold(), "entries of P, mean"), ("next", lab.warm(), "largest other")):
        values = np.array([of_seeds(results, "mod_l", num, quantity).mean() for num in k.sequences])
        ax.plot(k.sequences, values, "o-", color=colour, markersize=4, label=words)
        ax.axhline(of_seeds(results, "mod_l", None, quantity).mean(), color=colour, linestyle=":", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="sequences in the step (dotted: population)", ylabel="entry of V",
           title="What stands out")  # fmt: skip
    ax.legend()


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 4.1 on sequences and exactly; then how much of it is there at any number of sequences."""
    k = results.knobs
    picture.set_size_inches(14.0, 3.5)
    sampled, exact, shares, entries = picture.subplots(1, 4)
    for ax, num, title in ((sampled, k.shown, f"V after one step, {k.shown:,} sequences"),
                           (exact, None, "V after one step, population")):  # fmt: skip
        draw_value(picture, ax, results.computed[f"mod_l_{num}_{k.first_seed}"]["value"], title)
    draw_shares(shares, results)
    draw_entries(entries, results)


STUDY = lab.Study(
    name="decision_lists/one_step",
    title="One step to the permutation",
    paper=PAPER_TITLE,
    figures="Fig. 4.1",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 1.0, "paper": 15.0},
    computed=computed,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("theory", "attention"),
)
