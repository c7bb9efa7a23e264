"""One house style for every figure. Figures are drawn from stored traces only."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.core.metric import Metric
from headstart.core.trace import Status, Trace, Traces
from headstart.lab.colours import cycle
from headstart.lab.results import Results
from headstart.measures import mean_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
# The most that a figure in docs/results may take.
MOST_BYTES = 250_000
# A single spike of one seed would flatten every curve, so losses are shown up to this many times chance.
LARGEST_LOSS_SHOWN = 2.0
AXES = {"steps": "optimizer steps", "samples": "samples processed", "flops": "training FLOPs"}
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "figure.dpi": 110,
    "savefig.dpi": 180,
    "svg.hashsalt": "headstart",
}


@contextmanager
def house_style() -> Iterator[Any]:
    """matplotlib's pyplot-free figure module under the house style."""
    import matplotlib
    from matplotlib import figure

    with matplotlib.rc_context(STYLE):
        yield figure


@dataclass(frozen=True)
class Curve:
    """A curve of a trace other than its leading metric, with its name on an axis."""

    label: str
    of: Callable[[Trace], NDArray[np.float64]]

    def stack(self, traces: Traces) -> NDArray[np.float64]:
        """The curves of the members that finished, [members, records]."""
        return np.stack([self.of(trace) for trace in traces if trace.status is Status.FINISHED])


def colour_of(results: Results, arm: str) -> str:
    """The colour of an arm: its own, or the next of the house's among the arms of the study that have none."""
    plain = [name for name, its in results.arms.items() if its.colour is None]
    return results.arms[arm].colour or cycle(plain.index(arm))


def metric_label(metric: Metric) -> str:
    """What the axis of a test metric is called."""
    return "test loss / Var(y)" if metric.name == "relative_loss" else f"test {metric.name.replace('_', ' ')}"


def draw_curve(
    ax: "Axes",
    results: Results,
    arm: str,
    axis: str = "steps",
    curve: Curve | None = None,
    band: float = 1.0,
    total: bool = False,
    colour: str | None = None,
) -> None:
    """The seed-mean of an arm's leading test metric with its 95% band, against steps, samples or FLOPs.

    A loss counts with at most LARGEST_LOSS_SHOWN times chance, or one seed's spike would be the mean's. With `curve`,
    that of another quantity. With `total`, the axis includes what the runs it started from had cost;
    seeds are brought to the mean of that. `band` is how dark the band is, from 0, none, to 1. `colour` takes the place
    of the arm's own.
    """
    traces = results.traces[arm]
    curves = _bounded(results.curves(arm), results.metric(arm)) if curve is None else curve.stack(traces)
    x = traces.grid().axis(axis)
    if total:
        before = np.array([getattr(trace.before, axis) for trace in traces], dtype=np.float64)
        shown = x + before.mean()
        curves = np.stack([np.interp(shown, x + b, own) for b, own in zip(before, curves, strict=True)])
        x = shown
    colour = colour or colour_of(results, arm)
    ax.plot(x, curves.mean(axis=0), color=colour, label=results.arms[arm].label)
    if band:
        low, high = mean_band(curves)
        ax.fill_between(x, low, high, color=colour, alpha=0.2 * band, linewidth=0)
    ax.set_xlabel(AXES[axis])
    if axis != "steps":
        ax.set_xscale("log")
        ax.tick_params(axis="x", which="minor", labelbottom=False)


def _bounded(curves: NDArray[np.float64], metric: Metric) -> NDArray[np.float64]:
    """Test curves [seeds, records], a loss that is worse than this many times chance brought down to it."""
    bounded = not metric.higher_is_better and metric.chance > 0  # not where a metric has no chance, which is nan
    return np.minimum(curves, LARGEST_LOSS_SHOWN * metric.chance) if bounded else curves


def legend_below(ax: "Axes", columns: int = 2) -> None:
    """A legend under the axes, where it hides no curve."""
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=columns)


def save_figure(figure: "Figure", path: Path, format: str = "png") -> Path:
    """Write a figure: temporary file, then rename."""
    if format not in FORMATS:
        raise HeadstartError(f"--format {format}: choose one of {', '.join(FORMATS)}")
    # No date inside, so that the same results make the same file.
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[format]
    try:
        with replacing(path) as temporary:
            dpi = STYLE["savefig.dpi"]
            figure.savefig(temporary, format=format, metadata=metadata, bbox_inches="tight", dpi=dpi)
    except OSError as error:
        raise HeadstartError(f"--out {path}: the figure cannot be written: {error}; name another file") from None
    return path


def save_small_figure(figure: "Figure", path: Path, most_bytes: int = MOST_BYTES) -> Path:
    """Write a figure as a PNG of fewer than `most_bytes`, as a repository should hold it.

    First as `save_figure` does; then in 256 colours, which differ by little more than antialiasing shows; then with
    fewer dots per inch.
    """
    usual = STYLE["savefig.dpi"]
    for dpi, paletted in ((usual, False), (usual, True), (150, True), (120, True), (100, True)):
        data = _png(figure, dpi, paletted)
        if len(data) < most_bytes:
            try:
                with replacing(path) as temporary:
                    temporary.write_bytes(data)
            except OSError as error:
                raise HeadstartError(f"{path} cannot be written: {error}; name another folder with --out") from None
            return path
    raise HeadstartError(
        f"{path}: the figure takes {len(data) / 1000:.0f} kB in 256 colours at {dpi} dots per inch, and at most "
        f"{most_bytes / 1000:.0f} kB are kept; draw fewer panels, or rasters of fewer pixels"
    )


def _png(figure: "Figure", dpi: int, paletted: bool) -> bytes:
    """The bytes of a figure, in all its colours or in the 256 that suit it best."""
    whole = io.BytesIO()
    figure.savefig(whole, format="png", metadata={"Software": None}, bbox_inches="tight", dpi=dpi)
    return to_palette(whole.getvalue()) if paletted else whole.getvalue()


def to_palette(png: bytes) -> bytes:
    """The same picture in 256 colours of its own: a third of the size. Transparent pixels become white."""
    from PIL import Image  # matplotlib writes its PNGs by it

    with Image.open(io.BytesIO(png)) as picture:
        dpi, pixels = picture.info.get("dpi"), picture.convert("RGBA")
    opaque = Image.alpha_composite(Image.new("RGBA", pixels.size, "white"), pixels).convert("RGB")
    # Covering the extremes first keeps the colour of a thin line, which a median cut would spend on the large areas.
    few = opaque.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.save(out, format="PNG", optimize=True, **({"dpi": dpi} if dpi else {}))
    return out.getvalue()
