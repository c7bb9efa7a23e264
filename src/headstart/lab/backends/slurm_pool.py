"""Workers in jobs of Slurm: the coordinator's side.

Tasks go into inboxes and answers come in segments, files of a folder that all nodes share, so that nothing is lost with
the coordinator: the next one stores what it finds. The coordinator alone writes the store.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from headstart.core.errors import HeadstartError
from headstart.engines import Outcome
from headstart.lab.backends.dealer import Dealer, Work
from headstart.lab.backends.greeting import Greeting
from headstart.lab.backends.segments import Damaged, Reader
from headstart.lab.backends.settings import Slurm
from headstart.lab.backends.slurm_jobs import Jobs
from headstart.lab.backends.slurm_session import Session
from headstart.lab.backends.slurm_worker import Answered, Goodbye, Hello, Said, SlurmWorker
from headstart.lab.workers import Group, Message, Pace

T = TypeVar("T")
# In seconds: between looks at segments; between questions to the batch system; without a sign of life until a worker is
# held to be lost; for workers to leave.
_LOOK, _ASK, _SILENT, _FAREWELL = 0.2, 10.0, 180.0, 60.0
# So many jobs that end before they begin are no accident.
_MOST_STILLBORN = 3


@dataclass
class _Worker:
    """A segment that is being read, and of whom it is."""

    reader: Reader
    hello: Hello | None = None
    heard: float = 0.0
    gone: bool = False


class SlurmWorkers:
    """Trains in jobs of Slurm."""

    pace = Pace(least=2.0, most=20.0)

    def __init__(self, store: Path, slurm: Slurm, jobs: int, greeting: Greeting, key: bytes) -> None:
        self.slurm, self.num_jobs, self.slots = slurm, jobs, jobs * slurm.cpus
        self.session = Session.new(store)
        try:
            self.jobs = Jobs(self.session.logs, slurm)
        except HeadstartError:
            self.session.remove()
            self.session.release()
            raise
        self.worker = SlurmWorker(self.session.folder, key, replace(greeting, shared=self.session.seen), slurm.cpus)
        self.key, self.dealer, self.workers = key, Dealer(), dict[str, _Worker]()
        self.queued, self.coming = set[str](), set[str]()
        self.ask_every = _ASK if slurm.cluster == "slurm" else _LOOK
        self.events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.said: SimpleQueue[Message] = SimpleQueue()
        self.closing, self.num_stillborn, self.last_ask = False, 0, time.monotonic()
        self.thread = threading.Thread(target=self._serve, name="headstart-slurm", daemon=True)
        self.thread.start()

    def submit(self, group: Group) -> "Future[list[Outcome]]":
        """Queue a group."""
        return self._add(group)

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """Queue it."""
        return self._add(work)

    def _add(self, work: Work) -> "Future[Any]":
        made: SimpleQueue[Future[Any]] = SimpleQueue()
        self.events.put(lambda: made.put(self.dealer.add(work).future))
        return made.get()

    def messages(self) -> list[Message]:
        """What was said since this was last asked."""
        out = []
        while not self.said.empty():
            out.append(self.said.get())
        return out

    def stop(self) -> None:
        """Workers write checkpoints and leave."""
        self.events.put(self._stop)

    def _stop(self) -> None:
        self.dealer.stopping = True
        self.session.stop()
        self.jobs.cancel(self.coming)

    def __enter__(self) -> "SlurmWorkers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()
        until = time.monotonic() + _FAREWELL
        while self._has_workers() and time.monotonic() < until:
            time.sleep(_LOOK)
        left = self._has_workers()
        self.closing = True
        self.thread.join(_FAREWELL)
        self.jobs.reap(_FAREWELL)
        if not left and kind is None:
            self.session.remove()
        self.session.release()

    def _has_workers(self) -> bool:
        return self.thread.is_alive() and any(not worker.gone for worker in list(self.workers.values()))

    # What the thread of the session does.

    def _serve(self) -> None:
        try:
            while not self.closing:
                self._hear()
                self._read()
                for name, task in self.dealer.deal():
                    self.session.give(name, task.number, task.work, self.key)
                self._hire()
                if time.monotonic() - self.last_ask > self.ask_every:
                    self._count()
        except Exception as error:
            for worker in self.workers.values():
                worker.gone = True  # nobody listens to them any more
            self.dealer.fail(error)
            while not self.closing:  # who asks from now on is told the same
                self._hear()
                self.dealer.fail(error)

    def _hear(self) -> None:
        """Do what others asked for since."""
        try:
            self.events.get(timeout=_LOOK)()
            while True:
                self.events.get_nowait()()
        except Empty:
            return

    def _read(self) -> None:
        """Read what the workers have appended."""
        for path in self.session.segments():
            if path.stem not in self.workers:
                self.workers[path.stem] = _Worker(Reader(path, self.key), heard=time.monotonic())
        for name, worker in self.workers.items():
            if worker.gone:
                continue
            try:
                for record in worker.reader.read():
                    worker.heard = time.monotonic()
                    self._take(name, worker, record)
            except Damaged as error:
                self._lost(name, str(error))

    def _take(self, name: str, worker: _Worker, record: Any) -> None:
        if isinstance(record, Hello):
            worker.hello, self.num_stillborn = record, 0
            self.coming.discard(record.job)
            if record.refusal is not None:
                raise HeadstartError(record.refusal)
            # The next tasks are there when one is done.
            self.dealer.join(name, 2 * record.room)
        elif isinstance(record, Answered):
            self.dealer.answer(name, record.answer)
        elif isinstance(record, Said):
            for message in record.messages:
                self.said.put(message)
        elif isinstance(record, Goodbye):
            if record.again and worker.hello is not None:
                self.coming.add(worker.hello.job)
            self._lost(name, "a Slurm worker lost a process of its own, perhaps for want of memory")

    def _lost(self, name: str, why: str) -> None:
        """A worker is gone; what it was given goes to others."""
        self.workers[name].gone = True
        self.dealer.lose(name, f"{why}; logs are in {self.session.logs}; ask for more with --memory GB")

    def _hire(self) -> None:
        """Queue workers, as many as there is work for."""
        num_here = sum(worker.hello is not None and not worker.gone for worker in self.workers.values())
        most = min(self.num_jobs, -(-self.dealer.num_tasks // self.slurm.cpus))
        wanted = most - num_here - len(self.coming)
        if wanted > 0 and not self.dealer.stopping:
            ids = self.jobs.start(self.worker, wanted)
            self.queued |= set(ids)
            self.coming |= set(ids)
            self.session.note_jobs(ids)

    def _count(self) -> None:
        """Ask the batch system which workers are alive, and find those that are silent."""
        self.last_ask = time.monotonic()
        alive = self.jobs.alive(self.queued)
        self._read()  # what a dead worker wrote is all there now
        for name, worker in self.workers.items():
            if worker.gone or worker.hello is None:
                continue
            silent = time.monotonic() - worker.heard > _SILENT
            if worker.hello.job not in alive or silent:
                self._lost(name, f"a Slurm worker on {worker.hello.host} {'was silent' if silent else 'died'}")
        self.num_stillborn += len(self.coming - alive)
        self.coming &= alive
        self.queued &= alive
        if self.num_stillborn >= _MOST_STILLBORN:
            raise HeadstartError(
                f"--on slurm: {self.num_stillborn} jobs ended before they began; logs are in {self.session.logs}; "
                "the store's folder must be one that all nodes see"
            )
