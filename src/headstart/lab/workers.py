"""Who trains: this process, or a pool of long-lived processes with one torch thread each."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Protocol

from headstart.engines import Interrupted, Job, Outcome, choose

Group = Sequence[Job]


class Workers(Protocol):
    """Trains groups of jobs that share an engine. `done` is the estimated seconds of work finished or under way."""

    slots: int

    def submit(self, group: Group, device: str) -> "Future[list[Outcome]]":
        """Train a group; the future raises Interrupted if it was stopped."""
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

    def __init__(self, group: Group, total: Any, stop: Any) -> None:
        self.total, self.stop = total, stop
        engine = choose(group[0].run).engine
        self.per_step = [engine.seconds(job.run) / job.run.budget.steps for job in group]
        self.last = [0] * len(group)
        self.full = sum(engine.seconds(job.run) for job in group)
        self.counted = 0.0

    def __call__(self, index: int, step: int) -> bool:
        self._add((step - self.last[index]) * self.per_step[index])
        self.last[index] = step
        return bool(self.stop.is_set())

    def close(self) -> None:
        """Count what is left, such as the steps a diverged run did not take."""
        self._add(self.full - self.counted)

    def _add(self, seconds: float) -> None:
        self.counted += seconds
        with self.total.get_lock():
            self.total.value += seconds


def _train(group: Group, device: str, total: Any, stop: Any) -> list[Outcome]:
    meter = _Meter(group, total, stop)
    outcomes = list(choose(group[0].run).engine.train(group, device, meter))
    meter.close()
    return outcomes


class Serial:
    """Trains in this process, when submitted."""

    slots = 1

    def __init__(self) -> None:
        self.total, self.stopping = multiprocessing.Value("d", 0.0), threading.Event()

    def submit(self, group: Group, device: str) -> "Future[list[Outcome]]":
        """Train at once."""
        future: Future[list[Outcome]] = Future()
        try:
            future.set_result(_train(group, device, self.total, self.stopping))
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


class Processes:
    """A pool of spawned processes. They die with this one, whatever ends it."""

    def __init__(self, jobs: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.slots = jobs
        self.total, self.stopping = context.Value("d", 0.0), context.Event()
        self.pool = ProcessPoolExecutor(jobs, context, _begin_worker, (self.total, self.stopping, list(sys.path)))

    def submit(self, group: Group, device: str) -> "Future[list[Outcome]]":
        """Queue a group."""
        return self.pool.submit(_work, group, device)

    def done(self) -> float:
        """Estimated seconds of work done."""
        return float(self.total.value)

    def stop(self) -> None:
        """Runs under way stop at their next recorded step."""
        self.stopping.set()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)


def workers(jobs: int) -> Workers:
    """`jobs` processes, or this process for one."""
    return Serial() if jobs == 1 else Processes(jobs)


__all__ = ["Group", "Interrupted", "Processes", "Serial", "Workers", "workers"]
