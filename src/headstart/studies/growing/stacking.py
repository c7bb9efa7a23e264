"""Stacking: train few layers, grow, train on; by a fixed operator, or by the one that LAG chooses at every stage.

Paper     Landscape-Aware Growing, Section 5.4.2, Appendix C.1.3, Table C.2
Claim     Adaptive stacking, which chooses the operator of every stage by LAG, ends with a lower loss than gradual
          stacking of the last block on top.
Setting   A post-norm Transformer grows by four layers per stage. gradual: a copy of the last four on top. adaptive: of
          all copies, at every index and block of 1, 2 or 4 (at even indices from 16 layers on), the best after `lag`
          steps goes on. progressive: all layers copied, twice; it begins with a quarter of the layers. scratch: all
          layers from the start. shallow: the first stage's layers throughout. One rate for all, after a warm-up;
          the optimizer's averages follow the layers.
Measured  Held-out loss, the mean of the last evaluations. At equal steps, as the thesis has it, where the children that
          LAG lets go cost nothing; and at equal FLOPs, where every child counts. Curves of the longer arm are read
          where the shorter one ends. Paired differences; 95% by the bootstrap over seeds.
Expected  The thesis: 1.5301 (adaptive) and 1.5432 (gradual) at equal steps, on BERT-large with 24 layers; it compares
          with neither scratch nor a shallow model. A first look at 4, 8 and 12 layers of this size had stacking save a
          third of the FLOPs of 12 layers, and plain 4 layers better than both.
Shrunk    Laptop: 4, 8, 12 layers of width 32, 400 steps each, on characters of 18 books. Pilots had other seeds. Paper:
          BERT-large, six stages, 93 children of 200 steps.
Data      `headstart data get gutenberg`; for the paper's, `headstart data get books_and_wikipedia --from FOLDER`.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

import headstart.lab as lab
from headstart.core.units import Budget, flops_per_sample
from headstart.measures import trailing_mean
from headstart.methods import Grow, NewLayers, Same, design_space
from headstart.models import Transformer
from headstart.run import Best, Carry, From, Run
from headstart.studies.growing import (
    PAPER_TITLE,
    SMOKE,
    Floats,
    GrowingKnobs,
    draw_range,
    grown,
    language,
    parent,
    smooth_losses,
)
from headstart.tasks import Masked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "At equal steps the loss of adaptive stacking less that of gradual stacking is {adaptive_steps} (thesis: -.013); "
    "at equal FLOPs, its children counted, {adaptive_flops}. Gradual stacking less all layers from the start is "
    "{gradual_scratch} at equal FLOPs, and less the shallow model {gradual_shallow}."
)


@dataclass(frozen=True)
class Knobs(GrowingKnobs):
    """`depth` is that of the first stage; each of `stages` has `steps` steps, the last `last_stage` if it is not 0."""

    num_seeds: int = 8
    orders: int = 1
    depth: int = 4
    stages: int = 3
    steps: int = 400
    last_stage: int = 0
    lag: int = 40
    masked: bool = False

    @property
    def end(self) -> int:
        """The steps of the last stage."""
        return self.last_stage or self.steps

    @property
    def total(self) -> int:
        """The steps of all stages."""
        return (self.stages - 1) * self.steps + self.end

    @property
    def depths(self) -> range:
        """The layers before every growth."""
        return range(self.depth, self.depth + (self.stages - 1) * self.layers, self.layers)


def space(k: Knobs, depth: int) -> tuple[Grow, ...]:
    """The operators of a stage (C.1.3)."""
    indices = range(0, depth - k.layers + 1, 2) if depth >= 4 * k.layers else None
    return design_space(depth, k.layers, indices, new=(NewLayers.DUPLICATE,))


def scratch(k: Knobs, depth: int, steps: int) -> Run:
    """So many layers from the start."""
    run = parent(replace(k, depth=depth), budget=Budget(steps, record_every=k.record_every))
    assert isinstance(run.model, Transformer)
    return replace(run, task=language(k, Masked()), model=replace(run.model, causal=False)) if k.masked else run


def stages(k: Knobs, number: int, more: int = 0) -> Budget:
    """The budget of a stage, the first being 0; `more` steps in the last."""
    last = number == k.stages - 1
    return Budget(k.end + more if last else k.steps, record_every=k.record_every)


def gradual(k: Knobs, more: int) -> Run:
    """A copy of the last layers on top, stage by stage."""
    run = scratch(k, k.depth, k.steps)
    for number, depth in enumerate(k.depths, start=1):
        run = grown(run, Grow.on_top(depth, k.layers), stages(k, number, more))
    return run


def progressive(k: Knobs) -> Run:
    """All layers copied, twice, from a quarter of them: after half of the steps, and after three quarters."""
    depth = (k.depth + (k.stages - 1) * k.layers) // 4
    first, second = k.total // 2, k.total // 4
    run = grown(scratch(k, depth, first), Grow.progressive(depth), Budget(second, record_every=k.record_every))
    rest = k.total - first - second
    return grown(run, Grow.progressive(2 * depth), Budget(rest, record_every=k.record_every))


def adaptive(k: Knobs) -> Run:
    """The best of all children after `lag` steps goes on, stage by stage."""
    run = scratch(k, k.depth, k.steps)
    for number, depth in enumerate(k.depths, start=1):
        short = Budget(k.lag, record_every=k.record_every)
        operators = space(k, depth)
        child = grown(run, operators[0], short)
        best = Best((child,), "test_loss", window=k.trailing, vias=operators)
        left = Budget(stages(k, number).steps - k.lag, record_every=k.record_every)
        run = replace(child, start=From(best, via=Same(), carry=Carry(moments=True)), budget=left)
    return run


def arms(k: Knobs) -> list[lab.Arm]:
    """The five ways. Those that others are compared with at equal FLOPs go on for as long."""
    full = scratch(k, k.depths[-1] + k.layers, k.total)

    def flops(depth: int) -> float:
        return flops_per_sample(scratch(k, depth, k.steps).parameters)

    # What the children cost, each at the depth of its stage, in steps of the last depth.
    asked = sum(len(space(k, depth)) * k.lag * flops(depth + k.layers) for depth in k.depths)
    more = ceil(asked / flops(k.depths[-1] + k.layers) / k.record_every) * k.record_every
    longer = ceil(k.total * flops(k.depths[-1] + k.layers) / flops(k.depth))
    found: dict[str, tuple[str, Run]] = {
        "adaptive": ("adaptive stacking", adaptive(k)),
        "gradual": ("gradual stacking", gradual(k, more)),
        "progressive": ("progressive stacking", progressive(k)),
        "scratch": (f"{k.depths[-1] + k.layers} layers", full),
        "shallow": (f"{k.depth} layers", scratch(k, k.depth, longer)),
    }
    return [lab.Arm(name, label, run, None) for name, (label, run) in found.items()]


def ends(k: Knobs) -> dict[str, int]:
    """The step of each arm's last run at which all stages together are `total` long."""
    last = {"adaptive": k.end - k.lag, "gradual": k.end, "scratch": k.total, "shallow": k.total}
    return {**last, "progressive": k.total - k.total // 2 - k.total // 4}


def losses(results: lab.Results, arm: str, flops: Floats | None = None) -> Floats:
    """The final loss of each seed: at the end of the stages, or where all that was trained has cost so many FLOPs."""
    k, found = results.knobs, []
    for number, trace in enumerate(results.traces[arm]):
        smooth = trailing_mean(trace["test_loss"], k.last)
        axis, at = trace.axis("steps"), float(ends(k)[arm])
        if flops is not None:
            axis, at = trace.axis("flops", total=True), float(flops[number])
        found.append(float(np.interp(at, axis, smooth)))
    return np.array(found)


def spent(results: lab.Results, arm: str) -> Floats:
    """The FLOPs of each seed at the end of the stages, all that it started from included."""
    end = ends(results.knobs)[arm]
    return np.array([float(np.interp(end, t.steps, t.axis("flops", total=True))) for t in results.traces[arm]])


@dataclass(frozen=True)
class LossAbove:
    """The final loss of one arm less that of another, at equal steps or where both cost what the first one does."""

    arms: tuple[str, str]
    equal: str = "flops"

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean over seeds."""
        one, other = self.arms
        at: Any = spent(results, one) if self.equal == "flops" else None
        values = losses(results, one) - losses(results, other, at)
        return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def asking(results: lab.Results) -> lab.Estimate:
    """FLOPs of adaptive stacking over those of gradual stacking of as many steps."""
    values = spent(results, "adaptive") / spent(results, "gradual")
    return lab.Estimate(float(values.mean()), float(values.min()), float(values.max()))


def claims(k: Knobs) -> list[lab.Claim]:
    """Table C.2; then what the thesis does not compare with."""
    primary, secondary, control = lab.Kind.PRIMARY, lab.Kind.SECONDARY, lab.Kind.CONTROL
    below, none = lab.below(0.0), "not compared"
    return [
        lab.Claim("adaptive_steps", "final loss, adaptive less gradual at equal steps: below 0", "-.0131", below,
                  LossAbove(("adaptive", "gradual"), "steps"), primary),
        lab.Claim("adaptive_flops", "the same at equal FLOPs, children counted: below 0", none, below,
                  LossAbove(("adaptive", "gradual")), secondary),
        lab.Claim("gradual_scratch", "final loss, gradual less scratch at equal FLOPs: below 0", none, below,
                  LossAbove(("gradual", "scratch")), secondary),
        lab.Claim("gradual_scratch_steps", "final loss, gradual less scratch at equal steps: below 0", none, below,
                  LossAbove(("gradual", "scratch"), "steps"), secondary),
        lab.Claim("progressive_scratch", "final loss, progressive less scratch at equal FLOPs: below 0", none, below,
                  LossAbove(("progressive", "scratch")), secondary),
        lab.Claim("adaptive_scratch", "final loss, adaptive less scratch at equal FLOPs: below 0", none, below,
                  LossAbove(("adaptive", "scratch")), secondary),
        lab.Claim("gradual_shallow", "final loss, gradual less shallow at equal FLOPs: below 0", none, below,
                  LossAbove(("gradual", "shallow")), control),
        lab.Claim("gradual_shallow_steps", "final loss, gradual less shallow at equal steps: below 0", none, below,
                  LossAbove(("gradual", "shallow"), "steps"), control),
        lab.Claim("asking", "FLOPs of adaptive stacking over those of gradual stacking, as many steps: above 1",
                  "93 children of 200 steps in 1,000,000", lab.above(1.0), asking, lab.Kind.IDENTITY),
    ]  # fmt: skip


def figure(results: lab.Results, picture: "Figure") -> None:
    """The mean loss of the last run of each arm, against steps of the stages and against all FLOPs."""
    picture.set_size_inches(9, 4.2)
    k = results.knobs
    for ax, axis in zip(picture.subplots(1, 2), ("steps", "flops"), strict=True):
        for name, arm in results.arms.items():
            first = results.traces[name][0]
            x = first.axis("flops", total=True) if axis == "flops" else first.steps + k.total - ends(k)[name]
            draw_range(ax, x, smooth_losses(results, (name,)), arm.label)
        finals = [losses(results, name).mean() for name in results.arms]
        ax.set_xlabel("training FLOPs, all that was tried included" if axis == "flops" else "steps of all stages")
        ax.set_ylabel("held-out loss")
        ax.set_ylim(min(finals) - 0.1, max(finals) + 0.4)
        lab.legend_below(ax)


PAPER = Knobs(
    num_seeds=2, text="books_and_wikipedia", symbols=30_522, length=512, windows=2048, width=1024, heads=16, batch=256,
    rate=1e-4, warm_up=10_000, stages=6, steps=160_000, last_stage=200_000, record_every=100, lag=200, masked=True,
)  # fmt: skip
STUDY = lab.Study(
    name="growing/stacking",
    title="Stacking, adaptive and not",
    paper=PAPER_TITLE,
    figures="Section 5.4.2, Table C.2",
    presets={"smoke": Knobs(**{**SMOKE, "orders": 1}), "laptop": Knobs(), "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 9.0, "paper": 4e8},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer", "real data"),
)
