"""Which batch, rate and loss find a hidden direction in the fewest steps: a plan from the reduced chain.

For each loss and batch the rate is chosen on some runs of the chain and the time measured on others. Reference: Online
Learning and Information Exponents, Section 3: samples stay at d^(l-1) up to a batch of d^(l/2), where steps on the
squared error stop falling; on the correlation loss they fall on to a batch of d^(l-1).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_nonnegative
from headstart.tasks import Hermite
from headstart.theory.batch_search import BatchChoice, How, Search
from headstart.theory.learnability import Learnability, Outlook, learnability
from headstart.theory.overlaps import Objective
from headstart.theory.reduced_sgd import ReducedSGD

_THRIFT = 2.0  # times the least samples, unless there is a budget
_TOLERANCE = 1.1  # steps within this factor of the least are as few


@dataclass(frozen=True)
class BatchPlan:
    """The curve of choices by loss, ascending in the batch, and the best of all that the budget allows."""

    link: Any
    student: Any
    dim: int
    level: float
    outlook: Learnability
    curves: Mapping[Objective, tuple[BatchChoice, ...]]
    best: BatchChoice
    words: tuple[str, ...]


def plan_batch(
    link: Any,
    dim: int,
    student: Any = None,
    losses: Sequence[Objective] = tuple(Objective),
    *,
    noise: float = 0.0,
    samples: int | None = None,
    batches: Sequence[int] = (),
    seconds_per_step: Mapping[int, float] | None = None,
    level: float = 0.5,
    runs: int = 64,
    seed: int = 0,
) -> BatchPlan:
    """The batch, rate and loss that bring one neuron to overlap `level` with the direction of y = link(<w*, z>).

    Inputs are z ~ N(0, I_dim), every sample is fresh, the neuron stays on the unit sphere and begins cold; `student` is
    its activation, the link itself by default. The best has the least median number of steps, or of seconds with
    `seconds_per_step` {batch: seconds}, among those whose samples are within the budget `samples`, by default twice the
    least; of batches that are as fast within 10% the smallest. `batches` asks for these instead of powers of 2.
    """
    student = _student(link) if student is None else student
    check_count("plan_batch", "dim", dim, minimum=2)
    check_count("plan_batch", "runs", runs, minimum=8)
    check_nonnegative("plan_batch", "noise", noise)
    check_fraction("plan_batch", "level", level)
    outlook = learnability(link, student)
    if outlook.verdict is Outlook.NO or outlook.shared is None:
        raise HeadstartError(f"plan_batch(link={link}, student={student}): this cannot be learned. {outlook.words}")
    exponent = outlook.shared
    chosen = _batches(batches, dim, exponent, samples)
    search = Search(ReducedSGD(link, student, dim, 1, 1.0, noise=noise), outlook, level, runs, seed, seconds_per_step)
    curves = {loss: search.curve(loss, chosen) for loss in dict.fromkeys(losses)}
    best = search.drawn(_best([choice for curve in curves.values() for choice in curve], samples, level))
    return BatchPlan(link, student, dim, level, outlook, curves, best, _words(outlook, dim, exponent, best))


def _student(link: Any) -> Any:
    """The link itself, or the polynomial of its exponent where it has no slope."""
    return link if hasattr(link, "slope") else Hermite(learnability(link, link).exponent)


def _batches(asked: Sequence[int], dim: int, exponent: int, samples: int | None) -> list[int]:
    """The batches to try, ascending: those asked for, or powers of 2 from what can be simulated to d^(l-1)."""
    if samples is not None:
        check_count("plan_batch", "samples", samples)
    for batch in asked:
        check_count("plan_batch", "batches", batch)
        if samples is not None and batch > samples:
            raise HeadstartError(f"plan_batch(batches={tuple(asked)}): {batch} is above the budget, samples={samples}")
    if asked:
        return sorted(set(asked))
    most = 4.0 * float(dim) ** max(exponent - 1, 1)
    return [2**n for n in range(math.floor(math.log2(most if samples is None else min(most, samples))) + 1)]


def _best(choices: Sequence[BatchChoice], samples: int | None, level: float) -> BatchChoice:
    """The fastest within the budget; of those that are as fast the one with the least batch, squared error first."""
    able = [choice for choice in choices if math.isfinite(choice.steps.median)]
    if not able:
        raise HeadstartError(
            f"plan_batch(level={level}): in no batch did half of the runs arrive; use larger batches, or a lower level"
        )
    least = min(choice.samples.median for choice in able)
    budget = _THRIFT * least if samples is None else samples
    allowed = [choice for choice in able if choice.samples.median <= budget]
    if not allowed:
        raise HeadstartError(
            f"plan_batch(samples={samples}): the least that half of the runs need is {least:.3g}; raise the budget"
        )
    fastest = min(choice.time for choice in allowed)
    return min((c for c in allowed if c.time <= _TOLERANCE * fastest), key=lambda c: (c.batch, c.loss != Objective.MSE))


def _words(outlook: Learnability, dim: int, exponent: int, best: BatchChoice) -> tuple[str, ...]:
    """What the numbers do not say by themselves."""
    knee = float(dim) ** (exponent / 2)
    words = [
        f"information exponent {outlook.exponent}. {outlook.words}",
        f"theory: samples stay the same up to a batch of about d^(l/2) = {knee:.3g}; beyond it only the correlation "
        f"loss gains, up to d^(l-1) = {float(dim) ** max(exponent - 1, 1):.3g}",
    ]
    if best.how is not How.EXACT:
        words.append(f"the best is approximate ({best.how}): to draw every sample would take too long")
    words.append(
        "this is theory for Gaussian inputs, fresh samples and one neuron: no promise for real data; measure yours "
        "with `headstart probe --vary batch`"
    )
    return tuple(words)
