"""Where the runs of a probe come from: the store, this process, or a pool of processes. One bar covers all of them."""

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.probe_arms import full_arm
from headstart.lab.probe_problem import Problem, split
from headstart.lab.probe_store import ProbeStore, fingerprint
from headstart.lab.probe_training import ProbeCurve, ProbeRun, records_of, seconds_of, train_in_worker, train_run
from headstart.lab.progress import Progress
from headstart.lab.workers import Parallel, WorkerLost, advanced

_RECORDS = 28
# The test rows of one evaluation: about a fifth of what training between two records costs, within these bounds.
_LEAST_TEST_ROWS, _MOST_TEST_ROWS, _SHARE = 128, 2048, 0.6
# Seconds between looks at the workers, and for their last words.
_ASK_EVERY, _LAST_SECONDS = 0.2, 60.0


class Runs:
    """Gives the curve of any run: stored, or trained now and stored at once. Counts what it cost."""

    def __init__(
        self,
        problem: Problem,
        factory: Any,
        name: str | None,
        steps: int,
        seed: int,
        jobs: int,
        device: str,
        store: str | os.PathLike[str] | None,
        shown: Progress,
    ) -> None:
        self.problem, self.name, self.steps, self.seed, self.jobs = problem, name, steps, seed, jobs
        self.device, self.shown = device, shown
        self.records = records_of(steps, _RECORDS)
        rows = round(_SHARE * steps * problem.batch_size / len(self.records))
        self.most_test_rows = min(max(rows, _LEAST_TEST_ROWS), _MOST_TEST_ROWS)
        self.data = split(problem, seed, self.most_test_rows, device)
        full = full_arm(steps)
        with _threads(1 if jobs > 1 else None):  # as many as a worker has
            per_step, per_record, seen = seconds_of(problem, self.data, full, FIRST_SELECTION_SEED, device)
        self.seconds_per_step = per_step + per_record * len(self.records) / steps
        self.store = ProbeStore(store, fingerprint(problem, self.data, factory, device, seen), seed)
        self.pool: Parallel | None = None
        self.asked: set[str] = set()
        self.num_stored = self.steps_trained = 0
        self.done = 0.0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Runs, those of them that were in the store before, and steps trained now."""
        return len(self.asked), self.num_stored, self.steps_trained

    def seconds(self, run: ProbeRun, steps: int | None = None) -> float:
        """What so many steps of a run take, by default all of them."""
        batch = self.problem.batch_size if run.branch is None else run.branch.batch_size
        return (run.records[-1] if steps is None else steps) * self.seconds_per_step * batch / self.problem.batch_size

    def begin(self, least: int, most: int, seconds: float | None = None) -> None:
        """Say how many runs there will be and how long they take; the bar goes to the longest way.

        `seconds` is what one run takes, if not all steps at the problem's batch size.
        """
        seconds = self.steps * self.seconds_per_step if seconds is None else seconds
        times = " to ".join(_spoken(num * seconds / self.jobs) for num in (least, most))
        self.shown.begin(f"{least} to {most} runs, {times}", most * seconds)

    def train(self, runs: list[ProbeRun]) -> list[ProbeCurve]:
        """The curves of these runs, in their order."""
        found: dict[int, ProbeCurve] = {}
        missing = []
        for place, run in enumerate(runs):
            key, stored = self.store.key(run), self.store.get(run)
            if stored is None:
                missing.append(place)
            else:
                found[place] = stored
                if key not in self.asked:
                    self.num_stored += 1
                    self._advance(self.seconds(run), "from the store")
            self.asked.add(key)
        train = self._train_here if self.jobs == 1 else self._train_in_pool
        trained = train([runs[place] for place in missing]) if missing else []
        return [found[place] if place in found else trained[missing.index(place)] for place in range(len(runs))]

    def _train_here(self, runs: list[ProbeRun]) -> list[ProbeCurve]:
        out = []
        for run in runs:

            def heard(steps: int, run: ProbeRun = run) -> bool:
                self._advance(self.seconds(run, steps), run.arm.name)
                return False

            checkpoint = self.store.checkpoint(run)
            out.append(train_run(self.problem, self.data, run, self.device, checkpoint, heard))
            self._keep(run, out[-1])
        return out

    def _train_in_pool(self, runs: list[ProbeRun]) -> list[ProbeCurve]:
        if self.pool is None:
            self.pool = Parallel(self.jobs)
        assert self.name is not None
        where = (self.name, self.seed, self.most_test_rows, self.device)
        futures: dict[Future[ProbeCurve], ProbeRun] = {}
        for run in runs:
            work = partial(train_in_worker, where, run, self.store.checkpoint(run), self.seconds(run, 1))
            futures[self.pool.call(work)] = run
        pending = set(futures)
        try:
            while pending:
                done, pending = wait(pending, _ASK_EVERY, FIRST_COMPLETED)
                self._advance(advanced(self.pool.messages()))
                for future in done:
                    self._keep(futures[future], future.result())
        except WorkerLost as error:
            raise HeadstartError(str(error)) from None
        except BaseException:
            self._stop(self.pool, {future: futures[future] for future in pending})
            raise
        return [future.result() for future in futures]

    def _stop(self, pool: Parallel, pending: "dict[Future[ProbeCurve], ProbeRun]") -> None:
        """Let runs under way write their checkpoints, and keep those that end meanwhile."""
        pool.stop()
        for future in pending:
            future.cancel()
        for future in wait(pending, _LAST_SECONDS).done:
            if not future.cancelled() and future.exception() is None:
                self._keep(pending[future], future.result())

    def _keep(self, run: ProbeRun, curve: ProbeCurve) -> None:
        self.store.put(run, curve)
        self.steps_trained += curve.steps

    def _advance(self, seconds: float, text: str = "") -> None:
        self.done += seconds
        self.shown.update(self.done, text)

    def __enter__(self) -> "Runs":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.pool is not None:
            self.pool.__exit__(kind, error, tb)
        self.store.close(finished=kind is None)


@contextmanager
def _threads(num: int | None) -> Iterator[None]:
    """So many threads of torch, and afterwards as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(num or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _spoken(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
