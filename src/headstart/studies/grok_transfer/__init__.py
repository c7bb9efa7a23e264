"""Let Me Grok For You: a weak model's embedding removes the delay before a strong model generalises.

What the studies of modular arithmetic share: the task, the weak model with its restarts, the target, and the sweep.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.units import Budget, FullBatch
from headstart.losses import CrossEntropy
from headstart.methods import InitScale, TransferEmbedding
from headstart.models import MLP, Embedding, Model
from headstart.optimizers import AdamW
from headstart.plans import Online
from headstart.run import First, Fresh, From, Reaches, Run
from headstart.tasks import ModularArithmetic, Operation, Split

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_TITLE = "Let Me Grok For You"
# An effect on a time this small would not matter; declared before the runs that are reported.
NO_EFFECT = lab.Within(0.9, 1.1)


@dataclass(frozen=True)
class TargetKnobs(lab.Knobs):
    """The accuracy to reach, how long targets train, and what a sweep tries: every combination of the settings.

    `rungs` are numbers of seeds: all combinations are tried on the first so many, the better half on the next.
    """

    accuracy: float = 0.95
    steps: int = 3000
    record_every: int = 5
    inits: tuple[float, ...] = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
    rates: tuple[float, ...] = (0.001, 0.005, 0.01, 0.05, 0.1)
    decays: tuple[float, ...] = (0.1, 1.0, 2.0, 3.0, 5.0)
    rungs: tuple[int, ...] = (2, 4, 8)


@dataclass(frozen=True)
class PairKnobs(TargetKnobs):
    """Modular arithmetic on pairs of symbols, and the weak model with its rule.

    Of the p^2 pairs, `train_share` are for training and `num_test` of the others (None: all) for evaluation. The weak
    model is stopped when it first has `weak_accuracy` on `validation_share` of the training pairs, which it is not
    trained on, so that no test label chooses; one that does not get there in `weak_steps` is begun anew, at most
    `attempts` times in all.
    """

    modulus: int = 113
    train_share: float = 0.25
    num_test: int | None = None
    weak_dim: int = 4
    weak_width: int = 16
    weak_init: float = 0.5
    weak_rate: float = 0.01
    weak_decay: float = 1.0
    weak_steps: int = 1000
    weak_accuracy: float = 0.5
    validation_share: float = 0.1
    attempts: int = 10


@dataclass(frozen=True)
class ModularKnobs(PairKnobs):
    """The same with a target that is a network of layers over a table of `dim` columns."""

    dim: int = 128
    width: int = 512
    depth: int = 3


def modular_task(k: PairKnobs, operation: Operation = Operation.ADDITION) -> Split:
    """Pairs (a, b) of symbols with their residue, split into training and test pairs."""
    return Split(ModularArithmetic(k.modulus, base=k.modulus, operation=operation), k.train_share, k.num_test)


def modular_run(k: PairKnobs, model: Model, operation: Operation = Operation.ADDITION, steps: int = 0) -> Run:
    """Full-batch AdamW on cross-entropy; the sweep sets initial scale, rate and decay."""
    return Run(
        task=modular_task(k, operation),
        model=model,
        plan=Online(),
        batch=FullBatch(),
        loss=CrossEntropy(),
        optimizer=AdamW(k.rates[0], weight_decay=k.decays[0]),
        methods=(InitScale(k.inits[0]),),
        budget=Budget(steps or k.steps, k.record_every),
    )


def target_model(k: ModularKnobs, rank: int | None = None) -> MLP:
    """The target: a network without biases over a trained table, or over one that is a product."""
    return MLP(k.width, k.depth, bias=False, embedding=Embedding(k.dim, rank=rank))


def weak_run(k: PairKnobs, operation: Operation = Operation.ADDITION, validated: bool = True) -> Run:
    """The weak model: two layers over a table of few dimensions, at fixed settings.

    With `validated` its test rows are the last rows of the target's training rows, and it trains on the others.
    """
    whole = modular_task(k, operation)
    held = round(k.validation_share * whole.num_train)
    task = Split(whole.task, whole.num_train - held, held) if validated else whole
    return Run(
        task=task,
        model=MLP(k.weak_width, bias=False, embedding=Embedding(k.weak_dim)),
        plan=Online(),
        batch=FullBatch(),
        loss=CrossEntropy(),
        optimizer=AdamW(k.weak_rate, weight_decay=k.weak_decay),
        methods=(InitScale(k.weak_init),),
        budget=Budget(k.weak_steps, 20),
    )


def weak_source(
    k: PairKnobs, operation: Operation = Operation.ADDITION, accuracy: float | None = None, validated: bool = True
) -> First:
    """The first attempt at the weak model that gets to its accuracy, and what all attempts cost."""
    reaches = Reaches("test_accuracy", k.weak_accuracy if accuracy is None else accuracy)
    return First(weak_run(k, operation, validated), k.attempts, reaches)


def transfer(source: Run | First, shuffled: bool = False) -> From:
    """The start of a target from a weak model's table."""
    return From(source, via=TransferEmbedding(shuffled))


def grid(k: TargetKnobs) -> lab.Sweep:
    """Initial scale, rate and decay in every combination, by successive halving on the endpoint of the claims."""
    return lab.Sweep(
        (
            lab.Axis("methods.InitScale.factor", values=k.inits),
            lab.Axis("optimizer.lr", values=k.rates),
            lab.Axis("optimizer.weight_decay", values=k.decays),
        ),
        score=lab.TimeToTarget(k.accuracy),
        rungs=k.rungs,
    )


def arm(
    k: PairKnobs,
    name: str,
    label: str,
    model: Model,
    operation: Operation = Operation.ADDITION,
    start: Fresh | From | None = None,
    colour: str | None = None,
) -> lab.Arm:
    """An arm that the sweep tunes, begun fresh or from a weak model."""
    run = modular_run(k, model, operation)
    return lab.Arm(name, label, run if start is None else replace(run, start=start), grid(k), colour)


def fewer(
    id: str,
    what: str,
    paper: str,
    estimate: Callable[[lab.Results], lab.Estimate],
    kind: lab.Kind = lab.Kind.SECONDARY,
) -> lab.Claim:
    """A ratio is below 1; one within `NO_EFFECT` would not matter."""
    return lab.Claim(id, f"{what}, is below 1", paper, lab.below(1.0), estimate, kind, NO_EFFECT)


def saved(k: TargetKnobs, paper: dict[str, str], op: Operation | None = None) -> list[lab.Claim]:
    """What transfer saves against scratch: time gap, epochs, FLOPs with weak models, those with tuning, seconds.

    `paper` says of gap, time, cost and seconds what the paper does; `op` leads the names of arms and claims.
    """
    prefix, leads = ("", "") if op is None else (f"{op}_", f"{op}: ")
    arms = f"{prefix}transfer", f"{prefix}scratch", k.accuracy
    over, all_weak = "over that from scratch", "by transfer, weak models and restarts included"
    to, all_tuning = f"to {k.accuracy:.0%}", "the same with all runs that tuned the target"
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY
    rows: list[tuple[str, str, Callable[[lab.Results], lab.Estimate], lab.Kind]] = [
        ("gap", "the time gap by transfer", lab.TimeGapRatio(*arms), primary),
        ("time", f"the epoch of {k.accuracy:.0%} by transfer", lab.TimeRatio(*arms), primary),
        ("cost", f"the FLOPs {to} {all_weak}", lab.TimeRatio(*arms, "flops", total=True), secondary),
        ("all_cost", all_tuning, lab.TotalCostRatio(*arms), secondary),
        ("seconds", f"the seconds {to} {all_weak}", lab.SecondsRatio(*arms), secondary),
    ]
    return [
        fewer(f"{prefix}{id}", f"{leads}{what}, {over}", paper.get(id, "not counted"), estimate, kind)
        for id, what, estimate, kind in rows
    ]


def draw_grokking(ax: "Axes", results: lab.Results, arms: Sequence[str], title: str, target: float) -> None:
    """Test accuracy of each arm, and its training accuracy as a dashed line."""
    train = lab.Curve("accuracy", lambda trace: trace["train_accuracy"])
    for name in arms:
        lab.draw_curve(ax, results, name)
        test = ax.lines[-1]
        lab.draw_curve(ax, results, name, curve=train, band=False)
        ax.lines[-1].set(linestyle="--", linewidth=0.9, color=test.get_color(), label=None)
    ax.axhline(target, color="#888888", linewidth=0.8, linestyle=":")
    ax.set(title=title, ylabel="accuracy (dashed: training)", ylim=(-0.02, 1.02))
    lab.legend_below(ax)
