"""One job under way: its records, kept moments and checkpoint; and how members go from record to record.

Every engine shares this; each keeps its own way to advance.
"""

import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.core.encoding import canonical, encode
from headstart.core.files import replacing
from headstart.core.state import Arrays, State, load_arrays, save_arrays
from headstart.core.trace import Status, Trace
from headstart.core.units import Cost
from headstart.engines.engine import Interrupted, Job, Listens, Outcome, Watch
from headstart.engines.lower import Lowered, lower
from headstart.engines.views import Seen, view_of
from headstart.plans import Place
from headstart.run import At, Reaches, Run, Step, reached, recorded_metrics

_FORMAT = "headstart checkpoint 2"
# A loss this many times the first one does not come back: the network is dead or about to overflow.
_LOST = 1e4
# Every member has a checkpoint file, synced to disk, so larger groups write theirs more seldom.
_FILES_AT_A_TIME = 32
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


class Lockstep(Protocol):
    """Members at one step, as an engine trains them together. Members are numbered as they were given."""

    def evaluate(self, active: Sequence[int]) -> NDArray[np.float64]:
        """A record of each of these members at the present step: float64[active, names]."""
        ...

    def advance(self, active: Sequence[int], step: int, until: int) -> int:
        """Train from `step` to `until`; returns the samples in the gradients of one member."""
        ...

    def place(self, member: int) -> Place:
        """Where a member stands on its course."""
        ...

    def state(self, member: int) -> State:
        """A copy of a member's weights, buffers, moments and hooks, with the optimizer's own steps."""
        ...

    def saved(self, member: int) -> State:
        """What its checkpoint holds: its state, or less where the engine makes the rest again."""
        ...

    def retain(self, active: Sequence[int]) -> None:
        """Only these go on; the others may be dropped."""
        ...


def together(members: Sequence[Member]) -> list[list[Member]]:
    """Members that may go in lockstep: at one step, with as many records, fresh ids from the same one on.

    Where metrics decide, members may stand on different legs of their course; else they may not.
    """
    groups: dict[Any, list[Member]] = {}
    for member in members:
        place = member.place._replace(seed=0)
        alike = place.fresh if member.lowered.course.adaptive else place
        groups.setdefault((member.step, len(member.rows), alike), []).append(member)
    return list(groups.values())


def train_together(
    members: Sequence[Member], lockstep: Lockstep, watch: Watch | None, checkpoint_seconds: float
) -> Iterator[tuple[int, Outcome]]:
    """Train members from record to record to the end of their budget; yields each with its index as it ends.

    A member whose record says that it diverged ends there. Where the watch says stop, everyone writes a checkpoint.
    """
    clock = saved = time.monotonic()
    every = checkpoint_seconds * max(1.0, len(members) / _FILES_AT_A_TIME)
    first, active = members[0], list(range(len(members)))
    step, end = first.step, first.run.budget.steps
    recorded = set(first.run.budget.recorded_steps())
    asked = {at.step for m in members for at in m.job.keep if isinstance(at, Step)}
    stops = sorted(recorded.union(asked, *(seen.due for m in members for seen in m.seen), {end}))
    while True:
        if step in recorded and step not in first.steps[-1:]:
            going = []
            for number, row in zip(active, lockstep.evaluate(active).tolist(), strict=True):
                member = members[number]
                member.place = lockstep.place(number)
                if member.record(row):
                    going.append(number)
                else:
                    yield member.index, member.outcome(Status.DIVERGED)
            now = time.monotonic()
            for number in active:
                members[number].seconds += (now - clock) / len(active)
            clock, active = now, going
            if not active:
                return
            lockstep.retain(active)
            first = members[active[0]]
            _look(members, active, lockstep)
            if isinstance(watch, Listens) and watch.due():
                for number in active:
                    watch.hear(members[number].index, members[number].cost, members[number].latest)
            answers = [watch(members[number].index, step) for number in active] if watch else []
            stop = any(answers)
            if (stop or now - saved > every) and step < end:
                for number in active:
                    if members[number].job.checkpoint is not None:
                        members[number].save(lockstep.saved(number))
                saved = time.monotonic()
                if stop:
                    raise Interrupted
        else:
            _look(members, active, lockstep)
        if step == end:
            break
        until = stops[bisect_right(stops, step)]
        samples = lockstep.advance(active, step, until)
        for number in active:
            members[number].step = until
            members[number].samples += samples
        step = until
    for number in active:
        yield members[number].index, members[number].outcome(Status.FINISHED)


def _look(members: Sequence[Member], active: Sequence[int], lockstep: Lockstep) -> None:
    """Keep the state of every member at each moment asked for that has come, and let measures look that are due."""
    for number in active:
        member = members[number]
        moments = member.wanted() if len(member.kept) < len(member.job.keep) else []
        due = [seen for seen in member.seen if seen.is_due(member.step)]
        if moments or due:
            member.place = lockstep.place(number)
            state = member.full(lockstep.state(number))
            member.kept |= dict.fromkeys(moments, state)
        if due:
            view = view_of(member.lowered, member.place, member.step, state, member.initial)
            for seen in due:
                seen.look(view)


def in_order(ended: Iterator[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """Outcomes in the order of their indices, each as soon as it may; after a stop, all that are there."""
    waiting: dict[int, Outcome] = {}
    following = 0
    try:
        for index, outcome in ended:
            waiting[index] = outcome
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    except Interrupted:
        yield from (waiting[index] for index in sorted(waiting))
        raise
