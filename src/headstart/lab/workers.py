"""Who trains: this process, or several threads and long-lived processes of it.

A back end takes groups of jobs, sends messages of progress, and says in our words when a worker is lost.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol, TypeVar

from headstart.core.units import Cost
from headstart.engines import Engine, Interrupted, Job, Outcome
from headstart.lab.store import Keep, Store

T = TypeVar("T")
# A worker says how far it is at most this often, in seconds.
_SAY_EVERY = 0.1
# Records are for people who look on: a group tells those of so many of its runs at a time, at most this often, seconds.
_MOST_HEARD = 16
_HEAR_EVERY = 0.2
# A worker that was told to end has this long to write its checkpoints and answer.
_LAST_SECONDS = 45.0
_WORKER_LOST = (
    "a worker process died, perhaps for want of memory; what was finished is stored: "
    "run the same command again, with --jobs 1 if it happens again"
)


@dataclass(frozen=True)
class Group:
    """Jobs for one call of one engine, chosen once, and the seconds each is estimated to take on one core.

    `curves` is what the store is to keep of them.
    """

    engine: Engine
    jobs: Sequence[Job]
    seconds: float
    device: str = "cpu"
    curves: Keep = Keep.CURVES

    def keep(self, store: Store, outcomes: Sequence[Outcome]) -> None:
        """Store what came of it; sources keep their curves, by which a search among them is decided."""
        for keep in Keep:
            chosen = [o for o in outcomes if (Keep.CURVES if o.states else self.curves) is keep]
            if chosen:
                store.add(chosen, self.engine.name, keep)

    def light(self) -> "Group":
        """It without its jobs: enough to `keep` what came of it."""
        return replace(self, jobs=())


@dataclass(frozen=True)
class Pace:
    """How long a call should take, in estimated seconds.

    At least so long that sending it is worth it, if there is that much to do; at most so long that results reach the
    store and the bar moves.
    """

    least: float = 0.0
    most: float = 8.0


@dataclass(frozen=True)
class Advanced:
    """A message: so many estimated seconds of work were done since the last one."""

    seconds: float


@dataclass(frozen=True)
class Recorded:
    """A message: what a run under way has just recorded, and what it has cost so far."""

    cell: str
    seed: int
    cost: Cost
    values: Mapping[str, float]


# What workers say on the way: a union of small frozen dataclasses, told apart by their type.
Message = Advanced | Recorded
Say = Callable[[Message], None]


def advanced(messages: Iterable[Message]) -> float:
    """The estimated seconds of work that messages say were done."""
    return sum(message.seconds for message in messages if isinstance(message, Advanced))


class WorkerLost(Exception):
    """A worker died before it answered, perhaps for want of memory; says what to do."""


class Workers(Protocol):
    """Trains groups of jobs."""

    slots: int
    pace: Pace

    def submit(self, group: Group) -> "Future[list[Outcome]]":
        """Train a group; the future raises Interrupted if it was stopped, and WorkerLost if its worker died."""
        ...

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Do work that can be pickled and that holds the interpreter; the future may raise WorkerLost."""
        ...

    def messages(self) -> list[Message]:
        """What the workers have said since this was last asked."""
        ...

    def stop(self) -> None:
        """Ask all groups under way to write a checkpoint and stop."""
        ...

    def __enter__(self) -> "Workers": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class _Meter:
    """Adds up estimated seconds as runs advance, and says so and some records now and then; answers whether to stop."""

    def __init__(self, group: Group, say: Say, stop: Any) -> None:
        self.say, self.stop = say, stop
        self.per_step = [group.seconds / job.run.budget.steps for job in group.jobs]
        self.last = [0] * len(group.jobs)
        self.left = group.seconds * len(group.jobs)
        self.unsaid, self.said = 0.0, time.monotonic()
        self.runs = [job.run for job in group.jobs]
        self.heard, self.listened = 0, 0.0

    def due(self) -> bool:
        """Whether the last records told are old enough for more."""
        if time.monotonic() - self.listened < _HEAR_EVERY:
            return False
        self.heard, self.listened = 0, time.monotonic()
        return True

    def hear(self, index: int, cost: Cost, values: Mapping[str, float]) -> None:
        """Tell the record of a run, unless enough others were told."""
        self.heard += 1
        if self.heard <= _MOST_HEARD:
            self.say(Recorded(self.runs[index].cell, self.runs[index].seed, cost, values))

    def __call__(self, index: int, step: int) -> bool:
        self.unsaid += (step - self.last[index]) * self.per_step[index]
        self.last[index] = step
        if time.monotonic() - self.said > _SAY_EVERY:
            self._say()
        return bool(self.stop.is_set())

    def close(self) -> None:
        """Say what is left, such as the steps a diverged run did not take."""
        self.unsaid = self.left
        self._say()

    def _say(self) -> None:
        self.say(Advanced(self.unsaid))
        self.left -= self.unsaid
        self.unsaid, self.said = 0.0, time.monotonic()


def _train(group: Group, say: Say, stop: Any) -> list[Outcome]:
    meter, outcomes = _Meter(group, say, stop), []
    try:
        for outcome in group.engine.train(group.jobs, group.device, meter):
            outcomes.append(outcome)
    except Interrupted:
        raise Interrupted(outcomes) from None
    meter.close()
    return outcomes


def _drained(queue: Any) -> list[Message]:
    said = []
    while not queue.empty():
        said.append(queue.get())
    return said


def in_worker() -> tuple[Say, Callable[[], bool]]:
    """For work given to `Parallel.call`, in its process: how it says how far it is, and asks whether to stop."""
    assert _shared is not None
    say, stop = _shared
    return say, stop.is_set


class Serial:
    """Trains in this process, when submitted."""

    slots, pace = 1, Pace()

    def __init__(self) -> None:
        self.queue: SimpleQueue[Message] = SimpleQueue()
        self.stopping = threading.Event()

    def submit(self, group: Group) -> "Future[list[Outcome]]":
        """Train at once."""
        return self.call(partial(_train, group, self.queue.put, self.stopping))

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Do it at once."""
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def messages(self) -> list[Message]:
        """What was said since this was last asked."""
        return _drained(self.queue)

    def stop(self) -> None:
        """Nothing is under way between two calls."""
        self.stopping.set()

    def __enter__(self) -> "Serial":
        return self

    def __exit__(self, *exit: object) -> None:
        return None


_shared: tuple[Any, Any] | None = None


def _begin_worker(queue: Any, stop: Any, path: list[str]) -> None:
    """In a new worker: leave Ctrl-C to the coordinator, die with it, see the modules it sees, and use one core."""
    global _shared
    _shared = (queue.put, stop)
    sys.path[:] = path
    os.environ["OMP_NUM_THREADS"] = "1"  # torch, which is not imported yet, takes this many threads
    for name in ("SIGINT", "SIGUSR2"):  # the second says that a time limit is near; a batch system sends it to all
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    ending = partial(threading.Thread, target=_end, args=(stop,), daemon=True)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: ending().start())
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _end(stop: Any) -> None:
    """A batch system or a closed terminal ends workers too: stop at the next record, and then wait for the coordinator.

    In a thread: a signal may come while the flag is being read, which holds its lock.
    """
    stop.set()
    time.sleep(_LAST_SECONDS)
    os._exit(1)


def _work(group: Group) -> list[Outcome]:
    assert _shared is not None
    return _train(group, *_shared)


def _start_tracker() -> None:
    """Start multiprocessing's tracker of shared memory, deaf to what a closing terminal or a batch system sends all."""
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        deaf = (signal.SIGHUP, signal.SIGUSR2)
        before = {number: signal.signal(number, signal.SIG_IGN) for number in deaf}  # which a new process inherits
        resource_tracker.ensure_running()
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class Parallel:
    """Threads for engines that release the GIL, spawned processes for the others; each is made when first needed.

    The processes die with this one, whatever ends it.
    """

    pace = Pace()

    def __init__(self, jobs: int) -> None:
        self.slots = jobs
        _start_tracker()
        self.context = multiprocessing.get_context("spawn")
        self.queue, self.stopping = self.context.SimpleQueue(), self.context.Event()
        self.local: SimpleQueue[Message] = SimpleQueue()

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        """The pool of threads."""
        return ThreadPoolExecutor(self.slots, "headstart")

    @cached_property
    def processes(self) -> ProcessPoolExecutor:
        """The pool of processes."""
        # One process per core: threads of BLAS on top would fight for them. Only what is spawned from now on sees this.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        shared = (self.queue, self.stopping, list(sys.path))
        return ProcessPoolExecutor(self.slots, self.context, _begin_worker, shared)

    def submit(self, group: Group) -> "Future[list[Outcome]]":
        """Queue a group."""
        if group.engine.in_threads:
            return self.threads.submit(_train, group, self.local.put, self.stopping)
        return _in_our_words(self.processes.submit, partial(_work, group))

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Queue it for a process."""
        return _in_our_words(self.processes.submit, work)

    def messages(self) -> list[Message]:
        """What was said since this was last asked."""
        return _drained(self.local) + _drained(self.queue)

    def stop(self) -> None:
        """Runs under way stop at their next recorded step."""
        self.stopping.set()

    def __enter__(self) -> "Parallel":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for name in ("threads", "processes"):
            if name in self.__dict__:
                self.__dict__[name].shutdown(wait=True, cancel_futures=True)


def _in_our_words(submit: Callable[..., "Future[T]"], work: Callable[[], T]) -> "Future[T]":
    """A future that raises WorkerLost where the pool's own says that a process died."""
    ours: Future[T] = Future()

    def answer(theirs: "Future[T]") -> None:
        if theirs.cancelled():
            Future.cancel(ours)
            ours.set_running_or_notify_cancel()
            return
        error = theirs.exception()
        if isinstance(error, BrokenProcessPool):
            error = WorkerLost(_WORKER_LOST)
        if error is not None:
            ours.set_exception(error)
        else:
            ours.set_result(theirs.result())

    try:
        theirs = submit(work)
    except BrokenProcessPool:
        ours.set_exception(WorkerLost(_WORKER_LOST))
        return ours
    ours.cancel = theirs.cancel  # type: ignore[method-assign]
    theirs.add_done_callback(answer)
    return ours


def workers(jobs: int) -> Workers:
    """`jobs` threads or processes, or this process for one."""
    return Serial() if jobs == 1 else Parallel(jobs)
