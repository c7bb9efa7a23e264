"""Is an operator that keeps the function ever the best? New layers that add nothing, beside those that do.

Paper     Landscape-Aware Growing, Sections 5.3.1 and 5.5; it has no operator that keeps the function exactly
Claim     Keeping the loss is not what makes an operator good: one that disturbs the function ends below the best of
          those that keep it.
Setting   A pre-norm Transformer, since in a post-norm one no operator keeps the function, of 12 layers grows to 16,
          from index 0, 4 or 8, in blocks of 1 or 4. New layers are copies, random, copies with zero outputs (LLaMA
          Pro), random with zero outputs (identity), or copies that share what a layer adds (scaled).
Measured  Held-out loss; the final one is the mean of the last evaluations. Means over parents and orders; 95% by the
          bootstrap over parents, of which with three no interval is narrower than their range.
Expected  The thesis, whose operators keep the loss nearly (1.825 from 1.823): a relative regret of .80 for the one that
          keeps it best. Wang et al. (LEMON, 2024) and others build on the contrary.
Shrunk    Width 32 on characters of 18 books.
Data      `headstart data get gutenberg`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.units import Budget
from headstart.methods import Grow, NewLayers
from headstart.models import Transformer
from headstart.run import Run
from headstart.studies.growing import (
    BERT,
    PAPER_TITLE,
    SMOKE,
    Floats,
    GrowingKnobs,
    draw_differences,
    grown,
    losses_of,
    name_of,
    parent,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of which operators keep the function, what each raised the loss by, and its final loss.
Statistic = Callable[[NDArray[np.bool_], Floats, Floats], float]
FINDING = (
    "The best operator that keeps the function ends {best_less} above the best of all others, and is the best of all "
    "in {share} of the growths. The one that keeps the loss best at first has a relative regret of {regret_0}."
)
KEEPING = (NewLayers.ZERO_OUTPUT, NewLayers.IDENTITY)
KINDS = {
    NewLayers.DUPLICATE: "copies",
    NewLayers.RANDOM: "random layers",
    NewLayers.ZERO_OUTPUT: "copies that add nothing",
    NewLayers.IDENTITY: "random ones that add nothing",
    NewLayers.SCALED: "copies that share",
}


@dataclass(frozen=True)
class Knobs(GrowingKnobs):
    """As in the other studies, with one order of data."""

    orders: int = 1


def source(k: Knobs) -> Run:
    """The parent, with norms before the sums."""
    run = parent(k)
    assert isinstance(run.model, Transformer)
    return replace(run, model=replace(run.model, post_norm=False, pre_norm=True))


def operators(k: Knobs) -> tuple[Grow, ...]:
    """Three places, two blocks and five kinds."""
    last = k.depth - k.layers
    places = sorted({(index, block) for index in (0, last // 2, last) for block in (1, k.layers)})
    return tuple(Grow(index, block, new, k.layers) for new in NewLayers for index, block in places)


def arms(k: Knobs) -> list[lab.Arm]:
    """The parent and its children."""
    run, budget = source(k), Budget(k.steps, record_every=k.record_every)
    found = [lab.Arm("parent", f"{k.depth} layers, before the growth", run, None)]
    for order in range(k.orders):
        for operator in operators(k):
            label = f"{operator.label}, order {order}"
            found.append(lab.Arm(name_of(operator, order), label, grown(run, operator, budget, order), None))
    return found


@dataclass(frozen=True)
class Mean:
    """The mean over parents and orders of a number of one growth's losses at first and finally, [operators] each."""

    of: Statistic

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """With the bootstrap over parents; `of` gets which keep the function, first losses less the parent's, final."""
        k = results.knobs
        keeps = np.array([operator.new in KEEPING for operator in operators(k)])
        before = results.traces["parent"].stack("test_loss", np.inf)[:, -1]
        found = []
        for order in range(k.orders):
            names = [name_of(operator, order) for operator in operators(k)]
            first, final = (np.array([losses_of(results, name, step) for name in names]) for step in (0, None))
            found.append([self.of(keeps, first[:, i] - before[i], final[:, i]) for i in range(len(before))])
        values = np.mean(found, axis=0)
        return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def _regret(final: Floats, chosen: int) -> float:
    return float((final[chosen] - final.min()) / np.ptp(final))


def claims(k: Knobs) -> list[lab.Claim]:
    """That they keep it; whether one is the best; what choosing by it costs."""

    def mean(id: str, says: str, paper: str, rule: lab.Within, kind: lab.Kind, of: Statistic) -> lab.Claim:
        return lab.Claim(id, says, paper, rule, Mean(of), kind)

    primary, secondary, control = lab.Kind.PRIMARY, lab.Kind.SECONDARY, lab.Kind.CONTROL
    return [
        mean("kept", "the largest change of the loss by operators that keep the function: below 1e-4",
             "by construction", lab.below(1e-4), lab.Kind.IDENTITY,
             lambda keeps, raised, _: float(np.abs(raised[keeps]).max())),
        mean("others_raise", "the least raise of the loss by any other operator: above 0", "1.825 from 1.823",
             lab.above(0.0), control, lambda keeps, raised, _: float(raised[~keeps].min())),
        mean("best_less", "final loss, best that keeps the function less best of the others: above 0", "no number",
             lab.above(0.0), primary, lambda keeps, _, final: float(final[keeps].min() - final[~keeps].min())),
        mean("mean_less", "the same of their means: above 0", "no number", lab.above(0.0), secondary,
             lambda keeps, _, final: float(final[keeps].mean() - final[~keeps].mean())),
        mean("share", "share of growths whose best operator keeps the function: below .5", "0 of 2", lab.below(0.5),
             primary, lambda keeps, _, final: float(keeps[final.argmin()])),
        mean("regret_0", "relative regret of the operator that keeps the loss best: above .5", ".799", lab.above(0.5),
             secondary, lambda _, raised, final: _regret(final, int(raised.argmin()))),
    ]  # fmt: skip


def figure(results: lab.Results, picture: "Figure") -> None:
    """The loss of every kind less that of copies, and the final loss of every child against what its growth raised."""
    picture.set_size_inches(9, 4.2)
    k = results.knobs
    curves, points = picture.subplots(1, 2)
    by_kind: dict[NewLayers, list[str]] = {}
    for operator in operators(k):
        by_kind.setdefault(operator.new, []).extend(name_of(operator, order) for order in range(k.orders))
    copies = tuple(by_kind[NewLayers.DUPLICATE])
    others = [(KINDS[new], tuple(names)) for new, names in by_kind.items() if new is not NewLayers.DUPLICATE]
    draw_differences(curves, results, others, (KINDS[NewLayers.DUPLICATE], copies))
    for label, names in (*others, (KINDS[NewLayers.DUPLICATE], copies)):
        first, final = ([losses_of(results, name, step).mean() for name in names] for step in (0, None))
        points.plot(first, final, "o", markersize=4, label=label)
    lab.legend_below(points)
    points.set_xlabel("held-out loss right after the growth")
    points.set_ylabel("final loss")


STUDY = lab.Study(
    name="growing/preservation",
    title="Operators that keep the function",
    paper=PAPER_TITLE,
    figures="Sections 5.3.1 and 5.5",
    presets={"smoke": Knobs(**{**SMOKE, "orders": 1}), "laptop": Knobs(), "paper": Knobs(**BERT)},
    minutes={"smoke": 0.1, "laptop": 16.0, "paper": 2e8},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer", "real data"),
)
