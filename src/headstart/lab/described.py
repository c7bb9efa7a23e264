"""What a report says of a study's arms, so that a page can be drawn from the store alone, without the study's code."""

from itertools import accumulate
from typing import Any

from headstart.core.metric import Metric
from headstart.lab.figures import colour_of, metric_label
from headstart.lab.results import Results
from headstart.lab.study import Study
from headstart.run import Run


def describe_arms(results: Results) -> dict[str, dict[str, Any]]:
    """Every arm by its name: label, colour, cell, leading metric, and the steps at which its phases end."""
    return {
        name: {
            "label": arm.label,
            "colour": colour_of(results, name),
            "cell": arm.run.cell,
            "metric": _metric(results.metric(name)),
            "phases": phase_ends(arm.run),
        }
        for name, arm in results.arms.items()
    }


def _metric(metric: Metric) -> dict[str, Any]:
    said = {"name": metric.name, "label": metric_label(metric), "chance": metric.chance}
    return {**said, "higher_is_better": metric.higher_is_better}


def phase_ends(run: Run) -> list[int]:
    """The steps within its budget at which a run goes on to another pool; none where its metrics decide."""
    course = run.plan.course(run.batch, run.budget.steps)
    if course.adaptive:
        return []
    ends = accumulate(leg.steps for leg in course.legs[:-1] if leg.steps is not None)
    return [end for end in ends if end < run.budget.steps]


def describe_contrasts(study: Study, results: Results) -> dict[str, dict[str, Any]]:
    """What each claim that names arms compares: the arms, and the target and axis of a time if it is one."""
    out = {}
    for claim in study.claims(results.knobs):
        arms = [name for name in getattr(claim.estimate, "arms", ()) if name in results.arms]
        if arms:
            target, axis = getattr(claim.estimate, "target", None), getattr(claim.estimate, "axis", None)
            number = float(target) if isinstance(target, int | float) else None
            out[claim.id] = {"arms": arms, "target": number, "axis": axis if isinstance(axis, str) else None}
    return out
