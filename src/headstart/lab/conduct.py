"""Running a study: train what is missing, gather its results, compute the claims, keep the outcome."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headstart.core.errors import HeadstartError
from headstart.lab import provenance
from headstart.lab.arms import Arm
from headstart.lab.axes import with_values
from headstart.lab.computed import Computed, compute_missing, missing, needs
from headstart.lab.described import describe_arms, describe_contrasts
from headstart.lab.finding import fill_finding
from headstart.lab.ledger import Serving
from headstart.lab.live import following
from headstart.lab.progress import Progress
from headstart.lab.results import Results
from headstart.lab.runner import execute
from headstart.lab.store import Keep, Store
from headstart.lab.study import Study, edition
from headstart.lab.sweep import Sweep
from headstart.lab.tuning import Tuning
from headstart.lab.workers import Serial, Workers
from headstart.measures import Measure
from headstart.run import Run

# Called with (runs, what of them to keep, a title, measures): sees to it that they are in the store.
Train = Callable[[list[Run], Keep, str, tuple[Measure, ...]], None]
# Called with parts: sees to it that their arrays are.
Compute = Callable[[Sequence[Computed]], None]


class _Wanted(NamedTuple):
    """A cell at seeds that must be in the store, and what of it."""

    run: Run
    seeds: list[int]
    keep: Keep
    measures: tuple[Measure, ...] = ()


def gather(study: Study, knobs: Any, store: Store, train: Train, compute: Compute) -> Results:
    """A study's results from the store, calling `train` and `compute` for what may be missing.

    First the sweeps of all arms. An arm whose settings are known, by its own sweep or another's, trains its claim seeds
    beside the sweeps that go on, since those alone would leave cores idle. Then what is computed from the arms, or by
    itself.
    """
    arms = {arm.name: arm for arm in study.arms(knobs)}

    def train_all(wanted: list[_Wanted], title: str) -> None:
        for kind in dict.fromkeys((each.keep, each.measures) for each in wanted):
            alike = [each for each in wanted if (each.keep, each.measures) == kind]
            train([each.run.at(seed) for each in alike for seed in each.seeds], kind[0], title, kind[1])

    tuning = Tuning(arms, study.compared(knobs), knobs, store)

    def chosen() -> dict[str, Arm]:
        known = {name: arm for name, arm in arms.items() if name in tuning.tuned}
        return {name: replace(arm, run=with_values(arm.run, tuning.tuned[name].values)) for name, arm in known.items()}

    def claim_runs() -> list[_Wanted]:
        return [_Wanted(arm.run, arm.claim_seeds(knobs), arm.keep, arm.measures) for arm in chosen().values()]

    while len(tuning.tuned) < len(arms):
        left = len(arms) - len(tuning.tuned)
        tries = [_Wanted(cell, seeds, arm.keep) for arm, cell, seeds in tuning.needed()]
        train_all([*tries, *claim_runs()], f"settings of {left} of {len(arms)} arms")
        tuning.learn()
    train_all(claim_runs(), f"{len(arms)} arms at their best settings")
    best = chosen()
    parts = dict(study.computed(knobs, best))
    compute(list(parts.values()))
    return Results(
        arms=best,
        summaries={name: store.summaries(arm.run.cell, arm.claim_seeds(knobs)) for name, arm in best.items()},
        traces={
            name: store.cell_traces(
                arm.run.cell, arm.claim_seeds(knobs), {"study": study.name, "arm": name}, arm.measures
            )
            for name, arm in best.items()
            if arm.keep is Keep.CURVES
        },
        tuned={name: tuning.tuned[name] for name in arms},
        knobs=knobs,
        computed={name: store.computed(part) for name, part in parts.items()},
        parts=parts,
    )


def stored(study: Study, preset: str, knobs: Any, store: Store) -> Results:
    """A study's results from the store alone."""

    def refuse(lacking: int, what: str) -> None:
        if lacking:
            raise HeadstartError(
                f"{study.name} --preset {preset} is not complete in store {store.path}: {lacking} {what} are missing; "
                f"run: headstart run {study.command} --preset {preset}"
            )

    def no_training(runs: list[Run], keep: Keep, title: str, measures: tuple[Measure, ...]) -> None:
        refuse(sum(run.seed not in store.seeds(run.cell, keep) for run in runs), "runs")
        refuse(sum(bool(store.measured.lacking(run.cell, run.seed, measures)) for run in runs), "measured runs")

    return gather(study, knobs, store, no_training, lambda parts: refuse(len(missing(parts, store)), "computed parts"))


@dataclass(frozen=True)
class Conducted:
    """A study that was run: its results, and the report that the store keeps."""

    results: Results
    report: dict[str, Any]


def conduct(
    study: Study,
    preset: str,
    knobs: Any,
    store: Store,
    progress: Progress,
    pool: Workers | None = None,
    device: str = "cpu",
) -> Conducted:
    """Run a study into the store, by the workers of `pool` or by this process alone.

    What is stored is not trained again; interrupted work goes on where it stopped.
    """
    pool = pool or Serial()
    key = edition(study, preset, knobs)
    session, began = store.studies.begin(key), time.monotonic()
    try:
        with progress, following(store.path, key, study.arms(knobs), pool, progress) as (followed, noted):

            def train(runs: list[Run], keep: Keep, title: str, measures: tuple[Measure, ...]) -> None:
                execute(runs, store, followed, device, noted, title, keep, measures)
                store.studies.set_seconds(session, time.monotonic() - began)

            def compute(parts: Sequence[Computed]) -> None:
                compute_missing(parts, store, followed, noted, device)

            results = gather(study, knobs, store, train, compute)
    finally:
        store.studies.set_seconds(session, time.monotonic() - began)
    report = make_report(study, preset, results, store)
    store.studies.finish(key, serving(results), report)
    return Conducted(results, report)


def serving(results: Results) -> list[Serving]:
    """The cells of every arm: all that its sweep tried, if it was not a page's, and the one its claims are about."""
    rows = []
    for name, arm in results.arms.items():
        if isinstance(arm.sweep, Sweep) and not results.tuned[name].page:
            seeds = arm.selection_seeds(results.knobs)
            tries = {with_values(arm.run, values).cell: s.num_seeds for values, s in results.tuned[name].tries}
            rows += [Serving(name, "selection", cell, seeds[:num]) for cell, num in sorted(tries.items())]
        rows.append(Serving(name, "claim", arm.run.cell, arm.claim_seeds(results.knobs)))
    return rows


def _cells(results: Results) -> set[str]:
    """Every cell that the claims rest on: of arms at all that was tried, and of the runs behind them or a part."""
    computed = [run for part in results.parts.values() for run, _ in needs(part)]
    found = {row.cell for row in serving(results)} | {run.cell for run in computed}
    waiting = [*(arm.run for arm in results.arms.values()), *computed]
    while waiting:
        sources = [run for run, _ in waiting.pop().sources]
        waiting += [run for run in sources if run.cell not in found]
        found |= {run.cell for run in sources}
    return found


def make_report(study: Study, preset: str, results: Results, store: Store) -> dict[str, Any]:
    """A study's claims and where they come from, as `headstart show --json` and docs/results have it."""
    key = edition(study, preset, results.knobs)
    diverged = {name: results.num_diverged(name) for name in results.arms}
    claims = [checked.to_json() for checked in study.check(results)]
    return {
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        "figures": study.figures,
        "finding": fill_finding(study.finding, claims),
        "preset": preset,
        "knobs": key.knobs,
        "seeds": results.knobs.num_seeds,
        "seeds_factor": {name: arm.seeds_factor for name, arm in results.arms.items() if arm.seeds_factor != 1},
        "version": provenance.versions()["headstart"],
        "commit": ", ".join(store.commits(_cells(results), results.parts.values())),
        "machine": provenance.machine(),
        "minutes": round(store.studies.seconds(key) / 60, 2),
        "choices": {name: tuned.to_json() for name, tuned in results.tuned.items()},
        "arms": describe_arms(results),
        "contrasts": describe_contrasts(study, results),
        "computed": {name: store.key_of(part) for name, part in results.parts.items()},
        "diverged": {name: count for name, count in diverged.items() if count},
        "claims": claims,
    }
