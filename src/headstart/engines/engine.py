"""What an engine must offer: train jobs, one at a time or many at once, and say which runs it cannot train."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from headstart.core.state import Arrays, State
from headstart.core.trace import Trace
from headstart.core.units import Cost
from headstart.measures import Measure
from headstart.methods import Hook
from headstart.run import At, Run

# Called with (index of the job, step reached); answers whether to stop and keep a checkpoint.
Watch = Callable[[int, int], bool]


@runtime_checkable
class Listens(Protocol):
    """A watch that hears records too, as they are made: a page shows them while their runs go on."""

    def due(self) -> bool:
        """Whether it wants the records of the present step."""
        ...

    def hear(self, index: int, cost: Cost, values: Mapping[str, float]) -> None:
        """A record of a job: what it has cost so far, and what was recorded, by name."""
        ...


class Interrupted(Exception):
    """Training stopped because the watch asked. Runs under way are in their checkpoints; `finished` ones are here."""

    def __init__(self, finished: Sequence["Outcome"] = ()) -> None:
        super().__init__(finished)
        self.finished = list(finished)


@dataclass(frozen=True)
class Job:
    """A run to train, with what the outside world adds.

    `start` is the State that a `From` made for it, None for a fresh start; `before` is what its sources cost. `keep`
    are the moments at which its State is asked for, `checkpoint` the file of a run under way, `measures` what looks at
    it on the way.
    """

    run: Run
    start: State | None = None
    keep: tuple[At, ...] = ()
    checkpoint: Path | None = None
    before: Cost = Cost()
    measures: tuple[Measure, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """A trained run: its trace, and its State at the moments asked for; None for those it never reached.

    `cost` is what all its steps took, those after its last record included, and `drawn` the first sample id that none
    of them drew. `measured` is what each measure saw: "step" int64[moments] and arrays [moments, ...] by name.
    """

    run: Run
    trace: Trace
    states: Mapping[At, State | None] = field(default_factory=dict)
    cost: Cost = Cost()
    drawn: int = 0
    measured: Mapping[Measure, Arrays] = field(default_factory=dict)


class Engine(Protocol):
    """Trains many runs."""

    @property
    def name(self) -> str:
        """The engine's name in provenance and in `headstart explain`."""
        ...

    @property
    def in_threads(self) -> bool:
        """Whether it releases the GIL, so that threads of one process train in parallel; else processes do."""
        ...

    @property
    def hooks(self) -> frozenset[Hook]:
        """What it can do beyond plain training."""
        ...

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """None, or what this engine lacks to train the run on the device: a hook, or a limit of its own."""
        ...

    def group_key(self, run: Run) -> Hashable:
        """Runs with equal keys gain from being trained in one call."""
        ...

    def least_members(self, run: Run) -> int:
        """The fewest runs per call, if that many share the key."""
        ...

    def seconds(self, run: Run) -> float:
        """A rough estimate of the seconds one run takes on one core of an ordinary machine."""
        ...

    def memory(self, run: Run) -> float:
        """A rough estimate of the bytes one run takes."""
        ...

    def train(self, jobs: Sequence[Job], device: str = "cpu", watch: Watch | None = None) -> Iterator[Outcome]:
        """Train the jobs and yield each outcome as it is there. Raises Interrupted when the watch says stop."""
        ...
