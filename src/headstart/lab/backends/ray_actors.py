"""Workers on a Ray cluster, or on a Ray of this machine's own: one actor per slot.

Ray places the actors and carries tasks and answers; a worker that is lost is replaced, and its tasks go to others. The
coordinator alone writes the store. Ray Core only: no Tune, no Train.
"""

import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from headstart.core.errors import HeadstartError
from headstart.core.faults import one_line
from headstart.engines import Outcome
from headstart.lab.backends.dealer import Answer, Dealer, Work
from headstart.lab.backends.greeting import Greeting
from headstart.lab.backends.settings import Ray
from headstart.lab.workers import Group, Message, Pace, Serial

T = TypeVar("T")
# The tasks an actor is given at a time: the next is there when one is done.
_ROOM = 2
# Actors are asked for their messages this often, in seconds; more of them more seldom.
_ASK_EVERY, _ASKED_AT_A_TIME = 0.3, 300
_LAST_SECONDS = 60.0
_OBJECT_STORE_BYTES = 200 * 2**20
# A Ray that cannot place a single actor in this time is too small, or busy.
_PLACE_SECONDS = 300.0


class Actor:
    """What runs on the cluster: trains one task at a time; says how far it is, and stops, from other threads."""

    def __init__(self, greeting: Greeting) -> None:
        os.environ["OMP_NUM_THREADS"] = "1"  # one core per actor: torch, which is not imported yet, takes this many
        greeting.settle()
        self.greeting, self.here, self.turn = greeting, Serial(), threading.Lock()

    def hello(self) -> tuple[str, int, str | None]:
        """Where it is, and why it may not work, if so."""
        return socket.gethostname(), os.getpid(), self.greeting.refusal()

    def work(self, number: int, data: bytes) -> tuple[bytes, list[Message]]:
        """Do a pickled task; a pickled Answer, with the last messages."""
        try:
            work = pickle.loads(data)
        except Exception as error:
            return Answer.unread(number, error).to_bytes(), []
        with self.turn:
            done: Future[Any]
            done = self.here.submit(self.greeting.fit(work)) if isinstance(work, Group) else self.here.call(work)
        answer = Answer.of(number, done)
        return answer.to_bytes(), self.said()

    def said(self) -> list[Message]:
        """Its messages since this was last asked."""
        return self.here.messages()

    def stop(self) -> None:
        """Stop at the next record."""
        self.here.stop()


def _ray() -> Any:
    # No word leaves this machine. A Ray of our own listens on loopback alone: what keeps it off the network on other
    # systems does so here too.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise HeadstartError('--on ray: Ray is not installed here; run: pip install "headstart[ray]"') from None
    return ray


def _connect(where: Ray, jobs: int | None) -> Any:
    """Ray, started or joined."""
    if where.address is None:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = _ray()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if where.address is None:
        size = {"num_cpus": jobs, "num_gpus": None, "object_store_memory": _OBJECT_STORE_BYTES}
        quiet |= {"include_dashboard": False, **size}
    try:
        ray.init(address=where.address or "local", namespace="headstart", **quiet)
    except Exception as error:  # it fails in many ways: no such host, another version of Ray or Python
        at = f"://{where.address.removeprefix('ray://')}" if where.address else ""
        raise HeadstartError(
            f"--on ray{at}: Ray cannot be used: {one_line(str(error))}; see that one was started there, with "
            "`ray start --head`, and that RAY_AUTH_MODE is token here if it asks for one"
        ) from None
    return ray


def _num_slots(ray: Any, gpus: float) -> int:
    """As many workers as the cluster has cores, or shares of its GPUs."""
    there = ray.cluster_resources()
    slots = int(there.get("CPU", 1))
    if gpus:
        per_gpu = int(1 / gpus) if gpus <= 1 else 1 / gpus
        slots = min(slots, int(there.get("GPU", 0) * per_gpu))
        if not slots:
            raise HeadstartError(f"--gpus {gpus:g}: this Ray has {there.get('GPU', 0):g} GPUs; ask for fewer, or none")
    return max(1, slots)


class RayWorkers:
    """Trains on Ray."""

    pace = Pace(least=1.0)

    def __init__(self, where: Ray, jobs: int | None, greeting: Greeting) -> None:
        self.ray = _connect(where, jobs)
        self.gpus, self.greeting = where.gpus, greeting
        try:
            self.slots = jobs or _num_slots(self.ray, where.gpus)
        except HeadstartError:
            self.ray.shutdown()
            raise
        self.dealer, self.actors = Dealer(), dict[str, Any]()
        self.events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.said: SimpleQueue[Message] = SimpleQueue()
        self.num_made, self.closing, self.asked = 0, False, set[str]()
        self.placed = self.last_ask = time.monotonic()
        for _ in range(self.slots):
            self._make()
        self.thread = threading.Thread(target=self._serve, name="headstart-ray", daemon=True)
        self.thread.start()

    # What the coordinator's other threads call.

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
        """Runs under way stop at their next recorded step."""
        self.events.put(self._stop)

    def __enter__(self) -> "RayWorkers":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.closing = True
        self.events.put(lambda: None)
        self.thread.join(_LAST_SECONDS)
        self.ray.shutdown()

    # What the thread of the cluster does.

    def _serve(self) -> None:
        try:
            while not self.closing:
                self._hear(_ASK_EVERY)
                for name, task in self.dealer.deal():
                    self._send(name, task.number, task.work)
                self._ask()
                self._check_placed()
        except Exception as error:
            self.dealer.fail(error)
            while not self.closing:  # who asks from now on is told the same
                self._hear(_ASK_EVERY)
                self.dealer.fail(error)

    def _check_placed(self) -> None:
        """Raise where Ray has had no room for any worker for long."""
        if self.dealer.given:
            self.placed = time.monotonic()
        elif time.monotonic() - self.placed > _PLACE_SECONDS:
            raise HeadstartError(
                f"--on ray: Ray placed no worker in {_PLACE_SECONDS:.0f} s; `ray status` says what it has free"
            )

    def _hear(self, seconds: float) -> None:
        """Do what happened since."""
        try:
            self.events.get(timeout=seconds)()
            while True:
                self.events.get_nowait()()
        except Empty:
            return

    def _make(self) -> None:
        """Ask Ray for one more actor; it joins once it has said hello."""
        name = f"worker {self.num_made}"
        self.num_made += 1
        # Threads for its tasks, of which one trains, and for what it is asked meanwhile.
        asked = {"num_cpus": 1, "num_gpus": self.gpus, "max_concurrency": _ROOM + 2}
        actor = self.ray.remote(Actor).options(**asked).remote(self.greeting)
        self.actors[name] = actor
        self._when(actor.hello.remote(), name, self._join)

    def _when(self, ref: Any, name: str, do: Callable[[str, Any], None]) -> None:
        """Once a call of an actor's has ended: do this with what it returned, or lose the actor."""

        def happened(future: "Future[Any]") -> None:
            error = future.exception()
            if error is None:
                self.events.put(lambda: do(name, future.result()))
            else:
                self.events.put(lambda: self._lost(name, error))

        ref.future().add_done_callback(happened)

    def _join(self, name: str, hello: tuple[str, int, str | None]) -> None:
        refusal = hello[2]
        if refusal is not None:
            raise HeadstartError(refusal)
        self.dealer.join(name, _ROOM)

    def _send(self, name: str, number: int, work: Work) -> None:
        def answered(name: str, reply: tuple[bytes, list[Message]]) -> None:
            self._heard(name, reply[1])
            self.dealer.answer(name, pickle.loads(reply[0]))

        data = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
        self._when(self.actors[name].work.remote(number, data), name, answered)

    def _lost(self, name: str, error: BaseException) -> None:
        """An actor died, or its node was removed: another takes its place."""
        if name not in self.actors:
            return
        del self.actors[name]
        self.asked.discard(name)
        joined = name in self.dealer.given
        why = f"a worker on Ray died ({one_line(str(error)).partition('. ')[0]})"
        self.dealer.lose(name, why)
        if not joined and getattr(error, "actor_init_failed", True):
            raise HeadstartError(f"--on ray: a worker could not start: {one_line(str(error))}") from None
        if not joined and not self.dealer.given and self.num_made > 3 * self.slots + 3:
            raise HeadstartError(f"--on ray: workers die before they begin: {why}")
        if not self.closing:
            self._make()

    def _ask(self) -> None:
        """Ask all actors for their messages, now and then, those that have answered the last time."""
        now = time.monotonic()
        if now - self.last_ask < _ASK_EVERY * max(1.0, len(self.actors) / _ASKED_AT_A_TIME):
            return
        self.last_ask = now
        for name in self.dealer.given.keys() - self.asked:
            self.asked.add(name)
            ref = self.actors[name].said.remote()
            self._when(ref, name, self._has_said)

    def _heard(self, name: str, messages: list[Message]) -> None:
        for message in messages:
            self.said.put(message)

    def _has_said(self, name: str, messages: list[Message]) -> None:
        self.asked.discard(name)
        self._heard(name, messages)

    def _stop(self) -> None:
        self.dealer.stopping = True
        for name in self.dealer.given:
            self.actors[name].stop.remote()
