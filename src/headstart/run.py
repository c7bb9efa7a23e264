"""One training, fully specified and immutable; its canonical JSON and hash.

A Run without its seed is a cell. The store knows a result by (cell, seed), so everything that changes numbers is a
field of the Run or of one of its parts, or raises that part's `semantics`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Any, cast

from headstart.core.encoding import canonical, encode, identity, settings
from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.roles import Parameter
from headstart.core.streams import Stream, check_seed, words
from headstart.core.trace import html_table
from headstart.core.units import Batch, Budget, FullBatch
from headstart.fit import check_fit
from headstart.losses import Loss
from headstart.methods import Method, Same, Transformation
from headstart.methods.site import Checked
from headstart.models import Model, Weights
from headstart.optimizers import SGD, Optimizer
from headstart.plans import Plan
from headstart.tasks import Task

# Cells are hashed under this number; those of version 0.1 had none, so the two never meet.
FORMAT = 2
# Ids of the init stream from here on give later attempts at a run seeds of their own.
_FIRST_ATTEMPT_ID = 2**62


@dataclass(frozen=True)
class Fresh:
    """Start from the model's own initial weights."""


@dataclass(frozen=True)
class Step:
    """The moment after `step` optimizer steps."""

    step: int

    def __post_init__(self) -> None:
        check_count("Step", "step", self.step, minimum=0)


@dataclass(frozen=True)
class Reaches:
    """The first recorded step at which `metric` (such as "test_accuracy") is at `value` or better."""

    metric: str
    value: float

    def __post_init__(self) -> None:
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not isinstance(self.metric, str) or not number or not abs(self.value) < float("inf"):
            raise HeadstartError(f"{self!r}: give the name of a metric and a finite number to reach")


At = Step | Reaches


class Precision(StrEnum):
    """The numbers that training computes with."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"


@dataclass(frozen=True)
class Carry:
    """What a run takes along from the one it starts from, beside what the transformation makes of its weights.

    `moments`: the optimizer's running averages and its own steps, through the transformation too. `position`: ids of
    fresh samples go on after those that the chain of sources drew, so that fresh samples are fresh. Finite sets, which
    are what they are by their ids, do not shift, and schedules begin at step 0.
    """

    moments: bool = False
    position: bool = True

    def __post_init__(self) -> None:
        for name in ("moments", "position"):
            check_flag("Carry", name, getattr(self, name))


@dataclass(frozen=True)
class First:
    """The first of several attempts at a run that reaches a metric. All that were tried count as its cost.

    Attempt 0 is the run itself; a later one draws its initial weights from a seed derived from the run's, and keeps
    its task, samples and order.
    """

    run: "Run"
    attempts: int
    at: Reaches

    def __post_init__(self) -> None:
        check_count("First", "attempts", self.attempts)
        if not isinstance(self.run, Run):
            raise HeadstartError(f"First(run={self.run!r}): give a Run")
        if not isinstance(self.at, Reaches):
            raise HeadstartError(f"First(at={self.at!r}): give the metric to reach, Reaches('test_accuracy', 0.3)")
        _check_moment("First", self.run, self.at)
        start = self.run.start
        if self.attempts > 1 and isinstance(start, From) and not start.via.uses_fresh:
            raise HeadstartError(
                f"First(attempts={self.attempts}): attempts differ in their initial weights, and this run starts from "
                f"another's via {type(start.via).__name__}(), so that all would be the same; use attempts=1"
            )
        object.__setattr__(self, "run", self.run.at(0))

    @cached_property
    def candidates(self) -> "tuple[tuple[Run, At], ...]":
        """The attempts in their order, each with its moment."""
        return tuple((replace(self.run, attempt=self.run.attempt + k), self.at) for k in range(self.attempts))


@dataclass(frozen=True)
class Best:
    """The best of several runs by the mean of their last `window` records of `score`, such as "test_loss", by `at`.

    Without `at`, at the end of each run's budget; where there are fewer records by then, of these. The cost of all of
    them counts, what they share once. With `vias` a run is tried through each of them in the place of its own:
    of growth operators this is LAG.
    """

    runs: "tuple[Run, ...]"
    score: str
    at: Step | None = None
    window: int = field(default=1, metadata={"since": 3})
    vias: tuple[Transformation, ...] = field(default=(), metadata={"since": 5})

    def __post_init__(self) -> None:
        check_count("Best", "window", self.window)
        runs = tuple(self.runs) if isinstance(self.runs, Sequence) else ()
        if not runs or not all(isinstance(run, Run) for run in runs):
            raise HeadstartError(f"Best(runs={self.runs!r}): give a sequence of Runs")
        object.__setattr__(self, "runs", tuple(run.at(0) for run in runs))
        object.__setattr__(self, "vias", tuple(self.vias))
        if self.vias and not all(isinstance(run.start, From) for run in runs):
            raise HeadstartError(f"Best(vias={self.vias!r}): its runs must start From another; leave vias out")
        for run, _ in self.candidates:
            if not isinstance(self.score, str) or self.score not in recorded_metrics(run):
                raise HeadstartError(f"Best(score={self.score!r}): its runs record {', '.join(recorded_metrics(run))}")
            _check_moment("Best", run, self.at)

    @cached_property
    def candidates(self) -> "tuple[tuple[Run, At], ...]":
        """All runs, each through every one of `vias` if there are any, and each with its moment."""
        pairs = [(run, via) for run in self.runs for via in self.vias]
        runs = [replace(run, start=replace(cast(From, run.start), via=via)) for run, via in pairs] or self.runs
        return tuple((run, self.at or Step(run.budget.steps)) for run in runs)


@dataclass(frozen=True)
class From:
    """Start from another run, of the same seed, as it was at a moment (by default at the end of its budget).

    `run` is a Run, or a search among several: `First` or `Best`, which say themselves at which moment. `via` makes the
    initial State of it; `carry` says what comes along.
    """

    run: "Run | First | Best"
    at: At | None = None
    via: Transformation = Same()
    carry: Carry = Carry()

    def __post_init__(self) -> None:
        if isinstance(self.run, First | Best):
            if self.at is not None:
                raise HeadstartError(f"From(at={self.at}): {type(self.run).__name__} says itself at which moment")
        elif isinstance(self.run, Run):
            at = Step(self.run.budget.steps) if self.at is None else self.at
            _check_moment("From", self.run, at)
            object.__setattr__(self, "at", at)
            # A source has no seed of its own, so that its cell is the same whoever starts from it.
            object.__setattr__(self, "run", self.run.at(0))
        else:
            raise HeadstartError(f"From(run={self.run!r}): give a Run, First(...) or Best(...)")
        if isinstance(self.via, type) or not isinstance(self.via, Transformation):
            raise HeadstartError(
                f"From(via={self.via!r}): give a transformation of States, with `semantics` and `uses_fresh`"
            )
        if not isinstance(self.carry, Carry):
            raise HeadstartError(f"From(carry={self.carry!r}): give Carry(moments=..., position=...)")

    @property
    def candidates(self) -> "tuple[tuple[Run, At], ...]":
        """The runs it may start from, each with its moment; one, unless it searches."""
        if isinstance(self.run, Run):
            assert self.at is not None
            return ((self.run, self.at),)
        return self.run.candidates


def _check_moment(owner: str, run: "Run", at: At | None) -> None:
    if not isinstance(at, Step if owner == "Best" else Step | Reaches) and at is not None:
        metric = "" if owner == "Best" else ", or Reaches('test_accuracy', 0.3)"
        raise HeadstartError(f"{owner}(at={at!r}): give a moment, such as Step(100){metric}")
    if isinstance(at, Step) and at.step > run.budget.steps:
        raise HeadstartError(f"{owner}(at={at}): the source run has a budget of {run.budget.steps} steps")
    if not isinstance(at, Reaches) and run.budget.settled is not None:
        raise HeadstartError(
            f"{owner}(at={at}): the source run ends once it is settled, maybe before; leave settled out of its budget"
        )
    if isinstance(at, Reaches) and at.metric not in recorded_metrics(run):
        raise HeadstartError(f"{owner}(at={at}): the source run records {', '.join(recorded_metrics(run))}")


@dataclass(frozen=True)
class Run:
    """task + model + plan + batch + loss + optimizer + methods + start + budget + seed."""

    task: Task
    model: Model
    plan: Plan
    loss: Loss
    optimizer: Optimizer
    batch: Batch | FullBatch = Batch(128)
    methods: tuple[Method, ...] = ()
    start: Fresh | From = Fresh()
    budget: Budget = Budget()
    seed: int = 0
    precision: Precision = field(default=Precision.FLOAT32, metadata={"since": 2})
    attempt: int = field(default=0, metadata={"since": 2})

    def __post_init__(self) -> None:
        check_seed(self.seed)
        object.__setattr__(self, "seed", int(self.seed))
        check_count("Run", "attempt", self.attempt, minimum=0)
        _check_parts(self)
        object.__setattr__(self, "methods", tuple(self.methods))
        object.__setattr__(self, "precision", Precision(self.precision))
        if self.loss.name not in self.task.losses:
            raise HeadstartError(
                f"Run(loss={self.loss}): {type(self.task).__name__} offers {', '.join(self.task.losses)}"
            )
        for method in self.methods:
            method.check(self.task)
        assert self.parameters  # a model that does not fit says so here
        for method in self.methods:
            method.check_parameters(self.parameters)
        check_fit(self.task, self.plan, self.batch, self.budget)
        if isinstance(self.start, From):
            _check_start(self, self.start)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the model for this task."""
        return self.model.parameters(self.task.signature)

    @cached_property
    def init_scales(self) -> tuple[float, ...]:
        """The factor on each parameter's initial values: the methods' factors multiply in the order written."""
        return tuple(prod((m.init_scale(p) for m in self.methods), start=1.0) for p in self.parameters)

    def at(self, seed: int) -> "Run":
        """The same cell with another seed."""
        check_seed(seed)
        if seed == self.seed:
            return self
        # A copy, not `replace`: the parts are checked and the cell hashed once, however many seeds there are.
        other = object.__new__(Run)
        other.__dict__.update(self.__dict__, seed=int(seed))
        return other

    @cached_property
    def json(self) -> str:
        """Canonical JSON of the cell: every part with its type and semantics, without the seed."""
        data = encode(self)
        del data["seed"]
        return canonical({**data, "format": FORMAT})

    @cached_property
    def cell(self) -> str:
        """The identity of the cell: 80 bits of the SHA-256 of its canonical JSON, in hexadecimal."""
        return identity(self.json)

    def _repr_html_(self) -> str:
        """Its settings for notebooks."""
        return html_table(
            f"Run, cell {self.cell}, seed {self.seed}", ("setting", "value"), settings(encode(self)).items()
        )

    @property
    def sources(self) -> "tuple[tuple[Run, At], ...]":
        """The runs this one may start from, with this one's seed, each with the moment; none for a fresh start."""
        if not isinstance(self.start, From):
            return ()
        return tuple((run.at(self.seed), at) for run, at in self.start.candidates)

    @property
    def init_seed(self) -> int:
        """The seed of the initial weights: the run's own, but for later attempts."""
        if not self.attempt:
            return self.seed
        return int(words(self.seed, Stream.INIT, [_FIRST_ATTEMPT_ID + self.attempt], 1)[0, 0])

    def fresh_weights(self) -> Weights:
        """The model's own initial weights for this seed and attempt, before any method."""
        return self.model.initial_weights(self.task.signature, self.init_seed)


# What each field of a Run must be, and an example of it for whoever gives something else.
_PARTS: dict[str, tuple[Any, str]] = {
    "task": (Task, "a task, such as Parity(dim=20, degree=6)"),
    "model": (Model, "a model, such as MLP(width=64)"),
    "plan": (Plan, "a plan, such as Online() or Fixed(size=1024)"),
    "loss": (Loss, "a loss, such as MSE()"),
    "optimizer": (Optimizer, "an optimizer, such as SGD(lr=0.1)"),
    "batch": ((Batch, FullBatch), "Batch(size) or FullBatch()"),
    "start": ((Fresh, From), "Fresh() or From(run, ...)"),
    "budget": (Budget, "Budget(steps=...)"),
}


def _check_parts(run: Run) -> None:
    """Raise where a field of the run is not what it should be."""
    for name, (kind, example) in _PARTS.items():
        value = getattr(run, name)
        if isinstance(value, type):
            raise HeadstartError(f"Run({name}={value.__name__}): give an instance, not the class; {example}")
        if not isinstance(value, kind):
            raise HeadstartError(f"Run({name}={value!r}): give {example}")
    if not isinstance(run.methods, Sequence) or not all(isinstance(m, Method) for m in run.methods):
        raise HeadstartError(f"Run(methods={run.methods!r}): give a tuple of methods, such as (LayerScale(...),)")
    if run.precision not in list(Precision):
        raise HeadstartError(f"Run(precision={run.precision!r}): choose {' or '.join(Precision)}")


def _check_start(run: Run, start: From) -> None:
    """Raise where something asked for would silently have no effect."""
    for source, _ in start.candidates:
        if start.carry.moments and type(source.optimizer) is not type(run.optimizer):
            raise HeadstartError(
                f"Carry(moments=True): the source is trained by {type(source.optimizer).__name__} and this run by "
                f"{type(run.optimizer).__name__}, which has other moments; use Carry(moments=False)"
            )
        if start.carry.moments and isinstance(source.optimizer, SGD) and not source.optimizer.momentum:
            raise HeadstartError("Carry(moments=True): the source is trained by SGD without momentum: no moments")
        if isinstance(start.via, Checked):
            start.via.check(source.parameters, run.parameters)
        alike = [(p.name, p.shape) for p in source.parameters] == [(p.name, p.shape) for p in run.parameters]
        if alike and not start.via.uses_fresh and source.init_scales != run.init_scales:
            raise HeadstartError(
                f"Run(methods={run.methods}): scales of initial values have no effect on a run that starts from "
                f"another's weights via {type(start.via).__name__}(); scale the source run, or use LayerScale(rate=...)"
            )


def recorded_metrics(run: Run) -> list[str]:
    """The names of the metrics and losses that runs of this task record."""
    names = [*(metric.name for metric in run.task.metrics), "loss"]
    return [f"{split}_{name}" for split in ("test", "train") for name in names]


def higher_is_better(run: Run, metric: str) -> bool:
    """Whether a recorded metric is better when higher; losses are not."""
    name = metric.removeprefix("test_").removeprefix("train_")
    return any(m.name == name and m.higher_is_better for m in run.task.metrics)


def reached(run: Run, at: Reaches, values: Mapping[str, float]) -> bool:
    """Whether a record is at the target or better. Losses are better when lower."""
    if (last := values.get(at.metric)) is None:
        raise HeadstartError(f"{at}: runs of this task record {', '.join(sorted(values))}")
    return bool(last >= at.value if higher_is_better(run, at.metric) else last <= at.value)
