"""How much to grow, and when: by a third, by two, or from one layer, early or late, at equal FLOPs.

Paper     none: Landscape-Aware Growing grows by a third after five sixths of its steps; recent papers contradict each
          other (Du et al., Stacking Your Transformers, 2024: early and by four; others late and by little)
Claim     At equal FLOPs a grown model ends below one of full depth from the start.
Setting   Post-norm Transformers that end with `depth` layers: from three quarters of them (a copy of the last ones on
          top), from half (progressive stacking), and from one (repeated). A quarter of all FLOPs (early) or three
          quarters (late) go into the source; all arms cost what `steps` steps at full depth cost. Beside them models of
          full depth, and shallow ones that never grow.
Measured  Held-out loss, the mean of the last evaluations; 95% by the bootstrap over seeds, all arms of a seed paired.
Expected  No number.
Shrunk    Width 32 on characters of 18 books.
Data      `headstart data get gutenberg`.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

import headstart.lab as lab
from headstart.core.units import Budget, flops_per_sample
from headstart.lab.colours import cycle
from headstart.methods import Grow
from headstart.run import Run
from headstart.studies.growing import (
    BERT,
    PAPER_TITLE,
    SMOKE,
    GrowingKnobs,
    LossLess,
    grown,
    parent,
    smooth_losses,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "At equal FLOPs growth by two ends {half_early_scratch} above full depth from the start if early, "
    "{half_late_scratch} if late; half of the layers, never grown, end {half_shallow_scratch} above it."
)
TIMES = {"early": 0.25, "late": 0.75}


@dataclass(frozen=True)
class Knobs(GrowingKnobs):
    """`depth` is that of the grown model, `steps` those that all FLOPs are worth at that depth."""

    num_seeds: int = 4
    orders: int = 1
    depth: int = 8
    steps: int = 1200


def sources(k: Knobs) -> dict[str, tuple[int, Grow]]:
    """The layers to begin with, and how they grow."""
    third, half = max(1, k.depth // 4), k.depth // 2
    return {
        "third": (k.depth - third, Grow.on_top(k.depth - third, third)),
        "half": (half, Grow.progressive(half)),
        "one": (1, Grow(0, 1, layers=k.depth - 1, copies=k.depth - 1)),
    }


def fresh(k: Knobs, depth: int, share: float) -> Run:
    """A model of so many layers that takes a share of all FLOPs."""
    run = parent(replace(k, depth=depth))
    full = flops_per_sample(parent(k).parameters)
    steps = share * k.steps * full / flops_per_sample(run.parameters)
    return replace(run, budget=Budget(max(1, round(steps)), record_every=k.record_every))


def arms(k: Knobs) -> list[lab.Arm]:
    """Full depth, three sources grown early and late, and the same that never grow."""
    found = [lab.Arm("scratch", f"{k.depth} layers", fresh(k, k.depth, 1.0), None)]
    for name, (depth, operator) in sources(k).items():
        for when, share in TIMES.items():
            rest = Budget(round((1 - share) * k.steps), record_every=k.record_every)
            run = grown(fresh(k, depth, share), operator, rest)
            found.append(lab.Arm(f"{name}_{when}", f"{depth} to {k.depth} layers, {when}", run, None))
        found.append(
            lab.Arm(f"{name}_shallow", f"{depth} layer{'s' * (depth > 1)}, never grown", fresh(k, depth, 1.0), None)
        )
    return found


@dataclass(frozen=True)
class CostRatio:
    """The largest deviation from 1 of an arm's FLOPs, its source's included, over those of full depth."""

    names: tuple[str, ...]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """Over all arms; it is arithmetic, but for steps that are whole."""
        full = results.traces["scratch"][0].axis("flops", total=True)[-1]
        spent = [results.traces[name][0].axis("flops", total=True)[-1] / full for name in self.names]
        worst = float(np.abs(np.array(spent) - 1).max())
        return lab.Estimate(worst, worst, worst)


def claims(k: Knobs) -> list[lab.Claim]:
    """Every grown model less full depth; early less late; and the shallow controls."""
    primary, secondary, control = lab.Kind.PRIMARY, lab.Kind.SECONDARY, lab.Kind.CONTROL
    words = {"third": "from three quarters of the layers", "half": "from half", "one": "from one layer"}
    below, none = lab.below(0.0), "papers disagree"

    def less(id: str, says: str, one: str, other: str, kind: lab.Kind) -> lab.Claim:
        return lab.Claim(id, f"final loss, {says}: below 0", none, below, LossLess((one,), (other,)), kind)

    names = tuple(f"{name}_{when}" for name in words for when in TIMES)
    return [
        lab.Claim("equal_flops", "FLOPs of every grown arm are those of full depth within 2%", "by construction",
                  lab.Within(0.0, 0.02), CostRatio(names), lab.Kind.IDENTITY),
        *(less(f"{name}_{when}_scratch", f"{says}, {when}, less full depth", f"{name}_{when}", "scratch", primary)
          for name, says in words.items() for when in TIMES),
        *(less(f"{name}_when", f"{says}, early less late", f"{name}_early", f"{name}_late", secondary)
          for name, says in words.items()),
        *(less(f"{other}_{when}_third", f"{words[other]} less {words['third']}, both {when}", f"{other}_{when}",
               f"third_{when}", secondary) for other in ("half", "one") for when in TIMES),
        *(less(f"{name}_shallow_scratch", f"{says}, never grown, less full depth", f"{name}_shallow", "scratch",
               control) for name, says in words.items()),
    ]  # fmt: skip


def figure(results: lab.Results, picture: "Figure") -> None:
    """The mean held-out loss against all FLOPs: colours by the layers to begin with, styles by when they grow."""
    picture.set_size_inches(7, 4.8)
    ax = picture.subplots()
    colours = {"scratch": "0.2"} | {name: cycle(place) for place, name in enumerate(sources(results.knobs))}
    styles = {"early": "--", "late": "-", "shallow": ":"}
    ends = []
    for name, arm in results.arms.items():
        source, _, when = name.partition("_")
        curve = smooth_losses(results, (name,)).mean(axis=0)
        flops = results.traces[name][0].axis("flops", total=True)
        ax.plot(flops, curve, styles.get(when, "-"), color=colours[source], label=arm.label)
        ends.append(curve[-1])
    low, middle = min(ends), float(np.median(ends))
    ax.set_ylim(low - 0.2 * (middle - low), middle + 3 * (middle - low))
    ax.set_xlabel("training FLOPs, the source's included")
    ax.set_ylabel("held-out loss")
    lab.legend_below(ax, columns=3)


STUDY = lab.Study(
    name="growing/factor",
    title="How much to grow, and when",
    paper=PAPER_TITLE,
    figures="none; papers disagree",
    presets={
        "smoke": Knobs(**{**SMOKE, "orders": 1, "depth": 4}),
        "laptop": Knobs(),
        "paper": Knobs(**{**BERT, "depth": 16, "steps": 600_000}),
    },
    minutes={"smoke": 0.1, "laptop": 7.0, "paper": 3e8},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer", "real data"),
)
