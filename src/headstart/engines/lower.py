"""A run lowered to what every engine reads: its course, its samples, and a scale and a rate for each parameter."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.roles import Parameter
from headstart.core.streams import Stream
from headstart.methods import Method
from headstart.models import Weights
from headstart.plans import Course
from headstart.run import Run
from headstart.tasks import Samples


@dataclass(frozen=True)
class Lowered:
    """What remains of a run's plan, optimizer and methods once every hook has been asked.

    `altering` are the methods that change the training samples of each leg of the course, in the order written; where
    there are none an engine may draw the task's samples by itself.
    """

    run: Run
    course: Course
    altering: tuple[tuple[Method, ...], ...]
    parameters: tuple[Parameter, ...]
    init_scales: tuple[float, ...]
    rates: tuple[float, ...]

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

    def scaled(self, weights: Weights) -> Weights:
        """Fresh weights times the init scale of each parameter."""
        return {
            p.name: weights[p.name] * np.float32(scale)
            for p, scale in zip(self.parameters, self.init_scales, strict=True)
        }


def lower(run: Run) -> Lowered:
    """Ask every method for its factors; they multiply in the order written."""
    parameters = run.model.parameters(run.task.dim)
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
        init_scales=tuple(prod((m.init_scale(p) for m in run.methods), start=1.0) for p in parameters),
        rates=tuple(
            prod((m.rate_scale(p, run.optimizer) for m in run.methods), start=run.optimizer.rate(p.role))
            for p in parameters
        ),
    )


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


# A loss this many times the first one does not come back: the network is dead or about to overflow.
_LOST = 1e4


def has_diverged(values: Mapping[str, float], first: Mapping[str, float] | None) -> bool:
    """Whether a record says that its run has diverged: something is not finite, or a loss is 10^4 times the first.

    Losses below one at the start count as one. `first` is the run's first record, None where this is it.
    """
    if not np.isfinite(list(values.values())).all():
        return True
    bound = _LOST * max(1.0, abs((first or values)["test_loss"]))
    return values["test_loss"] > bound or values["train_loss"] > bound
