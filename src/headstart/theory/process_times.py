"""The overlap process from the cold starts of runs, as a part of a study: what SGD does, without its noise."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_positive
from headstart.core.streams import check_seed
from headstart.theory.overlaps import Process
from headstart.theory.reduced_sgd.draws import cold_start


@dataclass(frozen=True)
class ProcessTimes:
    """The deterministic overlap of one neuron on one direction, from `num_runs` cold starts, until |m| >= level.

    The starts are those of `RecoveryRuns` with the same seed, so each path is the one that a run would follow if every
    step were its mean. With `typical` there is one path alone, from m0 = d^(-1/2).
    """

    process: Process
    num_runs: int
    steps: int
    level: float = 0.5
    seed: int = 0
    typical: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.process, Process) or (self.process.num_neurons, self.process.num_directions) != (1, 1):
            raise HeadstartError(f"ProcessTimes(process={self.process!r}): give a Process of one neuron and direction")
        check_count("ProcessTimes", "num_runs", self.num_runs)
        check_count("ProcessTimes", "steps", self.steps)
        check_positive("ProcessTimes", "level", self.level)
        check_fraction("ProcessTimes", "level", self.level)
        check_seed(self.seed)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 0.2 + self.steps * (1e-4 + 1e-7 * self.num_runs)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """first [n], -1 where the level was not reached within `steps`; start [n]; growth: m' / m at m -> 0."""
        runs = np.arange(1 if self.typical else self.num_runs, dtype=np.int64)
        m = cold_start(self.seed, runs, self.process.dim, 1, 1)[0][:, 0, 0]
        if self.typical:
            m = np.full(1, self.process.dim**-0.5)
        start, first = m.copy(), np.where(np.abs(m) >= self.level, 0, -1)
        for step in range(1, self.steps + 1):
            going = np.flatnonzero(first < 0)
            if not going.size:
                break
            m[going] = self.process.next_overlap(m[going])
            first[going[np.abs(m[going]) >= self.level]] = step
        near = 1e-9
        growth = self.process.next_overlap(near) / near
        return {"first": first, "start": start, "growth": np.asarray(growth)}
