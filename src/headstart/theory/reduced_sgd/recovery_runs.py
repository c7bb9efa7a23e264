"""Runs of a reduced process as a part of a study, whose arrays a store keeps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import check_seed
from headstart.theory.reduced_sgd.paths import way_of
from headstart.theory.reduced_sgd.process import ReducedSGD
from headstart.theory.reduced_sgd.simulate import simulate

# A matrix as rows of numbers, such as a part may hold.
Rows = tuple[tuple[float, ...], ...]

# Seconds on one core: of a normal with its share of the links, of a product of two of its fields, and of a step.
_NUMBER, _PRODUCT, _STEP = 4e-9, 0.3e-9, 0.3e-6


@dataclass(frozen=True)
class RecoveryRuns:
    """`simulate` of `num_runs` runs with these arguments, a computed part of a study; see there.

    `start` is (M, Q) as rows of numbers, one for all runs; without it each starts cold.
    """

    process: ReducedSGD
    num_runs: int
    steps: int
    record: tuple[int, ...] = ()
    stop_at: float | None = None
    go_on: bool = False
    right_side_only: bool = False
    exact: bool | None = None
    seed: int = 0
    start: tuple[Rows, Rows] | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.process, ReducedSGD):
            raise HeadstartError(f"RecoveryRuns(process={self.process!r}): give a ReducedSGD")
        check_count("RecoveryRuns", "num_runs", self.num_runs)
        check_count("RecoveryRuns", "steps", self.steps)
        check_seed(self.seed)
        object.__setattr__(self, "record", tuple(self.record))

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core, if no run stops early."""
        fields = self.process.num_neurons + self.process.num_directions
        sample = _NUMBER * self.process.numbers + _PRODUCT * fields * (2 * self.process.num_neurons + fields)
        way = way_of(self.process, self.num_runs * self.steps, self.exact)
        return 0.5 + self.num_runs * self.steps * (_STEP + sample * way.step_draws(self.process))

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """first, switched, samples [n]; start [n, p, k]; step [t], overlaps [n, t, p, k] and gram [n, t, p, p]; exact.

        For one neuron on one direction also right_side [n].
        """
        found = simulate(
            self.process,
            self.num_runs,
            self.steps,
            self.seed,
            record=self.record,
            stop_at=self.stop_at,
            go_on=self.go_on,
            start=self.start,
            right_side_only=self.right_side_only,
            exact=self.exact,
        )
        arrays: dict[str, NDArray[np.generic]] = {
            "first": found.first,
            "switched": found.switched,
            "samples": found.samples,
            "start": found.start,
            "step": found.steps,
            "overlaps": found.overlaps,
            "gram": found.gram,
            "exact": np.array(found.exact),
        }
        return arrays | ({"right_side": found.right_side} if self.process.single else {})
