"""What runs in a Slurm job: takes tasks from its inbox, trains them, and appends what it finishes to its segment.

All goes through a folder that the coordinator sees too. A worker that nobody gives work ends by itself; one whose time
runs out writes checkpoints, says so, and is queued again as a new one.
"""

import os
import secrets
import signal
import socket
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.lab.backends.dealer import Answer, Work
from headstart.lab.backends.greeting import Greeting
from headstart.lab.backends.segments import Appender, Reader
from headstart.lab.workers import Group, Message, Parallel, WorkerLost, Workers

INBOX, SEGMENTS, STOP = "inbox", "segments", "stop"
TASK, SEGMENT = ".task", ".segment"
# In seconds: between looks into the inbox, between signs of life, without work until it leaves, for its last words.
_LOOK, _BEAT, IDLE, _LAST_SECONDS = 0.2, 2.0, 120.0, 60.0


@dataclass(frozen=True)
class Hello:
    """The first record of a segment: who it is, how many tasks it trains at once, and why it may not, if so."""

    job: str
    host: str
    pid: int
    room: int
    refusal: str | None = None


@dataclass(frozen=True)
class Said:
    """A sign of life, with the messages since the last one."""

    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Given:
    """A task as it lies in an inbox."""

    number: int
    work: Work


@dataclass(frozen=True)
class Answered:
    """An answer, with the work without its inputs: a coordinator that never asked for it can store it."""

    answer: Answer
    work: Any = None


@dataclass(frozen=True)
class Goodbye:
    """The last record of a worker that left by itself; `again` where its job is queued again, as another worker."""

    again: bool = False


@dataclass
class SlurmWorker:
    """The function of a Slurm job. Its `checkpoint` is what submitit calls when a time limit is near."""

    session: Path
    key: bytes
    greeting: Greeting
    cpus: int = 1
    idle_seconds: float = IDLE

    def __call__(self) -> None:
        """Work until there is nothing more to do."""
        self.leaving, self.again = threading.Event(), False
        self.greeting.settle()
        # The main thread stays free for signals.
        signal.signal(signal.SIGTERM, lambda *_: self.leaving.set())
        pool = Parallel(self.cpus)
        self.thread = threading.Thread(target=self._work, args=(pool,), daemon=True)
        self.thread.start()
        self.thread.join()

    def checkpoint(self) -> Any:
        """The time limit is near: write checkpoints, say what is finished, and be queued again."""
        from submitit.helpers import DelayedSubmission

        self.again = True
        self.leaving.set()
        self.thread.join(_LAST_SECONDS)
        return DelayedSubmission(SlurmWorker(self.session, self.key, self.greeting, self.cpus, self.idle_seconds))

    def _work(self, pool: Workers) -> None:
        job = _job_id()
        name = f"{job}-{secrets.token_hex(4)}"
        inbox = self.session / INBOX / name
        inbox.mkdir(parents=True)
        segment = Appender(self.session / SEGMENTS / f"{name}{SEGMENT}", self.key, _log)
        refusal = self.greeting.refusal()
        segment.append(Hello(job, socket.gethostname(), os.getpid(), self.cpus, refusal))
        try:
            if refusal is None:
                with pool:
                    _Shift(self, pool, inbox, segment).last()
            segment.append(Goodbye(self.again))
        finally:
            segment.close()


class _Shift:
    """The tasks of a worker, from the first to its leaving."""

    def __init__(self, worker: SlurmWorker, pool: Workers, inbox: Path, segment: Appender) -> None:
        self.worker, self.pool, self.inbox, self.segment = worker, pool, inbox, segment
        self.under_way: dict[Future[Any], Given] = {}
        self.busy = self.beat = time.monotonic()

    def last(self) -> None:
        """Work until it is time to leave, and leave nothing unsaid."""
        while not self._is_over():
            self._take()
            self._say()
            wait(self.under_way, _LOOK, FIRST_COMPLETED) if self.under_way else time.sleep(_LOOK)
            self._answer()
        self.pool.stop()
        wait(self.under_way, _LAST_SECONDS)
        self._answer()

    def _is_over(self) -> bool:
        if self.under_way:
            self.busy = time.monotonic()
        stopped = (self.worker.session / STOP).exists() or not self.worker.session.exists()
        return self.worker.leaving.is_set() or stopped or time.monotonic() - self.busy > self.worker.idle_seconds

    def _take(self) -> None:
        for path in sorted(self.inbox.glob(f"*{TASK}")):
            try:
                (given,) = Reader(path, self.worker.key).read()
            except Exception as error:
                self.segment.append(Answered(Answer.unread(int(path.stem), error)))
            else:
                work = self.worker.greeting.fit(given.work) if isinstance(given.work, Group) else given.work
                future = self.pool.submit(work) if isinstance(work, Group) else self.pool.call(work)
                self.under_way[future] = given
            path.unlink()

    def _say(self) -> None:
        if time.monotonic() - self.beat > _BEAT:
            self.beat = time.monotonic()
            self.segment.append(Said(tuple(self.pool.messages())), sync=False)

    def _answer(self) -> None:
        done = [future for future in self.under_way if future.done()]
        for future in done:
            given = self.under_way.pop(future)
            if isinstance(future.exception(), WorkerLost):
                self.worker.leaving.set()  # a process of ours died: others do this work
                continue
            work = given.work.light() if hasattr(given.work, "light") else None
            self.segment.append(Answered(Answer.of(given.number, future).sendable(), work))
        if done:
            self.segment.append(Said(tuple(self.pool.messages())), sync=False)


def _job_id() -> str:
    """The number of the job this runs in."""
    from submitit import JobEnvironment

    with suppress(RuntimeError):
        return str(JobEnvironment().job_id)
    return str(os.getpid())


def _log(text: str) -> None:
    print(f"headstart worker: {text}", flush=True)
