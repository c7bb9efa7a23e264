"""Landscape-Aware Growing: a trained Transformer grown in depth, by which operator, and how soon one can tell.

What the studies share: their knobs, parents and children as arms, the losses of all children of a parent as one
`Growth`, what is asked of one, and the panels of the thesis. The seeds of a study are its parents: each has initial
weights and windows of text of its own. Another order has other windows after the growth, for all children alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError, check_count
from headstart.core.units import Batch, Budget
from headstart.losses import CrossEntropy
from headstart.measures import correlations, recall, regrets, self_correlation, successive_halving, trailing_mean
from headstart.methods import Grow, NewLayers, design_space
from headstart.models import Activation, Norm, Readout, Transformer
from headstart.optimizers import Adafactor, AdamW, Constant, WarmUp
from headstart.plans import Online
from headstart.run import Carry, From, Run
from headstart.tasks import BPE, Causal, Characters, Language, MadeText

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER_TITLE = "Landscape-Aware Growing: The Power of a Little LAG"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GrowingKnobs(lab.Knobs):
    """Text, model, pretraining and growth; num_seeds is the number of parents, `orders` that of each one's data orders.

    The final loss is the mean of the `last` evaluations, LAG's that of the `trailing` ones up to step `lag`: windows
    that are fixed here. `symbols` above 256 are those of BPE, else characters; `text` "made" needs no file, and several
    texts are "a+b" with their `shares`.
    """

    num_seeds: int = 3
    num_selection_seeds: int = 1
    orders: int = 2
    text: str = "gutenberg"
    shares: tuple[float, ...] = ()
    symbols: int = 64
    length: int = 32
    windows: int = 64
    depth: int = 12
    layers: int = 4
    width: int = 32
    heads: int = 2
    batch: int = 16
    rate: float = 1e-3
    warm_up: int = 100
    pretraining: int = 1500
    steps: int = 600
    record_every: int = 10
    lag: int = 100
    trailing: int = 3
    last: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("orders", "depth", "layers", "trailing", "last", "record_every"):
            check_count("knobs", name, getattr(self, name))
        if self.lag % self.record_every or self.lag >= self.steps:
            raise HeadstartError(f"lag={self.lag}: give a recorded step before the last, {self.steps}")


# The knobs of smoke presets.
SMOKE: dict[str, Any] = {
    "num_seeds": 2, "orders": 2, "text": "made", "symbols": 32, "length": 8, "windows": 4, "depth": 2, "layers": 1,
    "width": 8, "heads": 1, "batch": 4, "warm_up": 5, "pretraining": 8, "steps": 12, "record_every": 2, "lag": 4,
    "last": 2,
}  # fmt: skip


def language(k: GrowingKnobs, objective: Any = Causal()) -> Language:  # noqa: B008
    """Windows of the text."""
    text: Any = MadeText() if k.text == "made" else tuple(k.text.split("+")) if "+" in k.text else k.text
    vocabulary = BPE(k.symbols) if k.symbols > 256 else Characters(k.symbols)
    return Language(text, k.length, objective, vocabulary, k.windows, shares=k.shares)


def parent(k: GrowingKnobs, **changes: Any) -> Run:
    """A post-norm decoder, as deep as before the growth, after its warm-up at a constant rate."""
    run = Run(
        task=language(k),
        model=Transformer(
            k.width,
            k.depth,
            k.heads,
            causal=True,
            readout=Readout.TOKENS,
            activation=Activation.GELU,
            norm=Norm.LAYER,
            post_norm=True,
            tied=True,
        ),
        plan=Online(),
        loss=CrossEntropy(),
        optimizer=AdamW(k.rate, schedule=WarmUp(k.warm_up)),
        batch=Batch(k.batch),
        budget=Budget(k.pretraining, record_every=max(k.record_every, k.pretraining // 15)),
    )
    return replace(run, **changes)


def grown(source: Run, operator: Grow, budget: Budget, order: int = 0, **changes: Any) -> Run:
    """The source grown after its last step, its moments carried, at a constant rate."""
    task, model, optimizer = source.task, source.model, source.optimizer
    assert isinstance(task, Language)
    assert isinstance(model, Transformer)
    assert isinstance(optimizer, AdamW | Adafactor)
    run = replace(
        source,
        task=replace(task, order=order),
        model=replace(model, depth=model.depth + operator.layers),
        optimizer=replace(optimizer, schedule=Constant()),
        start=From(source, via=operator, carry=Carry(moments=True)),
        budget=budget,
    )
    return replace(run, **changes)


def operators(k: GrowingKnobs) -> tuple[Grow, ...]:
    """The design space at every other half of the new layers: 30 operators, at even indices, for 12 that become 16."""
    return design_space(k.depth, k.layers, indices=range(0, k.depth - k.layers + 1, max(1, k.layers // 2)))


def share_left(k: GrowingKnobs) -> str:
    """LAG's steps as a share of the training that remains."""
    return f"{100 * k.lag / k.steps:.2g}% of what remains"


def name_of(operator: Grow, order: int, group: str = "") -> str:
    """The arm of a child."""
    return f"{group}{operator.new}_{operator.index}_{operator.block}_{order}"


def children(k: GrowingKnobs, source: Run, group: str = "", **options: Any) -> list[lab.Arm]:
    """The parent, and its children by every operator in every order; `options` go to the arm, "run" to its run."""
    changes = options.pop("run", {})
    budget = Budget(k.steps, record_every=k.record_every)
    arms = [lab.Arm(f"{group}parent", f"{k.depth} layers, before the growth", source, None)]
    for order in range(k.orders):
        for operator in operators(k):
            run = grown(source, operator, budget, order, **changes)
            label = f"{operator.label}, order {order}"
            arms.append(lab.Arm(name_of(operator, order, group), label, run, None, **options))
    return arms


@dataclass(frozen=True)
class Growth:
    """The children of one parent on one order of data: `losses` [operators, records] at `steps`, held out."""

    knobs: Any
    operators: tuple[Grow, ...]
    steps: NDArray[np.int64]
    losses: Floats
    parent: float

    @property
    def final(self) -> Floats:
        """The mean of the last evaluations of each child, a window fixed beforehand."""
        return np.asarray(self.losses[:, -self.knobs.last :].mean(axis=1))

    @property
    def smooth(self) -> Floats:
        """Means of trailing windows, what LAG chooses by; step 0 is itself."""
        return trailing_mean(self.losses, self.knobs.trailing)

    def at(self, step: int) -> int:
        """The number of a record."""
        return int(np.searchsorted(self.steps, step))

    def only(self, new: str) -> "Growth":
        """The children whose new layers begin in one way."""
        rows = [i for i, operator in enumerate(self.operators) if operator.new == new]
        return replace(self, operators=tuple(self.operators[i] for i in rows), losses=self.losses[rows])

    def correlation(self, step: int, ranks: bool = True) -> float:
        """Of the losses at a step with the final ones."""
        return float(correlations(self.smooth, self.final, ranks)[self.at(step)])

    def regret(self, chosen: int) -> float:
        """The relative regret (eq. 5.2) of a child."""
        return float((self.final[chosen] - self.final.min()) / np.ptp(self.final))

    def lag(self, step: int) -> int:
        """The child that LAG chooses at a step."""
        return int(np.argmin(self.smooth[:, self.at(step)]))

    def on_top(self, new: str) -> int:
        """The child that has a copy of its last block, or a random block, on top."""
        depth, layers = self.knobs.depth, self.knobs.layers
        return self.operators.index(Grow.on_top(depth, layers, NewLayers(new)))

    def halved(self) -> int:
        """The child that successive halving chooses: a quarter, a half and all of LAG's steps."""
        recorded = [self.steps[self.at(self.knobs.lag // part)] for part in (4, 2, 1)]
        return successive_halving(self.smooth, self.steps, tuple(dict.fromkeys(int(s) for s in recorded))).choice

    def raised(self) -> Floats:
        """By how much each operator raises the loss of the parent."""
        return self.losses[:, 0] - self.parent


def growths(results: lab.Results, group: str = "") -> list[list[Growth]]:
    """One for every parent and order: [parents][orders]."""
    k = results.knobs
    before = results.traces[f"{group}parent"].stack("test_loss", np.inf)[:, -1]
    found: list[list[Growth]] = [[] for _ in before]
    for order in range(k.orders):
        traces = [results.traces[name_of(operator, order, group)] for operator in operators(k)]
        losses = np.array([each.stack("test_loss", np.inf) for each in traces])  # [operators, parents, records]
        for number, loss in enumerate(before):
            found[number].append(Growth(k, operators(k), traces[0][number].steps, losses[:, number], float(loss)))
    return found


@dataclass(frozen=True)
class MeanOver:
    """The mean over parents and orders of a number of one growth; 95% by the bootstrap over parents.

    Beside it: the least and the largest of all growths.
    """

    of: Callable[[Growth], float]
    group: str = ""

    arms: ClassVar[tuple[str, ...]] = ()

    def _values(self, results: lab.Results) -> Floats:
        return np.array([[self.of(growth) for growth in orders] for orders in growths(results, self.group)])

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean."""
        values = self._values(results).mean(axis=1)
        return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The range over growths."""
        values = self._values(results)
        return {"from the least growth to the largest": lab.Estimate(float(values.mean()), values.min(), values.max())}


def between_orders(results: lab.Results) -> lab.Estimate:
    """Spearman's correlation of the final losses of a parent's children in one order with those in another."""

    def agreement(orders: Sequence[Growth]) -> float:
        finals = np.array([growth.final for growth in orders]).T
        heatmap = self_correlation(finals)
        return float(heatmap[np.triu_indices(len(heatmap), 1)].mean())

    values = np.array([agreement(orders) for orders in growths(results)])
    return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def draw_against_final(ax: "Axes", growth: Growth, step: int) -> None:
    """Fig. 5.2: the final loss of every child against its loss at a step."""
    for new, mark in (("random", "o"), ("duplicate", "^")):
        part = growth.only(new)
        ax.plot(part.smooth[:, part.at(step)], part.final, mark, markersize=4, label=new)
    ax.set_xlabel(f"held-out loss {step} steps after the growth")
    ax.set_ylabel("final loss")
    ax.set_title(f"Spearman {growth.correlation(step):.2f}, Pearson {growth.correlation(step, ranks=False):.2f}")


def draw_heatmap(ax: "Axes", found: Sequence[Sequence[Growth]]) -> None:
    """Fig. 5.3, top left: the self-correlation, its mean over growths, up to twice LAG's steps."""
    first = found[0][0]
    end = first.at(min(2 * first.knobs.lag, int(first.steps[-1]))) + 1
    mean = np.mean([self_correlation(g.smooth[:, :end]) for orders in found for g in orders], axis=0)
    span = (0.0, float(first.steps[end - 1]))
    shown = ax.imshow(mean, origin="lower", extent=(*span, *span), vmin=-1, vmax=1, cmap="RdBu_r")
    ax.figure.colorbar(shown, ax=ax, shrink=0.8)
    ax.grid(visible=False)
    ax.set_title("Spearman between steps")
    ax.set_xlabel("step after the growth")


def draw_by_step(ax: "Axes", found: Sequence[Sequence[Growth]], of: Callable[[Growth], Floats], label: str) -> None:
    """A quantity of every record, its mean over growths, and every growth in grey."""
    curves = np.array([of(growth) for orders in found for growth in orders], dtype=float)
    steps = found[0][0].steps
    ax.plot(steps, curves.T, color="0.85", linewidth=0.6)
    ax.plot(steps, curves.mean(axis=0), label=label)
    ax.set_xlabel("step after the growth")


def spearman(growth: Growth) -> Floats:
    """With the final losses, at every record."""
    return correlations(growth.smooth, growth.final)


def relative_regret(growth: Growth) -> Floats:
    """Of LAG at every record."""
    return regrets(growth.smooth, growth.final)


def recalled(growth: Growth, k: int) -> Floats:
    """Whether the best is among the k best at every record."""
    return recall(growth.smooth, growth.final, k).astype(float)


# BERT-base as the thesis has it (C.1.1), on a causal task; the text is a user's own.
BERT: dict[str, Any] = {
    "num_seeds": 2, "orders": 1, "text": "books_and_wikipedia", "symbols": 30_522, "length": 512, "windows": 2048,
    "width": 768, "heads": 12, "batch": 256, "rate": 1e-4, "warm_up": 10_000, "pretraining": 500_000,
    "steps": 100_000, "record_every": 100, "lag": 200,
}  # fmt: skip


def in_orders(k: GrowingKnobs, name: str) -> tuple[str, ...]:
    """The arms of one name, one for every order of data."""
    return tuple(f"{name}_{order}" for order in range(k.orders))


def losses_of(results: lab.Results, arm: str, step: int | None = None) -> Floats:
    """The held-out loss of every parent's run: the mean of its last evaluations, or the one at a recorded step."""
    curves = results.traces[arm].stack("test_loss", np.inf)
    if step is None:
        return np.asarray(curves[:, -results.knobs.last :].mean(axis=1))
    return np.asarray(curves[:, int(np.searchsorted(results.traces[arm][0].steps, step))])


@dataclass(frozen=True)
class LossLess:
    """The held-out loss of some arms less that of others, both means over them; 95% by the bootstrap over parents."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    step: int | None = None

    @property
    def arms(self) -> tuple[str, ...]:
        """All that are compared."""
        return self.one + self.other

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean difference."""
        sides = [
            np.mean([losses_of(results, arm, self.step) for arm in arms], axis=0) for arms in (self.one, self.other)
        ]
        values = sides[0] - sides[1]
        return lab.bootstrap(lambda rows: float(values[rows].mean()), len(values))


def smooth_losses(results: lab.Results, arms: Sequence[str]) -> Floats:
    """The held-out losses of every parent by record, trailing means, the mean over arms: [parents, records]."""
    curves = np.mean([results.traces[arm].stack("test_loss", np.nan) for arm in arms], axis=0)
    return trailing_mean(curves, results.knobs.trailing)


def draw_differences(
    ax: "Axes", results: lab.Results, lines: Sequence[tuple[str, tuple[str, ...]]], other: tuple[str, tuple[str, ...]]
) -> None:
    """By how much the loss of each line is above that of another, paired by parent, by step after the growth."""
    steps, less = results.traces[other[1][0]][0].steps, smooth_losses(results, other[1])
    for label, arms in lines:
        draw_range(ax, steps, smooth_losses(results, arms) - less, label)
    finish_differences(ax, f"held-out loss less that of {other[0]}")


def draw_range(ax: "Axes", x: NDArray[Any], curves: Floats, label: str, colour: str | None = None) -> None:
    """The mean curve, and the range of all: [curves, records]."""
    (line,) = ax.plot(x, curves.mean(axis=0), label=label, color=colour)
    ax.fill_between(x, curves.min(axis=0), curves.max(axis=0), color=line.get_color(), alpha=0.15, linewidth=0)


def finish_differences(ax: "Axes", says: str) -> None:
    """A line at 0, a legend below, and no room for the first tenth of the steps, where a growth has just been."""
    lines = [np.array(line.get_data()) for line in ax.get_lines()]
    late = np.concatenate([y[x >= x[0] + 0.1 * (x[-1] - x[0])] for x, y in lines])
    low, high = min(0.0, late.min()), max(0.0, late.max())
    ax.set_ylim(low - 0.3 * (high - low), high + 0.3 * (high - low))
    ax.axhline(0.0, color="0.3", linewidth=0.8)
    ax.set_ylabel(says)
    ax.set_xlabel("step after the growth")
    lab.legend_below(ax)
