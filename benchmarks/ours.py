"""Headstart itself: what `choose` picks, over chunks of members in a thread a core, as the runner does."""

import os
import time
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import headstart as hs
from benchmarks.workloads import Workload
from headstart.engines import Engine, Job, Outcome, choose
from headstart.lab.workers import Group, workers

# Members trained in one call of the engine, at most.
CHUNK = 64


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0))


def engine_of(run: hs.Run) -> Engine:
    """What `choose` picks."""
    return choose(run).engine


class Ours:
    """Members trained from step 0 by the engine. What is not a step is timed apart, as the peers do not do it.

    A training of n + 1 steps less one of 1 step, which has the same initial weights, test sets and two evaluations.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.seconds_apart: list[float] = []

    def timed(self, num_steps: int) -> tuple[int, float]:
        """(model-steps, seconds of these alone)."""
        apart, whole = (_seconds(self.workload.run, self.workload.members, n) for n in (1, num_steps + 1))
        self.seconds_apart.append(apart)
        return num_steps * self.workload.members, max(whole - apart, 1e-3 * whole)


def train(run: hs.Run, members: int, num_steps: int) -> list[Outcome]:
    """The outcomes of seeds 0 .. members - 1. Raises if a run diverged: it would have stopped early."""
    timed = replace(run, budget=hs.Budget(steps=num_steps, record_every=num_steps))
    engine, jobs = engine_of(timed), [Job(timed.at(seed)) for seed in range(members)]
    size = min(CHUNK, -(-members // cores()))
    chunks = [jobs[i : i + size] for i in range(0, members, size)]
    if engine.in_threads:
        if len(chunks) == 1 and hasattr(engine, "threads"):
            engine = replace(engine, threads=cores())  # type: ignore[type-var]
        with ThreadPoolExecutor(cores()) as pool:
            done = list(pool.map(lambda chunk: list(engine.train(chunk)), chunks))
    else:
        done = _in_processes(engine, chunks)
    outcomes = [outcome for chunk in done for outcome in chunk]
    if any(outcome.trace.status is not hs.Status.FINISHED for outcome in outcomes):
        raise RuntimeError("a member diverged; the benchmark's learning rates are too high")
    return outcomes


_pool: Any = None


def _in_processes(engine: Engine, chunks: Sequence[Sequence[Job]]) -> list[list[Outcome]]:
    """The runner's own processes, made once: starting them is no part of the rate."""
    global _pool
    if cores() == 1:
        return [list(engine.train(chunk)) for chunk in chunks]
    _pool = _pool or workers(cores())
    futures = [_pool.submit(Group(engine, chunk, engine.seconds(chunk[0].run))) for chunk in chunks]
    return [future.result() for future in futures]


def close() -> None:
    """End the processes, if there are any."""
    if _pool is not None:
        _pool.__exit__(None, None, None)


def _seconds(run: hs.Run, members: int, num_steps: int) -> float:
    began = time.perf_counter()
    train(run, members, num_steps)
    return time.perf_counter() - began


def seconds(run: hs.Run, members: int, num_steps: int, repeats: int) -> float:
    """Seconds of `num_steps` steps alone, as `Ours` times them: the least of each of the two, after one to warm up."""
    _seconds(run, members, 1)
    apart, whole = (min(_seconds(run, members, n) for _ in range(repeats)) for n in (1, num_steps + 1))
    return max(whole - apart, 1e-3 * whole)


def member_bytes(run: hs.Run, num_steps: int, few: int = 8, many: int = 40) -> float:
    """Bytes a further member takes while it trains in the same call, from the peaks of two sizes of one call."""
    timed = replace(run, budget=hs.Budget(steps=num_steps, record_every=num_steps))
    engine = engine_of(timed)
    peaks = []
    list(engine.train([Job(timed)]))
    for members in (few, many):
        jobs = [Job(timed.at(seed)) for seed in range(members)]
        tracemalloc.start()
        list(engine.train(jobs))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (many - few)


def reset_peak_memory() -> None:
    """Make the kernel forget the largest resident size of this process, where it can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> float:
    """The largest resident size, in bytes, since it was reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024.0 * int(line.split()[1])
    return float("nan")
