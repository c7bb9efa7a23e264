"""What a run that starts from others waits for, begins with, and owes: its sources in a store."""

from dataclasses import dataclass, replace

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.state import State
from headstart.core.trace import Status
from headstart.core.units import Cost
from headstart.engines import lower
from headstart.engines.lower import first_buffers
from headstart.lab.states import Moment
from headstart.lab.store import Store
from headstart.methods import Site
from headstart.run import At, Best, First, From, Run, Step, higher_is_better

Key = tuple[str, int]


@dataclass(frozen=True)
class Begun:
    """The State a run begins with, None for a fresh start, and the cost of the runs it started from."""

    state: State | None
    before: Cost


def pending(run: Run, store: Store) -> list[tuple[Run, At]]:
    """The sources that must be trained before the run can begin, each with the moment to keep.

    Of a `First`, the next attempt alone: whether another is needed is known when it is there.
    """
    assert not isinstance(run.start, From) or run.sources
    searching = isinstance(run.start, From) and isinstance(run.start.run, First)
    out = []
    for source, at in run.sources:
        known = store.states.moment(source, at)
        if known is None:
            out.append((source, at))
        if searching and (known is None or known.reached):
            break
    return out


def tried(run: Run, store: Store) -> list[tuple[Run, At, Moment]]:
    """The sources that were needed to find where the run begins; all are in the store."""
    found = []
    for source, at in run.sources:
        known = store.states.moment(source, at)
        if known is None:
            break  # a later attempt, which was not needed
        found.append((source, at, known))
        if isinstance(run.start, From) and isinstance(run.start.run, First) and known.reached:
            break
    return found


def begin(run: Run, store: Store) -> Begun | None:
    """What a run begins with; None if no source ever reached its moment."""
    if not isinstance(run.start, From):
        return Begun(None, Cost())
    searched = tried(run, store)
    chosen = _chosen(run, run.start, searched, store)
    if chosen is None:
        return None
    source, at = chosen
    found = store.states.get(source, at)
    assert found is not None
    carry, lowered = run.start.carry, lower(run)
    if not carry.moments:
        found = replace(found, moments={}, counters={})
    fresh = replace(lowered.fresh(), buffers=first_buffers(run.model, run.task.signature))
    site = Site(source.model, source.task.signature, run.model, run.task.signature, fresh)
    made = run.start.via(found, site)
    _check_fit(run, made)
    ages = {name: array for name, array in made.counters.items() if name.startswith("age/")}
    state = State(
        made.weights,
        made.buffers,
        made.moments if carry.moments else {},
        place={"fresh": np.asarray(_position(run, store))},
        counters=ages if carry.moments else {},
    )
    owed: dict[Key, Cost] = {}
    _owe(run, store, owed)
    return Begun(state, sum(owed.values(), Cost()))


def _chosen(run: Run, start: From, searched: list[tuple[Run, At, Moment]], store: Store) -> tuple[Run, At] | None:
    """The source it begins from: the only one, the first that reached its moment, or the best by its score."""
    reached = [(source, at) for source, at, known in searched if known.reached]
    if not isinstance(start.run, Best) or not reached:
        return reached[-1] if reached else None
    sign = 1.0 if higher_is_better(reached[0][0], start.run.score) else -1.0
    scores = [sign * _score(source, at, start.run.score, store) for source, at in reached]
    return reached[int(np.argmax(scores))]


def _score(source: Run, at: At, score: str, store: Store) -> float:
    """What a source had last recorded of the score by the moment."""
    (trace,) = store.cell_traces(source.cell, [source.seed])
    assert isinstance(at, Step)
    return float(trace[score][trace.steps <= at.step][-1])


def _position(run: Run, store: Store) -> int:
    """The first id of fresh samples: none that the chain of sources drew, failed attempts included."""
    if not isinstance(run.start, From) or not run.start.carry.position:
        return 0
    return max(_drawn(source, known, store) for source, _, known in tried(run, store))


def _drawn(source: Run, known: Moment, store: Store) -> int:
    """The first sample id that the source has not drawn; an attempt that failed went to its end."""
    if known.reached:
        return known.drawn
    course, end = lower(source).course, source.budget.steps
    place = course.start(source.seed, _position(source, store))
    while (left := course.steps_left(place, place.began)) is not None and place.began + left <= end:
        place = course.observe(place, place.began + left)
    return course.drawn(place, end)


def _owe(run: Run, store: Store, owed: dict[Key, Cost]) -> None:
    """Add what the sources of a run cost, and theirs; a run that several come from counts once, as far as it went."""
    for source, _, known in tried(run, store):
        cost = known.cost if known.reached else _whole(source, store)
        key = (source.cell, source.seed)
        if key not in owed or cost.steps > owed[key].steps:
            owed[key] = cost
        _owe(source, store, owed)


def _whole(source: Run, store: Store) -> Cost:
    """The cost of a run that went to its end without reaching its moment."""
    (trace,) = store.cell_traces(source.cell, [source.seed])
    if trace.status is Status.UNREACHED or not len(trace.steps):
        return Cost(seconds=trace.seconds)
    return Cost(int(trace.steps[-1]), int(trace.samples[-1]), float(trace.flops[-1]), trace.seconds)


def _check_fit(run: Run, made: State) -> None:
    """Raise where the transformation made something else than the run's model needs."""
    assert isinstance(run.start, From)
    needed = {p.name: p.shape for p in run.parameters}
    given = {name: tuple(array.shape) for name, array in made.weights.items()}
    if needed != given:
        name = sorted(set(needed.items()) ^ set(given.items()))[0][0]
        raise HeadstartError(
            f"From(via={run.start.via}): it made {name} of shape {given.get(name)}, and the model needs "
            f"{needed.get(name)}; mend the transformation"
        )
