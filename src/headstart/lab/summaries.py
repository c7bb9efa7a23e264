"""What the store keeps of every run: one row of summary."""

from collections.abc import Mapping

import numpy as np

from headstart.core.trace import Summary, Trace
from headstart.engines import value_names
from headstart.measures import area_under
from headstart.run import Run


def summarise(run: Run, trace: Trace) -> Summary:
    """The final value of the leading test metric and the area under its curve; chance from a divergence on."""
    metric = run.task.metrics[0]
    axis = run.budget.recorded_steps()
    curve = np.full(len(axis), metric.chance)
    if len(trace.steps):
        curve[: len(trace.steps)] = trace[f"test_{metric.name}"]
    last = {name: float(values[-1]) for name, values in trace.values.items() if len(values)}
    return Summary(trace.cell, trace.seed, trace.status, area_under(axis, curve), float(curve[-1]), trace.seconds, last)


def packed(run: Run, last: Mapping[str, float]) -> bytes:
    """The last values of a run in the order of the names of its cell; nothing where it recorded nothing."""
    return np.array([last[name] for name in value_names(run)] if last else []).tobytes()
