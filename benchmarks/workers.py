"""The child processes that contestants live in: started once, idle while others run, ended with their parent."""

import importlib
import importlib.util
import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.peer import Setup
from benchmarks.workloads import Workload

PEERS = {
    "loop": ("benchmarks.loop_peer", "Loop"),
    "vmap": ("benchmarks.vmap_peer", "Vmap"),
    "bmm": ("benchmarks.bmm_peer", "Bmm"),
    "chunked": ("benchmarks.bmm_peer", "Bmm"),
    "compile": ("benchmarks.compile_peer", "Compiled"),
    "jax": ("benchmarks.jax_peer", "Jax"),
}
GEMM_SIZE = 1024


class Failed(Exception):
    """A contestant could not do what it was asked; says why."""


class Worker:
    """A child process that answers calls by name, one at a time."""

    def __init__(self, core: int | None = None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # Not a daemon: an engine may start processes of its own.
        self.process = context.Process(target=_serve, args=(theirs, core))
        self.process.start()
        theirs.close()

    def ask(self, name: str, *args: Any) -> None:
        """Begin a call."""
        self.connection.send((name, args))

    def answer(self) -> Any:
        """The answer of the call under way."""
        try:
            done, value = self.connection.recv()
        except EOFError:
            raise Failed(f"its process ended with code {self.process.exitcode}") from None
        if not done:
            raise Failed(value)
        return value

    def call(self, name: str, *args: Any) -> Any:
        """Ask and wait."""
        self.ask(name, *args)
        return self.answer()

    def close(self, now: bool) -> None:
        """End the process: after the call under way, or now."""
        self.connection.close()
        self.process.join(0 if now else 20)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(10)


def gather(workers: list[Worker]) -> list[Any]:
    """The answers of calls under way. A failure is raised once all have answered, so that none is left over."""
    answers, failures = [], []
    for worker in workers:
        try:
            answers.append(worker.answer())
        except Failed as reason:
            failures.append(reason)
    if failures:
        raise failures[0]
    return answers


def _serve(connection: Connection, core: int | None) -> None:
    """Answer until the parent hangs up. One core: XLA sees it when it starts, and makes one thread."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if core is not None:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    room = _Room()
    while True:
        try:
            name, args = connection.recv()
        except (EOFError, OSError):
            break
        try:
            answer = (True, getattr(room, name)(*args))
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        connection.send(answer)
    room.close()


class _Room:
    """What a child does."""

    def __init__(self) -> None:
        self.prepared: dict[Any, Any] = {}
        self.threads: dict[Any, int] = {}

    def prepare_peer(self, key: Any, peer: str, workload: Workload, first: int, members: int, setup: Setup) -> None:
        """Make a peer ready and take its first step, which compiles what it compiles."""
        import torch

        torch.set_num_threads(setup.threads)
        module, name = PEERS[peer]
        self.threads[key] = setup.threads
        self.prepared[key] = getattr(importlib.import_module(module), name)(workload, first, members, setup)
        self.prepared[key].advance(1)

    def prepare_ours(self, key: Any, workload: Workload) -> str:
        """Make ours ready; the engine's name."""
        from benchmarks import ours

        self.prepared[key] = ours.Ours(workload)
        self.prepared[key].timed(1)
        return ours.engine_of(workload.run).name

    def prepare_gemm(self, key: Any, threads: int) -> None:
        """Make a product of two 1024 x 1024 float32 matrices ready."""
        self.threads[key] = threads
        self.prepared[key] = _Gemm()

    def advance(self, key: Any, num_steps: int) -> tuple[int, float]:
        """(model-steps, seconds) of this many steps."""
        if key in self.threads:
            import torch

            torch.set_num_threads(self.threads[key])
        if key == "ours":
            return self.prepared[key].timed(num_steps)
        began = time.perf_counter()
        done = self.prepared[key].advance(num_steps)
        return done, time.perf_counter() - began

    def seconds_apart(self) -> list[float]:
        """The times of what ours does besides steps."""
        return self.prepared["ours"].seconds_apart

    def drop(self, key: Any) -> None:
        """Forget what was prepared."""
        self.prepared.pop(key, None)
        self.threads.pop(key, None)

    def ours(self, name: str, *args: Any) -> Any:
        """A function of `benchmarks.ours`."""
        return getattr(importlib.import_module("benchmarks.ours"), name)(*args)

    def close(self) -> None:
        """End what ours has started."""
        importlib.import_module("benchmarks.ours").close()


class _Gemm:
    def __init__(self) -> None:
        import torch

        self.a, self.b = torch.randn(2, GEMM_SIZE, GEMM_SIZE)
        self.out, self.torch = torch.empty(GEMM_SIZE, GEMM_SIZE), torch

    def advance(self, num_steps: int) -> int:
        for _ in range(num_steps):
            self.torch.mm(self.a, self.b, out=self.out)
        return num_steps


def has_jax() -> bool:
    """Whether the optional peer is installed."""
    return importlib.util.find_spec("jax") is not None
