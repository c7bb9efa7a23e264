"""Simulations: what a study computes without training, such as a low-dimensional dynamics; known by its part alone."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.lab.progress import Progress
from headstart.lab.store import Store
from headstart.lab.workers import WORKER_LOST, WorkerLost, Workers

Arrays = Mapping[str, NDArray[Any]]


class Simulated(Protocol):
    """A frozen dataclass of plain values that computes arrays: always the same ones, so they are computed once.

    The store knows the result by the part's type, fields and `semantics`, as it knows runs.
    """

    semantics: ClassVar[int]

    @property
    def seconds(self) -> float:
        """About how long `simulate` takes on one core."""
        ...

    def simulate(self) -> Arrays:
        """The arrays by name."""
        ...


@dataclass(frozen=True)
class Simulation:
    """A simulation of a study, under the name by which its claims and figure find it in `Results.simulations`."""

    name: str
    part: Simulated


def simulate_missing(simulations: Iterable[Simulation], store: Store, pool: Workers, progress: Progress) -> int:
    """Compute every simulation that is not stored yet; each is stored as it ends. Returns how many were computed."""
    todo = missing(simulations, store)
    if not todo:
        return 0
    progress.begin(f"{len(todo)} simulations", sum(s.part.seconds for s in todo))
    waiting, done = list(todo), 0.0
    under_way: dict[Future[Arrays], Simulation] = {}
    try:
        while waiting or under_way:
            while waiting and len(under_way) < 2 * pool.slots:
                simulation = waiting.pop(0)
                under_way[pool.call(simulation.part.simulate)] = simulation
            for future in wait(under_way, timeout=0.2, return_when=FIRST_COMPLETED).done:
                simulation = under_way.pop(future)
                store.add_simulation(simulation.part, future.result())
                done += simulation.part.seconds
            progress.update(done, f"{len(todo) - len(waiting) - len(under_way)}/{len(todo)} simulations")
    except WorkerLost:
        raise HeadstartError(WORKER_LOST) from None
    except BaseException:
        _drain(under_way, store)
        raise
    return len(todo)


def _drain(under_way: Mapping["Future[Arrays]", Simulation], store: Store) -> None:
    """After a stop: begin nothing more, and store what was under way as far as it ends."""
    for future in under_way:
        future.cancel()
    for future in wait(under_way, timeout=60).done:
        if not future.cancelled() and future.exception() is None:
            store.add_simulation(under_way[future].part, future.result())


def missing(simulations: Iterable[Simulation], store: Store) -> list[Simulation]:
    """Those that the store does not have, each part once."""
    return [s for s in {s.part: s for s in simulations}.values() if not store.has_simulation(s.part)]


def check_names(simulations: Sequence[Simulation]) -> None:
    """Raise where two simulations of a study have one name."""
    names = [s.name for s in simulations]
    for name in names:
        if names.count(name) > 1:
            raise HeadstartError(f"two simulations of the study are called {name!r}: give each a name of its own")
