"""The critical batch size of a problem: in words, as a table, as JSON, as a figure, and as code to paste."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.lab.colours import cycle
from headstart.lab.critical_batch import LEAST_ARRIVALS, LEAST_SIZES, LEAST_STEPS, BatchCurve, BatchVerdict
from headstart.lab.figures import house_style
from headstart.lab.probe_report import ProbeCost, Source
from headstart.measures import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Mean times further than this factor from the curve are said to be.
_FAR = 1.25


@dataclass(frozen=True)
class SizeResult:
    """A batch size with its rate: the steps to the target of every order of the rows, and which of them arrived."""

    batch_size: int
    lr: float
    times: tuple[float, ...]
    arrived: tuple[bool, ...]
    at_the_end: bool
    num_tries: int

    @property
    def mean(self) -> float:
        """The mean number of steps, those that did not arrive counting with where they ended."""
        return float(np.exp(np.mean(np.log(self.times))))

    @property
    def arrivals(self) -> float:
        """The share that arrived."""
        return float(np.mean(self.arrived))


@dataclass(frozen=True)
class BatchProbe:
    """The outcome of `probe_batch`. Print it; `figure()` draws steps against batch size, `to_json()` is for programs.

    `curve.critical` is the critical batch size with its 95% interval, where `verdict` is "value"; `recipe` is the code
    that trains with the problem's batch size up to here, and with the critical one from then on.
    """

    curve: BatchCurve
    sizes: tuple[SizeResult, ...]
    target: float
    losses: tuple[float, float]
    warmup: int
    steps: int
    source: Source
    cost: ProbeCost

    @property
    def verdict(self) -> BatchVerdict:
        """Whether there is a value, a bound, or nothing to tell."""
        return self.curve.verdict

    @property
    def best(self) -> SizeResult | None:
        """The largest batch tried that is no larger than the critical one, or the nearest; None if it cannot tell."""
        used = [each for each in self.sizes if each.batch_size in self.curve.used]
        if self.verdict is BatchVerdict.CANNOT_TELL:
            return None
        below = [each for each in used if each.batch_size <= self.curve.critical.value]
        return below[-1] if below else used[0]

    @property
    def recipe(self) -> str:
        """Code that trains a fresh model with a batch size and a rate for each phase; empty if it cannot tell."""
        best, source = self.best, self.source
        if best is None:
            return ""
        first = next(each for each in self.sizes if each.batch_size == source.batch_size)
        device = "" if source.device == "cpu" else f".to({source.device!r})"
        collate = ", collate_fn=problem.collate" if source.collates else ""
        phases = f"[hs.Phase(steps={self.warmup}), hs.Phase(steps={self.steps})]"
        return (
            "import headstart as hs\n\n"
            f"problem = {source.code}\n"
            f"model = problem.model(){device}\n"
            "optimizer = problem.build_optimizer(model.parameters(), lr=problem.lr)\n"
            f"schedule = hs.PhaseSchedule({phases}, batch_sizes=[{first.batch_size}, {best.batch_size}])\n"
            f"loader = hs.PhasedLoader(problem.dataset, schedule{collate})\n"
            "for batch in loader:\n"
            f"    if loader.step == {self.warmup}:\n"
            "        for group in optimizer.param_groups:\n"
            f'            group["lr"] *= {best.lr:.4g} / problem.lr\n'
            "    optimizer.zero_grad()\n"
            "    problem.training_loss(model, batch).backward()\n"
            "    optimizer.step()\n"
        )

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        curve, critical = self.curve, self.curve.critical
        smallest, largest = (curve.used[0], curve.used[-1]) if curve.used else (0, 0)
        if not self.sizes:
            start, reached = self.losses
            return (
                f"Cannot tell: from a loss of {start:.4g} the problem's own batch size goes to {reached:.4g} in "
                f"{self.steps} steps, and the target is {self.target:.4g}; raise steps, or give other rates."
            )
        if self.verdict is BatchVerdict.VALUE:
            return (
                f"The critical batch size is {critical.value:.0f} [{critical.low:.0f}, {critical.high:.0f}] after "
                f"{self.warmup} steps: there the target takes {curve.steps(critical.value):.3g} steps, twice the "
                f"{curve.fewest_steps.value:.3g} of a batch without end."
            )
        if self.verdict is BatchVerdict.ABOVE:
            return (
                f"The critical batch size is above {largest}: up to there twice the batch takes about half the steps; "
                "give larger batches."
            )
        if self.verdict is BatchVerdict.BELOW:
            return (
                f"The critical batch size is below {smallest}: from there on larger batches save no steps; give "
                "smaller ones."
            )
        if len(curve.used) < LEAST_SIZES:
            return (
                f"Cannot tell: {len(curve.used)} of {len(self.sizes)} batch sizes reach a loss of {self.target:.4g} in "
                f"no fewer than {LEAST_STEPS:.0f} steps; give another target, more steps, or a longer warmup."
            )
        if len(self.sizes[0].times) < 2:
            return "Cannot tell: one order of the rows has no interval; raise seeds."
        return (
            f"Cannot tell: the interval of the critical batch size, [{critical.low:.3g}, {critical.high:.3g}], is too "
            "wide or too far from the batches tried; raise seeds, or give other batches."
        )

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Each batch size with its rate, the steps to the target and the rows, and what is to be said of it."""
        out = []
        for each in self.sizes:
            said = f"{each.mean * each.batch_size:,.0f} rows"
            if each.arrivals < LEAST_ARRIVALS:
                said = f"{each.arrivals:.0%} of the runs arrive; not in the curve"
            elif each.batch_size not in self.curve.used:
                said += "; too few steps to tell apart, not in the curve"
            out.append((str(each.batch_size), f"{each.lr:.3g}", f"{each.mean:.3g} steps", said))
        return out

    @property
    def remarks(self) -> list[str]:
        """What to mind, what was tried and what it cost, a sentence each."""
        out = []
        ends = [str(each.batch_size) for each in self.sizes if each.at_the_end]
        if ends:
            out.append(f"The best rate of batches of {', '.join(ends)} was at an end of the sweep: move lr or rates.")
        if self.curve.worst > _FAR:
            out.append(f"The curve is off by a factor of up to {self.curve.worst:.2f}: take it as a rough guide.")
        cost = self.cost
        stored = f", {cost.num_stored} of them from the store" if cost.num_stored else ""
        out.append(f"Cost: {cost.num_runs} branches{stored}; {cost.steps:,} steps now, in {cost.seconds:.0f} s.")
        return out

    def __str__(self) -> str:
        """The verdict in words, one line per batch size, remarks, and the code to paste."""
        rows = self.rows()
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
        out = [self.sentence]
        for size, lr, steps, said in rows:
            out.append(f"  batch {size:>{widths[0]}}  lr {lr:<{widths[1]}}  {steps:>{widths[2]}}  {said}".rstrip())
        out += self.remarks
        return "\n".join([*out, "", self.recipe.rstrip()] if self.recipe else out)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        head = "".join(f"<th>{name}</th>" for name in ("batch size", "lr", "to the target", ""))
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows())
        out = f"<p><b>{escape(self.sentence)}</b></p><table><tr>{head}</tr>{body}</table>"
        out += "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return f"{out}<pre>{escape(self.recipe)}</pre>" if self.recipe else out

    def to_json(self) -> dict[str, Any]:
        """verdict, the critical batch size and the fewest steps with intervals, sizes, cost and recipe."""
        curve = self.curve
        return {
            "verdict": str(self.verdict),
            "critical_batch_size": _numbers(curve.critical),
            "fewest_steps": _numbers(curve.fewest_steps),
            "target": _number(self.target),
            "warmup": self.warmup,
            "sizes": [
                {
                    "batch_size": each.batch_size,
                    "lr": _number(each.lr),
                    "num_tries": each.num_tries,
                    "steps": [_number(t) for t in each.times],
                    "arrived": list(each.arrived),
                }
                for each in self.sizes
            ],
            "cost": {
                "runs": self.cost.num_runs,
                "stored": self.cost.num_stored,
                "steps": self.cost.steps,
                "seconds": round(self.cost.seconds, 1),
            },
            "recipe": self.recipe,
        }

    def figure(self) -> "Figure":
        """Steps to the target against the batch size: every order of the rows, their mean, and the fitted curve."""
        with house_style() as figure:
            out: Figure = figure.Figure(figsize=(4.6, 3.4), layout="constrained")
            ax = out.subplots()
            for each in self.sizes:
                ax.plot([each.batch_size] * len(each.times), each.times, ".", color=cycle(0), alpha=0.4, markersize=3)
                marker = "o" if each.batch_size in self.curve.used else "x"
                ax.plot([each.batch_size], [each.mean], marker, color=cycle(0))
            if np.isfinite(self.curve.critical.value) and self.curve.critical.value > 0:
                x = np.geomspace(self.curve.used[0], self.curve.used[-1], 60)
                ax.plot(x, [self.curve.steps(b) for b in x], color=cycle(1))
                ax.axvline(self.curve.critical.value, color="#888888", linewidth=0.8, linestyle="--")
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            ax.set_xlabel("batch size")
            ax.set_ylabel(f"steps to a loss of {self.target:.3g}")
            ax.set_title(f"critical batch size: {self.verdict}")
        return out


def _numbers(estimate: Estimate) -> list[float | None]:
    return [_number(v) for v in (estimate.value, estimate.low, estimate.high)]


def _number(x: float) -> float | None:
    return float(f"{x:.6g}") if np.isfinite(x) else None
