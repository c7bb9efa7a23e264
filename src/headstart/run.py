"""One training, fully specified and immutable; its canonical JSON and hash.

A Run without its seed is a cell. The store knows a result by (cell, seed), so everything that changes numbers is a
field of the Run or of one of its parts, or raises that part's `semantics`.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import check_seed
from headstart.core.units import Batch, Budget, FullBatch
from headstart.losses import Loss
from headstart.methods import Method
from headstart.models import Model, Weights
from headstart.optimizers import Optimizer
from headstart.plans import Plan
from headstart.tasks import Task


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


At = Step | Reaches


class Transformation(Protocol):
    """How a run's weights become another run's initial weights."""

    def __call__(self, source: Weights, fresh: Weights) -> Weights:
        """The initial weights, from the source run's weights and the weights `Fresh()` would give."""
        ...


@dataclass(frozen=True)
class Same:
    """The source's weights as they are; names and shapes must agree."""

    semantics: ClassVar[int] = 1

    def __call__(self, source: Weights, fresh: Weights) -> Weights:
        """The source's weights."""
        if {k: v.shape for k, v in source.items()} != {k: v.shape for k, v in fresh.items()}:
            raise HeadstartError("From(via=Same()): the two models have different parameters; give a transformation")
        return source


@dataclass(frozen=True)
class From:
    """Start from another run's weights at a moment (default: its end), through a transformation.

    The source is trained with the seed of the run that starts from it, and only once however many do.
    """

    run: "Run"
    at: At | None = None
    via: Transformation = Same()

    def __post_init__(self) -> None:
        at = Step(self.run.budget.steps) if self.at is None else self.at
        object.__setattr__(self, "at", at)
        if isinstance(at, Step) and at.step > self.run.budget.steps:
            raise HeadstartError(f"From(at={at}): the source run has a budget of {self.run.budget.steps} steps")
        # A source has no seed of its own, so that its cell is the same whoever starts from it.
        object.__setattr__(self, "run", self.run.at(0))


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

    def __post_init__(self) -> None:
        check_seed(self.seed)
        object.__setattr__(self, "seed", int(self.seed))
        for f in fields(self):
            if isinstance(getattr(self, f.name), type):
                raise HeadstartError(f"Run({f.name}={getattr(self, f.name).__name__}): give an instance, not the class")
        if not isinstance(self.methods, Sequence) or not all(isinstance(m, Method) for m in self.methods):
            raise HeadstartError(f"Run(methods={self.methods!r}): give a tuple of methods, such as (LayerScale(...),)")
        object.__setattr__(self, "methods", tuple(self.methods))
        if self.loss.name not in self.task.losses:
            raise HeadstartError(
                f"Run(loss={self.loss}): {type(self.task).__name__} offers {', '.join(self.task.losses)}"
            )
        for method in self.methods:
            method.check(self.task)
        course = self.plan.course(self.batch, self.budget.steps)
        outputs, classes = getattr(self.model, "num_outputs", 1), getattr(self.task, "num_outputs", 1)
        if outputs != classes:
            raise HeadstartError(
                f"Run(model={self.model}): the model has {outputs} outputs and {type(self.task).__name__} asks for "
                f"{classes}; use Transformer(num_outputs={classes})"
            )
        if course.adaptive and not self.task.metrics[0].higher_is_better:
            raise HeadstartError(
                f"Run(plan={type(self.plan).__name__}(...)): it waits for a metric to rise, and the "
                f"{self.task.metrics[0].name} of {type(self.task).__name__} falls; use Phases(...)"
            )
        if isinstance(self.batch, FullBatch) and self.task.population_size is None:
            for leg in course.legs:
                if leg.pool.size is None:
                    raise HeadstartError(
                        f"Run(batch=FullBatch(), plan={self.plan}): {self.task} has no finite population to take in "
                        "one batch; use Fixed(size=...) or Batch(...)"
                    )

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
        return canonical(data)

    @cached_property
    def cell(self) -> str:
        """The identity of the cell: 80 bits of the SHA-256 of its canonical JSON, in hexadecimal."""
        return identity(self.json)

    @property
    def source(self) -> "Run | None":
        """The run this one starts from, with this one's seed."""
        return self.start.run.at(self.seed) if isinstance(self.start, From) else None

    def fresh_weights(self) -> Weights:
        """The model's own initial weights for this seed, before any method."""
        return self.model.initial_weights(self.task.dim, self.seed)


def reached(run: Run, at: Reaches, values: Mapping[str, NDArray[np.float64]]) -> bool:
    """Whether the last recorded value is at the target or better. Losses are better when lower."""
    if at.metric not in values:
        raise HeadstartError(f"{at}: runs of this task record {', '.join(sorted(values))}")
    name = at.metric.removeprefix("test_").removeprefix("train_")
    higher = any(metric.name == name and metric.higher_is_better for metric in run.task.metrics)
    last = values[at.metric][-1]
    return bool(last >= at.value if higher else last <= at.value)


def encode(part: Any) -> Any:
    """A part as plain JSON data. Dataclasses carry `type` (module:Class) and their `semantics`."""
    if isinstance(part, Enum):
        return part.value
    if is_dataclass(part) and not isinstance(part, type):
        kind = type(part)
        data: dict[str, Any] = {"type": f"{kind.__module__}:{kind.__qualname__}"}
        if hasattr(kind, "semantics"):
            data["semantics"] = kind.semantics
        for f in fields(part):
            value = getattr(part, f.name)
            # One and 1.0 are the same number, so they are the same cell.
            real = f.type in (float, float | None) and isinstance(value, int)
            data[f.name] = float(value) if real else encode(value)
        return data
    if isinstance(part, Mapping):
        return {str(k): encode(v) for k, v in part.items()}
    if isinstance(part, tuple | list):
        return [encode(v) for v in part]
    if part is None or isinstance(part, bool | int | float | str):
        return part
    raise HeadstartError(f"{part!r} cannot be part of a Run: use a frozen dataclass of plain values")


def canonical(data: Any) -> str:
    """Encoded data as canonical JSON."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def identity(text: str) -> str:
    """What the store knows a part by: 80 bits of the SHA-256 of its canonical JSON, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def decode(data: Any) -> Any:
    """The inverse of `encode`: imports `module:Class` and calls it, so other people's parts work too."""
    if isinstance(data, list):
        return tuple(decode(v) for v in data)
    if not isinstance(data, dict) or "type" not in data:
        return data
    module, _, name = str(data["type"]).partition(":")
    try:
        kind: Any = importlib.import_module(module)
        for attribute in name.split("."):
            kind = getattr(kind, attribute)
        return kind(**{k: decode(v) for k, v in data.items() if k not in ("type", "semantics")})
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise HeadstartError(
            f"stored part {data['type']!r} cannot be built here: {error}; is its module on the path?"
        ) from None
