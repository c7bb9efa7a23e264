"""What is training now: a file beside the store that the coordinator of a study appends to, removed at the end.

Each line is one JSON object. "session" says who writes, "progress" how far the work is, "cell" what a cell is,
"begun" and "ended" which runs are under way, and "record" what one has just recorded. The file is for people who look
on: nothing is ever computed from it, and a disk that refuses it stops no run.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from headstart.core.encoding import settings
from headstart.core.files import replacing
from headstart.engines import Outcome
from headstart.lab.arms import Arm
from headstart.lab.ledger import Edition
from headstart.lab.progress import Progress
from headstart.lab.starts import Key
from headstart.lab.sweep import RateOf, Sweep
from headstart.lab.workers import Group, Message, Recorded, Serial, Workers
from headstart.run import Run

T = TypeVar("T")
# Above this many bytes the file is written anew, without the records of runs that have ended.
_MOST_BYTES = 4 * 2**20
# A run under way keeps at most this many records; then every other is dropped.
_MOST_RECORDS = 512
_PROGRESS_EVERY = 0.2
# A file of another machine counts as abandoned when nothing was written to it for so many seconds.
_SILENT_SECONDS = 120.0


def live_files(store: Path) -> list[Path]:
    """The live files beside a store, of commands that still run."""
    return [path for path in sorted(store.parent.glob(f"{_escaped(store.name)}.live-*")) if _is_alive(path)]


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _is_alive(path: Path) -> bool:
    """Whether the command that writes a live file still runs; its name ends in the machine and the process."""
    host, _, number = path.name.rpartition(".live-")[2].rpartition("-")
    try:
        if host != _host() or not number.isdecimal() or os.name != "posix":
            return time.time() - path.stat().st_mtime < _SILENT_SECONDS
        os.kill(int(number), 0)  # signal 0 only asks whether the process is there
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _host() -> str:
    return "".join(c if c.isalnum() else "_" for c in socket.gethostname())[:60]


class LiveFile:
    """Writes a live file; several threads may. After the first refusal of the system it writes no more."""

    def __init__(self, store: Path, session: dict[str, Any], arm_of: Callable[[Run], str | None]) -> None:
        self.path = store.with_name(f"{store.name}.live-{_host()}-{os.getpid()}")
        self.session, self.arm_of = session, arm_of
        self.progress: dict[str, Any] = {}
        self.cells: dict[str, dict[str, Any]] = {}
        self.records: dict[Key, list[list[Any]]] = {}
        self._lock, self._size, self._most = threading.Lock(), 0, _MOST_BYTES
        self._broken, self._said = False, 0.0
        with self._lock:
            self._rewrite()

    def say_progress(self, title: str, done: float, total: float, text: str) -> None:
        """Note how far the work is, now and then."""
        began = self.progress["began"] if self.progress.get("title") == title else time.time()
        said = {"title": title, "done": done, "total": total, "text": text}
        self.progress = {**said, "began": began, "at": time.time()}
        if time.monotonic() - self._said > _PROGRESS_EVERY:
            self._said = time.monotonic()
            self._append([{"progress": self.progress}])

    def begin(self, runs: Iterable[Run]) -> None:
        """Note that runs are under way."""
        lines: list[dict[str, Any]] = []
        begun = []
        for run in runs:
            if run.cell not in self.cells:
                said = settings(json.loads(run.json))
                self.cells[run.cell] = {"cell": run.cell, "arm": self.arm_of(run), "steps": run.budget.steps}
                self.cells[run.cell]["settings"] = {name: value for name, value in said.items() if _is_short(value)}
                lines.append({"cell": self.cells[run.cell]})
            self.records[run.cell, run.seed] = []
            begun.append([run.cell, run.seed])
        self._append([*lines, {"begun": begun}])

    def end(self, keys: Sequence[Key]) -> None:
        """Note that runs are stored, or will not be."""
        for key in keys:
            self.records.pop(key, None)
        self._append([{"ended": [list(key) for key in keys]}])

    def record(self, messages: Iterable[Recorded]) -> None:
        """Note what runs have recorded."""
        lines = []
        for each in messages:
            cost = each.cost
            values = {name: float(f"{value:.6g}") for name, value in each.values.items()}
            row = [each.cell, each.seed, cost.steps, cost.samples, cost.flops, values]
            kept = self.records.setdefault((each.cell, each.seed), [])
            kept.append(row)
            if len(kept) > _MOST_RECORDS:
                del kept[1::2]
            lines.append({"record": row})
        if lines:
            self._append(lines)

    def _append(self, lines: Sequence[dict[str, Any]]) -> None:
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        with self._lock:
            if self._broken:
                return
            if self._size + len(data) > self._most:
                self._rewrite()
                return
            try:
                with self.path.open("ab") as file:
                    file.write(data)
                self._size += len(data)
            except OSError:
                self._broken = True

    def _rewrite(self) -> None:
        """Write what is still true as a new file in place of the old one."""
        lines: list[dict[str, Any]] = [{"session": self.session}]
        lines += [{"progress": self.progress}] if self.progress else []
        used = {cell for cell, _ in self.records}
        lines += [{"cell": said} for cell, said in self.cells.items() if cell in used]
        lines += [{"begun": [list(key) for key in self.records]}] if self.records else []
        lines += [{"record": row} for rows in self.records.values() for row in rows]
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        try:
            with replacing(self.path) as temporary:
                temporary.write_bytes(data)
            # Where what is under way takes so much by itself, the file may double before it is written anew.
            self._size, self._most = len(data), max(_MOST_BYTES, 2 * len(data))
        except OSError:
            self._broken = True

    def close(self) -> None:
        """Remove the file."""
        with self._lock, suppress(OSError):
            self._broken = True
            self.path.unlink(missing_ok=True)


def _is_short(value: Any) -> bool:
    return not isinstance(value, str) or len(value) <= 200


def find_arm(run: Run, arms: Iterable[Arm]) -> str | None:
    """The arm that a run serves, whatever its sweep tries; None for one that others start from."""
    known = {arm.name: arm for arm in arms}
    for name, arm in known.items():
        sweep = arm.sweep
        if isinstance(sweep, RateOf) and sweep.arm in known:
            sweep = known[sweep.arm].sweep
        try:
            if (
                (sweep.base(run).cell == sweep.base(arm.run).cell)
                if isinstance(sweep, Sweep)
                else run.cell == arm.run.cell
            ):
                return name
        except ValueError:  # a run without what the sweep of this arm varies
            continue
    return None


class Followed:
    """A pool whose runs are noted in a live file: those under way, and what they record."""

    def __init__(self, pool: Workers, live: LiveFile) -> None:
        self.pool, self.live, self.slots, self.pace = pool, live, pool.slots, pool.pace
        self._ended: list[Key] = []
        self._kept: list[Message] = []

    def submit(self, group: Group) -> "Future[list[Outcome]]":
        """Train a group; while this process itself trains, a thread passes its records on."""
        keys = [(job.run.cell, job.run.seed) for job in group.jobs]
        self.live.begin(job.run for job in group.jobs)
        with _repeating(self._listen) if isinstance(self.pool, Serial) else nullcontext():
            future = self.pool.submit(group)
        # They count as ended when messages are asked for next, after what they found was stored.
        future.add_done_callback(lambda _: self._ended.extend(keys))
        return future

    def call(self, work: Callable[[], T]) -> "Future[T]":
        """As of the pool."""
        return self.pool.call(work)

    def _listen(self) -> None:
        said = self.pool.messages()
        self.live.record(message for message in said if isinstance(message, Recorded))
        self._kept += [message for message in said if not isinstance(message, Recorded)]

    def messages(self) -> list[Message]:
        """What the workers have said, but for records, which go into the file."""
        self._listen()
        kept, self._kept = self._kept, []
        ended, self._ended = self._ended, []
        if ended:
            self.live.end(ended)
        return kept

    def stop(self) -> None:
        """As of the pool."""
        self.pool.stop()

    def __enter__(self) -> "Followed":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None


@contextmanager
def _repeating(what: Callable[[], None]) -> Iterator[None]:
    """Do it in a thread again and again until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(_PROGRESS_EVERY):
            what()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Noted:
    """Progress that is noted in a live file too."""

    def __init__(self, progress: Progress, live: LiveFile) -> None:
        self.progress, self.live = progress, live
        self.title, self.total = "", 0.0

    def begin(self, title: str, total: float) -> None:
        """A new piece of work."""
        self.title, self.total = title, total
        self.progress.begin(title, total)
        self.live.say_progress(title, 0.0, total, "")

    def update(self, done: float, text: str = "") -> None:
        """So much of it is done."""
        self.progress.update(done, text)
        self.live.say_progress(self.title, done, self.total, text)

    def __enter__(self) -> "Noted":
        return self

    def __exit__(self, *exit: object) -> None:
        return None


@contextmanager
def following(
    store: Path, edition: Edition, arms: Sequence[Arm], pool: Workers, progress: Progress
) -> Iterator[tuple[Workers, Progress]]:
    """The pool and the progress of a study, noted in a live file beside the store while the block lasts."""
    for path in set(store.parent.glob(f"{_escaped(store.name)}.live-*")) - set(live_files(store)):
        with suppress(OSError):
            path.unlink()  # its command was killed
    labels = {arm.name: arm.label for arm in arms}
    session = {**edition._asdict(), "started": time.time(), "process": os.getpid(), "host": _host(), "labels": labels}
    live = LiveFile(store, session, lambda run: find_arm(run, arms))
    try:
        yield Followed(pool, live), Noted(progress, live)
    finally:
        live.close()
