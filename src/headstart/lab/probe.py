"""Does repeating a small subset first pay on a problem of yours? Short arms of equal compute, and a verdict."""

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.streams import check_seed
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.probe_arms import FULL, probe_arms
from headstart.lab.probe_factory import load_factory, name_of
from headstart.lab.probe_problem import Problem
from headstart.lab.probe_rates import FINALISTS, FIRST_SEEDS, MOST_TRIES, Chosen, RateSearch, rate_axis
from headstart.lab.probe_report import Probe, ProbeCost, Source
from headstart.lab.probe_runs import Runs
from headstart.lab.probe_training import ProbeRun
from headstart.lab.probe_verdict import ArmResult, Conclusion, Goal, ProbeVerdict, conclude
from headstart.lab.progress import Progress, Silent
from headstart.measures import area_under, restricted_times

_MOST = {"steps": 10**9, "seeds": 10**4, "max_seeds": 10**4, "selection_seeds": 10**4, "jobs": 1024}


def probe(
    factory: Any,
    *,
    steps: int = 2000,
    seeds: int = 8,
    max_seeds: int = 32,
    selection_seeds: int = 4,
    rates: Sequence[float] | None = None,
    target: float | None = None,
    smallest: float = 0.9,
    seed: int = 0,
    jobs: int = 1,
    device: str = "cpu",
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Probe:
    """Train arms of equal compute on your problem and say whether a smaller subset first reaches the target sooner.

        print(hs.probe("my_problem:factory", steps=2000, jobs=2, store="probes"))

    `factory` is a `Problem`, a dict of its fields, a function that returns either, or "module:function". The arms, of
    `steps` steps each, are all rows; subsets of three sizes for half of the steps, then all rows; and growing subsets,
    then all rows. Every arm tries the same number of learning rates on two seeds: half, one and twice the problem's,
    and more until the best is not at an end; its two best are tried on all `selection_seeds`. `rates` are factors on
    it to try instead, as they are.

    Then `seeds` other seeds train each arm at its rate, and twice as many while the verdict is open, up to `max_seeds`;
    an arm whose interval excludes a gain worth having is left. Such a gain is a ratio of compute below `smallest`,
    which you declare. The `target` defaults to 90% of the way from the untrained metric to the best.

    With a `store`, a file or a folder, finished runs are kept as they end, and the same call goes on from there. `jobs`
    above 1 trains in that many processes, which find the factory by its name. One seed gives one result.
    """
    counts = {"steps": (steps, 40), "seeds": (seeds, 2), "max_seeds": (max_seeds, seeds)}
    for name, (value, least) in (counts | {"selection_seeds": (selection_seeds, 1), "jobs": (jobs, 1)}).items():
        check_count("probe", name, value, minimum=least)
        if value > _MOST[name]:
            raise HeadstartError(f"probe({name}={value}): {name} is at most {_MOST[name]}")
    check_seed(seed)
    check_positive("probe", "smallest", smallest)
    if smallest > 1:
        raise HeadstartError(f"probe(smallest={smallest!r}): a gain is a ratio of compute below 1, such as 0.9")
    if target is not None and not np.isfinite(target):
        raise HeadstartError(f"probe(target={target!r}): give the test metric to reach, a finite number")
    if rates is not None and not len(rates):
        raise HeadstartError("probe(rates=()): give at least one factor on the learning rate")
    for rate in rates or ():
        check_positive("probe", "rates", rate)
    if device != "cpu":
        from headstart.engines.loop import check_device

        check_device(device)
    found = load_factory(factory) if isinstance(factory, str) else factory
    problem, known_as = Problem.of(found), name_of(factory)
    if jobs > 1 and known_as is None:
        raise HeadstartError(
            f"probe(jobs={jobs}): other processes find a factory by its name; put it into a module and give "
            '"module:function", or use jobs=1'
        )
    with (
        progress if progress is not None else Silent() as shown,
        Runs(problem, found, known_as, steps, seed, jobs, device, store, shown) as runs,
    ):
        session = _Session(problem, runs, seed, rates, smallest)
        return session.run((seeds, max_seeds), selection_seeds, target, source_of(problem, factory, known_as, device))


def source_of(problem: Problem, factory: Any, name: str | None, device: str) -> Source:
    """How the recipe gets the problem."""
    called = getattr(factory, "__name__", "")
    known = f'"{name}"' if name is not None else called if called.isidentifier() else "problem"
    return Source(f"hs.Problem.of({known})", problem.batch_size, device, problem.collate is not None)


class _Session:
    """One probe under way: its arms, the choice of their rates, and the comparison."""

    def __init__(self, problem: Problem, runs: Runs, seed: int, rates: Sequence[float] | None, smallest: float) -> None:
        self.runs, self.seed, self.smallest, self.began = runs, seed, smallest, time.monotonic()
        self.arms = probe_arms(runs.data.num_train, problem.batch_size, runs.steps)
        self.axis = np.asarray(runs.records, dtype=np.float64)
        self.rate = rate_axis(problem.lr, rates)

    def run(self, seeds: tuple[int, int], num_selection: int, target: float | None, source: Source) -> Probe:
        """Choose rates, then train the arms on other seeds until there is a verdict or the seeds are used up."""
        looks = _looks(*seeds)
        self._estimate(looks, num_selection)
        selection = [FIRST_SELECTION_SEED + self.seed + i for i in range(num_selection)]
        chosen, aim = RateSearch(self.runs, self.arms, self.rate, target).choose(selection)
        goal = Goal(aim.target, aim.best - aim.start, self.smallest, len(looks), len(self.arms) - 1)
        results = {c.arm.name: ArmResult(c.arm, c.lr, None, c.at_the_end, c.num_tries) for c in chosen}
        conclusion = Conclusion(ProbeVerdict.NOTHING_LEARNED, None, {}, frozenset(), 0.0)
        compared = self._worth_comparing(chosen, goal)
        for look in looks if _learned(chosen, goal) else []:
            results |= self._compare(results, compared, look)
            conclusion = conclude(tuple(results.values()), self.axis, goal)
            if conclusion.verdict is not ProbeVerdict.UNDECIDED:
                break
            compared = [n for n in compared if n == FULL or conclusion.is_open(n, goal.smallest)]
            if compared == [FULL]:  # too few runs on the full data arrive, and more seeds will not change that
                break
        cost = ProbeCost(*self.runs.counts, time.monotonic() - self.began)
        return Probe(conclusion, goal, tuple(results.values()), self.axis, source, cost)

    def _estimate(self, looks: list[int], num_selection: int) -> None:
        """Say what all of it will take, before it begins."""
        first = min(num_selection, FIRST_SEEDS)

        def num_runs(num_rates: int, num_seeds: int) -> int:
            tried = num_rates * first + min(num_rates, FINALISTS) * (num_selection - first)
            return len(self.arms) * (tried + num_seeds)

        num_rates = len(self.rate.indices)
        self.runs.begin(
            num_runs(num_rates, looks[0]), num_runs(MOST_TRIES if self.rate.extends else num_rates, looks[-1])
        )

    def _worth_comparing(self, chosen: list[Chosen], goal: Goal) -> list[str]:
        """The arms that reached the target while rates were chosen, if the full data did; one other at least."""
        horizon = float(self.axis[-1])
        times = {c.arm.name: restricted_times(self.axis, c.curves, goal.target, True, horizon) for c in chosen}
        if not (times[FULL] < horizon).any():
            return list(times)
        others = [c for c in chosen if c.arm.name != FULL]
        best = max(others, key=lambda c: area_under(self.axis, c.curves.mean(axis=0)))
        arrived = [c.arm.name for c in others if (times[c.arm.name] < horizon).any()]
        return [FULL, *(arrived or [best.arm.name])]

    def _compare(self, results: dict[str, ArmResult], names: list[str], num_seeds: int) -> dict[str, ArmResult]:
        """The arms with their curves on the first so many seeds."""
        seeds = range(self.seed, self.seed + num_seeds)
        chosen = [results[name] for name in names]
        runs = [ProbeRun(each.arm, each.lr, s, self.runs.records) for s in seeds for each in chosen]
        curves = np.array([each.curve for each in self.runs.train(runs)]).reshape(num_seeds, len(names), -1)
        return {name: replace(results[name], curves=curves[:, place]) for place, name in enumerate(names)}


def _learned(chosen: list[Chosen], goal: Goal) -> bool:
    """Whether the best curve rose above what untrained models differ by."""
    spread = float(np.std([c.curves[:, 0] for c in chosen])) + 1e-12
    return goal.gain > 3 * spread


def _looks(seeds: int, max_seeds: int) -> list[int]:
    """After how many seeds the verdict is looked for: each time twice as many."""
    out = [seeds]
    while out[-1] < max_seeds:
        out.append(min(2 * out[-1], max_seeds))
    return out
