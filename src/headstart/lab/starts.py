"""What a run that starts from others waits for, begins with, and owes: its sources in a store."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.state import State
from headstart.core.units import Cost
from headstart.engines import lower
from headstart.engines.lower import first_buffers
from headstart.lab.states import Moment
from headstart.lab.store import Store
from headstart.methods import Site
from headstart.optimizers import Adafactor
from headstart.run import At, Best, First, From, Run, Step, higher_is_better

Key = tuple[str, int]


@dataclass(frozen=True)
class Begun:
    """The State a run begins with, None for a fresh start, and the cost of the runs it started from.

    A run is not `possible` if no source ever reached its moment.
    """

    state: State | None
    before: Cost
    possible: bool = True


def pending(run: Run, store: Store) -> list[tuple[Run, At]]:
    """The sources that must be trained before the run can begin, each with the moment to keep.

    Of a `First`, the next attempt alone: whether another is needed is known when it is there.
    """
    out = []
    for source, at in run.sources:
        known = store.states.moment(source, at)
        if known is None:
            out.append((source, at))
        if _takes_the_first(run) and (known is None or known.reached):
            break
    return out


def tried(run: Run, store: Store) -> list[tuple[Run, At, Moment]]:
    """The sources that were needed to find where the run begins; all are in the store."""
    found = []
    for source, at in run.sources:
        known = store.states.moment(source, at)
        assert known is not None, "a run is begun when nothing it waits for is pending"
        found.append((source, at, known))
        if _takes_the_first(run) and known.reached:
            break
    return found


def _takes_the_first(run: Run) -> bool:
    return isinstance(run.start, From) and isinstance(run.start.run, First)


def begin(run: Run, store: Store) -> Begun:
    """What a run begins with; nothing that it waits for is `pending`."""
    if not isinstance(run.start, From):
        return Begun(None, Cost())
    owed: dict[Key, Cost] = {}
    _owe(run, store, owed)
    before, carry = sum(owed.values(), Cost()), run.start.carry
    chosen = _chosen(run.start, tried(run, store), store)
    if chosen is None:
        return Begun(None, before, possible=False)
    source, at = chosen
    found = store.states.get(source, at)
    assert found is not None
    if not carry.moments:
        found = replace(found, moments={}, counters={})
    fresh = replace(lower(run).fresh(), buffers=first_buffers(run.model, run.task.signature))
    site = Site(source.model, source.task.signature, run.model, run.task.signature, fresh, run.seed)
    made = run.start.via(found, site)
    _check_fit(run, made, fresh)
    ages = {name: array for name, array in made.counters.items() if name.startswith("age/")}
    state = State(
        made.weights,
        made.buffers,
        made.moments if carry.moments else {},
        place={"fresh": np.asarray(_drawn_by_sources(run, store) if carry.position else 0)},
        counters=ages if carry.moments else {},
    )
    return Begun(state, before)


def _chosen(start: From, searched: list[tuple[Run, At, Moment]], store: Store) -> tuple[Run, At] | None:
    """The source it begins from: the only one, the first that reached its moment, or the best by its score."""
    reached = [(source, at) for source, at, known in searched if known.reached]
    if not isinstance(start.run, Best) or not reached:
        return reached[-1] if reached else None
    sign = 1.0 if higher_is_better(reached[0][0], start.run.score) else -1.0
    scores = [sign * _score(source, at, start.run, store) for source, at in reached]
    return reached[int(np.argmax(scores))]


def _score(source: Run, at: At, best: Best, store: Store) -> float:
    """The mean of a source's last records of the score by the moment."""
    (trace,) = store.cell_traces(source.cell, [source.seed])
    assert isinstance(at, Step)
    return float(trace[best.score][trace.steps <= at.step][-best.window :].mean())


def _drawn_by_sources(run: Run, store: Store) -> int:
    """The first sample id that no run of the chain of sources drew, failed attempts included."""
    waiting, ends, seen = [run], [0], set[str]()
    while waiting:
        for source, _, known in tried(waiting.pop(), store):
            ends.append(known.drawn)
            if source.cell not in seen:  # those that a search tried come from the same ones
                seen.add(source.cell)
                waiting.append(source)
    return max(ends)


def _owe(run: Run, store: Store, owed: dict[Key, Cost]) -> None:
    """Add what the sources of a run cost, and theirs; a run that several come from counts once, as far as it went."""
    for source, _, known in tried(run, store):
        key = (source.cell, source.seed)
        new = key not in owed
        if new or known.cost.steps > owed[key].steps:
            owed[key] = known.cost
        if new:
            _owe(source, store, owed)


def _check_fit(run: Run, made: State, fresh: State) -> None:
    """Raise where the transformation made something else than the run needs."""
    assert isinstance(run.start, From)
    shapes = {p.name: p.shape for p in run.parameters}
    _check_shapes(run, "weights", shapes, made.weights)
    _check_shapes(run, "buffers", {name: array.shape for name, array in fresh.buffers.items()}, made.buffers)
    if not run.start.carry.moments:
        return
    for key, array in made.moments.items():
        kind, _, name = key.partition("/")
        if name not in shapes or (not isinstance(run.optimizer, Adafactor) and array.shape != shapes[name]):
            raise HeadstartError(
                f"From(via={run.start.via}): it made moments {key!r} of shape {array.shape}, which no parameter of the "
                "model has; mend the transformation, or use Carry(moments=False)"
            )
        if run.optimizer.adaptive and f"age/{name}" not in made.counters:
            raise HeadstartError(
                f"From(via={run.start.via}): it made {kind} of {name} without the optimizer's own step, "
                f"counters['age/{name}']; copy the counters of the source too"
            )


def _check_shapes(run: Run, part: str, needed: Mapping[str, tuple[int, ...]], made: Mapping[str, NDArray[Any]]) -> None:
    assert isinstance(run.start, From)
    given = {name: tuple(array.shape) for name, array in made.items()}
    if dict(needed) != given:
        name = sorted(set(needed.items()) ^ set(given.items()))[0][0]
        raise HeadstartError(
            f"From(via={run.start.via}): of {part} it made {name} of shape {given.get(name)}, and the model needs "
            f"{needed.get(name)}; mend the transformation"
        )
