"""The outcome of a microscope: in words, as tables for pandas and notebooks, and as JSON."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.lab.stability_training import Kind
from headstart.lab.stability_verdict import Compared, Settled
from headstart.measures import Estimate, Maxima, exponent_of_maxima

if TYPE_CHECKING:
    import pandas as pd

QUANTITIES = {
    "loss_gap": "gap of the loss",
    "error_gap": "gap of the metric",
    "stability": "largest difference of losses",
    "mean_stability": "mean difference of losses",
    "distance": "distance of weights",
    "normalised_distance": "distance over mean norm",
    "barrier": "barrier",
}

# All of n copies are connected by chance this often where a share LEVEL^(1 / n) of them is.
LEVEL = 0.05


@dataclass(frozen=True)
class StabilityCost:
    """What asking has cost: trainings and seconds now, and how many comparisons were found in the store."""

    num_trainings: int
    num_compared: int
    num_stored: int
    seconds: float


@dataclass(frozen=True)
class StabilityReport:
    """The outcome of `hs.stability`. Print it; `to_pandas()` has every comparison, `to_json()` is for programs.

    `pairs` are the comparisons of S and S', `control` the one of S with itself; `nudges` and `reordered` those of
    disturbed copies. `exponents[name]` is b of the maximum over pairs ~ m^b, fitted in logarithms, with its 95%
    interval, where several sizes were given. `settled.step`, or `settled_from`, is None where it cannot tell, and
    `settled.reason` says why.
    """

    compared: tuple[Compared, ...]
    sizes: tuple[int, ...]
    exponents: dict[str, Estimate]
    settled: Settled
    within: float | None
    cost: StabilityCost

    @property
    def pairs(self) -> tuple[Compared, ...]:
        """S beside S', at all sizes."""
        return tuple(each for each in self.compared if each.change.kind is Kind.SWAP)

    @property
    def nudges(self) -> tuple[Compared, ...]:
        """S beside copies of it that were nudged."""
        return tuple(each for each in self.compared if each.change.kind is Kind.NUDGE)

    @property
    def reordered(self) -> tuple[Compared, ...]:
        """S beside copies of it that had another order from a step on."""
        return tuple(each for each in self.compared if each.change.kind is Kind.ORDER)

    @property
    def control(self) -> Compared:
        """S beside S, with the same seed."""
        return next(each for each in self.compared if each.change.kind is Kind.NONE)

    @property
    def deterministic(self) -> bool:
        """Whether two trainings of the same rows and seed were the same, bit for bit."""
        return self.control.is_same

    @property
    def settled_from(self) -> int | None:
        """The first step from which on disturbed copies stayed connected, or None."""
        return self.settled.step

    @property
    def barrier(self) -> float:
        """The largest barrier between S and S' at the largest size; not a number where there is no line."""
        return float(max(self._of_pairs("barrier"))) if self.pairs else float("nan")

    def _of_pairs(self, name: str, size: int | None = None) -> NDArray[np.float64]:
        size = self.sizes[-1] if size is None else size
        return np.array([each.values[name] for each in self.pairs if each.size == size])

    @property
    def remarks(self) -> list[str]:
        """What was found, a sentence each; first whether the training repeats itself."""
        out = [self._says_control(), self._says_pairs()]
        out += [*self._says_nudges(), *self._says_barrier(), self._says_settled()]
        out += self._says_exponents()
        cost = self.cost
        stored = f", {cost.num_stored} of them from the store" if cost.num_stored else ""
        out.append(
            f"Cost: {cost.num_compared} comparisons{stored}; {cost.num_trainings} trainings now, {cost.seconds:.0f} s."
        )
        return out

    def _says_control(self) -> str:
        if self.deterministic:
            return "Deterministic: two trainings of the same rows and seed are the same, bit for bit."
        far, apart = (self.control.values[name] for name in ("distance", "stability"))
        pairs = self._of_pairs("stability")
        return (
            f"Not deterministic: two trainings of the same rows and seed differ by {far:.3g} in weights and by up to "
            f"{apart:.3g} in the loss of a test row. This noise is the floor; {(pairs > apart).sum()} of {len(pairs)} "
            "pairs are above it. Draw all that is random from the seed."
        )

    def _says_pairs(self) -> str:
        far, share, apart = (self._of_pairs(name) for name in ("distance", "normalised_distance", "stability"))
        return (
            f"{len(far)} pairs of {self.sizes[-1]} rows: one other row moves the weights by {np.median(far):.3g} in "
            f"the median pair, {np.median(share):.1%} of their norm, and the loss of a test row by up to "
            f"{np.median(apart):.3g}; in the worst pair by {apart.max():.3g}."
        )

    def _says_nudges(self) -> list[str]:
        first = min((each.change.step for each in self.nudges), default=None)
        copies = [each for each in self.nudges if each.change.step == first and each.values["stability"] > 0]
        if not copies:
            return []
        far = float(np.median([each.values["distance"] for each in copies]))
        ratio = float(np.median(self._of_pairs("distance"))) / far
        return [
            f"A nudge of {copies[0].change.size:g} on one weight before step {first} moves the weights by {far:.3g}: "
            f"the other row moves them {ratio:.2g} times as far."
        ]

    def _says_barrier(self) -> list[str]:
        barriers = self._of_pairs("barrier")
        if np.isnan(barriers).any():
            return []
        largest = f"the largest barrier is {barriers.max():.3g}"
        if self.within is None:
            return [f"Between S and S' {largest}, of the loss."]
        num = int((barriers <= self.within).sum())
        return [
            f"S and S' are linearly connected, within {self.within:g}, in {num} of {len(barriers)} pairs: {largest}."
        ]

    def _says_settled(self) -> str:
        found = self.settled
        counts = ", ".join(f"{num} of {of} at step {step}" for step, (num, of) in found.connected.items())
        counts = f" Connected: {counts}." if counts else ""
        if found.step is None:
            return f"Cannot tell from which step on it is settled: {found.reason}.{counts}"
        few = min(of for step, (_, of) in found.connected.items() if step >= found.step)
        after = "" if found.after is None else f", not yet from {found.after}"
        sure = f"{few} copies of {few} say that at least {LEVEL ** (1 / few):.0%} are (95%)"
        return f"Settled from step {found.step} on{after}: copies disturbed there stay connected; {sure}.{counts}"

    def _says_exponents(self) -> list[str]:
        if not self.exponents:
            return []
        shown = ", ".join(
            f"{QUANTITIES[name]} {_interval(found)}"
            for name, found in self.exponents.items()
            if name in ("loss_gap", "stability", "distance")
        )
        return [f"With the number m of rows the maximum over pairs goes like m^b: {shown}."]

    def __str__(self) -> str:
        """What was found, a line each."""
        return "\n".join(self.remarks)

    def __repr__(self) -> str:
        return f"StabilityReport({len(self.pairs)} pairs, sizes {self.sizes}, settled_from={self.settled_from})"

    def _repr_html_(self) -> str:
        """The same for notebooks, with a table of the pairs by size."""
        names = [name for name in QUANTITIES if not np.isnan(self._of_pairs(name)).all()]
        head = "".join(f"<th>{escape(QUANTITIES[name])}</th>" for name in names)
        body = ""
        for size in self.sizes:
            cells = "".join(
                f"<td>{np.median(values):.3g} (max {values.max():.3g})</td>"
                for values in (self._of_pairs(name, size) for name in names)
            )
            body += f"<tr><td>{size}</td>{cells}</tr>"
        out = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return f"{out}<table><tr><th>rows</th>{head}</tr>{body}</table>"

    def to_pandas(self, records: bool = False) -> "pd.DataFrame":
        """One row per comparison: size, pair, seed, change, at_step and all that differs at the end.

        With `records`, one row per recorded step of each, with the distance of the weights there.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for each in self.compared:
            names: dict[str, Any] = {"size": each.size, "pair": each.pair, "seed": each.seed}
            names |= {"change": str(each.change.kind), "at_step": each.change.step}
            if records:
                rows += [names | {"step": step, "distance": value} for step, value in each.distances.items()]
            else:
                rows.append(names | each.values)
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """deterministic, settled_from, barrier, exponents, every comparison and the cost; what is no number is null."""
        return {
            "deterministic": self.deterministic,
            "settled_from": self.settled_from,
            "reason": self.settled.reason,
            "connected": {str(step): list(counts) for step, counts in self.settled.connected.items()},
            "barrier": _number(self.barrier),
            "within": self.within,
            "sizes": list(self.sizes),
            "exponents": {
                name: [_number(each.value), _number(each.low), _number(each.high)]
                for name, each in self.exponents.items()
            },
            "compared": [
                each.to_json() | {"values": {name: _number(value) for name, value in each.values.items()}}
                for each in self.compared
            ],
            "cost": {
                "trainings": self.cost.num_trainings,
                "compared": self.cost.num_compared,
                "stored": self.cost.num_stored,
                "seconds": round(self.cost.seconds, 1),
            },
        }


def exponents_of(compared: tuple[Compared, ...], sizes: tuple[int, ...]) -> dict[str, Estimate]:
    """b of the maximum over pairs ~ m^b in logarithms, by quantity; empty with one size or one pair."""
    pairs = [each for each in compared if each.change.kind is Kind.SWAP]
    if len(sizes) < 2 or len(pairs) < 2 * len(sizes):
        return {}
    out = {}
    for name in QUANTITIES:
        values = [[each.values[name] for each in pairs if each.size == size] for size in sizes]
        if name != "barrier" and not np.isnan(values).any():
            out[name] = exponent_of_maxima(sizes, values, how=Maxima(logs=True)).estimate
    return out


def _interval(found: Estimate) -> str:
    if not np.isfinite(found.value):
        return "cannot be fitted, a maximum is not above 0"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _number(x: float) -> float | None:
    return float(f"{x:.6g}") if np.isfinite(x) else None
