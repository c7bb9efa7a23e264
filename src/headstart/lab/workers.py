"""Who trains: this process, or several threads and long-lived processes of it."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cached_property, partial
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Protocol, TypeVar

from headstart.engines import Interrupted, Job, Outcome, choose

Group = Sequence[Job]
T = TypeVar("T")


class Workers(Protocol):
    """Trains groups of jobs that share an engine."""

    slots: int

    def submit(self, group: Group, device: str) -> "Future[list[Outcome]]":
        """Train a group; the future raises Interrupted if it was stopped."""
        ...

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Do work that can be pickled and that holds the interpreter."""
        ...

    def done(self) -> float:
        """Estimated seconds of work done, runs under way included."""
        ...

    def stop(self) -> None:
        """Ask all groups under way to write a checkpoint and stop."""
        ...

    def __enter__(self) -> "Workers": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class _Meter:
    """Adds up estimated seconds as runs advance; answers whether to stop."""

    def __init__(self, group: Group, device: str, total: Any, stop: Any) -> None:
        self.total, self.stop = total, stop
        engine = choose(group[0].run, device).engine
        seconds = [engine.seconds(job.run) for job in group]
        self.per_step = [s / job.run.budget.steps for s, job in zip(seconds, group, strict=True)]
        self.last = [0] * len(group)
        self.left = sum(seconds)

    def __call__(self, index: int, step: int) -> bool:
        self._add((step - self.last[index]) * self.per_step[index])
        self.last[index] = step
        return bool(self.stop.is_set())

    def close(self) -> None:
        """Count what is left, such as the steps a diverged run did not take."""
        self._add(self.left)

    def _add(self, seconds: float) -> None:
        self.left -= seconds
        with self.total.get_lock():
            self.total.value += seconds


def _train(group: Group, device: str, total: Any, stop: Any) -> list[Outcome]:
    meter, outcomes = _Meter(group, device, total, stop), []
    try:
        for outcome in choose(group[0].run, device).engine.train(group, device, meter):
            outcomes.append(outcome)
    except Interrupted:
        raise Interrupted(outcomes) from None
    meter.close()
    return outcomes


class Serial:
    """Trains in this process, when submitted."""

    slots = 1

    def __init__(self) -> None:
        self.total, self.stopping = multiprocessing.Value("d", 0.0), threading.Event()

    def submit(self, group: Group, device: str) -> "Future[list[Outcome]]":
        """Train at once."""
        return self.call(partial(_train, group, device, self.total, self.stopping))

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Do it at once."""
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def done(self) -> float:
        """Estimated seconds of work done."""
        return float(self.total.value)

    def stop(self) -> None:
        """Nothing is under way between two calls."""
        self.stopping.set()

    def __enter__(self) -> "Serial":
        return self

    def __exit__(self, *exit: object) -> None:
        return None


_shared: tuple[Any, Any] | None = None


def _begin_worker(total: Any, stop: Any, path: list[str]) -> None:
    """In a new worker: leave Ctrl-C to the coordinator, die with it, and see the modules it sees."""
    global _shared
    _shared = (total, stop)
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _work(group: Group, device: str) -> list[Outcome]:
    assert _shared is not None
    return _train(group, device, *_shared)


class Parallel:
    """Threads for engines that release the GIL, spawned processes for the others; each is made when first needed.

    The processes die with this one, whatever ends it.
    """

    def __init__(self, jobs: int) -> None:
        self.slots = jobs
        self.context = multiprocessing.get_context("spawn")
        self.total, self.stopping = self.context.Value("d", 0.0), self.context.Event()

    @cached_property
    def threads(self) -> ThreadPoolExecutor:
        """The pool of threads."""
        return ThreadPoolExecutor(self.slots, "headstart")

    @cached_property
    def processes(self) -> ProcessPoolExecutor:
        """The pool of processes."""
        # One process a core: threads of BLAS on top would fight for them. Only what is spawned from now on sees this.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        shared = (self.total, self.stopping, list(sys.path))
        return ProcessPoolExecutor(self.slots, self.context, _begin_worker, shared)

    def submit(self, group: Group, device: str) -> "Future[list[Outcome]]":
        """Queue a group."""
        if choose(group[0].run, device).engine.in_threads:
            return self.threads.submit(_train, group, device, self.total, self.stopping)
        return self.processes.submit(_work, group, device)

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Queue it for a process."""
        return self.processes.submit(work)

    def done(self) -> float:
        """Estimated seconds of work done."""
        return float(self.total.value)

    def stop(self) -> None:
        """Runs under way stop at their next recorded step."""
        self.stopping.set()

    def __enter__(self) -> "Parallel":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for name in ("threads", "processes"):
            if name in self.__dict__:
                self.__dict__[name].shutdown(wait=True, cancel_futures=True)


def workers(jobs: int) -> Workers:
    """`jobs` threads or processes, or this process for one."""
    return Serial() if jobs == 1 else Parallel(jobs)
