"""Running a study: train what is missing, compute the claims, keep the outcome."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headstart.lab import provenance
from headstart.lab.ledger import Serving
from headstart.lab.progress import Progress
from headstart.lab.runner import execute
from headstart.lab.simulation import Simulation, simulate_missing
from headstart.lab.store import Keep, Store
from headstart.lab.study import Results, Study, edition, gather
from headstart.lab.sweep import Sweep, with_rate
from headstart.lab.workers import Serial, Workers
from headstart.run import Run


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
        with progress:

            def train(runs: list[Run], keep: Keep, title: str) -> None:
                execute(runs, store, pool, device, progress, title, keep)
                store.studies.set_seconds(session, time.monotonic() - began)

            def simulate(simulations: Sequence[Simulation]) -> None:
                simulate_missing(simulations, store, pool, progress)

            results = gather(study, knobs, store, train, simulate)
    finally:
        store.studies.set_seconds(session, time.monotonic() - began)
    report = make_report(study, preset, results, store)
    store.studies.finish(key, _serving(results), report)
    return Conducted(results, report)


def _serving(results: Results) -> list[Serving]:
    """The cells of every arm: its learning rates with the beta2 that was chosen, and the one its claims are about."""
    rows = []
    for name, arm in results.arms.items():
        tuned = results.tuned[name]
        cells = sorted({with_rate(arm.run, rate, tuned.beta2).cell for rate in tuned.rates})
        if isinstance(arm.sweep, Sweep):
            rows += [Serving(name, "selection", cell, arm.selection_seeds(results.knobs)) for cell in cells]
        rows.append(Serving(name, "claim", arm.run.cell, arm.claim_seeds(results.knobs)))
    return rows


def make_report(study: Study, preset: str, results: Results, store: Store) -> dict[str, Any]:
    """A study's claims and where they come from, as `headstart show --json` and docs/results have it."""
    key = edition(study, preset, results.knobs)
    diverged = {name: results.num_diverged(name) for name in results.arms}
    return {
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        "figures": study.figures,
        "preset": preset,
        "knobs": key.knobs,
        "seeds": results.knobs.num_seeds,
        "seeds_factor": {name: arm.seeds_factor for name, arm in results.arms.items() if arm.seeds_factor != 1},
        "version": provenance.versions()["headstart"],
        "commit": ", ".join(store.commits([arm.run.cell for arm in results.arms.values()], results.parts.values())),
        "machine": provenance.machine(),
        "minutes": round(store.studies.seconds(key) / 60, 2),
        "learning_rates": {name: tuned.to_json() for name, tuned in results.tuned.items()},
        "diverged": {name: count for name, count in diverged.items() if count},
        "claims": [checked.to_json() for checked in study.check(results)],
    }
