"""Decision Lists by Transformers: what one attention layer learns in a few steps, beside what is proven."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.measures import Known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_TITLE = "Provable Gradient-Descent-Based Learning of Decision Lists by Transformers"
GREY = "#777777"
# The lists and the mapping of Fig. 4.1.
OFFSETS, SHIFT = (10, 20, 30, 0), 20


def number(value: float) -> lab.Estimate:
    """A number that is computed and not measured: it has no interval."""
    return lab.Estimate(*(float(value),) * 3)


def at_most(value: float, tried: float) -> lab.Estimate:
    """A computed number; where it is infinite, all that is known is that it is above what was `tried`."""
    return number(value) if value < float("inf") else lab.Estimate(tried, tried, value, Known.AT_LEAST)


def draw_bound(ax: "Axes", value: float, words: str) -> None:
    """A dotted line across, with what it is."""
    ax.axhline(value, color=GREY, linestyle=":", linewidth=1, label=words)


def draw_shares(ax: "Axes", steps: NDArray[np.float64], across: Sequence[float], down: Sequence[float]) -> None:
    """The share of runs that arrive, of steps [down, across, runs], infinite where not; and their median steps."""
    shares = np.isfinite(steps).mean(axis=2)
    image = ax.imshow(shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
    ax.figure.colorbar(image, ax=ax, shrink=0.85)
    for (row, column), share in np.ndenumerate(shares):
        if share:
            arrived = steps[row, column][np.isfinite(steps[row, column])]
            colour = "white" if share < 0.6 else "black"
            ax.text(column, row, f"{np.median(arrived):.0f}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(across)), [f"{value:g}" for value in across])
    ax.set_yticks(range(len(down)), [f"{value:g}" for value in down])
    ax.grid(False)
