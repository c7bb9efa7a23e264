"""Learning-rate sweeps: one rate per arm, chosen by a stated rule on seeds that no claim uses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.trace import Status, Summary
from headstart.optimizers import AdamW
from headstart.run import Run

FIRST_SELECTION_SEED = 1_000_000
_MOST_EXTENSIONS = 60
# A grid that diverges is left by this many rates at once, about a factor of two.
_STRIDE = 4
# A grid that learns nothing, its areas this near to chance, is extended by rates so far apart that a window in which
# something is learned shows: every second one near the grid, and if these learn nothing either, two farther down, the
# last a factor of 38 below.
_SKILL, _ABOVE, _BELOW, _FAR = 0.02, 2, 8, frozenset({-12, -20})


@dataclass(frozen=True)
class Sweep:
    """Learning rates from `lowest` to `highest`, each at most `ratio` times the one below.

    The best rate is the one with the best area under the seed-mean test curve. It must have neighbours on both sides;
    a grid whose best rate is at an end is extended there, one that diverges to lower rates, and one that learns nothing
    on both sides, so the two bounds only say where the search begins. If no rate learns anything, areas are noise, and
    the middle of the first grid is kept. With `beta2` every value of AdamW's second beta has such a grid of its own,
    and the best rate of the best grid is chosen.
    """

    lowest: float
    highest: float
    ratio: float = 1.2
    beta2: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("lowest", "highest", "ratio"):
            check_positive("Sweep", name, getattr(self, name))
        for value in self.beta2 if isinstance(self.beta2, Sequence) else (self.beta2,):
            check_positive("Sweep", "beta2", value)
        if not self.lowest <= self.highest:
            raise HeadstartError(f"Sweep(lowest={self.lowest}, highest={self.highest}): lowest is at most highest")
        if not 1 < self.ratio <= 1.2:
            raise HeadstartError(f"Sweep(ratio={self.ratio}): learning rates are swept at ratios in (1, 1.2]")

    def rate(self, index: int) -> float:
        """The rate number `index`, which may be negative; four digits, so that equal rates are the same cell."""
        return float(f"{self.lowest * self.ratio**index:.4g}")

    def indices(self) -> range:
        """The indices of the grid before any extension: the last rate is at least `highest`."""
        return range(int(np.ceil(np.log(self.highest / self.lowest) / np.log(self.ratio) - 1e-9)) + 1)


@dataclass(frozen=True)
class RateOf:
    """The learning rate, and beta2, that the sweep of another arm of the study chose."""

    arm: str


@dataclass(frozen=True)
class Tuned:
    """The outcome of a sweep: the chosen rate, and every rate tried with its area; of the chosen beta2, if swept.

    An arm that is not swept has its own rate, or that of another arm, and no areas. `learned` is False where no rate
    tried is better than chance, so that the rate was not chosen but kept.
    """

    rate: float
    rates: tuple[float, ...]
    areas: tuple[float, ...]
    beta2: float | None = None
    num_tried: int = 1
    learned: bool = True

    def lent(self) -> "Tuned":
        """The outcome for an arm that takes this rate without a sweep of its own."""
        return replace(self, rates=(self.rate,), areas=(), num_tried=1)

    def to_json(self) -> dict[str, Any]:
        """rate, rates, areas, learned, and beta2 with the number of cells tried where it was swept."""
        joint = {} if self.beta2 is None else {"beta2": self.beta2, "num_tried": self.num_tried}
        return {
            "rate": self.rate,
            "rates": list(self.rates),
            "areas": [float(f"{a:.6g}") for a in self.areas],
            "learned": self.learned,
            **joint,
        }


def with_rate(run: Run, rate: float, beta2: float | None = None) -> Run:
    """The run with another learning rate, and another beta2 if one is given."""
    optimizer: Any = run.optimizer
    return replace(run, optimizer=replace(optimizer, lr=rate, **({} if beta2 is None else {"beta2": beta2})))


class Search:
    """The sweep of one arm under way: says which cells it needs next, until the best rate of every grid is inside."""

    def __init__(self, run: Run, sweep: Sweep | None) -> None:
        self.run, self.sign = run, 1 if run.task.metrics[0].higher_is_better else -1
        if sweep is not None and sweep.beta2 and not isinstance(run.optimizer, AdamW):
            raise HeadstartError(f"{sweep}: beta2 is a constant of AdamW, not of {type(run.optimizer).__name__}")
        values: tuple[float | None, ...] = () if sweep is None else sweep.beta2 or (None,)
        self.grids = {value: Grid(with_rate(run, run.optimizer.lr, value), sweep) for value in values if sweep}

    def needed(self) -> list[Run]:
        """The cells whose area is not known yet."""
        return [cell for grid in self.grids.values() for cell in grid.needed()]

    def learn(self, summaries_of: Callable[[Run], Sequence[Summary]]) -> bool:
        """Take in the runs of each needed cell. True when every grid is settled."""
        settled = [grid.learn(summaries_of) for grid in self.grids.values()]
        return all(settled)

    def tuned(self) -> Tuned:
        """The outcome."""
        if not self.grids:
            return Tuned(self.run.optimizer.lr, (self.run.optimizer.lr,), ())
        outcomes = {beta2: grid.tuned() for beta2, grid in self.grids.items()}
        best = max(outcomes, key=lambda beta2: max(self.sign * area for area in outcomes[beta2].areas))
        tried = sum(len(outcome.rates) for outcome in outcomes.values())
        return replace(outcomes[best], beta2=best, num_tried=tried)


class Grid:
    """A sweep of learning rates under way, extended until the best rate is inside."""

    def __init__(self, run: Run, sweep: Sweep) -> None:
        self.run, self.sweep = run, sweep
        self.metric = run.task.metrics[0]
        self.wanted = set(sweep.indices())
        self.areas: dict[int, float] = {}
        self.diverged: dict[int, float] = {}

    def needed(self) -> list[Run]:
        """The cells whose area is not known yet."""
        return [self._cell(i) for i in sorted(self.wanted - self.areas.keys())]

    def learn(self, summaries_of: Callable[[Run], Sequence[Summary]]) -> bool:
        """Take in the runs of each needed cell; extend the grid if the best is at an end. True when settled."""
        for i in self.wanted - self.areas.keys():
            runs = summaries_of(self._cell(i))
            # The area under the seed-mean curve is the mean of the areas.
            self.areas[i] = float(np.mean([run.area for run in runs]))
            self.diverged[i] = float(np.mean([run.status is Status.DIVERGED for run in runs]))
        best, low = self._best(), min(self.wanted)
        # Where runs diverge, or die and stay at chance, areas are noise: what lower rates would do must be seen.
        if self.diverged[low] > 0.5:
            self.wanted |= set(range(low - _STRIDE, low))
        elif not self._learns():
            highest = self.sweep.indices()[-1]
            near = {*range(-_BELOW, 0, 2), highest + _ABOVE}
            self.wanted |= _FAR if near <= self.areas.keys() else near
        else:
            self.wanted |= {best - 1, best + 1}
        if self.needed() and len(self.areas) > len(self.sweep.indices()) + _MOST_EXTENSIONS:
            raise HeadstartError(
                f"the learning-rate sweep of {self.sweep} was extended by {_MOST_EXTENSIONS} rates and its best, "
                f"{self.sweep.rate(best)}, is still at the end of the grid; start it elsewhere"
            )
        return not self.needed()

    def _best(self) -> int:
        """The rate with the best area; where none learns anything, the middle of the grid that the sweep began with."""
        indices = self.sweep.indices()
        return self._largest() if self._learns() else indices[len(indices) // 2]

    def _largest(self) -> int:
        sign = 1 if self.metric.higher_is_better else -1
        return max(self.areas, key=lambda i: (sign * self.areas[i], -i))

    def _learns(self) -> bool:
        """Whether the best area is away from chance."""
        return abs(self.areas[self._largest()] - self.metric.chance) >= _SKILL

    def tuned(self) -> Tuned:
        """The outcome."""
        indices = sorted(self.areas)
        rates = tuple(self.sweep.rate(i) for i in indices)
        areas = tuple(self.areas[i] for i in indices)
        return Tuned(self.sweep.rate(self._best()), rates, areas, learned=self._learns())

    def _cell(self, index: int) -> Run:
        return with_rate(self.run, self.sweep.rate(index))


def selection_seeds(num: int) -> Iterable[int]:
    """Seeds for choosing learning rates, disjoint from those of claims (0, 1, 2, ...)."""
    return range(FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + num)
