"""On the Algorithmic Stability of SGD: what swapping one training row does to a network, as the data set grows.

What the studies share: the numbers of pairs, what computed parts say of pairs at every size and trial, exponents of
their maxima for claims, and the panels of the thesis. A part of pairs has arrays as `LogisticPairs` has: "step" [t]
and, by the names of `compare_pair`, [pairs, t]. The seeds of a study are its trials.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError, check_count
from headstart.measures import Maxima, exponent_of_maxima, fit_power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_TITLE = "On the Algorithmic Stability of SGD"
# Differences of exponents within this are "comparable". The thesis calls 0.13 so, and 0.43 (CIFAR-10) not.
COMPARABLE = lab.Within(-0.25, 0.25)
# The 1 / sqrt m of eq. 2.1, below which no stability helps.
OTHER_TERM = -0.5
# Each size has numbers of pairs of its own, so that pairs of different sizes are independent.
_PAIRS_PER_SIZE = 10_000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairKnobs(lab.Knobs):
    """Sizes of S; pairs at each, computed in groups; the number of the first; resamples of intervals.

    num_seeds is the number of trials: initial weights and orders. Another first_pair has other S, z and i.
    """

    num_seeds: int = 3
    sizes: tuple[int, ...] = (800, 1600, 3200, 6400, 12_800)
    num_pairs: int = 90
    first_pair: int = 0
    group: int = 10
    resamples: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("knobs", "num_pairs", self.num_pairs, minimum=2)
        check_count("knobs", "group", self.group)
        check_count("knobs", "first_pair", self.first_pair, minimum=0, maximum=_PAIRS_PER_SIZE - self.num_pairs)
        if len(self.sizes) < 2 or list(self.sizes) != sorted(set(self.sizes)):
            raise HeadstartError(f"sizes={self.sizes!r}: give at least two, in order")


def groups(k: PairKnobs, kind: str = "pairs") -> Iterator[tuple[str, int, int, int, int]]:
    """Of each group of pairs: its name, its size, its trial, the number of its first pair, and how many it has.

    Names of groups begin with their kind, one for each setting that a study compares.
    """
    for size in k.sizes:
        for trial in range(k.first_seed, k.first_seed + k.num_seeds):
            for begin in range(k.first_pair, k.first_pair + k.num_pairs, k.group):
                num = min(k.group, k.first_pair + k.num_pairs - begin)
                yield f"{kind}_{size}_{trial}_{begin}", size, trial, _PAIRS_PER_SIZE * size + begin, num


def of_pairs(results: lab.Results, quantity: str, record: int | Mapping[int, int] = -1, kind: str = "pairs") -> Floats:
    """What the pairs say at a record, the last by default, or at one of each size: [trials, sizes, pairs]."""
    k = results.knobs
    found: dict[tuple[int, int], list[Floats]] = {}
    for name, size, trial, _, _ in groups(k, kind):
        at = record if isinstance(record, int) else record[size]
        found.setdefault((trial, size), []).append(results.computed[name][quantity][:, at])
    trials = range(k.first_seed, k.first_seed + k.num_seeds)
    return np.array([[np.concatenate(found[trial, size]) for size in k.sizes] for trial in trials])


def recorded_steps(results: lab.Results, kind: str = "pairs") -> NDArray[np.int64]:
    """The steps at which pairs were looked at."""
    return np.asarray(results.computed[next(groups(results.knobs, kind))[0]]["step"])


@dataclass(frozen=True)
class MaximumExponent:
    """b of the maximum over pairs of a quantity ~ m^b, its mean over trials; or less that of another.

    95% by the k-out-of-n bootstrap over pairs, see `headstart.measures.maxima`. With `logs` it is fitted in logarithms.
    Beside it: the standard deviation of the resamples, from the least trial to the largest, the other fit, the 90%
    quantile of the pairs instead of their maximum and, of stability, z left out of the test rows.
    """

    quantity: str
    less: str | None = None
    floor: float = -float("inf")
    record: int = -1
    kind: str = "pairs"
    logs: bool = False

    arms: ClassVar[tuple[str, ...]] = ()

    def _found(self, results: lab.Results, quantity: str, **how: Any) -> Any:
        values = of_pairs(results, quantity, self.record, self.kind)
        less = None if self.less is None else of_pairs(results, self.less, self.record, self.kind)
        maxima = Maxima(**{"logs": self.logs, "resamples": results.knobs.resamples, **how})
        return exponent_of_maxima(results.knobs.sizes, values, less, maxima, self.floor)

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The exponent with its interval."""
        estimate: lab.Estimate = self._found(results, self.quantity).estimate
        return estimate

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The other readings."""
        found = self._found(results, self.quantity)
        out = {
            "bootstrap sd": lab.Estimate(*(found.sd,) * 3),
            "least to largest trial": lab.Estimate(found.estimate.value, min(found.trials), max(found.trials)),
            "curve_fit" if self.logs else "fit in logarithms": self._found(
                results, self.quantity, logs=not self.logs
            ).estimate,
            "90% quantile": self._found(results, self.quantity, quantile=0.9).estimate,
        }
        if self.quantity in ("stability", "mean_stability"):
            out["z left out"] = self._found(results, f"{self.quantity}_without_z").estimate
        return out


def draw_pairs(
    ax: "Axes", results: lab.Results, quantity: str, title: str, fitted: bool = True, record: int = -1,
    kind: str = "pairs",
) -> None:  # fmt: skip
    """A panel of the thesis: the pairs of the first trial, their maximum at each size, and a m^b by `curve_fit`."""
    sizes, values = results.knobs.sizes, of_pairs(results, quantity, record, kind)[0]
    tops = values.max(axis=1)
    ax.plot(np.repeat(sizes, values.shape[1]), values.ravel(), ".", color=lab.cold(1), markersize=2.5, alpha=0.6)
    ax.plot(sizes, tops, "o", color=lab.warm(), markersize=4)
    law = fit_power_law(sizes, tops) if fitted else None
    if law is not None and np.isfinite(law.exponent):
        ax.plot(sizes, law(sizes), color=lab.cold(2), label=f"$m^{{{law.exponent:.2f}}}$")
        ax.legend()
    positive = values[values > 0]
    ax.set(xscale="log", yscale="log" if positive.size else "linear", xlabel="rows m", title=title)
    if positive.size:
        ax.set_ylim(bottom=0.7 * max(positive.min(), 1e-3 * positive.max()))
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)


def draw_exponents(ax: "Axes", results: lab.Results, quantities: dict[str, str]) -> None:
    """Exponents of maxima by `curve_fit` against steps, the mean over trials and a band from the least to the largest.

    `quantities` has labels by name.
    """
    steps = recorded_steps(results)
    for number, (quantity, label) in enumerate(quantities.items()):
        tops = [of_pairs(results, quantity, record).max(axis=2) for record in range(len(steps))]
        found = np.array([[fit_power_law(results.knobs.sizes, row).exponent for row in trials] for trials in tops])
        colour = lab.cold(number) if number < 2 else lab.warm(number - 2)
        ax.plot(steps, found.mean(axis=1), ".-", color=colour, label=label)
        ax.fill_between(steps, found.min(axis=1), found.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    ax.axhline(OTHER_TERM, color="#777777", linestyle=":", linewidth=0.9)
    ax.set(xscale="log", xlabel="steps", ylabel="exponent b", title="$m^b$ over steps")
    ax.legend()
