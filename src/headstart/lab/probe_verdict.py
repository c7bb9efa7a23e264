"""What a probe concludes: a verdict with intervals, what it cost, and the lines to paste."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.lab.colours import CYCLE
from headstart.lab.figures import house_style
from headstart.lab.probe_arms import FULL
from headstart.measures import Estimate, bootstrap_bounds, censored_time, mean_band, quotient

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Declared beforehand: to save less than 15% is no gap worth a schedule.
MARGIN, ERROR = 0.15, 0.05


class ProbeVerdict(StrEnum):
    """Whether a smaller subset reaches the target in less compute."""

    GAP = "gap"
    NO_GAP = "no gap"
    UNDECIDED = "undecided"
    NOTHING_LEARNED = "nothing learned"


@dataclass(frozen=True)
class ArmResult:
    """One arm: its code, its learning rate, and its test curves [seeds, records], None if it was given up.

    `at_the_end` says that the best rate was at an end of the sweep, so that a better one may lie beyond.
    """

    name: str
    code: str
    rate: float
    curves: NDArray[np.float64] | None
    at_the_end: bool


@dataclass(frozen=True)
class Probe:
    """The outcome of a probe. Print it; `figure()` draws the arms; `to_json()` is for programs.

    `ratios[arm]` is the arm's compute to the target over that of the full data: below 1, it is faster. The intervals
    hold together with 95% confidence: each is at 1 - 5% / (arms compared x looks).
    """

    verdict: ProbeVerdict
    best: str | None
    target: float
    ratios: dict[str, Estimate]
    arms: tuple[ArmResult, ...]
    axis: NDArray[np.float64]
    batch_size: int
    num_seeds: int
    steps_trained: int
    seconds: float
    interrupted: bool

    @property
    def lines(self) -> str:
        """The lines of code that use the best arm."""
        code = next(arm.code for arm in self.arms if arm.name == (self.best or FULL))
        return (
            f"schedule = {code}\n"
            f"loader = hs.PhasedLoader(dataset, schedule, batch_size={self.batch_size})\n"
            "for inputs, targets in loader: ...  # one pass is the whole of training"
        )

    def __str__(self) -> str:
        """The verdict in words, one line an arm, the cost, and the lines to paste."""
        out = [_SENTENCES[self.verdict].format(target=f"{self.target:.4g}", best=self.best, steps=int(self.axis[-1]))]
        if self.verdict is ProbeVerdict.GAP and self.best is not None:
            r = self.ratios[self.best]
            out[0] += f" {r.value:.2f} [{r.low:.2f}, {r.high:.2f}] of the compute of the full data."
        width = max(len(arm.name) for arm in self.arms)
        for arm in self.arms:
            out.append(f"  {arm.name:<{width}}  lr {arm.rate:<8.3g}  {self._says(arm)}")
        ends = [arm.name for arm in self.arms if arm.at_the_end]
        if ends:
            out.append(
                f"  The best rate of {', '.join(ends)} was at an end of the sweep: move Problem(lr=...) or widen rates."
            )
        short = self.steps_trained / self.axis[-1]
        out.append(
            f"Cost: {self.steps_trained:,} steps of {self.batch_size} rows, as much as {short:.0f} runs of these "
            f"{int(self.axis[-1])} steps, in {self.seconds:.0f} s; {self.num_seeds} seeds an arm"
            + (", interrupted." if self.interrupted else ".")
        )
        if self.verdict is ProbeVerdict.GAP:
            out += ["", "import headstart as hs", self.lines]
        return "\n".join(out)

    def _says(self, arm: ArmResult) -> str:
        if arm.curves is None:
            return "never reached the target while its rate was chosen; given up"
        final = f"ends at {arm.curves[:, -1].mean():.4g}"
        if arm.name == FULL:
            return f"1     {final}"
        r = self.ratios[arm.name]
        return f"{r.value:.2f} [{r.low:.2f}, {r.high:.2f}]  {final}"

    def to_json(self) -> dict[str, Any]:
        """verdict, best, target, arms with ratios and mean curves, cost and lines; an unbounded end is null."""

        def number(x: float) -> float | None:
            return float(f"{x:.6g}") if np.isfinite(x) else None

        arms = []
        for arm in self.arms:
            ratio = self.ratios.get(arm.name)
            mean = None if arm.curves is None else [number(v) for v in arm.curves.mean(axis=0)]
            interval = None if ratio is None else [number(ratio.value), number(ratio.low), number(ratio.high)]
            arms.append({"name": arm.name, "lr": number(arm.rate), "ratio": interval, "curve": mean, "code": arm.code})
        return {
            "verdict": str(self.verdict),
            "best": self.best,
            "target": number(self.target),
            "arms": arms,
            "steps": [int(step) for step in self.axis],
            "batch_size": self.batch_size,
            "num_seeds": self.num_seeds,
            "cost": {"steps": self.steps_trained, "seconds": round(self.seconds, 1)},
            "interrupted": self.interrupted,
            "lines": self.lines,
        }

    def figure(self) -> "Figure":
        """The mean test curve of every arm with its 95% band, and the target."""
        with house_style() as figure:
            out: Figure = figure.Figure(figsize=(5.2, 3.4), layout="constrained")
            ax = out.subplots()
            x = self.axis * self.batch_size
            for arm, colour in zip(self.arms, CYCLE, strict=False):
                if arm.curves is not None and len(arm.curves):
                    ax.plot(x, arm.curves.mean(axis=0), color=colour, label=f"{arm.name}, lr {arm.rate:.3g}")
                    low, high = mean_band(arm.curves)
                    ax.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
            ax.axhline(self.target, color="#888888", linewidth=0.8, linestyle="--")
            ax.set_xlabel("rows processed")
            ax.set_ylabel("test metric")
            ax.set_title(f"{self.verdict}, {self.num_seeds} seeds")
            if self.num_seeds:
                ax.legend()
        return out


_SENTENCES = {
    ProbeVerdict.GAP: "Gap: {best} reaches {target} in",
    ProbeVerdict.NO_GAP: "No gap: no smaller subset reaches {target} in less than 0.85 of the full data's compute.",
    ProbeVerdict.UNDECIDED: "Undecided: the seeds do not tell the arms apart on the way to {target}; use more seeds.",
    ProbeVerdict.NOTHING_LEARNED: "Nothing learned: no arm moved in {steps} steps; raise steps or move the rates.",
}


def time_ratio(
    axis: NDArray[np.float64], small: NDArray[np.float64], full: NDArray[np.float64], target: float, level: float
) -> Estimate:
    """The compute to the target of one arm over that of another, arms paired by seed."""
    one, other = (censored_time(axis, curves, target, True) for curves in (small, full))
    return bootstrap_bounds(lambda rows: quotient(one(rows), other(rows)), len(small), level)


def conclude(
    arms: tuple[ArmResult, ...],
    *,
    axis: NDArray[np.float64],
    batch_size: int,
    target: float,
    num_looks: int,
    learned: bool,
    interrupted: bool,
    steps_trained: int,
    seconds: float,
) -> Probe:
    """The verdict: a gap where an arm saves more than the margin and its whole interval lies below 1, none where every
    interval lies above 1 - margin.
    """
    full = next(arm for arm in arms if arm.name == FULL)
    others = [arm for arm in arms if arm.name != FULL and arm.curves is not None]
    ratios: dict[str, Estimate] = {}
    if learned and full.curves is not None:
        level = 1 - ERROR / (num_looks * max(1, len(others)))
        for arm in others:
            assert arm.curves is not None
            ratios[arm.name] = time_ratio(axis, arm.curves, full.curves, target, level)
    winners = [name for name, r in ratios.items() if r.high < 1 and r.value < 1 - MARGIN]
    verdict = ProbeVerdict.UNDECIDED
    if not learned:
        verdict = ProbeVerdict.NOTHING_LEARNED
    elif winners:
        verdict = ProbeVerdict.GAP
    elif all(r.low > 1 - MARGIN for r in ratios.values()):
        verdict = ProbeVerdict.NO_GAP
    best = min(winners, key=lambda name: ratios[name].value) if winners else None
    return Probe(
        verdict,
        best,
        target,
        ratios,
        arms,
        axis,
        batch_size,
        0 if full.curves is None else len(full.curves),
        steps_trained,
        seconds,
        interrupted,
    )
