"""Running a study: train what is missing, compute the claims, keep the outcome."""

import time
from dataclasses import dataclass
from typing import Any

from headstart.lab import provenance
from headstart.lab.progress import Progress
from headstart.lab.runner import execute
from headstart.lab.store import Store
from headstart.lab.study import Results, Study, gather, knobs_json
from headstart.lab.sweep import selection_seeds, with_rate
from headstart.lab.workers import workers
from headstart.run import Run


@dataclass(frozen=True)
class Outcome:
    """A study that was run: its results, and the report that the store keeps."""

    results: Results
    report: dict[str, Any]


def conduct(
    study: Study, preset: str, knobs: Any, store: Store, progress: Progress, jobs: int = 1, device: str = "cpu"
) -> Outcome:
    """Run a study into the store. What is stored is not trained again; interrupted work goes on where it stopped."""
    session, began = store.begin_session(study.name, preset, knobs_json(knobs)), time.monotonic()
    try:
        with workers(jobs) as pool, progress:

            def train(runs: list[Run], title: str) -> None:
                execute(runs, store, pool, device, progress, title)
                store.set_seconds(session, time.monotonic() - began)

            results = gather(study, knobs, store, train)
    finally:
        store.set_seconds(session, time.monotonic() - began)
    tuning = list(selection_seeds(knobs.num_selection_seeds))
    for name, arm in results.arms.items():
        cells = sorted({with_rate(arm.run, rate).cell for rate in results.tuned[name].rates})
        store.set_arm(study.name, preset, knobs_json(knobs), name, "selection", cells, tuning)
        store.set_arm(study.name, preset, knobs_json(knobs), name, "claim", [arm.run.cell], results.traces[name].seeds)
    report = make_report(study, preset, results, store)
    store.save_report(study.name, preset, knobs_json(knobs), report)
    return Outcome(results, report)


def make_report(study: Study, preset: str, results: Results, store: Store) -> dict[str, Any]:
    """A study's claims and where they come from, as `headstart show --json` and docs/results have it."""
    cells = [arm.run.cell for arm in results.arms.values()]
    return {
        "study": study.name,
        "title": study.title,
        "paper": study.paper,
        "figures": study.figures,
        "preset": preset,
        "knobs": knobs_json(results.knobs),
        "seeds": results.knobs.num_seeds,
        "commit": ", ".join(store.commits(cells)),
        "machine": provenance.machine(),
        "minutes": round(store.seconds(study.name, preset, knobs_json(results.knobs)) / 60, 2),
        "learning_rates": {name: tuned.to_json() for name, tuned in results.tuned.items()},
        "diverged": {name: traces.num_diverged for name, traces in results.traces.items() if traces.num_diverged},
        "claims": [checked.to_json() for checked in study.check(results)],
    }
