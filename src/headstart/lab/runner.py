"""Makes sure that runs are in the store: orders the graph of starts, trains what is missing, keeps what is finished."""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.trace import Status, Trace
from headstart.core.units import Cost
from headstart.engines import Engine, Interrupted, Job, Outcome, choose
from headstart.lab.progress import Progress, Silent
from headstart.lab.starts import Key, begin, pending
from headstart.lab.store import Keep, Store
from headstart.lab.workers import Group, Pace, WorkerLost, Workers, advanced
from headstart.measures import Measure
from headstart.run import At, Run

# The bar moves at least this often.
_LOOK_SECONDS = 0.2


@dataclass
class _Queue:
    """Runs that can share a call: their engine, the seconds of each, and how many one call takes at most."""

    engine: Engine
    seconds: float
    most: int
    runs: deque[Run] = field(default_factory=deque)

    @property
    def calls(self) -> int:
        """The fewest calls that take them all."""
        return -(-len(self.runs) // self.most)


@dataclass
class _Work:
    """What is to be done: the runs, the moments whose States others start from, and who waits for whom.

    `waiting` are the runs that wait for one, `lacking` how many sources each still waits for.
    """

    store: Store
    device: str = "cpu"
    curves: Keep = Keep.CURVES
    measures: tuple[Measure, ...] = ()
    pace: Pace = Pace()
    todo: dict[Key, Run] = field(default_factory=dict)
    keep: dict[Key, dict[At, None]] = field(default_factory=dict)
    waiting: dict[Key, list[Run]] = field(default_factory=dict)
    lacking: dict[Key, int] = field(default_factory=dict)
    unfinished: set[Key] = field(default_factory=set)
    ready: dict[Hashable, _Queue] = field(default_factory=dict)
    seconds: dict[Key, float] = field(default_factory=dict)
    looking: dict[Key, tuple[Measure, ...]] = field(default_factory=dict)
    _stored: dict[str, set[int]] = field(default_factory=dict)

    def ask(self, run: Run) -> None:
        """Somebody wants this run: train it, after its sources, if it is not stored or not measured."""
        if run.cell not in self._stored:
            measured = [self.store.measured.seeds(run.cell, measure) for measure in self.measures]
            self._stored[run.cell] = self.store.seeds(run.cell, self.curves).intersection(*measured)
        if run.seed not in self._stored[run.cell]:
            self._add(run)
            self.looking[_key(run)] = self.store.measured.lacking(run.cell, run.seed, self.measures)

    def moment(self, run: Run, at: At) -> None:
        """Somebody wants the State of this run at a moment."""
        if self.store.states.moment(run, at) is None:
            self.keep.setdefault(_key(run), {})[at] = None
            self._add(run)

    def _add(self, run: Run) -> None:
        """Take a run up, once; a stored one too, if a moment of it is missing."""
        if _key(run) not in self.unfinished:
            self.todo[_key(run)] = run
            self.unfinished.add(_key(run))
            self._admit(run)

    def _admit(self, run: Run) -> None:
        """Release a run whose sources are all there; else let it wait for those that are not."""
        sources = pending(run, self.store)
        self.lacking[_key(run)] = len(sources)
        for source, at in sources:
            self.keep.setdefault(_key(source), {})[at] = None
            self.waiting.setdefault(_key(source), []).append(run)
            self._add(source)
        if sources:
            self.seconds.setdefault(_key(run), choose(run, self.device).engine.seconds(run))
        else:
            self._release(run)

    def _release(self, run: Run) -> None:
        """Put a run with those it can share a call with."""
        engine = choose(run, self.device).engine
        key = (engine.name, engine.group_key(run))
        if key not in self.ready:
            seconds = engine.seconds(run)
            most = max(engine.least_members(run), int(self.pace.most / seconds))
            self.ready[key] = _Queue(engine, seconds, most)
        self.ready[key].runs.append(run)
        self.seconds[_key(run)] = self.ready[key].seconds

    def take(self, free: int, slots: int) -> tuple[_Queue, list[Run]]:
        """The next runs to train in one call, where `free` of the slots have nothing to do yet.

        Use the fewest equal calls that fill the free slots, then whole rounds: runs gain from each other in a call, and
        no slot should wait for the last one. Where there is too little to do for that, let some slots have nothing.
        """
        fewest = sum(queue.calls for queue in self.ready.values())
        calls = free + slots * max(0, -(-(fewest - free) // slots))
        seconds = sum(len(queue.runs) * queue.seconds for queue in self.ready.values())
        if self.pace.least:
            calls = max(fewest, min(calls, int(seconds / self.pace.least)))
        share = seconds / calls
        key, queue = next(iter(self.ready.items()))
        its_calls = max(queue.calls, round(len(queue.runs) * queue.seconds / share))
        group = [queue.runs.popleft() for _ in range(-(-len(queue.runs) // its_calls))]
        if not queue.runs:
            del self.ready[key]
        return queue, group

    def deal(self, runs: list[Run]) -> tuple[list[Job], list[Outcome]]:
        """The jobs of runs that can begin, and what is stored of those that never can.

        A run whose source was dropped from the store in the meantime waits for it again.
        """
        jobs, failed = [], []
        for run in runs:
            if pending(run, self.store):
                self._admit(run)
                continue
            begun, keep = begin(run, self.store), tuple(self.keep.get(_key(run), ()))
            if begun.possible:
                looking = self.looking.get(_key(run), ())
                checkpoint = self.store.checkpoint_path(run).absolute()  # a worker may stand in another folder
                jobs.append(Job(run, begun.state, keep, checkpoint, begun.before, looking))
            else:
                failed.append(_unreached(run, keep, begun.before, self.looking.get(_key(run), ())))
        return jobs, failed

    def finish(self, *calls: tuple[Group, list[Outcome]]) -> int:
        """Store the finished runs of calls and let those that waited for them begin; returns how many.

        Calls of one engine share a transaction: a disk syncs some hundred times a second, and a cluster answers faster.
        """
        alike: dict[str, tuple[Group, list[Outcome]]] = {}
        for group, outcomes in calls:
            alike.setdefault(group.engine.name, (group, []))[1].extend(outcomes)
        for group, outcomes in alike.values():
            group.keep(self.store, outcomes)
        ended = [outcome for _, outcomes in calls for outcome in outcomes]
        for outcome in ended:
            with suppress(OSError):  # a folder that may not be written to: the file is not used again
                self.store.checkpoint_path(outcome.run).unlink(missing_ok=True)
            self.unfinished.discard(_key(outcome.run))
            for run in self.waiting.pop(_key(outcome.run), ()):
                self.lacking[_key(run)] -= 1
                if not self.lacking[_key(run)]:
                    self._admit(run)
        return len(ended)


def _unreached(run: Run, keep: tuple[At, ...], before: Cost, measures: tuple[Measure, ...]) -> Outcome:
    """What is stored of a run that could not begin."""
    none = np.empty(0, dtype=np.int64)
    trace = Trace(run.cell, run.seed, none, none, np.empty(0), {}, Status.UNREACHED, before=before)
    return Outcome(run, trace, dict.fromkeys(keep), measured={measure: {"step": none} for measure in measures})


def _key(run: Run) -> Key:
    return run.cell, run.seed


def execute(
    runs: Iterable[Run],
    store: Store,
    pool: Workers,
    device: str = "cpu",
    progress: Progress | None = None,
    title: str = "training",
    keep: Keep = Keep.CURVES,
    measures: Iterable[Measure] = (),
    moments: Iterable[tuple[Run, At]] = (),
) -> int:
    """Train every run that is not stored yet, or not with all `measures`. Returns how many were trained.

    Of the runs of `moments` the State at the moment is kept too.

    Finished runs are stored as they come, runs under way keep checkpoints, so after Ctrl-C, a kill or a crash the same
    call goes on from there and ends with the same numbers.
    """
    progress = progress or Silent()
    work = _Work(store, device, keep, tuple(measures), pool.pace)
    for run in runs:
        work.ask(run)
    for run, at in moments:
        work.moment(run, at)
    if not work.todo:
        return 0
    store.sweep_checkpoints(work.todo)
    if old := store.old_checkpoints():
        title += f" ({len(old)} checkpoints of version 0.1 are not used: their runs begin again from step 0)"
    progress.begin(title, sum(work.seconds.values()))
    under_way: dict[Future[list[Outcome]], Group] = {}
    answered: SimpleQueue[Future[list[Outcome]]] = SimpleQueue()
    finished, done = 0, 0.0
    try:
        while work.ready or under_way:
            # Twice as many as there are slots, so that no worker waits for the coordinator.
            while work.ready and len(under_way) < 2 * pool.slots and answered.empty():
                queue, runs_of_call = work.take(pool.slots - len(under_way) % pool.slots, pool.slots)
                jobs, failed = work.deal(runs_of_call)
                group = Group(queue.engine, jobs, queue.seconds, device, keep)
                finished += work.finish((group, failed))
                if jobs:
                    call = pool.submit(group)
                    under_way[call] = group
                    call.add_done_callback(answered.put)
            ended = list(_next(answered, _LOOK_SECONDS if under_way else 0.0))
            finished += work.finish(*((under_way[call], call.result()) for call in ended))
            for call in ended:
                del under_way[call]
            done += advanced(pool.messages())
            progress.update(done, f"{finished}/{len(work.todo)} runs")
    except BaseException as error:
        pool.stop()
        _drain(under_way, work)
        if isinstance(error, WorkerLost):
            raise HeadstartError(str(error)) from None
        raise
    return finished


def _next(answered: "SimpleQueue[Future[list[Outcome]]]", seconds: float) -> Iterator["Future[list[Outcome]]"]:
    """The calls that have ended; waits so long for one."""
    with suppress(Empty):
        yield answered.get(timeout=seconds)
        while True:
            yield answered.get_nowait()


def _drain(under_way: dict["Future[list[Outcome]]", Group], work: _Work) -> None:
    """After a stop: store what finishes, and wait until the others have written their checkpoints."""
    for future in under_way:
        future.cancel()
    for future in wait(under_way, timeout=60).done:
        if future.cancelled():
            continue
        try:
            work.finish((under_way[future], future.result()))
        except Interrupted as stopped:
            work.finish((under_way[future], stopped.finished))
        except Exception:  # the error that stopped us is already on its way
            continue
