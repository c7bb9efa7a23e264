"""Arms: the lines of a figure, each a cell whose learning rate may still be open; and the knobs every study has."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.colours import check_colour
from headstart.lab.measured import check_measure
from headstart.lab.store import Keep
from headstart.lab.sweep import RateOf, Sweep
from headstart.measures import Measure
from headstart.run import Run

# Claims use seeds from 0 on, sweeps from here on.
FIRST_SELECTION_SEED = 1_000_000
_MOST_SEEDS = 100_000


@dataclass(frozen=True)
class Arm:
    """One line of a figure: a cell whose learning rate is still open, and where the search for it begins.

    Without a sweep it keeps the rate it has; with `RateOf` it has the one that another arm's sweep chooses. An arm that
    is cheap to train may use `seeds_factor` times the study's seeds. Its `measures` look at the runs of its claims on
    the way: `results.traces[arm].measured(measure)`. Its colour is "#RRGGBB", such as `warm()` and `cold()` return;
    without one it takes the next of the house's colours.
    """

    name: str
    label: str
    run: Run
    sweep: Sweep | RateOf | None
    colour: str | None = None
    keep: Keep = Keep.CURVES
    seeds_factor: int = 1
    measures: tuple[Measure, ...] = ()

    def __post_init__(self) -> None:
        check_colour("Arm", self.colour)
        measures = tuple(self.measures) if isinstance(self.measures, Sequence) else (self.measures,)
        object.__setattr__(self, "measures", measures)
        for measure in measures:
            check_measure(measure)
        if measures and self.keep is not Keep.CURVES:
            raise HeadstartError(f"Arm({self.name!r}, measures=...): it keeps summaries alone; use keep=Keep.CURVES")

    def claim_seeds(self, knobs: Any) -> list[int]:
        """The seeds its claims are computed on."""
        end = knobs.first_seed + knobs.num_seeds * self.seeds_factor
        if end > FIRST_SELECTION_SEED:
            raise HeadstartError(
                f"num_seeds={knobs.num_seeds}: arm {self.name!r} takes {self.seeds_factor} times as many, and from "
                f"{FIRST_SELECTION_SEED} on seeds choose learning rates; use fewer"
            )
        return list(range(knobs.first_seed, end))

    def selection_seeds(self, knobs: Any) -> list[int]:
        """The seeds its learning rate is chosen on, disjoint from those of claims; as many for every arm."""
        return list(range(FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + knobs.num_selection_seeds))

    def check_sweep(self, sweep: Sweep) -> None:
        """Raise where the sweep does not fit the run, or needs curves that are not kept."""
        sweep.check(self.run)
        if sweep.score.needs_curves and self.keep is not Keep.CURVES:
            raise HeadstartError(
                f"arm {self.name!r} keeps summaries, and its sweep chooses by {sweep.score.words}, which needs curves; "
                "use keep=Keep.CURVES, or Sweep(score=Area())"
            )


@dataclass(frozen=True)
class Knobs:
    """What every study lets its user set: how many seeds claims use, and how many choose the learning rates.

    Claims use seeds from `first_seed` on: another one replicates a study on seeds that no one has looked at, at the
    same learning rates.
    """

    num_seeds: int = 16
    num_selection_seeds: int = 16
    first_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_seeds", "num_selection_seeds"):
            least = 2 if name == "num_seeds" else 1
            if not least <= getattr(self, name) <= _MOST_SEEDS:
                raise HeadstartError(f"{name}={getattr(self, name)}: use at least {least}, and at most {_MOST_SEEDS}")
        if not 0 <= self.first_seed < FIRST_SELECTION_SEED // 2:
            raise HeadstartError(f"first_seed={self.first_seed}: use 0 to {FIRST_SELECTION_SEED // 2 - 1}")
