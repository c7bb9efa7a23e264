"""Arms: the lines of a figure, each a cell whose learning rate may still be open; and the knobs every study has."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.store import Keep
from headstart.lab.sweep import FIRST_SELECTION_SEED, RateOf, Search, Sweep, selection_seeds
from headstart.run import Run

_MOST_SEEDS = 100_000


class Side(StrEnum):
    """Which side of the small-vs-large gap an arm is on; figures draw small warm and large cold."""

    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Arm:
    """One line of a figure: a cell whose learning rate is still open, and where the search for it begins.

    Without a sweep it keeps the rate it has; with `RateOf` it has the one that another arm's sweep chooses. An arm that
    is cheap to train may use `seeds_factor` times the study's seeds.
    """

    name: str
    label: str
    run: Run
    sweep: Sweep | RateOf | None
    side: Side
    keep: Keep = Keep.CURVES
    seeds_factor: int = 1

    def claim_seeds(self, knobs: Any) -> list[int]:
        """The seeds its claims are computed on."""
        end = knobs.first_seed + knobs.num_seeds * self.seeds_factor
        if end > FIRST_SELECTION_SEED:
            raise HeadstartError(
                f"num_seeds={knobs.num_seeds}: arm {self.name!r} takes {self.seeds_factor} times as many, and from "
                f"{FIRST_SELECTION_SEED} on seeds choose learning rates; use fewer"
            )
        return list(range(knobs.first_seed, end))

    @property
    def search(self) -> Search:
        """The search for its learning rate, which is over at once if it has no sweep of its own."""
        return Search(self.run, self.sweep if isinstance(self.sweep, Sweep) else None)

    def selection_seeds(self, knobs: Any) -> list[int]:
        """The seeds its learning rate is chosen on, disjoint from those of claims."""
        return list(selection_seeds(knobs.num_selection_seeds * self.seeds_factor))


@dataclass(frozen=True)
class Knobs:
    """What every study lets its user set: how many seeds claims use, and how many choose the learning rates.

    Claims use seeds from `first_seed` on: another one replicates a study on seeds that no one has looked at, at the
    same learning rates.
    """

    num_seeds: int = 16
    num_selection_seeds: int = 4
    first_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_seeds", "num_selection_seeds"):
            least = 2 if name == "num_seeds" else 1
            if not least <= getattr(self, name) <= _MOST_SEEDS:
                raise HeadstartError(f"{name}={getattr(self, name)}: use at least {least}, and at most {_MOST_SEEDS}")
        if not 0 <= self.first_seed < FIRST_SELECTION_SEED // 2:
            raise HeadstartError(f"first_seed={self.first_seed}: use 0 to {FIRST_SELECTION_SEED // 2 - 1}")
