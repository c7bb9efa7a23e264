"""One job under way: its records, kept moments and checkpoint. Every engine shares this."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headstart.core.encoding import canonical, encode
from headstart.core.files import replacing
from headstart.core.state import Arrays, State, load_arrays, save_arrays
from headstart.core.trace import Status, Trace
from headstart.core.units import Cost
from headstart.engines.engine import Job, Outcome
from headstart.engines.lower import Lowered, lower
from headstart.engines.views import Seen
from headstart.plans import Place
from headstart.run import At, Reaches, Run, Step, reached, recorded_metrics

_FORMAT = "headstart checkpoint 2"
# A loss this many times the first one does not come back: the network is dead or about to overflow.
_LOST = 1e4
# Makes the State at step 0 of a lowered run, from the State that a `From` gave, or afresh.
Begin = Callable[[Lowered, State | None], State]


def value_names(run: Run) -> tuple[str, ...]:
    """What a record holds: test metrics and loss, the same on the next batch, and weight norms by role."""
    roles = dict.fromkeys(p.role for p in run.parameters)
    return (*recorded_metrics(run), *(f"norm_{role}" for role in roles))


def has_diverged(values: Mapping[str, float], first: Mapping[str, float] | None) -> bool:
    """Whether a record says that its run has diverged: something is not finite, or a loss is 10^4 times the first.

    Losses below one at the start count as one. `first` is the run's first record, None where this is it.
    """
    if not np.isfinite(list(values.values())).all():
        return True
    bound = _LOST * max(1.0, abs((first or values)["test_loss"]))
    return values["test_loss"] > bound or values["train_loss"] > bound


@dataclass
class Member:
    """A job with its place among the jobs, and what it has recorded so far.

    `state` is what it joins an engine with, at its start or from its checkpoint; the engine takes it. `rows` are the
    records, in the order of `names`. `apart` are parameters that its engine keeps in a form of its own: they are not
    in `state`, nor in what it writes to the checkpoint.
    """

    index: int
    job: Job
    engine: str
    lowered: Lowered
    names: tuple[str, ...]
    place: Place
    state: State | None = None
    step: int = 0
    samples: int = 0
    seconds: float = 0.0
    steps: list[int] = field(default_factory=list)
    compute: list[int] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)
    kept: dict[At, State] = field(default_factory=dict)
    initial: Arrays = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    apart: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, index: int, job: Job, engine: str, apart: tuple[str, ...] = (), begin: Begin = Lowered.begin
    ) -> "Member":
        """A member at its start, which `begin` makes, or, where there is a checkpoint, as it was."""
        lowered, start = lower(job.run), job.start
        fresh = 0 if start is None or "fresh" not in start.place else int(start.place["fresh"])
        place = lowered.course.start(job.run.seed, fresh)
        member = cls(index, job, engine, lowered, value_names(job.run), place, apart=apart)
        if job.measures:
            member.initial = lowered.begin(start).weights
            member.seen = [Seen(m, frozenset(m.at.steps(job.run.budget))) for m in job.measures]
        if not member._load():
            member.place = lowered.course.observe(place, 0)
            member.state = begin(lowered, start)
        return member

    @property
    def run(self) -> Run:
        """What it trains."""
        return self.job.run

    def take(self) -> State:
        """The state it joins with, handed over."""
        assert self.state is not None
        state, self.state = self.state, None
        return state

    def record(self, row: Sequence[float]) -> bool:
        """Add the values of the current step, in the order of `names`; False, and nothing added, if it diverged."""
        values = dict(zip(self.names, row, strict=True))
        first = dict(zip(self.names, self.rows[0], strict=True)) if self.rows else None
        if has_diverged(values, first):
            return False
        self.steps.append(self.step)
        self.compute.append(self.samples)
        self.rows.append(list(row))
        return True

    @property
    def latest(self) -> dict[str, float]:
        """Its last record, by name."""
        return dict(zip(self.names, self.rows[-1], strict=True))

    def wanted(self) -> list[At]:
        """The moments asked for that have come and are not kept yet."""
        return [at for at in self.job.keep if at not in self.kept and self._is_now(at)]

    def _is_now(self, at: At) -> bool:
        if isinstance(at, Step):
            return self.step == at.step
        assert isinstance(at, Reaches)
        just = self.steps[-1:] == [self.step]
        return just and reached(self.run, at, self.latest)

    def full(self, trained: State) -> State:
        """What an engine knows of a member's state, with where the member stands."""
        place = {name: np.asarray(getattr(self.place, name)) for name in ("leg", "began", "total", "fresh")}
        counted = {
            "step": np.asarray(self.step),
            "samples": np.asarray(self.samples),
            "drawn": np.asarray(self.lowered.course.drawn(self.place, self.step)),
            "seconds": np.asarray(self.seconds),
        }
        return replace(trained, place=place, counters={**trained.counters, **counted})

    @property
    def cost(self) -> Cost:
        """What its steps took so far."""
        return Cost(self.step, self.samples, self.samples * self.lowered.flops, self.seconds)

    @property
    def settled(self) -> bool:
        """Whether its budget says that it has arrived and may end."""
        when = self.run.budget.settled
        if when is None or len(self.rows) < when.records:
            return False
        metric = self.run.task.metrics[0]
        column, sign = self.names.index(f"test_{metric.name}"), 1 if metric.higher_is_better else -1
        return all(sign * row[column] >= sign * when.value for row in self.rows[-when.records :])

    def hold(self) -> None:
        """Repeat its last record to the end of its budget; samples go on as between the last two."""
        (before, step), (less, samples) = self.steps[-2:], self.compute[-2:]
        each = (samples - less) // (step - before)
        ahead = [later for later in self.run.budget.recorded_steps() if later > step]
        self.steps += ahead
        self.compute += [samples + each * (later - step) for later in ahead]
        self.rows += [self.rows[-1]] * len(ahead)

    def outcome(self, status: Status) -> Outcome:
        """The trace and the kept states."""
        run = self.run
        values = np.array(self.rows, dtype=np.float64).reshape(len(self.rows), len(self.names))
        samples = np.asarray(self.compute, dtype=np.int64)
        trace = Trace(
            cell=run.cell,
            seed=run.seed,
            steps=np.asarray(self.steps, dtype=np.int64),
            samples=samples,
            flops=samples.astype(np.float64) * self.lowered.flops,
            values={name: values[:, i].copy() for i, name in enumerate(self.names)} if self.rows else {},
            status=status,
            seconds=self.seconds,
            before=self.job.before,
        )
        drawn = self.lowered.course.drawn(self.place, self.step)
        measured = {seen.measure: seen.arrays() for seen in self.seen}
        return Outcome(run, trace, {at: self.kept.get(at) for at in self.job.keep}, self.cost, drawn, measured)

    @property
    def _moments(self) -> list[At]:
        """The moments asked for, in an order that does not depend on who asked first."""
        return sorted(self.job.keep, key=repr)

    def _identity(self) -> dict[str, str]:
        """What a checkpoint must agree on."""
        run = self.run
        keys = [self.engine, run.cell, str(run.seed), repr(self._moments), ",".join(self.names)]
        keys += [canonical(encode(measure)) for measure in self.job.measures]
        return {"format": _FORMAT, "of": "|".join(keys)}

    def save(self, trained: State) -> None:
        """Write everything to the checkpoint file, if there is to be one: temporary file, fsync, rename."""
        if self.job.checkpoint is None:
            return
        arrays = self.full(trained).flat()
        arrays["records/steps"] = np.array(self.steps, dtype=np.int64)
        arrays["records/samples"] = np.array(self.compute, dtype=np.int64)
        arrays["records/rows"] = np.array(self.rows, dtype=np.float64).reshape(len(self.rows), len(self.names))
        for at, state in self.kept.items():
            number = self._moments.index(at)
            arrays |= {f"kept/{number}/{name}": array for name, array in state.flat().items()}
        for number, seen in enumerate(self.seen):
            arrays |= {f"seen/{number}/{name}": array for name, array in seen.arrays().items()}
        try:
            with replacing(self.job.checkpoint) as temporary:
                temporary.write_bytes(save_arrays(arrays, self._identity()))
        except OSError as error:
            _warn_of(self.job.checkpoint.parent, error)

    def _load(self) -> bool:
        """Go on from the checkpoint if there is one; one that cannot be read, or is another's, is not used."""
        path = self.job.checkpoint
        if path is None:
            return False
        try:
            if not path.exists():
                return False
            metadata, arrays = load_arrays(path.read_bytes())
            if metadata != self._identity():
                return False
            own: dict[str, Any] = {}
            parts: dict[str, dict[str, Arrays]] = {"kept": {}, "seen": {}}
            for key, array in arrays.items():
                first, _, rest = key.partition("/")
                number, _, inner = rest.partition("/")
                if first in parts:
                    parts[first].setdefault(number, {})[inner] = array
                else:
                    own[key] = array
            records = [own.pop(f"records/{name}").tolist() for name in ("steps", "samples", "rows")]
            state = State.unflat(own)
            kept = {self._moments[int(number)]: State.unflat(its) for number, its in parts["kept"].items()}
            shapes = {n: p.shape for n, p in self.lowered.named.items() if n not in self.apart}
            if {n: a.shape for n, a in state.weights.items()} != shapes:
                return False
        except Exception:  # a damaged file fails in many ways; training from the start is always right
            return False
        self.steps, self.compute, self.rows = records
        self.kept, self.state = kept, state
        for number, its in parts["seen"].items():
            self.seen[int(number)].restore(its)
        self.step, self.samples = int(state.counter("step")), int(state.counter("samples"))
        self.seconds = float(state.counter("seconds"))
        place = {name: state.place[name].item() for name in ("leg", "began", "total", "fresh")}
        self.place = self.place._replace(**place)
        return True


@cache
def _warn_once(folder: Path, said: str) -> None:
    warnings.warn(
        f"checkpoints cannot be written to {folder}: {said}; training goes on, and after a stop these runs begin anew",
        stacklevel=2,
    )


def _warn_of(folder: Path, error: OSError) -> None:
    """Say once for each folder and reason that a run has no checkpoint."""
    _warn_once(folder, error.strerror or str(error))
