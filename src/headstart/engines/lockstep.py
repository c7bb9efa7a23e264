"""How members go from record to record, to the end of their budget. Each engine has its own way to advance."""

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.core.state import State
from headstart.core.trace import Status
from headstart.engines.engine import Interrupted, Listens, Outcome, Watch
from headstart.engines.member import Member
from headstart.engines.views import view_of
from headstart.plans import Place
from headstart.run import Step

# Every member has a checkpoint file, synced to disk, so larger groups write theirs more seldom.
_FILES_AT_A_TIME = 32


class Lockstep(Protocol):
    """Members at one step, as an engine trains them together. Members are numbered as they were given."""

    def evaluate(self, active: Sequence[int]) -> NDArray[np.float64]:
        """A record of each of these members at the present step: float64[active, names]."""
        ...

    def advance(self, active: Sequence[int], step: int, until: int) -> int:
        """Train from `step` to `until`; returns the samples in the gradients of one member."""
        ...

    def place(self, member: int) -> Place:
        """Where a member stands on its course."""
        ...

    def state(self, member: int) -> State:
        """A copy of a member's weights, buffers, moments and hooks, with the optimizer's own steps."""
        ...

    def saved(self, member: int) -> State:
        """What its checkpoint holds: its state, or less where the engine makes the rest again."""
        ...

    def retain(self, active: Sequence[int]) -> None:
        """Only these go on; the others may be dropped."""
        ...


def together(members: Sequence[Member]) -> list[list[Member]]:
    """Members that may go in lockstep: at one step, with as many records, fresh ids from the same one on.

    Where metrics decide, members may stand on different legs of their course; else they may not.
    """
    groups: dict[Any, list[Member]] = {}
    for member in members:
        place = member.place._replace(seed=0)
        alike = place.fresh if member.lowered.course.adaptive else place
        groups.setdefault((member.step, len(member.rows), alike), []).append(member)
    return list(groups.values())


def train_together(
    members: Sequence[Member], lockstep: Lockstep, watch: Watch | None, checkpoint_seconds: float
) -> Iterator[tuple[int, Outcome]]:
    """Train members from record to record to the end of their budget; yields each with its index as it ends.

    A member whose record says that it diverged, or is settled, ends there. Where the watch says stop, everyone writes a
    checkpoint.
    """
    clock = saved = time.monotonic()
    every = checkpoint_seconds * max(1.0, len(members) / _FILES_AT_A_TIME)
    first, active = members[0], list(range(len(members)))
    step, end = first.step, first.run.budget.steps
    recorded = set(first.run.budget.recorded_steps())
    asked = {at.step for m in members for at in m.job.keep if isinstance(at, Step)}
    stops = sorted(recorded.union(asked, *(seen.due for m in members for seen in m.seen), {end}))
    while True:
        if step in recorded and step not in first.steps[-1:]:
            rows, now = lockstep.evaluate(active).tolist(), time.monotonic()
            going = []
            for number, row in zip(active, rows, strict=True):
                member = members[number]
                member.seconds += (now - clock) / len(active)
                member.place = lockstep.place(number)
                if not member.record(row):
                    yield member.index, member.outcome(Status.DIVERGED)
                elif member.settled:
                    _look(members, [number], lockstep)
                    member.hold()
                    yield member.index, member.outcome(Status.FINISHED)
                else:
                    going.append(number)
            clock, active = now, going
            if not active:
                return
            lockstep.retain(active)
            first = members[active[0]]
            _look(members, active, lockstep)
            if isinstance(watch, Listens) and watch.due():
                for number in active:
                    watch.hear(members[number].index, members[number].cost, members[number].latest)
            answers = [watch(members[number].index, step) for number in active] if watch else []
            stop = any(answers)
            if (stop or now - saved > every) and step < end:
                for number in active:
                    if members[number].job.checkpoint is not None:
                        members[number].save(lockstep.saved(number))
                saved = time.monotonic()
                if stop:
                    raise Interrupted
        else:
            _look(members, active, lockstep)
        if step == end:
            break
        until = stops[bisect_right(stops, step)]
        samples = lockstep.advance(active, step, until)
        for number in active:
            members[number].step = until
            members[number].samples += samples
        step = until
    for number in active:
        yield members[number].index, members[number].outcome(Status.FINISHED)


def _look(members: Sequence[Member], active: Sequence[int], lockstep: Lockstep) -> None:
    """Keep the state of every member at each moment asked for that has come, and let measures look that are due."""
    for number in active:
        member = members[number]
        moments = member.wanted() if len(member.kept) < len(member.job.keep) else []
        due = [seen for seen in member.seen if seen.is_due(member.step)]
        if moments or due:
            member.place = lockstep.place(number)
            state = member.full(lockstep.state(number))
            member.kept |= dict.fromkeys(moments, state)
        if due:
            view = view_of(member.lowered, member.place, member.step, state, member.initial)
            for seen in due:
                seen.look(view)


def in_order(ended: Iterator[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """Outcomes in the order of their indices, each as soon as it may; after a stop, all that are there."""
    waiting: dict[int, Outcome] = {}
    following = 0
    try:
        for index, outcome in ended:
            waiting[index] = outcome
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    except Interrupted:
        yield from (waiting[index] for index in sorted(waiting))
        raise
