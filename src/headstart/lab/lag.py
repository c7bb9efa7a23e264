"""Landscape-aware growing of a model of your own: every operator for a few steps, and the best goes on.

Reference: Karp et al., Landscape-Aware Growing (2024), Section 5.4.1; the cheap version halves the operators after
Jamieson and Talwalkar, Non-stochastic Best Arm Identification and Hyperparameter Optimization (2016).
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.streams import check_seed
from headstart.lab.probe_problem import seeded
from headstart.lab.progress import Progress, display
from headstart.methods import Grow, Grown, grow
from headstart.methods.own_growth import plan_growth

if TYPE_CHECKING:
    import torch

# How the functions of a user are called.
_CALLED = {"step": "step(model, optimizer, batch)", "validate": "validate(model), which returns a loss"}


@dataclass(frozen=True)
class LagChild:
    """One operator: the steps at which its child was validated, the losses there, and the score by which it was judged.

    The score is the mean of the last losses in the window; `steps[-1]` is how far it was trained.
    """

    operator: Grow
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    score: float
    seconds: float


@dataclass(frozen=True)
class Lag:
    """The outcome of `hs.lag`. Print it. `grown` is the best child as it is after its steps: go on training it.

    `children` are in the order of the operators. `parent` is the ungrown model on the same batches, or None. Of the
    `steps` that all this took, those of the best child are not lost: `extra_steps` are, in `seconds` of everything.
    """

    grown: Grown
    children: tuple[LagChild, ...]
    parent: LagChild | None
    steps: int
    extra_steps: int
    seconds: float

    @property
    def best(self) -> LagChild:
        """The child that goes on."""
        return next(child for child in self.children if child.operator == self.grown.operator)

    def __str__(self) -> str:
        ranked = sorted(self.children, key=lambda child: (-child.steps[-1], child.score))
        rows = [(child.operator.label, child) for child in ranked]
        rows += [] if self.parent is None else [("not grown", self.parent)]
        wide = max(len(name) for name, _ in rows)
        lines = [f"{'operator':<{wide}}  steps  loss at growth    score"]
        lines += [f"{n:<{wide}}  {c.steps[-1]:>5}  {c.losses[0]:>14.4f}  {c.score:>7.4f}" for n, c in rows]
        lines.append(f"Goes on: {self.best.operator.label}.")
        lines.append(
            f"Cost: {self.steps} steps and {self.seconds:.0f} s, of which {self.extra_steps} steps are not in the "
            "model that goes on."
        )
        return "\n".join(lines)


def lag(
    model: "torch.nn.Module",
    optimizer: "torch.optim.Optimizer | None",
    step: Callable[[Any, Any, Any], object],
    data: Iterable[Any],
    operators: Sequence[Grow],
    k: int,
    *,
    validate: Callable[[Any], float],
    every: int | None = None,
    window: int = 1,
    halving: bool = False,
    parent: bool = True,
    stack: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Lag:
    """Grow the model by every operator, train each child for `k` steps on the same batches, and keep the best.

        found = hs.lag(model, optimizer, step, loader, hs.design_space(12, 4), k=200, validate=validate)
        model, optimizer = found.grown.model, found.grown.optimizer

    `step(model, optimizer, batch)` takes one optimizer step; the first k batches of `data` are kept and shown to all
    children in one order, under one seed of torch. `validate(model)` is a loss, lower being better, asked `every` so
    many steps (by default ten times), before the first and after the last. The score of a child is the mean of its last
    `window` losses; with k = 0 it is the loss right after growth, which a function-preserving operator wins. `halving`
    trains all for k/4 steps, the better half to k/2 and the better half of these to k: it costs about half as much, and
    holds all children in memory until the first cut. With `parent` the ungrown model is trained on the same batches
    too, to be looked at beside the children; it is never chosen.

    Choose k after the fast fall of the loss that follows growth: the paper took 0.2% of the training that remained for
    BERT and 2% for UL2. The given model and optimizer stay as they are.
    """
    check_count("lag", "k", k, minimum=0)
    check_count("lag", "window", window)
    check_seed(seed)
    for name, flag in (("halving", halving), ("parent", parent)):
        check_flag("lag", name, flag)
    if every is not None:
        check_count("lag", "every", every)
    asked = tuple(operators) if isinstance(operators, Sequence) else ()
    if not asked or not all(isinstance(operator, Grow) for operator in asked) or len(set(asked)) < len(asked):
        raise HeadstartError(
            f"lag(operators={operators!r}): give different operators, such as design_space(depth=12, layers=4)"
        )
    for name, function in (("step", step), ("validate", validate)):
        if not callable(function):
            raise HeadstartError(f"lag({name}={function!r}): give a function, {_CALLED[name]}")
    if not isinstance(data, Iterable):
        raise HeadstartError(f"lag(data={data!r}): give batches, such as a list of them or a DataLoader")
    batches = list(islice(data, k))
    if len(batches) < k:
        raise HeadstartError(f"lag(k={k}): the data have {len(batches)} batches; give more, or k={len(batches)}")
    for operator in asked:  # what cannot grow says so before anything is trained
        plan_growth(model, optimizer, operator, stack)
    session = _Session(step, validate, batches, every or max(1, k // 10), window, seed)
    rungs = sorted({k // 4, k // 2, k}) if halving else [k]
    began = time.monotonic()
    with progress if progress is not None else display() as shown:
        shown.begin(f"lag: {len(asked)} operators, {k} steps", float(_planned(len(asked), rungs) + parent * k))
        session.shown = shown
        control = _Child(Grow(layers=0), grow(model, optimizer, Grow(layers=0), stack=stack)) if parent else None
        if control is not None:
            session.train(control, k)
            control.grown = None
        children = [_Child(operator) for operator in asked]
        best = session.search(children, rungs, lambda o: grow(model, optimizer, o, stack=stack, seed=seed))
    assert best.grown is not None
    if not math.isfinite(best.score(window)):
        raise HeadstartError(
            f"lag(k={k}): after {k} steps no child has a loss that is a number; lower the optimizer's learning rate, "
            "or look at what validate returns"
        )
    all_steps = session.done
    seen = tuple(child.seen(window) for child in children)
    beside = None if control is None else control.seen(window)
    return Lag(best.grown, seen, beside, all_steps, all_steps - k, time.monotonic() - began)


def _planned(count: int, rungs: Sequence[int]) -> int:
    """The steps of all children."""
    total, before = 0, 0
    for rung in rungs:
        total += count * (rung - before)
        before, count = rung, _kept(count)
    return total


def _kept(count: int) -> int:
    """How many of so many go on from a rung."""
    return -(-count // 2)


@dataclass
class _Child:
    """An operator under way; `grown` is None before its first step and after it was given up."""

    operator: Grow
    grown: Grown | None = None
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def label(self) -> str:
        """A name for the progress bar."""
        return self.operator.label if self.operator.layers else "not grown"

    def score(self, window: int) -> float:
        """The mean of the last losses; infinite if one is no number."""
        recent = self.losses[-window:]
        mean = sum(recent) / len(recent)
        return mean if math.isfinite(mean) else math.inf

    def seen(self, window: int) -> LagChild:
        return LagChild(self.operator, tuple(self.steps), tuple(self.losses), self.score(window), self.seconds)


@dataclass
class _Session:
    """What all children share: how they are trained and validated, on which batches."""

    step: Callable[[Any, Any, Any], object]
    validate: Callable[[Any], float]
    batches: Sequence[Any]
    every: int
    window: int
    seed: int
    done: int = 0
    shown: Any = None

    def search(self, children: list[_Child], rungs: Sequence[int], made: Callable[[Grow], Grown]) -> _Child:
        """The best child at the last rung; all others are given up on the way."""
        going = list(children)
        for rung in rungs:
            for child in going:
                child.grown = child.grown or made(child.operator)
                self.train(child, rung)
                if rung == rungs[-1]:  # only the best so far is held
                    for other in sorted(going, key=self._rank)[1:]:
                        other.grown = None if other.steps[-1:] == [rung] else other.grown
            ranked = sorted(going, key=self._rank)
            going = ranked[: _kept(len(ranked))] if rung != rungs[-1] else ranked[:1]
            for child in ranked[len(going) :]:
                child.grown = None
        return going[0]

    def _rank(self, child: _Child) -> tuple[int, float]:
        return (-child.steps[-1], child.score(self.window)) if child.steps else (0, math.inf)

    def train(self, child: _Child, until: int) -> None:
        """Go on to a step; the seed is one for all children at that step."""
        assert child.grown is not None
        model, optimizer, began = child.grown.model, child.grown.optimizer, time.monotonic()
        first = child.steps[-1] if child.steps else 0
        with seeded(self.seed + first, str(next(model.parameters()).device)):
            if not child.steps:
                self._look(child, 0)
            for number in range(first, until):
                self.step(model, optimizer, self.batches[number])
                self.done += 1
                if (number + 1) % self.every == 0 or number + 1 == until:
                    self._look(child, number + 1)
                    self.shown.update(float(self.done), child.label)
        child.seconds += time.monotonic() - began

    def _look(self, child: _Child, at: int) -> None:
        """Validate without moving the generator or the mode that the training is in."""
        import torch

        assert child.grown is not None
        modes = [(part, part.training) for part in child.grown.model.modules()]
        with torch.random.fork_rng():
            loss = self.validate(child.grown.model)
        for part, mode in modes:
            part.training = mode
        try:
            child.losses.append(float(loss))
        except (TypeError, ValueError):
            raise HeadstartError(f"lag(validate=...): it returned {loss!r}; return one number, a loss") from None
        child.steps.append(at)
