"""Training from Python: one call from a Run to its traces."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from headstart.core.trace import Traces
from headstart.lab.measured import check_measure
from headstart.lab.progress import Silent, display
from headstart.lab.runner import execute
from headstart.lab.store import Store, open_store
from headstart.lab.workers import workers
from headstart.measures import Measure
from headstart.run import Run


def train(
    run: Run,
    seeds: Iterable[int] | None = None,
    store: Store | str | Path | None = None,
    jobs: int = 1,
    device: str = "cpu",
    progress: bool = False,
    measures: Sequence[Measure] = (),
) -> Traces:
    """Train a run at each of `seeds` (default: its own) and return the traces in that order.

    Measures look at the runs on their way: `traces.measured(measure)`. With a store, what is there is not trained again
    and new traces are added to it. `jobs` above 1 trains in that many
    processes; call it under `if __name__ == "__main__":` then, since they import the calling script.

        traces = hs.train(run, seeds=range(8))
        traces.to_pandas()
    """
    for measure in measures:
        check_measure(measure)
    wanted = [run.seed] if seeds is None else list(seeds)
    if store is None:
        with TemporaryDirectory(prefix="headstart-") as folder, open_store(Path(folder) / "store.sqlite") as scratch:
            return train(run, wanted, scratch, jobs, device, progress, measures)
    if not isinstance(store, Store):
        with open_store(store) as opened:
            return train(run, wanted, opened, jobs, device, progress, measures)
    with workers(jobs) as pool, display() if progress else Silent() as shown:
        execute([run.at(seed) for seed in wanted], store, pool, device, shown, measures=measures)
    return store.cell_traces(run.cell, wanted, measures=measures)
