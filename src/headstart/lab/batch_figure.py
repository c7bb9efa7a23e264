"""The figure of a batch plan: steps and samples against the batch, each loss at its best rate."""

from typing import TYPE_CHECKING

import numpy as np

from headstart.lab.colours import cold, warm
from headstart.theory.batch_plan import BatchPlan
from headstart.theory.batch_search import How
from headstart.theory.overlaps import Objective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {Objective.MSE: cold(), Objective.CORRELATION: warm()}
LABELS = {Objective.MSE: "squared error", Objective.CORRELATION: "correlation loss"}


def draw_plan(plan: BatchPlan, figure: "Figure") -> None:
    """Medians with what 95% of the runs lie between; scaled batches as a dashed line; the best as a circle."""
    figure.set_size_inches(8.4, 3.4)
    for ax, what in zip(figure.subplots(1, 2), ("steps", "samples"), strict=True):
        for loss, curve in plan.curves.items():
            batch = np.array([choice.batch for choice in curve])
            spread = np.array([(s.median, s.low, s.high) for s in (getattr(choice, what) for choice in curve)])
            scaled = np.array([choice.how is How.SCALED for choice in curve])
            here = ~scaled
            ax.plot(batch[here], spread[here, 0], color=COLOURS[loss], marker=".", label=LABELS[loss])
            ax.fill_between(batch[here], spread[here, 1], spread[here, 2], color=COLOURS[loss], alpha=0.2, linewidth=0)
            if scaled.any():
                joined = np.arange(scaled.sum() + here.any())
                ax.plot(batch[joined], spread[joined, 0], color=COLOURS[loss], linestyle="--", linewidth=1)
        best = getattr(plan.best, what).median
        ax.plot(plan.best.batch, best, "o", markersize=11, fillstyle="none", color="#333333", label="best")
        ax.set(xscale="log", yscale="log", xlabel="batch", ylabel=f"{what} to overlap {plan.level:g}")
        ax.set_title(f"{plan.link}, d = {plan.dim:,}" if what == "steps" else "dashed: scaled from larger batches")
        ax.legend()
