"""The outcome of a probe: in words, as a table for notebooks, as JSON, as a figure, and as code to paste."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.lab.claims import LEAST_ARRIVALS
from headstart.lab.colours import cycle
from headstart.lab.figures import house_style
from headstart.lab.probe_arms import FULL
from headstart.lab.probe_verdict import LEAST_SEEDS, ArmResult, Conclusion, Goal, ProbeVerdict
from headstart.measures import Estimate, mean_band

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ProbeCost:
    """What asking has cost: steps of training and seconds, now, and how many of the runs were found in the store."""

    num_runs: int
    num_stored: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class Source:
    """What the recipe needs to know of a problem: how to get it, its batch size, device, and whether it collates."""

    code: str
    batch_size: int
    device: str
    collates: bool


@dataclass(frozen=True)
class Probe:
    """The outcome of a probe. Print it; `figure()` draws the arms, `to_json()` is for programs.

    `ratios[arm]` is the arm's compute to the target over that of the full data: below 1, it is faster. A false gap is
    at most 2.5% likely, a false absence 5%, over all arms and looks. `recipe` is the code that trains with `best`.
    """

    conclusion: Conclusion
    goal: Goal
    arms: tuple[ArmResult, ...]
    axis: NDArray[np.float64]
    source: Source
    cost: ProbeCost

    @property
    def verdict(self) -> ProbeVerdict:
        """Gap, absent, undecided, or nothing learned."""
        return self.conclusion.verdict

    @property
    def best(self) -> str | None:
        """The arm to use; None: the full data."""
        return self.conclusion.best

    @property
    def ratios(self) -> dict[str, Estimate]:
        """Each arm's compute to the target over that of the full data."""
        return self.conclusion.ratios

    @property
    def target(self) -> float:
        """The test metric to reach."""
        return self.goal.target

    @property
    def num_seeds(self) -> int:
        """How many seeds of the full data were compared with."""
        return max((0 if arm.curves is None else len(arm.curves)) for arm in self.arms)

    @property
    def recipe(self) -> str:
        """Code that trains a fresh model with the best arm, or on the full data where no arm is better."""
        best = next(arm for arm in self.arms if arm.name == (self.best or FULL))
        source = self.source
        device = "" if source.device == "cpu" else f".to({source.device!r})"
        collate = ", collate_fn=problem.collate" if source.collates else ""
        return (
            "import headstart as hs\n\n"
            f"problem = {source.code}\n"
            f"model = problem.model(){device}\n"
            f"optimizer = problem.build_optimizer(model.parameters(), lr={best.lr:.4g})\n"
            f"schedule = {best.arm.code}\n"
            f"for batch in hs.PhasedLoader(problem.dataset, schedule, batch_size={source.batch_size}{collate}):\n"
            "    optimizer.zero_grad()\n"
            "    problem.training_loss(model, batch).backward()\n"
            "    optimizer.step()\n"
        )

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        steps, target = int(self.axis[-1]), f"{self.target:.4g}"
        if self.verdict is ProbeVerdict.NOTHING_LEARNED:
            return f"Nothing learned: no arm moved in {steps} steps; raise steps, or give other rates."
        if self.verdict is ProbeVerdict.GAP and self.best is not None:
            out = f"Gap: {self.best} reaches {target} in {_interval(self.ratios[self.best])} of the full data's compute"
            return out + (", but ends worse." if self.best in self.conclusion.worse else ".")
        if self.verdict is ProbeVerdict.ABSENT:
            return (
                f"Absent: no subset reaches {target} in less than {self.goal.smallest:g} of the full data's compute. "
                "Train on all rows."
            )
        if self.num_seeds < LEAST_SEEDS:
            return f"Undecided: {self.num_seeds} seeds are too few to tell; give at least {LEAST_SEEDS}."
        if self.conclusion.arrivals < LEAST_ARRIVALS:
            share = f"{self.conclusion.arrivals:.0%} of the runs"
            return f"Undecided: on the full data {share} reach {target} in {steps} steps; raise steps or lower target."
        return f"Undecided: {self.num_seeds} seeds do not tell the arms apart on the way to {target}; raise max_seeds."

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Each arm with its learning rate, its ratio with the interval, and where it ends."""
        return [(arm.name, f"{arm.lr:.3g}", *self._says(arm)) for arm in self.arms]

    def _says(self, arm: ArmResult) -> tuple[str, str]:
        if self.verdict is ProbeVerdict.NOTHING_LEARNED:
            return "", ""
        if arm.curves is None:
            never = "never reached the target while its rate was chosen; given up"
            return ("1", "") if arm.name == FULL else ("", never)
        worse = ", worse than the full data" if arm.name in self.conclusion.worse else ""
        ends = f"ends at {arm.curves[:, -1].mean():.4g} over {len(arm.curves)} seeds{worse}"
        return ("1" if arm.name == FULL else _interval(self.ratios[arm.name])), ends

    @property
    def remarks(self) -> list[str]:
        """What was tried and what it cost, a sentence each."""
        out = []
        ends = [arm.name for arm in self.arms if arm.at_the_end]
        if ends:
            out.append(f"The best rate of {', '.join(ends)} was at an end of the sweep: move lr or widen rates.")
        cost, steps = self.cost, int(self.axis[-1])
        stored = f", {cost.num_stored} of them from the store" if cost.num_stored else ""
        out.append(
            f"Cost: {cost.num_runs} runs of {steps} steps{stored}; {cost.steps:,} steps of {self.source.batch_size} "
            f"rows now, in {cost.seconds:.0f} s. Each arm tried {self.arms[0].num_tries} rates."
        )
        return out

    def __str__(self) -> str:
        """The verdict in words, one line per arm, the cost, and the code to paste."""
        rows = self.rows()
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        out = [self.sentence]
        for name, lr, ratio, ends in rows:
            out.append(f"  {name:<{widths[0]}}  lr {lr:<{widths[1]}}  {ratio:<{widths[2]}}  {ends}".rstrip())
        out += self.remarks
        return "\n".join(out if self.verdict is ProbeVerdict.NOTHING_LEARNED else [*out, "", self.recipe.rstrip()])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        head = "".join(f"<th>{name}</th>" for name in ("arm", "lr", "compute to the target", ""))
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows())
        out = f"<p><b>{escape(self.sentence)}</b></p><table><tr>{head}</tr>{body}</table>"
        out += "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks)
        return out if self.verdict is ProbeVerdict.NOTHING_LEARNED else f"{out}<pre>{escape(self.recipe)}</pre>"

    def to_json(self) -> dict[str, Any]:
        """verdict, best, target, arms with ratios and mean curves, cost and recipe; an unbounded end is null."""
        arms = []
        for arm in self.arms:
            ratio = self.ratios.get(arm.name)
            mean = None if arm.curves is None else [_number(v) for v in arm.curves.mean(axis=0)]
            interval = None if ratio is None else [_number(ratio.value), _number(ratio.low), _number(ratio.high)]
            arms.append(
                {
                    "name": arm.name,
                    "lr": _number(arm.lr),
                    "num_tries": arm.num_tries,
                    "num_seeds": 0 if arm.curves is None else len(arm.curves),
                    "ratio": interval,
                    "ends_worse": arm.name in self.conclusion.worse,
                    "curve": mean,
                    "schedule": arm.arm.code,
                }
            )
        return {
            "verdict": str(self.verdict),
            "best": self.best,
            "target": _number(self.target),
            "smallest": self.goal.smallest,
            "arms": arms,
            "steps": [int(step) for step in self.axis],
            "batch_size": self.source.batch_size,
            "num_seeds": self.num_seeds,
            "cost": {
                "runs": self.cost.num_runs,
                "stored": self.cost.num_stored,
                "steps": self.cost.steps,
                "seconds": round(self.cost.seconds, 1),
            },
            "recipe": self.recipe,
        }

    def figure(self) -> "Figure":
        """The mean test curve of every arm with its 95% band, and the target."""
        with house_style() as figure:
            out: Figure = figure.Figure(figsize=(5.2, 3.4), layout="constrained")
            ax = out.subplots()
            x = self.axis * self.source.batch_size
            for place, arm in enumerate(self.arms):
                if arm.curves is not None and len(arm.curves):
                    ax.plot(x, arm.curves.mean(axis=0), color=cycle(place), label=f"{arm.name}, lr {arm.lr:.3g}")
                    low, high = mean_band(arm.curves)
                    ax.fill_between(x, low, high, color=cycle(place), alpha=0.15, linewidth=0)
            ax.axhline(self.target, color="#888888", linewidth=0.8, linestyle="--")
            ax.set_xlabel("rows processed")
            ax.set_ylabel("test metric")
            ax.set_title(f"{self.verdict}, {self.num_seeds} seeds")
            if self.num_seeds:
                ax.legend()
        return out


def _interval(ratio: Estimate) -> str:
    if not np.isfinite(ratio.value):
        return "never there"
    return f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _number(x: float) -> float | None:
    return float(f"{x:.6g}") if np.isfinite(x) else None
