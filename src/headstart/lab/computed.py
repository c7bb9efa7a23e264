"""What a study computes beside training: over the States of several runs, or, without any, a simulation."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.state import State
from headstart.engines import Job, Outcome, choose
from headstart.lab.progress import Progress
from headstart.lab.runner import execute
from headstart.lab.store import Store
from headstart.lab.workers import WorkerLost, Workers
from headstart.measures import Measure
from headstart.run import At, Fresh, Run

Arrays = Mapping[str, NDArray[Any]]


class Computed(Protocol):
    """A frozen dataclass of plain values and parts that computes arrays: always the same ones, so once.

    It is a node of the graph of runs: those that it `needs`, each with a moment, are trained first, and their States
    are kept and given to `compute` in that order, None for a moment that never came. Distances and interpolations
    between networks are such. A part without `needs` is a simulation: `compute()` takes nothing. Where the States
    would fill the disk, a part needs nothing and trains its runs itself by `trained`. The store knows the result by
    the part's type, fields and `semantics`, as it knows runs.
    """

    semantics: ClassVar[int]

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        ...

    def compute(self, *states: State | None) -> Arrays:
        """The arrays by name."""
        ...


def needs(part: Computed) -> tuple[tuple[Run, At], ...]:
    """The runs that a part needs, each with its seed and the moment of its State."""
    found = tuple(getattr(part, "needs", ()))
    for each in found:
        if not (isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], Run) and isinstance(each[1], At)):
            raise HeadstartError(f"{type(part).__name__}.needs: give pairs (run, at), such as (run, Step(100))")
    return found


def trained(runs: Sequence[Run], keep: Sequence[At] = (), measures: Sequence[Measure] = ()) -> list[Outcome]:
    """Train runs here and now, without a store: for a part that looks at several at once, such as pairs.

    Returns each run's trace, its States at the moments `keep` and what measures saw, in the order of `runs`.
    """
    for run in runs:
        if not isinstance(run.start, Fresh):
            raise HeadstartError("trained(runs): they begin fresh; let a store train those that start from others")
    chosen = [choose(run).engine for run in runs]
    out: dict[int, Outcome] = {}
    for engine in dict.fromkeys(chosen):
        numbers = [number for number, its in enumerate(chosen) if its == engine]
        jobs = [Job(runs[number], keep=tuple(keep), measures=tuple(measures)) for number in numbers]
        out |= dict(zip(numbers, engine.train(jobs), strict=True))
    return [out[number] for number in range(len(runs))]


@dataclass(frozen=True)
class Computation:
    """Work for a worker: what a part computes from these States."""

    part: Computed
    states: tuple[State | None, ...] = ()

    def __call__(self) -> Arrays:
        """The arrays by name."""
        return self.part.compute(*self.states)

    def keep(self, store: Store, arrays: Arrays) -> None:
        """Store what came of it."""
        store.add_computed(self.part, arrays)

    def light(self) -> "Computation":
        """It without the States: enough to `keep` what came of it."""
        return Computation(self.part)


def compute_missing(
    parts: Iterable[Computed], store: Store, pool: Workers, progress: Progress, device: str = "cpu"
) -> int:
    """Compute every part that is not stored yet, after the runs that it needs. Returns how many were computed."""
    todo = missing(parts, store)
    if not todo:
        return 0
    wanted = dict.fromkeys(need for part in todo for need in needs(part))
    execute((), store, pool, device, progress, f"{len(wanted)} runs to compute from", moments=wanted)
    progress.begin(f"{len(todo)} computations", sum(part.seconds for part in todo))
    waiting, done = list(todo), 0.0
    under_way: dict[Future[Arrays], Computed] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < 2 * pool.slots:
                part = waiting.pop(0)
                states = tuple(store.states.get(run, at) for run, at in needs(part))
                under_way[pool.call(Computation(part, states))] = part
            for future in wait(under_way, timeout=0.2, return_when=FIRST_COMPLETED).done:
                part = under_way.pop(future)
                store.add_computed(part, future.result())
                done += part.seconds
            progress.update(done, f"{len(todo) - len(waiting) - len(under_way)}/{len(todo)} computations")
    except BaseException as error:
        _drain(under_way, store)
        if isinstance(error, WorkerLost):
            raise HeadstartError(str(error)) from None
        raise
    return len(todo)


def _drain(under_way: Mapping["Future[Arrays]", Computed], store: Store) -> None:
    """After a stop: begin nothing more, and store what was under way as far as it ends."""
    for future in under_way:
        future.cancel()
    for future in wait(under_way, timeout=60).done:
        if not future.cancelled() and future.exception() is None:
            store.add_computed(under_way[future], future.result())


def missing(parts: Iterable[Computed], store: Store) -> list[Computed]:
    """Those that the store does not have, each once."""
    return [part for part in dict.fromkeys(parts) if not store.has_computed(part)]
