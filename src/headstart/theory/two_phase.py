"""Two-phase training of quadratic neurons as one simulation: phase 1 on a data set, phase 2 on the population."""

from dataclasses import dataclass, fields
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.streams import Stream, check_seed, normals
from headstart.tasks import Parity
from headstart.theory.quadratic_neuron import (
    SUPPORT,
    Floats,
    Ids,
    Labels,
    Neurons,
    Passage,
    Shift,
    aligned_within,
    initial_weights,
    moment_matrices,
    on_data,
    on_population,
    readout_reaches,
    run_until,
)
from headstart.theory.two_phase_bounds import check_delta, check_epsilon, switch_point

_SCAN = 8192  # initial weights looked at in one go
_PART = 512  # neurons diagonalised in one go
_PASSAGE = ("steps", "least_drive", "least_readout", "worst_fall", "largest_pull", "readout_fall", "contraction")


@dataclass(frozen=True)
class TwoPhase:
    """Independent neurons through both phases (Theorem 1), each on a data set of its own.

    samples    N of phase 1; None skips it (population only)
    width      m, with a(0) ~ N(0, 1 / m)
    switch     a_*; None takes that of Section A.4.3
    epsilon    where phase 2 stops, <w, u_sign(a)>^2 >= 1 - epsilon; None skips phase 2
    delta      the failure probability that a_* is computed for
    central    keep only neurons whose w(0) is in P_0 of Lemma 10, about one in fifty: ids are scanned until
               `num_neurons` are found, and `num_scanned` says how many that took
    """

    dim: int
    samples: int | None
    width: int
    eta: float = 0.5
    switch: float | None = None
    labels: Labels = Labels.TRUE
    shift: Shift = Shift.NONE
    epsilon: float | None = 0.1
    delta: float = 0.1
    central: bool = False
    num_neurons: int = 1024
    seed: int = 0
    max_steps: int = 10_000

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("TwoPhase", "dim", self.dim, minimum=SUPPORT + 1)
        for name in ("width", "num_neurons", "max_steps"):
            check_count("TwoPhase", name, getattr(self, name))
        check_positive("TwoPhase", "eta", self.eta)
        check_seed(self.seed)
        check_delta(self.delta)
        if self.samples is not None:
            check_count("TwoPhase", "samples", self.samples)
        elif self.epsilon is None:
            raise HeadstartError("TwoPhase(samples=None, epsilon=None): nothing to simulate; give one of the phases")
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.switch is not None and not 0 < self.switch <= 1:
            raise HeadstartError(f"TwoPhase(switch={self.switch!r}): a_* is in (0, 1]; None takes the paper's")

    @property
    def switch_point(self) -> float:
        """a_*; with no phase 1 there is none, and it is not a number."""
        if self.samples is None:
            return float("nan")
        return self.switch or switch_point(self.dim, self.samples, self.eta, self.delta, self.labels)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        # Every step costs its arithmetic and 0.2 ms of overhead; a few stragglers take nearly all that are allowed.
        seconds = 0.1 + 2e-4 * self.max_steps * (self.epsilon is not None)
        if self.samples is not None:
            drive = sqrt(3 / self.samples + 4 / self.dim**2)
            steps = min(self.max_steps, 4 * self.switch_point / (self.eta * drive))
            seconds += self.num_neurons * (6e-9 * self.samples * self.dim + 1.2e-9 * self.dim**3)
            seconds += self.num_neurons * self.dim * steps * 1e-8 + 2e-4 * min(self.max_steps, 10 * steps)
        return seconds

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """Arrays [num_neurons]: the start, then "phase1_..." and "phase2_..." as in `Passage`, and where each ended.

        readout, drive, norm: a(0), q(0) and |M| of phase 1's data; plus, minus: <w(0), u_+->. Those with a phase's
        prefix are at its end; phase1_moved is |w(T) - w(0)|. num_scanned is one number.
        """
        ids, num_scanned = self._ids()
        w, a = initial_weights(self.dim, self.width, self.seed, ids)
        plus, minus = (w[:, 0] + w[:, 1]) / np.sqrt(2), (w[:, 0] - w[:, 1]) / np.sqrt(2)
        out: dict[str, NDArray[np.generic]] = {"id": ids, "num_scanned": np.array([num_scanned])}
        out |= {"readout": a, "plus": plus, "minus": minus}
        if self.samples is not None:
            start = self._on_data(self.samples, w, a, ids)
            first = run_until(readout_reaches(self.switch_point), start, self.eta, self.max_steps, self.shift)
            plus, minus = first.end.overlaps
            out |= {"drive": start.drive, "norm": start.norm, **_recorded("phase1", first)}
            out["phase1_moved"] = np.linalg.norm(first.end.weights - start.weights, axis=1)
            a = first.end.readout
        if self.epsilon is not None:
            again = on_population(plus, minus, a)
            out |= _recorded("phase2", run_until(aligned_within(self.epsilon), again, self.eta, self.max_steps))
        return out

    def _on_data(self, samples: int, w: Floats, a: Floats, ids: Ids) -> Neurons:
        """Phase 1's neurons. Matrices are d times as large as neurons, so only some are there at a time."""
        task, parts = Parity(self.dim, SUPPORT), []
        for i in range(0, len(ids), _PART):
            rows = slice(i, i + _PART)
            matrices, mean_label = moment_matrices(task, samples, self.labels, self.seed, ids[rows])
            parts.append(on_data(matrices, mean_label, w[rows], a[rows]))
        return Neurons(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Neurons)))

    def _ids(self) -> tuple[Ids, int]:
        """Which neurons, and how many were looked at to find them."""
        if not self.central:
            return np.arange(self.num_neurons, dtype=np.int64), self.num_neurons
        found: list[int] = []
        start = 0
        while len(found) < self.num_neurons:
            ids = np.arange(start, start + _SCAN, dtype=np.int64)
            draws = normals(self.seed, Stream.INIT, ids, self.dim + 1).astype(np.float64)[:, : self.dim]
            square = (draws**2).sum(axis=1)
            drive = np.abs(2 * draws[:, 0] * draws[:, 1]) / square
            inside = (drive >= 0.75 / self.dim) & ((draws[:, :SUPPORT] ** 2).sum(axis=1) / square <= 1 / self.dim)
            found += ids[inside].tolist()
            start += _SCAN
        kept = np.array(found[: self.num_neurons], dtype=np.int64)
        return kept, int(kept[-1]) + 1


def _recorded(phase: str, passage: Passage) -> dict[str, NDArray[np.generic]]:
    plus, minus = passage.end.overlaps
    ends = {"readout": passage.end.readout, "plus": plus, "minus": minus}
    return {f"{phase}_{name}": getattr(passage, name) for name in _PASSAGE} | {
        f"{phase}_{name}": value for name, value in ends.items()
    }
