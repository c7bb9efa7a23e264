"""Does growth pay? The ungrown parent on the same data beside every child, at equal steps and at equal FLOPs.

Paper     Landscape-Aware Growing compares children with each other, never with the parent trained on; a control
Claim     A grown model ends below its parent trained on as many steps, and below it at equal FLOPs.
Setting   A post-norm Transformer of 12 layers grows to 16, by copies or random layers, on top or interleaved. The
          parent goes on with the same optimizer on the same windows in the same order, for as many FLOPs as a child
          takes.
Measured  Held-out loss: of children the mean of their last evaluations, of the parent the same at the step where it has
          taken as many steps, and where it has cost as many FLOPs. Means over orders; 95% by the bootstrap over
          parents, of which with three no interval is narrower than their range.
Expected  No number. In a first look at 4, 8 and 12 layers of this size the shallow model was better than all.
Shrunk    Width 32 on characters of 18 books.
Data      `headstart data get gutenberg`.
"""

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

import headstart.lab as lab
from headstart.core.units import Budget, flops_per_sample
from headstart.measures import trailing_mean
from headstart.methods import Grow, NewLayers
from headstart.run import Run
from headstart.studies.growing import (
    BERT,
    PAPER_TITLE,
    SMOKE,
    Floats,
    GrowingKnobs,
    draw_range,
    finish_differences,
    grown,
    losses_of,
    parent,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "At equal steps the best child ends {best_steps} above its parent trained on, at equal FLOPs {best_flops}; a copy "
    "of the last block on top, fixed beforehand, {last_on_top_flops}."
)


@dataclass(frozen=True)
class Knobs(GrowingKnobs):
    """Longer after the growth than the other studies: what a growth costs is to be won back."""

    steps: int = 1200


def operators(k: Knobs) -> dict[str, Grow]:
    """Copies and random layers, on top and interleaved, and copies that add nothing at first."""
    top, middle = k.depth - k.layers, (k.depth - k.layers) // 2
    return {
        "last_on_top": Grow(top, k.layers, layers=k.layers),
        "random_on_top": Grow(top, k.layers, NewLayers.RANDOM, k.layers),
        "interleaved": Grow(middle, 1, layers=k.layers),
        "low": Grow(0, 1, layers=k.layers),
        "random_interleaved": Grow(middle, 1, NewLayers.RANDOM, k.layers),
    }


def longer(k: Knobs, source: Run, child: Run) -> int:
    """Steps of the parent that cost what the child's do, up to a recorded one."""
    ratio = flops_per_sample(child.parameters) / flops_per_sample(source.parameters)
    return ceil(k.steps * ratio / k.record_every) * k.record_every


def arms(k: Knobs) -> list[lab.Arm]:
    """Children, and the parent that goes on, in every order."""
    source, found = parent(k), []
    for order in range(k.orders):
        for name, operator in operators(k).items():
            child = grown(source, operator, Budget(k.steps, record_every=k.record_every), order)
            found.append(lab.Arm(f"{name}_{order}", f"{operator.label}, order {order}", child, None))
        budget = Budget(longer(k, source, child), record_every=k.record_every)
        run = grown(source, Grow(layers=0), budget, order)
        found.append(lab.Arm(f"ungrown_{order}", f"{k.depth} layers, order {order}", run, None))
    return found


def ungrown(results: lab.Results, order: int, equal: str) -> Floats:
    """The loss of the parent that goes on, the mean of the evaluations up to where it has as many steps, or FLOPs."""
    k, found = results.knobs, []
    for mine, child in zip(results.traces[f"ungrown_{order}"], results.traces[f"last_on_top_{order}"], strict=True):
        smooth = trailing_mean(mine["test_loss"], k.last)
        found.append(float(np.interp(child.axis(equal)[-1], mine.axis(equal), smooth)))
    return np.array(found)


@dataclass(frozen=True)
class AboveParent:
    """The final loss of children, or of the best of all of a parent and order, less that of the ungrown parent."""

    names: tuple[str, ...]
    equal: str

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean over orders, bootstrapped over parents."""
        found = []
        for order in range(results.knobs.orders):
            children = np.array([losses_of(results, f"{name}_{order}") for name in self.names])
            found.append(children.min(axis=0) - ungrown(results, order, self.equal))
        values = np.mean(found, axis=0)
        return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def claims(k: Knobs) -> list[lab.Claim]:
    """The best child in hindsight, and each fixed beforehand."""
    every, below = tuple(operators(k)), lab.below(0.0)
    found = [
        lab.Claim(f"best_{equal}", f"final loss, best child less ungrown parent at equal {words}: below 0",
                  "not compared", below, AboveParent(every, equal), lab.Kind.PRIMARY)
        for equal, words in (("steps", "steps"), ("flops", "FLOPs"))
    ]  # fmt: skip
    found += [
        lab.Claim(f"{name}_{equal}", f"final loss, {operator.label}, less ungrown parent at equal {words}: below 0",
                  "not compared", below, AboveParent((name,), equal), lab.Kind.SECONDARY)
        for name, operator in operators(k).items()
        for equal, words in (("steps", "steps"), ("flops", "FLOPs"))
    ]  # fmt: skip
    return found


def figure(results: lab.Results, picture: "Figure") -> None:
    """The loss of every child less that of the ungrown parent at the same step, and at the same FLOPs."""
    picture.set_size_inches(9, 4.2)
    k = results.knobs
    for ax, equal in zip(picture.subplots(1, 2), ("steps", "flops"), strict=True):
        for name, operator in operators(k).items():
            gaps = []
            for order in range(k.orders):
                pairs = zip(results.traces[f"{name}_{order}"], results.traces[f"ungrown_{order}"], strict=True)
                for child, mine in pairs:
                    ours, theirs = (trailing_mean(trace["test_loss"], k.trailing) for trace in (child, mine))
                    gaps.append(ours - np.interp(child.axis(equal), mine.axis(equal), theirs))
            draw_range(ax, child.steps, np.array(gaps), operator.label)
        finish_differences(ax, f"loss less the ungrown parent's, equal {'FLOPs' if equal == 'flops' else 'steps'}")


STUDY = lab.Study(
    name="growing/pays",
    title="Children beside their ungrown parent",
    paper=PAPER_TITLE,
    figures="a control of Section 5.3",
    presets={"smoke": Knobs(**SMOKE), "laptop": Knobs(), "paper": Knobs(**BERT)},
    minutes={"smoke": 0.1, "laptop": 13.0, "paper": 4e7},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer", "real data"),
)
