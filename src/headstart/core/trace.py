"""What a run recorded, and collections of such records."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.units import Cost

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


AXES = ("steps", "samples", "flops")


class Status(StrEnum):
    """How a run ended. `unreached`: the run it should start from never reached the named metric."""

    FINISHED = "finished"
    DIVERGED = "diverged"
    UNREACHED = "unreached"


@dataclass(frozen=True)
class Trace:
    """The curves of one run: `values[metric]` is float64[records], aligned with `steps`, `samples` and `flops`.

    `steps` counts optimizer steps, `samples` the samples in all gradients so far with repeats (compute), `flops` the
    training FLOPs; all begin at 0. `before` is what the runs it started from had cost by then, failed attempts and
    searches included. A diverged run keeps what it recorded before its loss ceased to be finite, and one that settled
    repeats its last record. `measured` is what measures saw on the way, by the measure: "step" int64[moments] and
    arrays [moments, ...] by name. `settings` are those of its Run, flat: "optimizer.lr" is a number, "optimizer" the
    name of a class.
    """

    cell: str
    seed: int
    steps: NDArray[np.int64]
    samples: NDArray[np.int64]
    flops: NDArray[np.float64]
    values: Mapping[str, NDArray[np.float64]]
    status: Status = Status.FINISHED
    seconds: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    before: Cost = Cost()
    measured: Mapping[Any, Mapping[str, NDArray[Any]]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def axis(self, name: str, total: bool = False) -> NDArray[np.float64]:
        """The axis "steps", "samples" or "flops"; with `total`, with the cost of the runs it started from."""
        if name not in AXES:
            raise HeadstartError(f"axis({name!r}): choose one of {', '.join(AXES)}")
        own = np.asarray(getattr(self, name), dtype=np.float64)
        return own + getattr(self.before, name) if total else own

    def __getitem__(self, metric: str) -> NDArray[np.float64]:
        if metric not in self.values:
            raise HeadstartError(f"metric {metric!r} was not recorded; there are {', '.join(sorted(self.values))}")
        return self.values[metric]

    def _repr_html_(self) -> str:
        """Its first and last values for notebooks."""
        head = f"cell {self.cell}, seed {self.seed}, {self.status}, {len(self.steps)} records"
        if len(self.steps):
            head += f" to step {self.steps[-1]}"
        rows = [(name, f"{v[0]:.4g}", f"{v[-1]:.4g}") for name, v in sorted(self.values.items()) if len(v)]
        return html_table(head, ("metric", "first", "last"), rows)


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for notebooks; what it says is escaped."""

    def line(tag: str, cells: Sequence[Any]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Summary:
    """What a sweep of millions keeps of a run: the area under its leading curve, and the last value of every metric.

    `area` is the mean over steps of the leading test metric, so the area under a seed-mean curve is the mean of the
    seeds' areas; `final` is its last value. A diverged run is at chance from then on, in both. `last` has the last
    recorded value of everything, before a divergence if there was one; runs stored by version 0.1 have none.
    """

    cell: str
    seed: int
    status: Status
    area: float
    final: float
    seconds: float
    last: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Traces(Sequence[Trace]):
    """An ordered collection of traces, often one cell at many seeds."""

    members: tuple[Trace, ...]

    def __getitem__(self, index: Any) -> Any:
        return Traces(self.members[index]) if isinstance(index, slice) else self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[Trace]:
        return iter(self.members)

    def __add__(self, other: "Traces") -> "Traces":
        """The traces of both, such as of two runs to compare."""
        if not isinstance(other, Traces):
            raise HeadstartError(f"Traces + {type(other).__name__}: add traces to traces")
        return Traces(self.members + other.members)

    def differing(self) -> list[str]:
        """The settings, such as "optimizer.lr", that are not the same for all members."""
        names = dict.fromkeys(name for trace in self.members for name in trace.settings)
        return [n for n in names if len({repr(trace.settings.get(n)) for trace in self.members}) > 1]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each member."""
        return tuple(trace.seed for trace in self.members)

    @property
    def num_diverged(self) -> int:
        """How many members did not finish."""
        return sum(trace.status is not Status.FINISHED for trace in self.members)

    def grid(self) -> "Trace":
        """The member with the longest record: its steps, samples and FLOPs are the axis of every stacked curve."""
        if not self.members:
            raise HeadstartError("there are no traces: train some seeds first")
        return max(self.members, key=lambda trace: len(trace.steps))

    def stack(self, metric: str, chance: float = float("nan")) -> NDArray[np.float64]:
        """The curves as float64[members, records]; records after a divergence hold `chance`."""
        longest = self.grid()
        out = np.full((len(self.members), len(longest.steps)), chance)
        for row, trace in zip(out, self.members, strict=True):
            if not np.array_equal(trace.steps, longest.steps[: len(trace.steps)]):
                raise HeadstartError("these traces were recorded at different steps and cannot be stacked")
            if len(trace.steps):
                row[: len(trace.steps)] = trace[metric]
        return out

    def measured(self, measure: Any) -> dict[str, NDArray[Any]]:
        """What a measure saw of every member: "step" int64[moments], and [members, moments, ...] for each name.

        Numbers are float64; where a member diverged before, they are nan.
        """
        lacking = [trace.seed for trace in self.members if measure not in trace.measured]
        if lacking or not self.members:
            raise HeadstartError(
                f"{measure} did not look at {len(lacking)} of these {len(self)} runs; train them with it: "
                "train(run, measures=(...,)) or Arm(measures=(...,))"
            )
        seen = [trace.measured[measure] for trace in self.members]
        longest = max(seen, key=lambda arrays: len(arrays["step"]))
        out: dict[str, NDArray[Any]] = {"step": longest["step"]}
        for name in longest:
            if name != "step":
                out[name] = np.full((len(seen), *longest[name].shape), np.nan)
                for row, arrays in zip(out[name], seen, strict=True):
                    if len(arrays["step"]):
                        row[: len(arrays["step"])] = arrays[name]
        return out

    def to_pandas(self) -> "pd.DataFrame":
        """One row per record: labels, settings, cell, seed, status, step, samples, flops and a column for every metric.

        Settings are those that differ between the traces, such as "optimizer.lr"; of traces from a store or `train`.
        Columns before_steps, before_samples, before_flops and before_seconds have the cost of the runs it started from.
        """
        import pandas as pd

        differing = self.differing()
        frames = [
            pd.DataFrame(
                {
                    **trace.labels,
                    **{name: trace.settings.get(name) for name in differing},
                    "cell": trace.cell,
                    "seed": trace.seed,
                    "status": str(trace.status),
                    "step": trace.steps,
                    "samples": trace.samples,
                    "flops": trace.flops,
                    **{f"before_{name}": value for name, value in asdict(trace.before).items()},
                    **trace.values,
                }
            )
            for trace in self.members
        ]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def plot(self, metric: str | None = None, axis: str = "steps", ax: "Axes | None" = None) -> "Axes":
        """Draw every run thinly and the mean of each cell over its seeds; the axes, for what comes next.

            traces.plot().figure.savefig("curves.png")

        `metric` defaults to the first test metric, `axis` is "steps", "samples" or "flops", and `ax` are axes of your
        own. A cell is called by its labels, or by the settings in which it differs from the others. The mean of a cell
        ends where its first run does.
        """
        from matplotlib import pyplot

        names = sorted(self.grid().values, key=lambda name: (not name.startswith("test_"), name))
        if metric is None and not names:
            raise HeadstartError("plot(): these traces recorded no metric")
        metric = names[0] if metric is None else metric
        ax = pyplot.subplots()[1] if ax is None else ax
        cells = {trace.cell: [other for other in self.members if other.cell == trace.cell] for trace in self.members}
        differing = self.differing()
        for cell, runs in cells.items():
            settings = ", ".join(f"{name}={runs[0].settings[name]}" for name in differing if name in runs[0].settings)
            name = ", ".join(runs[0].labels.values()) or settings or cell[:8]
            shortest = min(runs, key=lambda trace: len(trace.steps))
            mean = np.mean([trace[metric][: len(shortest.steps)] for trace in runs], axis=0)
            (line,) = ax.plot(shortest.axis(axis), mean, label=f"{name} ({len(runs)})")
            for trace in runs if len(runs) > 1 else ():
                ax.plot(trace.axis(axis), trace[metric], color=line.get_color(), alpha=0.25, linewidth=0.6)
        ax.set_xlabel(axis)
        ax.set_ylabel(metric)
        ax.legend()
        return ax

    def __repr__(self) -> str:
        if not any(len(trace.steps) for trace in self.members):
            return f"Traces({len(self)} runs without records)"
        last = self.grid()
        finals = (
            f"{name} {np.mean([t.values[name][-1] for t in self.members if len(t.steps)]):.4g}"
            for name in sorted(last.values)
            if name.startswith("test_")
        )
        diverged = f", {self.num_diverged} diverged" if self.num_diverged else ""
        return f"Traces({len(self)} runs to step {last.steps[-1]}{diverged}; final mean {', '.join(finals)})"

    def _repr_html_(self) -> str:
        """A table of final values by cell for notebooks."""
        if not any(len(trace.steps) for trace in self.members):
            return f"<p>{len(self)} runs without records</p>"
        final = self.to_pandas().sort_values("step").groupby(["cell", "seed"]).tail(1)
        columns = [c for c in final.columns if c.startswith(("test_", "train_", "norm_"))]
        return final.groupby("cell")[columns].agg(["mean", "std"]).to_html(float_format=lambda v: f"{v:.4g}")
