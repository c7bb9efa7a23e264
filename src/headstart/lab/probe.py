"""Does repeating a small subset first pay on a problem of yours? Short arms of equal compute, and a verdict."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.streams import check_seed
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.probe_arms import FULL, ProbeArm, Training, probe_arms
from headstart.lab.probe_problem import Problem, as_problem, split
from headstart.lab.probe_verdict import ArmResult, Probe, ProbeVerdict, conclude
from headstart.lab.progress import Progress, Silent
from headstart.measures import area_under, monotone

_RUNGS, _RECORDS = (1 / 4, 1 / 2, 1), 40
_SHARE_OF_GAIN = 0.9
Curves = dict[str, list[NDArray[np.float64]]]


def probe(
    factory: Any,
    *,
    steps: int = 2000,
    seeds: int = 8,
    max_seeds: int = 32,
    selection_seeds: int = 2,
    rates: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0),
    target: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Probe:
    """Train arms of equal compute on your problem and say whether a smaller subset reaches the target sooner.

        print(hs.probe(my_factory, steps=2000))

    `factory` is a `Problem`, a dict of its fields, a function that returns either, or "module:function". The arms are
    all rows, fixed subsets of three sizes, and growing subsets with all rows in the end, `steps` steps each. Every arm
    tries the same factors `rates` on the problem's learning rate, on `selection_seeds` seeds, by successive halving:
    after a quarter and a half of the steps the worse half goes, unless the seeds cannot tell it from the best. Then
    `seeds` other seeds train each arm at its rate, and as many again while the verdict is open, up to `max_seeds`; the
    intervals allow for looking so often. The `target` defaults to 90% of the way from the untrained metric
    to the best. One seed gives one result. Ctrl-C while these seeds train gives a verdict from those that are done.
    """
    counts = {"steps": (steps, 40), "seeds": (seeds, 2), "max_seeds": (max_seeds, seeds)}
    for name, (value, least) in (counts | {"selection_seeds": (selection_seeds, 1)}).items():
        check_count("probe", name, value, minimum=least)
    check_seed(seed)
    if not rates:
        raise HeadstartError("probe(rates=()): give at least one factor on the learning rate")
    for rate in rates:
        check_positive("probe", "rates", rate)
    problem = as_problem(factory)
    with progress if progress is not None else Silent() as shown:
        session = _Session(problem, steps, seed, shown)
        return session.run((seeds, max_seeds), selection_seeds, [problem.lr * rate for rate in rates], target)


class _Session:
    """One probe under way: its data, its arms and what it has cost so far."""

    def __init__(self, problem: Problem, steps: int, seed: int, shown: Progress) -> None:
        self.problem, self.steps, self.seed, self.shown = problem, steps, seed, shown
        self.data = split(problem, seed)
        self.arms = probe_arms(self.data.num_train, problem.batch_size, steps)
        # Evenly spaced, and closer at the beginning, where easy problems are over before the first even record.
        early = np.round(np.geomspace(1, steps, _RECORDS))
        self.records = np.unique([0, *np.round(np.linspace(0, steps, _RECORDS)), *early]).astype(int).tolist()
        self.trained, self.done, self.began = 0, 0, time.monotonic()

    def run(self, seeds: tuple[int, int], selection_seeds: int, rates: list[float], target: float | None) -> Probe:
        """Choose rates, train the arms on other seeds until there is a verdict or the seeds are used up."""
        chosen = self._select(selection_seeds, rates)
        curves = {arm.name: np.stack([t.record()[1] for t in chosen[arm.name]]) for arm in self.arms}
        target, learned = self._target(curves, target)
        rate_of = {name: runs[0].lr for name, runs in chosen.items()}
        # An arm that misses what the full data reaches is not worth the seeds of the verdict.
        there = {name: bool(monotone(c.mean(axis=0), True)[-1] >= target) for name, c in curves.items()}
        final: Curves = {name: [] for name in curves if name == FULL or there[name] or not there[FULL]}
        looks = [*range(seeds[0], seeds[1], seeds[0]), seeds[1]]
        outcome = self._conclude(final, rate_of, rates, target, len(looks), learned, False)
        for look in looks if learned else []:
            interrupted = self._claim(final, rate_of, look)
            outcome = self._conclude(final, rate_of, rates, target, len(looks), learned, interrupted)
            if interrupted or outcome.verdict is not ProbeVerdict.UNDECIDED:
                break
        return outcome

    def _conclude(
        self,
        final: Curves,
        rate_of: dict[str, float],
        rates: list[float],
        target: float,
        num_looks: int,
        learned: bool,
        interrupted: bool,
    ) -> Probe:
        """The verdict from the seeds so far."""
        results = tuple(
            ArmResult(
                arm.name,
                arm.code,
                rate_of[arm.name],
                np.stack(final[arm.name]) if final.get(arm.name) else None,
                rate_of[arm.name] in (min(rates), max(rates)) and len(rates) > 1,
            )
            for arm in self.arms
        )
        return conclude(
            results,
            axis=np.asarray(self.records, dtype=np.float64),
            batch_size=self.problem.batch_size,
            target=target,
            num_looks=num_looks,
            learned=learned,
            interrupted=interrupted,
            steps_trained=self.trained,
            seconds=time.monotonic() - self.began,
        )

    def _select(self, num_seeds: int, rates: list[float]) -> dict[str, list[Training]]:
        """The runs of each arm at its best rate, by successive halving over the rates."""
        seeds = [FIRST_SELECTION_SEED + self.seed + i for i in range(num_seeds)]
        most = len(self.arms) * len(rates) * num_seeds * self.steps
        self._begin("choosing learning rates", most)
        chosen = {}
        for arm in self.arms:
            runs = {rate: [Training(self.problem, self.data, arm, rate, s) for s in seeds] for rate in rates}
            for rung in _RUNGS:
                to = next(step for step in self.records if step >= self.steps * rung)
                for run in (run for some in runs.values() for run in some):
                    self._train(run, to, arm.name)
                kept = keep_better(runs)
                # What is dropped here is work that will not be done.
                self.done += (len(runs) - len(kept)) * num_seeds * (self.steps - to)
                runs = {rate: runs[rate] for rate in kept}
            best = max(runs, key=lambda rate: _score(runs[rate]))
            chosen[arm.name] = runs[best]
        return chosen

    def _claim(self, final: Curves, rate_of: dict[str, float], num_seeds: int) -> bool:
        """Train every arm on the seeds of the verdict up to so many, seed by seed; whether it was interrupted."""
        arms, done = [arm for arm in self.arms if arm.name in final], len(final[FULL])
        self._begin("comparing the arms", len(arms) * (num_seeds - done) * self.steps)
        for s in range(self.seed + done, self.seed + num_seeds):
            try:
                curves = {arm.name: self._whole(arm, rate_of[arm.name], s) for arm in arms}
            except KeyboardInterrupt:
                if len(final[FULL]) < 2:
                    raise
                return True
            for name, curve in curves.items():
                final[name].append(curve)
        return False

    def _whole(self, arm: ProbeArm, rate: float, seed: int) -> NDArray[np.float64]:
        run = Training(self.problem, self.data, arm, rate, seed)
        self._train(run, self.steps, arm.name)
        return np.asarray(run.record()[1])

    def _begin(self, title: str, total: int) -> None:
        self.done = 0
        self.shown.begin(title, float(total))

    def _train(self, run: Training, to: int, text: str) -> None:
        before = run.step
        for step in self.records:
            if before < step <= to:
                self.trained += run.advance(step)
                self.shown.update(float(self.done + step - before), text)
        self.done += to - before

    def _target(self, curves: dict[str, NDArray[np.float64]], target: float | None) -> tuple[float, bool]:
        """The target, and whether any arm learned at all on the selection seeds."""
        start = float(np.mean([c[:, 0].mean() for c in curves.values()]))
        ends = {name: float(monotone(c.mean(axis=0), True)[-1]) for name, c in curves.items()}
        best = max(ends, key=lambda name: ends[name])
        spread = float(np.std([c[:, 0] for c in curves.values()])) + 1e-12
        learned = ends[best] - start > 3 * spread
        return (start + _SHARE_OF_GAIN * (ends[best] - start) if target is None else float(target)), learned


def _score(runs: list[Training]) -> float:
    """The area under the seed-mean curve so far; nothing if a run was lost."""
    if any(run.diverged for run in runs):
        return float("-inf")
    return float(np.mean([area_under(*run.record()) for run in runs]))


def keep_better(runs: dict[float, list[Training]]) -> list[float]:
    """The better half of the rates, and those of the worse half that the seeds do not tell from the best."""
    scores = {rate: _score(some) for rate, some in runs.items()}
    order = sorted(scores, key=lambda rate: scores[rate], reverse=True)
    spread = float(np.mean([np.std([area_under(*run.record()) for run in runs[rate]]) for rate in order]))
    good = order[: (len(order) + 1) // 2] + [r for r in order if scores[r] >= scores[order[0]] - spread]
    return [rate for rate in order if rate in good and scores[rate] > float("-inf")] or order[:1]
