"""How good the weak model must be: transfer from every stage of its training, and what a rule to stop it costs.

Paper     Let Me Grok For You, Fig. 7, Section 4.1
Claim     The better the weak model generalises, the better the target that begins with its table. A weak model that
          has not begun to generalise does not help.
Setting   As in `fnn_to_fnn` on addition. The weak model is trained on all training pairs, and its table is taken at
          several epochs, whatever its accuracy. Beside it a rule: the table is taken when the weak model has an
          accuracy on a validation slice of its training pairs, with restarts where it does not get there. All targets
          have the settings that the sweep chose for the rule of half accuracy.
Measured  The weak model's accuracy on test pairs at the epoch, the target's at its end, and 1 / time gap, 0 for a run
          that never gets to 95%. Pearson's correlation over epochs of the means over seeds, and run by run beside it.
          Of a rule: the epoch of 95%, and FLOPs with the weak model and its restarts. 95% bootstrap over seeds.
Shrunk    As in `fnn_to_fnn`. The weak model's rate is 0.1 there, so that it generalises ten times as soon, and the
          epochs are a tenth to two fifths of the paper's 100, 500, 800, 900, 1000, 1100, 1500 and 2000.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.methods import TransferEmbedding
from headstart.run import From, Step
from headstart.studies.grok_transfer import (
    NO_EFFECT,
    PAPER_TITLE,
    ModularKnobs,
    arm,
    target_model,
    transfer,
    weak_run,
    weak_source,
)
from headstart.studies.grok_transfer.fnn_to_fnn import LAPTOP as LAPTOP_SIZES
from headstart.studies.grok_transfer.fnn_to_fnn import SMOKE as SMOKE_SIZES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ModularKnobs):
    """The epochs at which the weak table is taken, and the accuracies at which rules stop the weak model."""

    epochs: tuple[int, ...] = (100, 500, 800, 900, 1000, 1100, 1500, 2000)
    rules: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7)


PAPER = Knobs(num_seeds=16, weak_steps=2000)
LAPTOP = Knobs(**vars(LAPTOP_SIZES), epochs=(20, 80, 140, 200, 260, 320, 400, 500))
SMOKE = Knobs(**vars(SMOKE_SIZES), epochs=(20, 60, 100), rules=(0.2, 0.4))
FINDING = (
    "Over the epochs at which the weak table is taken, its model's accuracy and the target's have correlation "
    "{accuracy_correlation}; with 1 / time gap, {gap_correlation}. A rule of 30% instead of 50% takes {rule_cost} of "
    "the FLOPs, weak models and restarts included."
)


def at_epoch(epoch: int) -> str:
    """The arm whose table was taken at an epoch."""
    return f"epoch_{epoch}"


def by_rule(accuracy: float) -> str:
    """The arm whose weak model was stopped at an accuracy."""
    return f"rule_{100 * accuracy:.0f}"


def arms(k: Knobs) -> list[lab.Arm]:
    """The weak model, the target from each of its stages, and the target by each rule."""
    low_rank = target_model(k, k.weak_dim)
    weak, rule = weak_run(k, validated=False), by_rule(k.weak_accuracy)
    tuned = arm(k, rule, f"rule: {k.weak_accuracy:.0%}", low_rank, start=transfer(weak_source(k)), colour=lab.cold())
    lent, out = lab.RateOf(rule), [lab.Arm("weak", "weak model", weak, None, "#777777"), tuned]
    for place, epoch in enumerate(k.epochs):
        start = From(weak, Step(epoch), TransferEmbedding())
        colour = lab.warm(place, len(k.epochs))
        out.append(lab.Arm(at_epoch(epoch), f"epoch {epoch}", replace(tuned.run, start=start), lent, colour))
    for place, accuracy in enumerate((a for a in k.rules if a != k.weak_accuracy), start=1):
        run = replace(tuned.run, start=transfer(weak_source(k, accuracy=accuracy)))
        out.append(lab.Arm(by_rule(accuracy), f"rule: {accuracy:.0%}", run, lent, lab.cold(place, len(k.rules))))
    return out


def weak_accuracy(epoch_of: dict[str, int], results: lab.Results, name: str) -> NDArray[np.float64]:
    """The weak model's accuracy on test pairs at the epoch of an arm, [seeds]."""
    return np.array([np.interp(epoch_of[name], t.steps, t["test_accuracy"]) for t in results.traces["weak"]])


def final_accuracy(results: lab.Results, name: str) -> NDArray[np.float64]:
    """The target's accuracy on test pairs at its end, [seeds]."""
    return results.finals(name)


def inverse_gap(accuracy: float, results: lab.Results, name: str) -> NDArray[np.float64]:
    """1 / time gap of each run, 0 for one that never gets there."""
    return lab.InverseGap(name, accuracy).values(results)


def claims(k: Knobs) -> list[lab.Claim]:
    """The two correlations, the ends of the row, and what rules cost."""
    names = tuple(at_epoch(epoch) for epoch in k.epochs)
    weak = partial(weak_accuracy, dict(zip(names, k.epochs, strict=True)))
    low = min((a for a in k.rules if a != k.weak_accuracy and a >= 0.3), default=min(k.rules))
    return [
        lab.Claim(
            id="accuracy_correlation",
            statement="weak accuracy and the target's final accuracy are positively correlated over the epochs",
            paper="positively correlated (Fig. 7)",
            rule=lab.above(0.0),
            estimate=lab.ArmCorrelation(names, weak, final_accuracy),
            kind=lab.Kind.PRIMARY,
        ),
        lab.Claim(
            id="gap_correlation",
            statement="weak accuracy and 1 / time gap are positively correlated over the epochs",
            paper="a grokked weak model is essential for a minimal delay (Fig. 7)",
            rule=lab.above(0.0),
            estimate=lab.ArmCorrelation(names, weak, partial(inverse_gap, k.accuracy)),
            kind=lab.Kind.PRIMARY,
        ),
        lab.Claim(
            id="late_vs_early",
            statement="the target from the last epoch ends above the one from the first",
            paper="it generalises only after the weak model has (Fig. 7)",
            rule=lab.above(0.0),
            estimate=lab.FinalDifference(names[-1], names[0]),
        ),
        lab.Claim(
            id="rule_cost",
            statement=f"FLOPs to 95%, everything counted: a rule of {low:.0%} over one of {k.weak_accuracy:.0%} "
            "is below 1",
            paper="30% of the test pairs is enough (Section 4.2)",
            rule=lab.below(1.0),
            estimate=lab.TimeRatio(by_rule(low), by_rule(k.weak_accuracy), k.accuracy, "flops", total=True),
            smallest=NO_EFFECT,
        ),
        lab.Claim(
            id="rule_time",
            statement=f"epochs to 95%: a rule of {low:.0%} over one of {k.weak_accuracy:.0%} is above 1",
            paper="not compared",
            rule=lab.above(1.0),
            estimate=lab.TimeRatio(by_rule(low), by_rule(k.weak_accuracy), k.accuracy),
            smallest=NO_EFFECT,
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 7: against weak accuracy, the target's accuracy and 1 / time gap; then what each rule costs."""
    picture.set_size_inches(10.4, 3.4)
    one, two, three = picture.subplots(1, 3)
    k = results.knobs
    names = [at_epoch(epoch) for epoch in k.epochs]
    epoch_of = dict(zip(names, k.epochs, strict=True))
    for ax, values, label in (
        (one, final_accuracy, "target's test accuracy at its end"),
        (two, partial(inverse_gap, k.accuracy), "1 / time gap"),
    ):
        for name in names:
            x, y, colour = weak_accuracy(epoch_of, results, name), values(results, name), results.arms[name].colour
            ax.scatter(x, y, s=7, color=colour, alpha=0.5, linewidths=0)
            ax.scatter(x.mean(), y.mean(), s=46, color=colour, edgecolors="white", label=results.arms[name].label)
        ax.set(xlabel="weak model's test accuracy", ylabel=label)
    two.set_yscale("symlog", linthresh=1e-3)
    one.legend(fontsize=6, loc="lower right")
    for rule in sorted(k.rules):
        lab.draw_curve(three, results, by_rule(rule), "flops", total=True, band=False)
    three.set(title="rules to stop the weak model, all counted", ylabel="test accuracy")
    three.legend(fontsize=7)


STUDY = lab.Study(
    name="grok_transfer/weak_model_quality",
    title="How good the weak model must be",
    paper=PAPER_TITLE,
    figures="Fig. 7",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 5.0, "paper": 3000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("mlp", "grokking"),
)
