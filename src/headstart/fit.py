"""Whether the parts of a run fit each other: what its plan asks for, and what its task has."""

from headstart.core.errors import HeadstartError
from headstart.core.units import Batch, Budget, FullBatch
from headstart.plans import Plan
from headstart.tasks import Rows, Task


def check_fit(task: Task, plan: Plan, batch: Batch | FullBatch, budget: Budget) -> None:
    """Raise where the plan asks for samples that the task does not have, or for a metric that goes the other way."""
    course, metric = plan.course(batch, budget.steps), task.metrics[0]
    kind, name = type(plan).__name__, type(task).__name__
    rises = metric.higher_is_better
    if any(leg.target is not None and leg.falling == rises for leg in course.legs):
        raise HeadstartError(
            f"Run(plan={kind}(...)): it waits for a metric to {'fall' if rises else 'rise'}, and the {metric.name} of "
            f"{name} {'rises' if rises else 'falls'}; use {kind}(falling={not rises})"
        )
    if budget.settled is not None and course.batch is None and len(course.legs) > 1:
        raise HeadstartError(
            f"Budget(settled={budget.settled}): what later full batches of {kind}(...) would take is not known once a "
            "run has ended; leave it out, or use Batch(...)"
        )
    finite = task.num_train if isinstance(task, Rows) else None
    if finite is not None and course.aside is not None:
        raise HeadstartError(
            f"Run(plan={kind}(...)): its second batches take samples that no first batch has, and {name} has "
            f"{finite} training rows and no others; use a plan without roles"
        )
    for leg in course.legs:
        size = leg.pool.size
        if size is None and course.batch is None and task.population_size is None:
            raise HeadstartError(
                f"Run(batch=FullBatch(), plan={plan}): {task} has no finite population to take in "
                "one batch; use Fixed(size=...) or Batch(...)"
            )
        if finite is None or (size is None and course.batch is None):
            continue
        if size is None or leg.pool.first + size > finite:
            asked = "fresh samples without end" if size is None else f"{leg.pool.first + size} samples"
            raise HeadstartError(
                f"Run(plan={kind}(...)): it asks for {asked}, and {name} has {finite} training rows; use "
                f"Fixed(size={finite}), or FullBatch() with Online()"
            )
