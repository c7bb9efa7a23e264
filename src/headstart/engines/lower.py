"""A run lowered to the plain values every engine reads: its course, and a scale and a rate for each parameter."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from headstart.core.roles import Parameter
from headstart.models import Weights
from headstart.plans import Course
from headstart.run import Run


@dataclass(frozen=True)
class Lowered:
    """What remains of a run's plan, optimizer and methods once every hook has been asked."""

    course: Course
    parameters: tuple[Parameter, ...]
    init_scales: tuple[float, ...]
    rates: tuple[float, ...]

    def scaled(self, weights: Weights) -> Weights:
        """Fresh weights times the init scale of each parameter."""
        return {
            p.name: weights[p.name] * np.float32(scale)
            for p, scale in zip(self.parameters, self.init_scales, strict=True)
        }


def lower(run: Run) -> Lowered:
    """Ask every method for its factors; they multiply in the order written."""
    parameters = run.model.parameters(run.task.dim)
    return Lowered(
        course=run.plan.course(run.batch, run.budget.steps),
        parameters=parameters,
        init_scales=tuple(prod((m.init_scale(p) for m in run.methods), start=1.0) for p in parameters),
        rates=tuple(prod((m.rate_scale(p) for m in run.methods), start=run.optimizer.rate(p.role)) for p in parameters),
    )


def samples_processed(run: Run) -> int:
    """The samples in all gradients of a run that goes to the end of its budget: its compute."""
    course, left, total = run.plan.course(run.batch, run.budget.steps), run.budget.steps, 0
    for leg in course.legs:
        steps = left if leg.steps is None or leg is course.legs[-1] else min(left, leg.steps)
        total += steps * (course.batch or leg.pool.size or run.task.population_size or 0)
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
