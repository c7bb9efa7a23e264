"""The folder through which a coordinator and its Slurm workers talk, and what a dead coordinator left in one.

`<store>.slurm/<session>/` has the workers' inboxes and segments, the numbers of their jobs, and a file that says stop.
The coordinator holds the session's lock as long as it lives.
"""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.backends.segments import Damaged, Reader, sealed
from headstart.lab.backends.settings import Slurm
from headstart.lab.backends.slurm_jobs import Jobs
from headstart.lab.backends.slurm_worker import INBOX, SEGMENT, SEGMENTS, STOP, TASK, Answered, Given, Goodbye, Hello
from headstart.lab.store import Store

_LOCK, _JOBS, _LOGS = "lock", "jobs", "logs"
# Workers of a dead coordinator are told to stop, and have so long to say what they finished, in seconds.
_FAREWELL = 60.0


class Session:
    """One coordinator's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock: int | None = None

    @classmethod
    def new(cls, store: Path) -> "Session":
        """A session beside a store, with its lock held."""
        session = cls(sessions(store) / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}")
        try:
            for name in (INBOX, SEGMENTS, _JOBS):
                (session.folder / name).mkdir(parents=True)
            session.folder.chmod(0o700)
        except OSError as error:
            raise HeadstartError(
                f"--on slurm: {session.folder} cannot be made: {error}; name a store with --store PATH in a folder "
                "that all nodes share"
            ) from None
        session.take()
        return session

    def take(self) -> bool:
        """Hold its lock, if nobody does."""
        import fcntl  # where Slurm is, it is

        file = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self.lock = file
        return True

    def release(self) -> None:
        """Let go of its lock."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    @property
    def seen(self) -> Path:
        """A file that whoever shares the folder sees."""
        return self.folder / _LOCK

    @property
    def logs(self) -> Path:
        """What the workers print, and submitit's files."""
        return self.folder / _LOGS

    def note_jobs(self, ids: list[str]) -> None:
        """Remember jobs that were queued."""
        for job in ids:
            (self.folder / _JOBS / job).touch()

    def jobs(self) -> set[str]:
        """The jobs that were queued."""
        return {path.name for path in (self.folder / _JOBS).iterdir()}

    def give(self, worker: str, number: int, work: Any, key: bytes) -> None:
        """Put a task into the inbox of a worker."""
        with replacing(self.folder / INBOX / worker / f"{number:09d}{TASK}") as temporary:
            temporary.write_bytes(sealed(Given(number, work), key))

    def segments(self) -> list[Path]:
        """The segments there are."""
        return sorted((self.folder / SEGMENTS).glob(f"*{SEGMENT}"))

    def stop(self) -> None:
        """Tell the workers to write checkpoints, say what they finished, and leave."""
        with suppress(OSError):
            (self.folder / STOP).touch()

    def remove(self) -> None:
        """Delete it, with its logs."""
        shutil.rmtree(self.folder, ignore_errors=True)


def sessions(store: Path) -> Path:
    """Where the sessions of a store are."""
    return store.with_name(store.name + ".slurm").absolute()


def abandoned(store: Path) -> Iterator[Session]:
    """The sessions of a store whose coordinator is dead, each with its lock held."""
    folder = sessions(store)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        session = Session(path)
        if path.is_dir() and session.take():
            yield session


def recover(store: Store, slurm: Slurm, key: bytes) -> tuple[int, list[str]]:
    """Store what the workers of dead coordinators finished: how many answers, and what could not be read.

    Workers that are still alive are told to stop, and waited for.
    """
    num, problems = 0, list[str]()
    for session in abandoned(store.path):
        session.stop()
        readers: dict[Path, Reader] = {}
        last, gone, until = dict[Path, Any](), set[Path](), time.monotonic() + _FAREWELL
        jobs, ids = Jobs(session.logs, slurm), session.jobs()
        jobs.cancel(ids - {path.name.partition("-")[0] for path in session.segments()})  # never began
        while True:
            alive = jobs.alive(ids)  # asked first: what a dead one wrote is all there
            for path in set(session.segments()) - gone:
                try:
                    for record in readers.setdefault(path, Reader(path, key)).read():
                        last[path] = record
                        if isinstance(record, Answered):
                            num += _kept(record, store)
                        if isinstance(record, Hello) and record.job not in alive:
                            gone.add(path)
                except Damaged as error:
                    problems.append(str(error))
                    gone.add(path)
                if isinstance(last.get(path), Goodbye):
                    gone.add(path)
            if set(session.segments()) <= gone or time.monotonic() > until or not alive:
                break
            time.sleep(0.2)
        if not problems:
            session.remove()
        session.release()
    return num, problems


def _kept(record: Answered, store: Store) -> int:
    """Store an answer; 0 where it is an error, or nobody keeps it."""
    finished = getattr(record.answer.error, "finished", None)  # of a group that was stopped
    value = record.answer.value if finished is None else finished
    if record.work is None or not value:
        return 0
    record.work.keep(store, value)
    return 1
