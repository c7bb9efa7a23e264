"""Training from Python: one call from a Run to its traces."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.streams import check_seed
from headstart.core.trace import Traces
from headstart.lab.measured import check_measure
from headstart.lab.progress import Silent, display
from headstart.lab.runner import execute
from headstart.lab.store import Store, open_store
from headstart.lab.workers import workers
from headstart.measures import Measure
from headstart.run import Run

_MOST_SEEDS = 1_000_000


def train(
    run: Run,
    seeds: int | Iterable[int] | None = None,
    store: Store | str | Path | None = None,
    jobs: int = 1,
    device: str = "cpu",
    progress: bool = False,
    measures: Sequence[Measure] = (),
) -> Traces:
    """Train a run at each of `seeds` (default: its own) and return the traces in that order.

    `seeds=3` is short for the three seeds 0, 1 and 2; `seeds=[3]` is the one seed 3.
    Measures look at the runs on their way: `traces.measured(measure)`. With a store, what is there is not trained again
    and new traces are added to it. `jobs` above 1 trains in that many processes; call it under
    `if __name__ == "__main__":` then, since they import the calling script.

        traces = hs.train(run, seeds=8)
        traces.to_pandas()
    """
    if not isinstance(run, Run):
        raise HeadstartError(f"train(run={run!r}): give a Run; of several, call train for each")
    if not isinstance(measures, Sequence):
        raise HeadstartError(f"train(measures={measures!r}): give a tuple of measures, such as (Distance(),)")
    for measure in measures:
        check_measure(measure)
    wanted = _seeds(run, seeds)
    for measure in measures:
        check_measure(measure)
    check_count("train", "jobs", jobs)
    check_flag("train", "progress", progress)
    if not isinstance(store, Store | str | Path | None):
        raise HeadstartError(f"train(store={store!r}): give a path, or a store from open_store(path)")
    if device != "cpu":
        from headstart.engines.loop import check_device

        check_device(str(device))
    if store is None:
        with TemporaryDirectory(prefix="headstart-") as folder, open_store(Path(folder) / "store.sqlite") as scratch:
            return train(run, wanted, scratch, jobs, device, progress, measures)
    if not isinstance(store, Store):
        with open_store(store) as opened:
            return train(run, wanted, opened, jobs, device, progress, measures)
    with workers(jobs) as pool, display() if progress else Silent() as shown:
        execute([run.at(seed) for seed in wanted], store, pool, device, shown, measures=measures)
    return store.cell_traces(run.cell, wanted, measures=measures)


def _seeds(run: Run, seeds: int | Iterable[int] | None) -> list[int]:
    """The seeds to train at; a number says how many, from 0 on."""
    if seeds is None:
        return [run.seed]
    if isinstance(seeds, int | np.integer):
        seeds = seeds if isinstance(seeds, bool) else int(seeds)
        check_count("train", "seeds", seeds)
        if seeds > _MOST_SEEDS:
            raise HeadstartError(
                f"train(seeds={seeds}): that many seeds; one seed is [{seeds}], and {_MOST_SEEDS} the most"
            )
        return list(range(seeds))
    if isinstance(seeds, str | bytes | dict) or not isinstance(seeds, Iterable):
        raise HeadstartError(f"train(seeds={seeds!r}): give how many seeds, such as 8, or a sequence, such as [3, 4]")
    wanted = list(islice(seeds, _MOST_SEEDS + 1))
    if not 0 < len(wanted) <= _MOST_SEEDS:
        raise HeadstartError(f"train(seeds=...): give 1 to {_MOST_SEEDS} seeds")
    for seed in wanted:
        check_seed(seed)
    return [int(seed) for seed in wanted]
