"""Heatmaps of two sides over a grid, and the difference between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Above this many cells values would overlap, and only colours are shown.
MOST_VALUES = 121
# Over a range as wide as this, such as one of steps, values are whole numbers.
WHOLE = 20.0
# Longer names of columns stand aslant, so that they do not run into each other.
_LONGEST_LEVEL = 5


@dataclass(frozen=True)
class Heatmap:
    """A grid of cells [rows, columns] with its names: of the axes, of their ticks, and of what is shown."""

    columns: Sequence[str]
    rows: Sequence[str]
    column_label: str
    row_label: str
    quantity: str
    low: float
    high: float

    def draw(self, ax: "Axes", values: NDArray[np.float64], title: str, signed: bool = False) -> None:
        """The values of the cells with their colours and a scale; of signed ones, differences, white is 0."""
        if values.shape != (len(self.rows), len(self.columns)):
            raise HeadstartError(f"a heatmap of {len(self.rows)} x {len(self.columns)} cells got {values.shape} values")
        most = float(np.nanmax(np.abs(values))) or 1.0
        low, high, colours = (-most, most, "RdBu_r") if signed else (self.low, self.high, "viridis")
        image = ax.imshow(values, origin="lower", vmin=low, vmax=high, cmap=colours, aspect="auto")
        aslant: dict[str, Any] = (
            {"rotation": 30, "ha": "right"} if max(map(_shown, self.columns)) > _LONGEST_LEVEL else {}
        )
        ax.set_xticks(range(len(self.columns)), self.columns, **aslant)
        ax.set_yticks(range(len(self.rows)), self.rows)
        ax.set(xlabel=self.column_label, ylabel=self.row_label, title=title)
        ax.grid(False)
        label = f"{self.quantity}, difference" if signed else self.quantity
        figure: Any = ax.figure
        figure.colorbar(image, ax=ax, label=label)
        if values.size <= MOST_VALUES:
            _write(ax, values, low, high, signed)


def _shown(name: str) -> int:
    """How many characters a name has on a figure, where it is no formula."""
    return 0 if "$" in name else len(name)


def _write(ax: "Axes", values: NDArray[np.float64], low: float, high: float, signed: bool) -> None:
    """The value of each cell, in ink that can be read on its colour."""
    size = 4.5 if values.size > 30 else 7.0
    for (row, column), value in np.ndenumerate(values):
        place = (value - low) / (high - low)
        dark = abs(place - 0.5) > 0.35 if signed else place < 0.6
        if high - low > WHOLE:
            said = f"{round(value)}"
        else:
            said = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.3g}"
        ax.text(column, row, said, ha="center", va="center", fontsize=size, color="white" if dark else "black")


def mark(ax: "Axes", row: int, column: int, label: str) -> None:
    """A red frame around a cell, which leaves its value to be read."""
    from matplotlib.patches import Rectangle

    corner = column - 0.5, row - 0.5
    ax.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="red", linewidth=1.8, label=label, zorder=3))
