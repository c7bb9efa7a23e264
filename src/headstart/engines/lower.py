"""A run lowered to what every engine reads: its course, its samples, plain numbers per parameter, and its hooks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.roles import Parameter
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.state import Arrays, State
from headstart.core.streams import Stream
from headstart.core.units import flops_per_sample
from headstart.losses import Loss
from headstart.methods import Hook, Method
from headstart.models import Model
from headstart.optimizers import Constant
from headstart.plans import Course
from headstart.run import From, Precision, Run


@dataclass(frozen=True)
class Lowered:
    """What remains of a run's plan, optimizer and methods once every hook has been asked.

    `altering` are the methods that change the training samples of each leg of the course, in the order written; where
    there are none an engine may draw the task's samples by itself. `losses` are those that each leg minimises.
    """

    run: Run
    course: Course
    altering: tuple[tuple[Method, ...], ...]
    parameters: tuple[Parameter, ...]
    init_scales: tuple[float, ...]
    rates: tuple[float, ...]
    losses: tuple[Loss, ...]
    hooks: frozenset[Hook]

    def using(self, hook: Hook) -> tuple[tuple[int, Method], ...]:
        """The methods that need this hook, in the order written, each with its number."""
        return tuple((number, m) for number, m in enumerate(self.run.methods) if hook in m.hooks)

    @property
    def shared(self) -> tuple[Any, ...]:
        """What must agree for runs to be stacked, beside shapes and courses: all that acts on stacks of tensors."""
        on_tensors = (Hook.GRADIENTS, Hook.PROJECTION, Hook.REWRITE)
        methods = tuple(self.using(hook) for hook in on_tensors)
        return methods, self.losses, self.run.optimizer.schedule, self.run.precision, Hook.CARRIED_MOMENTS in self.hooks

    @cached_property
    def named(self) -> Mapping[str, Parameter]:
        """The parameters by name."""
        return {p.name: p for p in self.parameters}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(self.named)

    @property
    def dtype(self) -> Any:
        """The numbers that training computes with."""
        return np.float64 if self.run.precision is Precision.FLOAT64 else np.float32

    @cached_property
    def factors(self) -> NDArray[np.float64]:
        """What all rates are multiplied by in each step: float64[steps]."""
        return self.run.optimizer.schedule.factors(self.run.budget.steps)

    @property
    def flops(self) -> float:
        """Training FLOPs per sample."""
        return flops_per_sample(self.parameters) * prod(m.flops_factor for m in self.run.methods)

    @property
    def aside(self) -> "Lowered | None":
        """The same for the batches of the parameters that learn from others; no method changes these."""
        aside = self.course.aside
        return None if aside is None else replace(self, course=aside.course, altering=((),))

    def draw(self, leg: int, ids: NDArray[np.int64]) -> Samples:
        """The training samples of a leg with these ids; of a finite pool, all of it."""
        seed, pool = self.run.seed, self.course.legs[leg].pool
        samples = self.run.task.sample(seed, ids, Stream.DATA)
        for method in self.altering[leg]:
            samples = method.samples(self.run.task, seed, leg, pool, ids, samples)
        return samples

    def pool(self, leg: int) -> Samples:
        """The training samples of a leg's finite pool."""
        pool = self.course.legs[leg].pool
        assert pool.size is not None
        return self.draw(leg, np.arange(pool.first, pool.first + pool.size))

    def fresh(self) -> State:
        """The start of a run from its own initial weights, times the init scale of each parameter.

        Buffers, if its module has any, begin with what the module gives them.
        """
        drawn = self.run.fresh_weights()
        weights = {
            name: (drawn[name] * np.float32(scale)).astype(self.dtype, copy=False)
            for name, scale in zip(self.named, self.init_scales, strict=True)
        }
        return State(weights)

    def begin(self, start: State | None) -> State:
        """The State at step 0: `start`, or a fresh one, in the run's precision and where its methods project it."""
        state = self.fresh() if start is None else start
        weights = {name: np.asarray(state.weights[name], dtype=self.dtype) for name in self.named}
        projecting = self.using(Hook.PROJECTION)
        if projecting:
            import torch

            tensors = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
            for _, method in projecting:
                tensors |= method.project(tensors, self.named)
            weights = {name: tensor.numpy() for name, tensor in tensors.items()}
        moments = {
            name: array.astype(self.dtype) if array.dtype.kind == "f" else array
            for name, array in state.moments.items()
        }
        return replace(state, weights=weights, moments=moments, hooks={})


class _Built:
    """A model for a signature, as a key: equal ones are built once, and those that cannot be hashed every time."""

    def __init__(self, model: Any, signature: Any) -> None:
        self.model, self.signature = model, signature

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Built) and (self.model, self.signature) == (other.model, other.signature)

    def __hash__(self) -> int:
        try:
            return hash((self.model, self.signature))
        except TypeError:
            return id(self)


def first_buffers(model: Model, signature: Signature) -> Arrays:
    """What the buffers that a module saves hold before any step, by name."""
    return _first_buffers(_Built(model, signature))


@lru_cache(maxsize=64)
def _first_buffers(built: _Built) -> Arrays:
    module = built.model.module(built.signature)
    kept = module.state_dict()
    return {name: buffer.detach().numpy().copy() for name, buffer in module.named_buffers() if name in kept}


def lower(run: Run) -> Lowered:
    """Ask every method for its factors, which multiply in the order written, and for its hooks."""
    parameters = run.parameters
    course = run.plan.course(run.batch, run.budget.steps)
    if course.aside is not None and not {p.role for p in parameters} & set(course.aside.roles):
        raise HeadstartError(
            f"{run.plan}: {type(run.model).__name__} has none of these roles; "
            f"its own are {', '.join(dict.fromkeys(p.role for p in parameters))}"
        )
    altering = tuple(
        tuple(method for method in run.methods if method.alters(number, leg.pool))
        for number, leg in enumerate(course.legs)
    )
    for methods, leg in zip(altering, course.legs, strict=True):
        if methods and leg.pool.size is None and course.batch is None:
            raise HeadstartError(f"{methods[0]}: changes samples, but this run takes the exact population; use Fixed")
    return Lowered(
        run=run,
        course=course,
        altering=altering,
        parameters=parameters,
        init_scales=run.init_scales,
        rates=tuple(_rate(run, p) for p in parameters),
        losses=tuple(_loss(run, number) for number in range(len(course.legs))),
        hooks=_hooks(run, course, altering),
    )


def _rate(run: Run, parameter: Parameter) -> float:
    if parameter.fixed:
        return 0.0
    return prod((m.rate_scale(parameter, run.optimizer) for m in run.methods), start=run.optimizer.lr)


def _loss(run: Run, leg: int) -> Loss:
    chosen = [loss for method in run.methods if (loss := method.loss(leg)) is not None]
    return chosen[-1] if chosen else run.loss


def _hooks(run: Run, course: Course, altering: tuple[tuple[Method, ...], ...]) -> frozenset[Hook]:
    asked = {
        Hook.SAMPLES: any(altering),
        Hook.SCHEDULE: not isinstance(run.optimizer.schedule, Constant),
        Hook.FLOAT64: run.precision is Precision.FLOAT64,
        Hook.CARRIED_MOMENTS: isinstance(run.start, From) and run.start.carry.moments,
        Hook.ADAPTIVE: course.adaptive,
        Hook.FAVOURED: any(leg.favoured is not None for leg in course.legs),
        Hook.ASIDE: course.aside is not None,
    }
    return frozenset(hook for hook, there in asked.items() if there).union(*(method.hooks for method in run.methods))


def lacking_hooks(lowered: Lowered, hooks: frozenset[Hook]) -> str | None:
    """None, or which hooks of the run an engine with these lacks."""
    lacking = sorted(lowered.hooks - hooks)
    return f"it lacks {' and '.join(lacking)}" if lacking else None


def samples_processed(run: Run) -> int:
    """The samples in all gradients of a run that goes to the end of its budget: its compute.

    Of a plan that adapts, with full batches, an estimate: as if every leg were as long as it may be.
    """
    course, left, total = run.plan.course(run.batch, run.budget.steps), run.budget.steps, 0
    for leg in course.legs:
        steps = left if leg.steps is None or leg is course.legs[-1] else min(left, leg.steps)
        each = course.batch or leg.pool.size or run.task.population_size or 0
        total += steps * (each + course.samples_aside)
        left -= steps
    return total
