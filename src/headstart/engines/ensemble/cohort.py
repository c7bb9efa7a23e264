"""Members that go in lockstep: one stack of weights, from where they stand to the end of their budget."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.metric import Metric
from headstart.engines.engine import Interrupted, Watch
from headstart.engines.ensemble import updates
from headstart.engines.ensemble.feed import Feed, Pair
from headstart.engines.ensemble.member import Member, value_names
from headstart.engines.ensemble.network import Stack, network
from headstart.engines.lower import has_diverged
from headstart.models import Weights
from headstart.run import Step
from headstart.tasks import Task

# Members that diverged leave the stack once the living are no more than this share of it: a new size costs a trace.
_LIVING = 0.75
# Every member has a checkpoint file, synced to disk, so larger cohorts write theirs more seldom.
_FILES_AT_A_TIME = 32


@dataclass(frozen=True)
class Limits:
    """How much a cohort takes at once: samples a member in one pass, and bytes of fresh samples drawn ahead."""

    rows: int
    block_bytes: float


class Cohort:
    """Members of one group at one step. Row i of every stack belongs to `rows[i]`, which may have diverged."""

    def __init__(self, members: Sequence[Member], device: str, limits: Limits, checkpoint_seconds: float) -> None:
        self.clock = time.monotonic()
        self.members, self.device, self.limits = list(members), device, limits
        self.checkpoint_seconds = checkpoint_seconds * max(1.0, len(members) / _FILES_AT_A_TIME)
        first = members[0]
        self.run, self.course = first.run, first.lowered.course
        self.step, self.samples = first.step, list(first.samples)
        # One place for all, or, where metrics decide, one each.
        self.places = [member.place for member in members] if self.course.adaptive else [first.place]
        self.observed: Sequence[float | None] = [None] * len(self.places)
        self.taken = self.samples[-1] if self.samples else 0
        self.network = network(self.run, device)
        self.names, self.recorded = value_names(self.run), self.run.budget.recorded_steps()
        self.rows = self.members
        self.curves = np.empty((len(self.recorded), len(members), len(self.names)))
        self.column = {member.index: i for i, member in enumerate(members)}
        self.saved: set[int] = set()
        for i, member in enumerate(members):
            if member.values is not None:
                self.curves[: len(self.samples), i] = member.values
        self.weights = self._stacked([member.current_weights() for member in members])
        moments = [member.moments for member in members if member.moments]
        self._set_up([self._stacked(each) for each in zip(*moments, strict=True)])
        for member in members:
            member.weights = member.moments = None

    def finish(self, watch: Watch | None) -> None:
        """Train every member to the end of the budget or to divergence, and leave in it what it recorded."""
        saved = time.monotonic()
        keep_steps = {at.step for m in self.members for at in m.job.keep if isinstance(at, Step)}
        while True:
            self.places = [
                self.course.observe(place, self.step, metric)
                for place, metric in zip(self.places, self.observed, strict=True)
            ]
            if len(self.samples) < len(self.recorded) and self.step == self.recorded[len(self.samples)]:
                living = self._record()
                if not living:
                    break
                answers = [watch(member.index, self.step) for member in living] if watch else []
                stop = any(answers)
                due = time.monotonic() - saved > self.checkpoint_seconds
                if (due or stop) and self.step < self.run.budget.steps:
                    self._save()
                    saved = time.monotonic()
                    if stop:
                        raise Interrupted
                self._drop_diverged(living)
            elif self.step in keep_steps:
                self._keep(None)
            if self.step == self.run.budget.steps:
                break
            self._advance()
        for member in self.members:
            self._hand_over(member)

    @torch.no_grad()
    def _advance(self) -> None:
        """One optimizer step of every member on the mean loss of its batch; what its course observes."""
        size = self.feed.size(self.places)
        gradients, score = self._gradients(self.feed.batch(self.places, self.step), size)
        if self.course.adaptive:
            self.observed = (score / size).tolist()
        if self.aside is not None and self.course.aside is not None:
            batch = self.aside.batch([self.course.aside.course.start(0)], self.step)
            others, _ = self._gradients(batch, self.course.samples_aside)
            learn_aside = [p.name for p in self.members[0].lowered.parameters if p.role in self.course.aside.roles]
            gradients = gradients | {name: others[name] for name in learn_aside}
        self.step += 1
        self.taken += size + self.course.samples_aside
        self.update(self.weights, gradients, self.step)

    def _gradients(self, batch: Iterable[Pair], size: int) -> tuple[Stack, torch.Tensor]:
        """Gradients of the mean loss over `size` samples, and the sums of the leading metric if the course adapts."""
        count = torch.tensor(float(size), device=self.device)
        total: Stack | None = None
        score = torch.zeros(len(self.rows), dtype=torch.float64, device=self.device)
        for x, y in batch:
            part, prediction = self.network.gradients(self.weights, x, y, count)
            if self.course.adaptive:
                score += self._score(0, prediction, y, _once(y))
            # Not in place: the gradients of two parameters may be one tensor.
            total = {name: total[name] + gradient for name, gradient in part.items()} if total else part
        assert total is not None
        return total, score

    def _record(self) -> list[Member]:
        """Record every living member, and return them; one that has diverged keeps what it had."""
        values, at = self._evaluate(), len(self.samples)
        self.curves[at, [self.column[member.index] for member in self.rows]] = values
        living = [member for member in self.rows if not member.diverged]
        now = time.monotonic()
        for member in living:
            member.seconds += (now - self.clock) / len(living)
        self.clock = now
        for member, row in zip(self.rows, values, strict=True):
            first = self._named(self.curves[0, self.column[member.index]]) if at else None
            if not member.diverged and has_diverged(self._named(row), first):
                member.samples, member.diverged = list(self.samples), True
        self.samples.append(self.taken)
        self._keep(values)
        return [member for member in living if not member.diverged]

    def _named(self, row: NDArray[np.float64]) -> dict[str, float]:
        return dict(zip(self.names, row.tolist(), strict=True))

    @torch.no_grad()
    def _evaluate(self) -> NDArray[np.float64]:
        """Records of all rows, float64[members, names]: test set, next batch, norms."""
        columns: list[torch.Tensor] = []
        batch = ((x, y, _once(y)) for x, y in self.feed.batch(self.places, self.step))
        for parts in (self.feed.test_parts(), batch):
            sums: list[torch.Tensor] = []
            num: Any = 0
            for x, y, counts in parts:
                scores = self._scores(self.network.predictions(self.weights, x), y, counts)
                sums = [a + b for a, b in zip(sums, scores, strict=True)] if sums else scores
                num += counts.sum(dim=-1)
            columns += [total / num for total in sums]
        squares: dict[str, torch.Tensor] = {}
        for parameter in self.members[0].lowered.parameters:
            square = self.weights[parameter.name].double().square().flatten(1).sum(dim=1)
            squares[parameter.role] = squares[parameter.role] + square if parameter.role in squares else square
        columns += [square.sqrt() for square in squares.values()]
        return torch.stack(columns, dim=1).cpu().numpy()

    def _scores(self, prediction: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> list[torch.Tensor]:
        """Sums over samples of every metric and of the loss, float64[members] each. Both take samples in any number."""
        sums = [self._score(number, prediction, y, counts) for number in range(len(self.run.task.metrics))]
        return [*sums, _sums(self.run.loss, prediction, y, counts)]

    def _score(self, number: int, prediction: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Sums over samples of one metric, float64[members]; members may have tasks that score differently."""
        sums = prediction.new_empty(len(prediction), dtype=torch.float64)
        for rows, metrics in self.metrics:
            sums[rows] = _sums(metrics[number].score, prediction[rows], y[rows], counts[rows])
        return sums

    def _keep(self, values: NDArray[np.float64] | None) -> None:
        """Copy the weights of every living member at each moment asked for that is now."""
        for row, member in enumerate(self.rows):
            if member.diverged or len(member.kept) == len(member.job.keep):
                continue
            last = None if values is None else self._named(values[row])
            for at in member.wanted(self.step, last):
                member.kept[at] = _row(self.weights, row)

    def _drop_diverged(self, living: list[Member]) -> None:
        """Give up the rows of members that diverged, once there are enough of them."""
        if len(living) > _LIVING * len(self.rows):
            return
        index = torch.tensor([i for i, member in enumerate(self.rows) if not member.diverged], device=self.device)
        if self.course.adaptive:
            self.places = [self.places[i] for i in index.tolist()]
            self.observed = [self.observed[i] for i in index.tolist()]
        self.rows = living
        self.weights, *moments = (
            {name: tensor.index_select(0, index) for name, tensor in stack.items()}
            for stack in (self.weights, *self.update.moments)
        )
        self._set_up(moments)

    def _set_up(self, moments: Sequence[Stack]) -> None:
        """The update and the data of all rows, and which metrics score which."""
        runs = [member.run for member in self.rows]
        self.update = updates.build(runs, [member.lowered for member in self.rows], self.weights, moments)
        lowered = [member.lowered for member in self.rows]
        self.feed = Feed(lowered, self.device, self.limits.rows, self.limits.block_bytes)
        aside = [each.aside for each in lowered if each.aside is not None]
        self.aside = Feed(aside, self.device, self.limits.rows, self.limits.block_bytes) if aside else None
        by_task: dict[Task, list[int]] = {}
        for row, run in enumerate(runs):
            by_task.setdefault(run.task, []).append(row)
        self.metrics: list[tuple[slice | list[int], tuple[Metric, ...]]] = [
            (slice(None) if len(by_task) == 1 else rows, task.metrics) for task, rows in by_task.items()
        ]

    def _stacked(self, weights: Sequence[Weights]) -> Stack:
        return {
            p.name: torch.from_numpy(np.stack([each[p.name] for each in weights])).to(self.device)
            for p in self.members[0].lowered.parameters
        }

    def _hand_over(self, member: Member) -> None:
        """Put into the member what the cohort knows of it, but for its weights."""
        if not member.diverged:
            member.samples = list(self.samples)
        member.step = self.step
        if not self.course.adaptive:
            member.place = self.places[0]
        else:
            its = [place for place, row in zip(self.places, self.rows, strict=True) if row is member]
            member.place = its[0] if its else member.place
        member.values = self.curves[: len(member.samples), self.column[member.index]]

    def _save(self) -> None:
        """Write the checkpoint of every member; that of one that diverged says so, and is written once."""
        stacks = [{name: tensor.cpu() for name, tensor in s.items()} for s in (self.weights, *self.update.moments)]
        row = {member.index: i for i, member in enumerate(self.rows)}
        for member in self.members:
            if member.job.checkpoint is None or member.index in self.saved:
                continue
            self._hand_over(member)
            if member.diverged:
                self.saved.add(member.index)
            else:
                member.weights, *moments = (_row(stack, row[member.index]) for stack in stacks)
                member.moments = tuple(moments)
            member.save()
            member.weights = member.moments = None


def _once(y: torch.Tensor) -> torch.Tensor:
    """Every sample counts once, float64[members, n]."""
    return torch.ones(y.shape[:2], dtype=torch.float64, device=y.device)


def _sums(
    score: Callable[[Any, Any], Any], prediction: torch.Tensor, y: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Sums over each member's samples, `counts` times each, of a score, which is a mean where a sample has several."""
    scores: torch.Tensor = score(prediction.flatten(0, 1), y.flatten(0, 1))
    return (scores.view(*y.shape[:2], -1).double().mean(dim=2) * counts).sum(dim=1)


def _row(stack: Stack, row: int) -> Weights:
    """A copy of one member's tensors."""
    return {name: tensor[row].detach().cpu().numpy().copy() for name, tensor in stack.items()}
