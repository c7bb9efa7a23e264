"""Ray beside the pool of this machine, and the coordinator of a large cluster alone: `python -m benchmarks.far`.

What a call costs: a function that does nothing, one call after the other, and many at once. Runs per second: the same
runs of a study's laptop preset, at seeds that no preset uses, by two workers of each kind, which take turns after both
have loaded their kernels. The coordinator: 1,000 slots whose workers answer at once with curves as long as those of the
study, each answer pickled and read as from Ray, each run stored; the time of making the answers is taken off. Times of
the coordinator are of its processor: what it waits for the disk stands beside them, by the clock.
"""

import argparse
import json
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import headstart as hs
from headstart.engines import Job, Outcome, choose
from headstart.lab.backends import Ray, ray_workers
from headstart.lab.backends.dealer import Answer, Dealer
from headstart.lab.runner import execute
from headstart.lab.workers import Group, Message, Pace, Parallel, Workers
from headstart.studies import select

STUDY, JOBS, SLOTS = "less_data/mini_and_full_batch_mlp", 2, 1000
# Of the pool of this machine's runs per second, Ray's must be at least this share.
BAR = 0.8
FIRST_SEED = 10_000_000


def milliseconds_per_call(pool: Workers, num: int) -> tuple[float, float]:
    """Of an empty call: one after the other, and all at once."""
    pool.call(int).result()
    began = time.perf_counter()
    for _ in range(num):
        pool.call(int).result()
    alone = time.perf_counter() - began
    began = time.perf_counter()
    for future in [pool.call(int) for _ in range(10 * num)]:
        future.result()
    together = (time.perf_counter() - began) / 10
    return 1e3 * alone / num, 1e3 * together / num


def laptop_run() -> hs.Run:
    """The first run of the study's laptop preset."""
    (study,) = select(STUDY, None)
    return study.arms(study.knobs("laptop", {}))[0].run


def runs_per_second(pool: Workers, runs: list[hs.Run]) -> float:
    """Train runs into a new store."""
    with TemporaryDirectory() as folder, hs.open_store(Path(folder) / "s.sqlite") as store:
        began = time.perf_counter()
        execute(runs, store, pool)
        return len(runs) / (time.perf_counter() - began)


class Cluster:
    """Workers that answer at once, once every slot has what it has room for."""

    def __init__(self, slots: int, pattern: Outcome, runs_per_call: int) -> None:
        self.slots, self.pattern = slots, pattern
        self.pace = Pace(most=1.5 * runs_per_call * choose(pattern.run).engine.seconds(pattern.run))
        self.dealer, self.sent = Dealer(), list[tuple[str, int, bytes]]()
        self.seconds_of_workers, self.num_tasks = 0.0, 0
        for number in range(slots):
            self.dealer.join(f"worker {number}", 2)

    def submit(self, group: Group) -> "Future[list[Outcome]]":
        task = self.dealer.add(group)
        self.sent += [(n, t.number, pickle.dumps(t.work, pickle.HIGHEST_PROTOCOL)) for n, t in self.dealer.deal()]
        self.num_tasks += 1
        if len(self.sent) == 2 * self.slots:
            self._answer()
        return task.future

    def call(self, work: Callable[[], Any]) -> "Future[Any]":
        raise NotImplementedError

    def messages(self) -> list[Message]:
        self._answer()
        return []

    def stop(self) -> None: ...

    def _answer(self) -> None:
        began = time.process_time()
        answers = []
        for name, number, data in self.sent:
            made = [self._trained(job.run) for job in pickle.loads(data).jobs]
            answers.append((name, Answer(number, made).to_bytes()))
        self.sent.clear()
        self.seconds_of_workers += time.process_time() - began
        for name, data in answers:
            self.dealer.answer(name, pickle.loads(data))

    def _trained(self, run: hs.Run) -> Outcome:
        return replace(self.pattern, run=run, trace=replace(self.pattern.trace, cell=run.cell, seed=run.seed))


def megabytes() -> float:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def coordinated(num_runs: int, runs_per_call: int) -> dict[str, float]:
    """What the coordinator sustains: calls and runs per second of its own time, and how much its memory grows."""
    run = laptop_run()
    engine = choose(run).engine
    (pattern,) = engine.train([Job(run)])
    before = megabytes()
    with TemporaryDirectory() as folder, hs.open_store(Path(folder) / "s.sqlite") as store:
        cluster = Cluster(SLOTS, pattern, runs_per_call)
        began, clock = time.process_time(), time.perf_counter()
        execute([run.at(FIRST_SEED + seed) for seed in range(num_runs)], store, cluster)
        seconds = time.process_time() - began - cluster.seconds_of_workers
        by_the_clock = time.perf_counter() - clock
    return {
        "runs_per_call": num_runs / cluster.num_tasks,
        "calls_per_second": cluster.num_tasks / seconds,
        "runs_per_second": num_runs / seconds,
        "calls_per_second_by_the_clock": cluster.num_tasks / by_the_clock,
        "megabytes": megabytes(),
        "megabytes_more": megabytes() - before,
    }


@contextmanager
def both() -> Iterator[dict[str, Workers]]:
    """The pool of this machine and Ray, with as many workers each."""
    with TemporaryDirectory() as folder, hs.open_store(Path(folder) / "s.sqlite") as store:
        began = time.perf_counter()
        with Parallel(JOBS) as here, ray_workers(store, Ray(), JOBS) as far:
            far.call(int).result()
            print(f"Ray: {time.perf_counter() - began:.1f} s to its first answer", file=sys.stderr)
            yield {"here": here, "ray": far}


def measure(quick: bool) -> dict[str, Any]:
    """All numbers."""
    run = laptop_run()
    seconds = choose(run).engine.seconds(run)
    num = max(2 * JOBS, int((100 if quick else 400) * JOBS / seconds))
    runs = [run.at(FIRST_SEED + seed) for seed in range(num)]
    simulated = [coordinated(per_call * (2_000 if quick else 10_000), per_call) for per_call in (1, 8)]
    with both() as pools:
        calls = {name: milliseconds_per_call(pool, 30 if quick else 100) for name, pool in pools.items()}
        for pool in pools.values():
            runs_per_second(pool, runs[: 2 * JOBS])
        turns = [{name: runs_per_second(pool, runs) for name, pool in pools.items()} for _ in range(3 if quick else 5)]
    rates = {name: median(turn[name] for turn in turns) for name in pools}
    ratio = median(turn["ray"] / turn["here"] for turn in turns)
    return {
        "study": STUDY,
        "runs": num,
        "milliseconds_per_call": {name: {"alone": a, "together": t} for name, (a, t) in calls.items()},
        "runs_per_second": rates,
        "ray_over_here": ratio,
        "coordinator": simulated,
    }


def main() -> int:
    """Measure and print; 1 where Ray is slower than it may be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.far", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    found = measure(options.quick)
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for name, its in found["milliseconds_per_call"].items():
        print(f"an empty call, {name:4}: {its['alone']:.2f} ms alone, {its['together']:.2f} ms of many")
    rates = found["runs_per_second"]
    print(
        f"{found['runs']} runs of {STUDY}, {JOBS} workers: {rates['here']:.1f} runs/s here, {rates['ray']:.1f} on Ray"
    )
    print(f"Ray over this machine's pool: {found['ray_over_here']:.2f} (bar {BAR})")
    for each in found["coordinator"]:
        print(
            f"coordinator of {SLOTS} slots, {each['runs_per_call']:.1f} runs per call: {each['calls_per_second']:.0f} "
            f"calls/s of processor time ({each['calls_per_second_by_the_clock']:.0f} by the clock, workers included), "
            f"{each['runs_per_second']:.0f} runs/s, {each['megabytes_more']:.0f} MB more, "
            f"{each['megabytes']:.0f} MB in all"
        )
    return int(found["ray_over_here"] < BAR)


if __name__ == "__main__":
    sys.exit(main())
