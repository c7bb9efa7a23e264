"""Paths of the overlap process, of its differential equations, and single steps of SGD, as parts of a study."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import check_seed
from headstart.theory.overlap_closed_forms import has_closed_form
from headstart.theory.overlap_limits import Kept, ode_path
from headstart.theory.overlaps import Objective, Process
from headstart.theory.reduced_sgd.chain import batch_sums, moved, rates, roots
from headstart.theory.reduced_sgd.draws import cold_start
from headstart.theory.reduced_sgd.process import ReducedSGD
from headstart.theory.reduced_sgd.recovery_runs import Rows
from headstart.theory.reduced_sgd.simulate import started

Floats = NDArray[np.float64]

# Seconds on one core: of a step by power series, by closed forms for each fourth power of fields, by Sobol points.
_SERIES, _CLOSED, _POINTS = 5e-5, 1.2e-5, 0.05
_NUMBERS_AT_ONCE = 2**20
_EVALUATIONS = 600  # of the right side of a differential equation


@dataclass(frozen=True)
class ProcessPath:
    """`Process.run` from the overlaps `start` = (M, Q) for `steps` steps, a computed part of a study.

    `record` are the steps to keep, the last by default. With `limit` it is the path of the differential equation that
    keeps these terms, at the same steps.
    """

    process: Process
    steps: int
    start: tuple[Rows, Rows]
    record: tuple[int, ...] = ()
    limit: Kept | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.process, Process):
            raise HeadstartError(f"ProcessPath(process={self.process!r}): give a Process")
        check_count("ProcessPath", "steps", self.steps)
        object.__setattr__(self, "record", tuple(sorted(set(self.record or (self.steps,)))))
        if self.record[0] < 0 or self.record[-1] > self.steps:
            raise HeadstartError(f"ProcessPath(record={self.record!r}): steps to record lie in 0 .. {self.steps}")
        p, k = self.process.num_neurons, self.process.num_directions
        shapes = [np.shape(part) for part in self.start]
        if shapes != [(p, k), (p, p)]:
            raise HeadstartError(
                f"ProcessPath(start={self.start!r}): give (M, Q) of shapes [{p}, {k}] and [{p}, {p}] in rows"
            )

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        fields = self.process.num_neurons + self.process.num_directions
        step = _CLOSED * fields**4 if has_closed_form(self.process.setting) else _POINTS
        return 0.1 + (_SERIES if fields == 2 else step) * (_EVALUATIONS if self.limit else self.steps)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """step [t], overlaps M [t, p, k] and gram Q [t, p, p] at the recorded steps."""
        m, q = (np.array(part, dtype=np.float64) for part in self.start)
        kept = np.array(self.record, dtype=np.int64)
        if self.limit is None:
            overlaps, gram = (path[kept] for path in self.process.run(m, q, self.steps))
        else:
            overlaps, gram = ode_path(self.process, m, q, kept.astype(np.float64), kept=self.limit)
        return {"step": kept, "overlaps": overlaps, "gram": gram}


@dataclass(frozen=True)
class StepRuns:
    """One step of `num_runs` runs of the reduced chain from the overlaps `start` = (M, Q), rows not normalised.

    These have the means that `Process.change` predicts, at any d and n_b. `mean_of` is how many runs in a row are kept
    as their mean alone: links of high degree have heavy tails, and their means need more runs than a store should hold.
    """

    process: ReducedSGD
    num_runs: int
    start: tuple[Rows, Rows]
    seed: int = 0
    mean_of: int = field(default=1, metadata={"since": 1})

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.process, ReducedSGD) or self.process.switch is not None:
            raise HeadstartError(f"StepRuns(process={self.process!r}): give a ReducedSGD without a switch")
        check_count("StepRuns", "num_runs", self.num_runs)
        check_count("StepRuns", "mean_of", self.mean_of)
        if self.num_runs % self.mean_of:
            raise HeadstartError(f"StepRuns(mean_of={self.mean_of}): num_runs={self.num_runs} is no multiple of it")
        check_seed(self.seed)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 0.1 + 1e-7 * self.num_runs * self.process.batch * self.process.numbers

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """overlaps M + dM [n, p, k] and gram Q + dQ [n, p, p], or means of these over `mean_of` runs each."""
        chain = self.process
        at_once = max(1, _NUMBERS_AT_ONCE // (chain.batch * chain.numbers))
        found = [
            self._stepped(np.arange(first, min(first + at_once, self.num_runs), dtype=np.int64))
            for first in range(0, self.num_runs, at_once)
        ]
        overlaps, rest = (np.concatenate(parts) for parts in zip(*found, strict=True))
        gram = rest + overlaps @ overlaps.transpose(0, 2, 1)
        return {"overlaps": _means(overlaps, self.mean_of), "gram": _means(gram, self.mean_of)}

    def _stepped(self, runs: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """M and R of these runs after a step, before rows are normalised."""
        chain, state = self.process, started(self.process, runs, self.seed, self.start)
        turns, rank = roots(state.rest, chain.dim - chain.num_directions)
        on_mse = np.full(len(runs), chain.loss is Objective.MSE)
        sums = batch_sums(chain, self.seed, state, turns, on_mse)
        return moved(chain, self.seed, state, turns, rank, sums, rates(chain, state))


def _means(values: Floats, of: int) -> Floats:
    """Means over so many rows each."""
    return np.asarray(values.reshape(-1, of, *values.shape[1:]).mean(axis=1))


def cold_overlaps(process: Process | ReducedSGD, seed: int = 0, run: int = 0) -> tuple[Rows, Rows]:
    """(M, Q) at which run number `run` of `simulate` starts, as rows of numbers: a start to share with a process."""
    check_seed(seed)
    overlaps, rest = cold_start(
        seed, np.array([run], dtype=np.int64), process.dim, process.num_neurons, process.num_directions
    )
    m = overlaps[0]
    return as_rows(m), as_rows(rest[0] + m @ m.T)


def as_rows(matrix: Floats) -> Rows:
    """A matrix as rows of numbers, such as a part may hold."""
    return tuple(tuple(float(value) for value in row) for row in matrix)
