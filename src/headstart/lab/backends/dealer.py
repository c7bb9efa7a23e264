"""Who does what: tasks that wait, workers that come and go, and what each of them was given.

It does not know how workers are reached: a back end tells it who joined, answered or was lost, and asks what to send.
"""

import heapq
import pickle
import socket
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.faults import said
from headstart.engines import Interrupted, Outcome
from headstart.lab.workers import Group, WorkerLost

Work = Group | Callable[[], Any]
# A task whose workers were lost so often is perhaps what kills them.
_MOST_LOSSES = 3


class Remote(Exception):
    """The cause of an error that a worker raised: its traceback, as text."""

    def __init__(self, tb: str) -> None:
        super().__init__(tb)
        self.tb = tb


@dataclass(frozen=True)
class Answer:
    """What came of a task: a value, or an error with its traceback."""

    number: int
    value: Any = None
    error: Exception | None = None
    tb: str = ""

    @classmethod
    def of(cls, number: int, future: "Future[Any]") -> "Answer":
        """What a future that is done holds."""
        error = future.exception()
        if error is None:
            return cls(number, future.result())
        assert isinstance(error, Exception)
        cause = getattr(error.__cause__, "tb", None)  # of a process of the worker's own
        text = cause if isinstance(cause, str) else "".join(traceback.format_exception(error))
        return cls(number, None, error, text)

    @classmethod
    def unread(cls, number: int, error: Exception) -> "Answer":
        """Of a worker that cannot read a task, such as one of a module that is not on its machine."""
        where = f"the worker on {socket.gethostname()} cannot read what it was given: {said(error)}"
        return cls(
            number, None, HeadstartError(f"{where}; put your study, and what it imports, where all machines see it")
        )

    def sendable(self) -> "Answer":
        """It with an error that pickle can restore, whatever a user's task has raised."""
        try:
            pickle.loads(pickle.dumps(self.error))
        except Exception:
            assert self.error is not None
            return replace(self, error=RuntimeError(said(self.error)))
        return self

    def to_bytes(self) -> bytes:
        """It as a pickle."""
        return pickle.dumps(self.sendable(), pickle.HIGHEST_PROTOCOL)


@dataclass
class Task:
    """Work that was asked for. `done` is what workers that had to leave had finished of it."""

    number: int
    work: Work
    future: "Future[Any]" = field(default_factory=Future)
    done: list[Outcome] = field(default_factory=list)
    losses: int = 0


class Dealer:
    """Gives tasks to workers, the emptiest first, each up to its room; takes them back from workers that are lost."""

    def __init__(self) -> None:
        self.waiting: deque[Task] = deque()
        self.given: dict[str, dict[int, Task]] = {}
        self.room: dict[str, int] = {}
        self.stopping = False
        self._next = 0
        self._emptiest: list[tuple[int, str]] = []

    @property
    def num_tasks(self) -> int:
        """The tasks that wait or are under way."""
        return len(self.waiting) + sum(map(len, self.given.values()))

    def add(self, work: Work) -> Task:
        """A new task, which waits."""
        task = Task(self._next, work)
        self._next += 1
        self.waiting.append(task)
        return task

    def join(self, name: str, room: int) -> None:
        """A worker is there, and takes so many tasks at a time."""
        self.given[name], self.room[name] = {}, room
        self._rank(name)

    def _rank(self, name: str) -> None:
        if len(self.given[name]) < self.room[name]:
            heapq.heappush(self._emptiest, (len(self.given[name]), name))

    def deal(self) -> list[tuple[str, Task]]:
        """What to send to whom now."""
        dealt = []
        while self.waiting and self._emptiest:
            load, name = heapq.heappop(self._emptiest)
            if name not in self.given or len(self.given[name]) != load:
                continue  # an older entry of its
            task = self._take()
            if task is None:
                heapq.heappush(self._emptiest, (load, name))
                break
            self.given[name][task.number] = task
            self._rank(name)
            dealt.append((name, task))
        return dealt

    def _take(self) -> Task | None:
        """The next task that nobody has cancelled."""
        while self.waiting:
            task = self.waiting.popleft()
            if task.future.running() or task.future.set_running_or_notify_cancel():
                return task
        return None

    def answer(self, name: str, answer: Answer) -> None:
        """A worker has answered; what it had to leave unfinished goes to others."""
        task = self.given.get(name, {}).pop(answer.number, None)
        if task is None:
            return
        self._rank(name)
        if isinstance(answer.error, Interrupted):
            self._leave(task, answer.error.finished)
        elif answer.error is not None:
            if answer.tb:
                answer.error.__cause__ = Remote(answer.tb)
            task.future.set_exception(answer.error)
        else:
            task.future.set_result(_whole(task, answer.value))

    def _leave(self, task: Task, finished: Iterable[Outcome]) -> None:
        """A worker left a group before its end, with some of its runs finished."""
        assert isinstance(task.work, Group)
        task.done += finished
        if self.stopping:
            task.future.set_exception(Interrupted(task.done))
            return
        ended = {(o.run.cell, o.run.seed) for o in task.done}
        left = [job for job in task.work.jobs if (job.run.cell, job.run.seed) not in ended]
        task.work = replace(task.work, jobs=left)
        if left:
            self.waiting.appendleft(task)
        else:
            task.future.set_result(task.done)

    def lose(self, name: str, why: str) -> None:
        """A worker is gone: what it was given goes to others, unless it was lost too often."""
        self.room.pop(name, None)
        for task in reversed(self.given.pop(name, {}).values()):
            task.losses += 1
            if self.stopping:
                task.future.set_exception(Interrupted(task.done))
            elif task.losses >= _MOST_LOSSES:
                task.future.set_exception(WorkerLost(f"{why}; {task.losses} workers were lost with the same work"))
            else:
                self.waiting.appendleft(task)

    def fail(self, error: Exception) -> None:
        """Nothing goes on: everybody who waits is told why."""
        tasks = [*self.waiting, *(task for its in self.given.values() for task in its.values())]
        self.waiting.clear()
        self.given = {name: {} for name in self.given}
        for task in tasks:
            if task.future.running() or task.future.set_running_or_notify_cancel():
                task.future.set_exception(error)


def _whole(task: Task, value: Any) -> Any:
    """A value with what others had finished of the task before."""
    return [*task.done, *value] if task.done else value
