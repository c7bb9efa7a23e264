"""How large a batch pays on a problem of yours? Branches from one warmed-up state, and the critical batch size."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_nonnegative, check_positive
from headstart.core.streams import check_seed
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.critical_batch import fit_curve
from headstart.lab.probe import source_of
from headstart.lab.probe_arms import full_arm
from headstart.lab.probe_batch_report import BatchProbe, SizeResult
from headstart.lab.probe_factory import load_factory, name_of
from headstart.lab.probe_problem import Problem
from headstart.lab.probe_report import ProbeCost
from headstart.lab.probe_runs import Runs
from headstart.lab.probe_training import Branch, ProbeCurve, ProbeRun, records_of
from headstart.lab.progress import Progress, Silent
from headstart.measures import monotone, restricted_times

# Batch sizes to try, as factors on the problem's, as far as the rows allow: a batch is a quarter of them at most.
_FACTORS, _LEAST_BATCHES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), 4
# Rates are tried by factors of 2 around lr sqrt(B / B_0), so many at the most, each on so many seeds.
_RATIO, _MOST_TRIES, _SELECTION_SEEDS = 2.0, 6, 2
# The target is this share of the way from the warmed-up loss to the best one of the problem's own batch size.
_SHARE = 0.9
# Smaller batches than the problem's may take this many times its rows.
_MORE_ROWS = 1.5
_RECORDS = 40


def probe_batch(
    factory: Any,
    *,
    batches: Sequence[int] | None = None,
    warmup: int = 200,
    steps: int = 500,
    seeds: int = 8,
    rates: Sequence[float] | None = None,
    target: float | None = None,
    seed: int = 0,
    jobs: int = 1,
    device: str = "cpu",
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> BatchProbe:
    """Measure the critical batch size of your problem where training stands after `warmup` steps.

        print(hs.probe_batch("my_problem:factory", warmup=500, steps=500, jobs=2))

    `factory` is as for `probe`. From one state, trained for `warmup` steps at the problem's batch size and rate,
    branches go on with batches of 1/4 to 16 times that size, or those in `batches`, as far as the rows allow. Each size
    has its rate tuned: half, one and twice lr sqrt(B / B_0), and more until the best is not at an end, on two orders of
    the rows; `rates` are factors to try instead, as they are. Then `seeds` other orders are trained at it until they
    reach the `target`, a loss on held-out rows: by default 90% of the way that the problem's own batch size goes in
    `steps` steps. A curve S(B) = S_min (1 + B_crit / B) is fitted to the steps, with an interval over orders, and the
    outcome says when it cannot tell.

    The critical batch size grows in training: ask again later. `jobs`, `device` and `store` are as for `probe`.
    """
    for name, value, least in (("steps", steps, 40), ("seeds", seeds, 2), ("jobs", jobs, 1), ("warmup", warmup, 1)):
        check_count("probe_batch", name, value, minimum=least, maximum=10**9)
    check_seed(seed)
    if target is not None:
        check_nonnegative("probe_batch", "target", target)
    for rate in rates or ():
        check_positive("probe_batch", "rates", rate)
    if device != "cpu":
        from headstart.engines.loop import check_device

        check_device(device)
    found = load_factory(factory) if isinstance(factory, str) else factory
    problem, known_as = Problem.of(found), name_of(factory)
    if jobs > 1 and known_as is None:
        raise HeadstartError(
            f"probe_batch(jobs={jobs}): other processes find a factory by its name; put it into a module and give "
            '"module:function", or use jobs=1'
        )
    with (
        progress if progress is not None else Silent() as shown,
        Runs(problem, found, known_as, steps, seed, jobs, device, store, shown) as runs,
    ):
        sizes = _sizes(problem.batch_size, runs.data.num_train, batches)
        session = _Session(problem, runs, sizes, warmup, seed, rates)
        return session.run(seeds, target, source_of(problem, factory, known_as, device))


def _sizes(own: int, num_rows: int, batches: Sequence[int] | None) -> list[int]:
    """The batch sizes in order, the problem's own among them."""
    most = num_rows // 4
    for size in batches or ():
        check_count("probe_batch", "batches", size, maximum=most)
    wanted = batches or [round(own * factor) for factor in _FACTORS if 1 <= own * factor <= most]
    sizes = sorted({int(size) for size in wanted} | {own})
    if len(sizes) < _LEAST_BATCHES:
        raise HeadstartError(
            f"probe_batch(batches={batches!r}): {len(sizes)} batch sizes make no curve; give at least "
            f"{_LEAST_BATCHES}, up to a quarter of the {num_rows} rows, or a smaller Problem(batch_size=...)"
        )
    return sizes


@dataclass
class _Tried:
    """The rates of a batch size: curves [seeds, records] by exponent of the factor on the first guess."""

    guess: float
    factors: dict[int, float]
    curves: dict[int, NDArray[np.float64]]
    best: int = 0

    @property
    def lr(self) -> float:
        """The best rate."""
        return self.guess * self.factors[self.best]

    @property
    def at_the_end(self) -> bool:
        """Whether the best is the first or the last."""
        return len(self.factors) > 1 and self.best in (min(self.factors), max(self.factors))


class _Session:
    """One probe under way: rates of the problem's own size, the target, rates of all others, then the comparison."""

    def __init__(
        self, problem: Problem, runs: Runs, sizes: list[int], warmup: int, seed: int, rates: Sequence[float] | None
    ) -> None:
        self.problem, self.runs, self.sizes, self.warmup, self.seed = problem, runs, sizes, warmup, seed
        self.rates, self.began = rates, time.monotonic()
        self.target: float | None = None  # of minus the loss
        self.tried = {size: self._grid(size) for size in sizes}

    def _grid(self, size: int) -> _Tried:
        if self.rates is not None:
            factors = dict(enumerate(sorted(float(rate) for rate in self.rates)))
        else:
            factors = {i: _RATIO**i for i in (-1, 0, 1)}
        return _Tried(self.problem.lr * (size / self.problem.batch_size) ** 0.5, factors, {})

    def run(self, num_seeds: int, target: float | None, source: Any) -> BatchProbe:
        """All of it."""
        self._estimate(num_seeds)
        own = self.problem.batch_size
        self.target = None if target is None else -target
        self._tune([own])
        start, reached = (float(curve[place]) for curve, place in ((self._mean(own), 0), (self._mean(own), -1)))
        if self.target is None:
            self.target = start + _SHARE * (reached - start)
        learned = reached > start and self.target > start
        results: list[SizeResult] = []
        if learned:
            self._tune(self.sizes)
            results = self._compare(num_seeds)
        times, arrived = (
            np.array([getattr(r, name) for r in results]).T.reshape(num_seeds, -1) for name in ("times", "arrived")
        )
        curve = fit_curve(np.array([r.batch_size for r in results], dtype=np.int64), times, arrived.astype(bool))
        cost = ProbeCost(*self.runs.counts, time.monotonic() - self.began)
        return BatchProbe(
            curve, tuple(results), -self.target, (-start, -reached), self.warmup, self.runs.steps, source, cost
        )

    def _estimate(self, num_seeds: int) -> None:
        """Say what all of it will take at most."""
        tries = len(self.rates) if self.rates is not None else 3
        least = len(self.sizes) * (tries * _SELECTION_SEEDS + num_seeds)
        most = least if self.rates is not None else len(self.sizes) * (_MOST_TRIES * _SELECTION_SEEDS + num_seeds)
        each = float(np.mean([self.runs.seconds(self._run(size, 1.0, 0)) for size in self.sizes]))
        self.runs.begin(least, most, each)

    def _run(self, size: int, lr: float, seed: int) -> ProbeRun:
        own, steps = self.problem.batch_size, self.runs.steps
        cap = steps if size >= own else round(_MORE_ROWS * steps * own / size)
        branch = Branch(self.warmup, self.problem.lr, self.seed, size, self.target)
        return ProbeRun(full_arm(cap, f"batches of {size}"), lr, seed, records_of(cap, _RECORDS), branch)

    def _tune(self, sizes: list[int]) -> None:
        """Train rates of these sizes until the best of each is inside, or there are enough."""
        seeds = [FIRST_SELECTION_SEED + self.seed + i for i in range(_SELECTION_SEEDS)]
        while needed := [(s, i) for s in sizes for i in self.tried[s].factors if i not in self.tried[s].curves]:
            rates = [self.tried[size].guess * self.tried[size].factors[i] for size, i in needed]
            pairs = zip(needed, rates, strict=True)
            found = self.runs.train([self._run(size, lr, each) for (size, _), lr in pairs for each in seeds])
            for place, (size, i) in enumerate(needed):
                some = found[place * len(seeds) : (place + 1) * len(seeds)]
                self.tried[size].curves[i] = np.array([each.curve for each in some])
            for size in sizes:
                self._widen(size)

    def _widen(self, size: int) -> None:
        tried = self.tried[size]
        tried.best = min(tried.curves, key=lambda i: self._score(size, tried.curves[i]))
        if self.rates is None and tried.at_the_end and len(tried.factors) < _MOST_TRIES:
            beyond = tried.best + (1 if tried.best == max(tried.factors) else -1)
            tried.factors[beyond] = _RATIO**beyond

    def _score(self, size: int, curves: NDArray[np.float64]) -> tuple[float, float]:
        """The mean time to the target, then minus where it ends: less is better. Without a target, the end alone."""
        end = -float(monotone(curves.mean(axis=0), True)[-1])
        return (0.0 if self.target is None else float(self._times(size, curves).mean()), end)

    def _axis(self, size: int) -> NDArray[np.float64]:
        return np.asarray(self._run(size, 1.0, 0).records, dtype=np.float64)

    def _times(self, size: int, curves: NDArray[np.float64]) -> NDArray[np.float64]:
        axis = self._axis(size)
        assert self.target is not None
        return restricted_times(axis, curves, self.target, True, float(axis[-1]))

    def _mean(self, size: int) -> NDArray[np.float64]:
        tried = self.tried[size]
        return monotone(tried.curves[tried.best].mean(axis=0), True)

    def _compare(self, num_seeds: int) -> list[SizeResult]:
        """Every size at its rate on other orders of the rows."""
        seeds = range(self.seed, self.seed + num_seeds)
        found: list[ProbeCurve] = self.runs.train(
            [self._run(size, self.tried[size].lr, s) for size in self.sizes for s in seeds]
        )
        out = []
        for place, size in enumerate(self.sizes):
            some = found[place * num_seeds : (place + 1) * num_seeds]
            curves, tried = np.array([each.curve for each in some]), self.tried[size]
            times, end = self._times(size, curves), self._axis(size)[-1]
            arrived = tuple(bool(t < end) for t in times)
            out.append(SizeResult(size, tried.lr, tuple(times), arrived, tried.at_the_end, len(tried.factors)))
        return out
