"""One job under way on the Python side: its records, kept weights and checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.files import replacing
from headstart.core.trace import Status, Trace
from headstart.engines.engine import Job, Outcome
from headstart.engines.fused.layout import Layout
from headstart.models import Weights
from headstart.run import At, Reaches, Step, reached

_FORMAT = "headstart fused 1"

Floats = NDArray[np.float32]


@dataclass
class Member:
    """A job, its place in the list of jobs, and what it has recorded so far."""

    index: int
    job: Job
    layout: Layout
    flops: int
    names: tuple[str, ...]
    step: int = 0
    leg: int = 0
    began: int = 0
    samples: int = 0
    seconds: float = 0.0
    steps: list[int] = field(default_factory=list)
    compute: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)
    kept: dict[At, Weights] = field(default_factory=dict)
    state: dict[str, Floats] = field(default_factory=dict)

    def record(self, values: Sequence[float]) -> None:
        """Add the values of the current step, in the order of `names`."""
        self.steps.append(self.step)
        self.compute.append(self.samples)
        self.rows.append(list(values))

    def keep(self, flat: Floats) -> None:
        """Copy the weights at each moment asked for that is now."""
        for at in self.job.keep:
            if at in self.kept:
                continue
            if self.step == at.step if isinstance(at, Step) else self._reached_now(at):
                self.kept[at] = self.layout.unpack(flat)

    def _reached_now(self, at: Reaches) -> bool:
        if self.steps[-1:] != [self.step]:
            return False
        return reached(self.job.run, at, {n: np.array([v]) for n, v in zip(self.names, self.rows[-1], strict=True)})

    def outcome(self, status: Status) -> Outcome:
        """The trace and the kept weights."""
        run = self.job.run
        values = np.array(self.rows, dtype=np.float64).reshape(len(self.rows), len(self.names))
        samples = np.asarray(self.compute, dtype=np.int64)
        trace = Trace(
            cell=run.cell,
            seed=run.seed,
            steps=np.asarray(self.steps, dtype=np.int64),
            samples=samples,
            flops=samples.astype(np.float64) * self.flops,
            values={name: values[:, i].copy() for i, name in enumerate(self.names)} if self.rows else {},
            status=status,
            seconds=self.seconds,
        )
        return Outcome(run, trace, {at: self.kept.get(at) for at in self.job.keep})

    def save(self, weights: Floats, first: Floats, second: Floats) -> None:
        """Write the whole state: temporary file, fsync, rename."""
        path = self.job.checkpoint
        if path is None:
            return
        arrays: dict[str, Any] = {
            "format": np.array(_FORMAT),
            "identity": np.array([self.job.run.cell, str(self.job.run.seed), repr(self.job.keep)]),
            "place": np.array([self.step, self.leg, self.began, self.samples], dtype=np.int64),
            "seconds": np.array(self.seconds),
            "weights": weights,
            "first": first,
            "second": second,
            "steps": np.array(self.steps, dtype=np.int64),
            "compute": np.array(self.compute, dtype=np.int64),
            "rows": np.array(self.rows, dtype=np.float64).reshape(len(self.rows), len(self.names)),
            "names": np.array(self.names),
        }
        for at, kept in self.kept.items():
            number = self.job.keep.index(at)
            arrays |= {f"kept.{number}.{name}": value for name, value in kept.items()}
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)

    def load(self) -> None:
        """Go on from the checkpoint if there is one; one that cannot be read, or is another's, is not used."""
        path = self.job.checkpoint
        if path is None or not path.exists():
            return
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            fits = (
                str(arrays["format"]) == _FORMAT
                and arrays["identity"].tolist() == [self.job.run.cell, str(self.job.run.seed), repr(self.job.keep)]
                and arrays["names"].tolist() == list(self.names)
                and arrays["weights"].shape == (self.layout.size,)
            )
            if not fits:
                return
            place, kept = arrays["place"].tolist(), dict[At, Weights]()
            for name, value in arrays.items():
                if name.startswith("kept."):
                    _, number, parameter = name.split(".", 2)
                    kept.setdefault(self.job.keep[int(number)], {})[parameter] = value
            state = {name: arrays[name] for name in ("weights", "first", "second")}
            records = arrays["steps"].tolist(), arrays["compute"].tolist(), arrays["rows"].tolist()
            seconds = float(arrays["seconds"])
        except Exception:  # zip, NumPy and torch files fail in many ways; training from the start is always right
            return
        self.step, self.leg, self.began, self.samples = place
        self.steps, self.compute, self.rows = records
        self.seconds, self.kept, self.state = seconds, kept, state
