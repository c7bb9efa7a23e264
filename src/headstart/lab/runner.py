"""Makes sure that runs are in the store: orders the graph of starts, trains what is missing, keeps what is finished."""

from collections import deque
from collections.abc import Hashable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.trace import Status, Trace
from headstart.engines import Interrupted, Job, Outcome, choose
from headstart.lab.progress import Progress, Silent
from headstart.lab.store import Keep, Store, moment
from headstart.lab.workers import Workers
from headstart.run import At, From, Run

Key = tuple[str, int]
# A group that runs longer than this is split, so that results reach the store and the bar moves.
_GROUP_SECONDS = 8.0


@dataclass
class _Queue:
    """Runs that can share a call: the seconds of each, and how many one call takes at most."""

    seconds: float
    most: int
    runs: deque[Run] = field(default_factory=deque)

    @property
    def calls(self) -> int:
        """The fewest calls that take them all."""
        return -(-len(self.runs) // self.most)


@dataclass
class _Work:
    """What is to be done: the runs, the moments whose weights others start from, and who waits for whom."""

    todo: dict[Key, Run] = field(default_factory=dict)
    keep: dict[Key, tuple[At, ...]] = field(default_factory=dict)
    waiting: dict[Key, list[Run]] = field(default_factory=dict)
    ready: dict[Hashable, _Queue] = field(default_factory=dict)
    device: str = "cpu"
    curves: Keep = Keep.CURVES

    def release(self, run: Run) -> None:
        """A run whose source, if any, is stored: put it with those it can share a call with."""
        engine = choose(run, self.device).engine
        key = (engine.name, engine.group_key(run))
        if key not in self.ready:
            seconds = engine.seconds(run)
            self.ready[key] = _Queue(seconds, max(engine.least_members(run), int(_GROUP_SECONDS / seconds)))
        self.ready[key].runs.append(run)

    def take(self, free: int, slots: int) -> list[Run]:
        """The next runs to train in one call, where `free` of the slots have nothing to do yet.

        Calls are as few, and as equal in seconds, as fill the free slots and then all slots some whole number of times:
        runs gain from each other in a call, and no slot should wait for the last one.
        """
        fewest = sum(queue.calls for queue in self.ready.values())
        calls = free + slots * max(0, -(-(fewest - free) // slots))
        share = sum(len(queue.runs) * queue.seconds for queue in self.ready.values()) / calls
        key, queue = next(iter(self.ready.items()))
        its_calls = max(queue.calls, round(len(queue.runs) * queue.seconds / share))
        group = [queue.runs.popleft() for _ in range(-(-len(queue.runs) // its_calls))]
        if not queue.runs:
            del self.ready[key]
        return group


def _key(run: Run) -> Key:
    return run.cell, run.seed


def _plan(runs: Iterable[Run], store: Store, device: str, curves: Keep) -> _Work:
    """Everything that is missing, sources included; a source runs again if weights it should have kept are missing."""
    wanted: dict[Key, Run] = {}
    keep: dict[Key, dict[At, None]] = {}
    stack = list(runs)
    stored: dict[str, set[int]] = {}

    def missing(run: Run) -> bool:
        if run.cell not in stored:
            stored[run.cell] = store.seeds(run.cell, curves)
        return run.seed not in stored[run.cell]

    while stack:
        run = stack.pop()
        if _key(run) in wanted or not missing(run):
            continue
        wanted[_key(run)] = run
        if isinstance(run.start, From) and run.source is not None and run.start.at is not None:
            keep.setdefault(_key(run.source), {})[run.start.at] = None
            if {moment(at) for at in keep[_key(run.source)]} <= store.moments(run.source):
                continue
            if missing(run.source):
                stack.append(run.source)
            else:
                wanted[_key(run.source)] = run.source
    work = _Work(todo=wanted, keep={key: tuple(ats) for key, ats in keep.items()}, device=device, curves=curves)
    for run in reversed(wanted.values()):
        if run.source is not None and _key(run.source) in wanted:
            work.waiting.setdefault(_key(run.source), []).append(run)
        else:
            work.release(run)
    return work


def _job(run: Run, work: _Work, store: Store) -> Job | None:
    """The job of a run whose source, if any, is stored; None if the source never reached the moment."""
    start = None
    if isinstance(run.start, From):
        assert run.source is not None
        assert run.start.at is not None
        weights = store.weights(run.source, run.start.at)
        if weights is None:
            return None
        start = run.start.via(weights, run.fresh_weights())
    return Job(run, start, work.keep.get(_key(run), ()), store.checkpoint_path(run))


def _save(outcomes: list[Outcome], work: _Work, store: Store) -> int:
    """Store finished runs and let those that waited for them begin; returns how many."""
    if outcomes:
        store.add(outcomes, choose(outcomes[0].run, work.device).engine.name, work.curves)
    for outcome in outcomes:
        store.checkpoint_path(outcome.run).unlink(missing_ok=True)
        for run in work.waiting.pop(_key(outcome.run), ()):
            work.release(run)
    return len(outcomes)


def _unreached(run: Run, work: _Work) -> Outcome:
    """What is stored of a run that could not start."""
    none = np.empty(0, dtype=np.int64)
    trace = Trace(run.cell, run.seed, none, none, np.empty(0), {}, Status.UNREACHED)
    return Outcome(run, trace, dict.fromkeys(work.keep.get(_key(run), ())))


def execute(
    runs: Iterable[Run],
    store: Store,
    pool: Workers,
    device: str = "cpu",
    progress: Progress | None = None,
    title: str = "training",
    keep: Keep = Keep.CURVES,
) -> int:
    """Train every run that is not stored yet. Returns how many were trained.

    Finished runs are stored as they come, runs under way keep checkpoints, so after Ctrl-C, a kill or a crash the same
    call goes on from there and ends with the same numbers.
    """
    progress = progress or Silent()
    work = _plan(runs, store, device, keep)
    if not work.todo:
        return 0
    num, base = len(work.todo), pool.done()
    progress.begin(title, sum(choose(run, device).engine.seconds(run) for run in work.todo.values()))
    under_way: set[Future[list[Outcome]]] = set()
    finished = 0
    try:
        while work.ready or under_way:
            # Twice as many as there are slots, so that no worker waits for the coordinator.
            while work.ready and len(under_way) < 2 * pool.slots and not any(call.done() for call in under_way):
                free = pool.slots - len(under_way) % pool.slots
                jobs = {run: _job(run, work, store) for run in work.take(free, pool.slots)}
                finished += _save([_unreached(run, work) for run, job in jobs.items() if job is None], work, store)
                group = [job for job in jobs.values() if job is not None]
                if group:
                    under_way.add(pool.submit(group, device))
            for future in wait(under_way, timeout=0.2, return_when=FIRST_COMPLETED).done:
                finished += _save(future.result(), work, store)
                under_way.discard(future)
            progress.update(pool.done() - base, f"{finished}/{num} runs")
    except BrokenProcessPool:
        raise HeadstartError(
            "a worker process died, perhaps for want of memory; what was finished is stored: "
            "run the same command again, with --jobs 1 if it happens again"
        ) from None
    except BaseException:
        pool.stop()
        _drain(under_way, work, store)
        raise
    return finished


def _drain(under_way: set["Future[list[Outcome]]"], work: _Work, store: Store) -> None:
    """After a stop: store what finishes, and wait until the others have written their checkpoints."""
    for future in under_way:
        future.cancel()
    for future in wait(under_way, timeout=60).done:
        if future.cancelled():
            continue
        try:
            _save(future.result(), work, store)
        except Interrupted as stopped:
            _save(stopped.finished, work, store)
        except Exception:  # the error that stopped us is already on its way
            continue
