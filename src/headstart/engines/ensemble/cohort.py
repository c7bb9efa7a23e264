"""Members that go in lockstep: one stack of weights, from where they stand to the end of their budget."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import vmap

from headstart.core.metric import Metric
from headstart.engines.ensemble import updates
from headstart.engines.ensemble.feed import Feed, Pair
from headstart.engines.ensemble.member import Member, value_names
from headstart.engines.ensemble.network import Stack, network
from headstart.engines.engine import Interrupted, Watch
from headstart.models import Weights
from headstart.run import Step

# Members that diverged leave the stack once the living are no more than this share of it: a new size costs a trace.
_LIVING = 0.75


@dataclass(frozen=True)
class Limits:
    """How much a cohort takes at once: samples a member in one pass, and bytes of fresh samples drawn ahead."""

    rows: int
    block_bytes: float


class Cohort:
    """Members of one group at one step. Row i of every stack belongs to `living[i]`, which may just have diverged."""

    def __init__(self, members: Sequence[Member], device: str, limits: Limits, checkpoint_seconds: float) -> None:
        self.members, self.device, self.limits = list(members), device, limits
        self.checkpoint_seconds = checkpoint_seconds
        first = members[0]
        self.run, self.course = first.run, first.lowered.course
        self.step, self.place, self.samples = first.step, first.place, list(first.samples)
        self.taken = self.samples[-1] if self.samples else 0
        self.network = network(self.run.model, self.run.task.dim, self.run.loss, device)
        self.names, self.recorded = value_names(self.run), self.run.budget.recorded_steps()
        self.living = self.members
        self.curves = np.empty((len(self.recorded), len(members), len(self.names)))
        self.column = {member.index: i for i, member in enumerate(members)}
        self.saved: set[int] = set()
        for i, member in enumerate(members):
            if self.samples:
                assert member.values is not None
                self.curves[: len(self.samples), i] = member.values
        self.weights = self._stacked([member.current_weights() for member in members])
        moments = [member.moments for member in members]
        self.update = self._build_update(moments)
        self._feed()

    def finish(self, watch: Watch | None) -> None:
        """Train every member to the end of the budget or to divergence, and leave in it what it recorded."""
        clock = saved = time.monotonic()
        keep_steps = {at.step for m in self.members for at in m.job.keep if isinstance(at, Step)}
        while True:
            self.place = self.course.observe(self.place, self.step)
            if len(self.samples) < len(self.recorded) and self.step == self.recorded[len(self.samples)]:
                self._record()
                now = time.monotonic()
                for member in self.living:
                    member.seconds += (now - clock) / len(self.living)
                clock = now
                living = [member for member in self.living if not member.diverged]
                if not living:
                    break
                stop = any([watch(member.index, self.step) for member in living]) if watch else False
                if (stop or now - saved > self.checkpoint_seconds) and self.step < self.run.budget.steps:
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
        """One optimizer step of every member on the mean loss of its batch."""
        size = self.feed.size(self.place)
        count = torch.tensor(float(size), device=self.device)
        total: Stack | None = None
        for x, y in self.feed.batch(self.place, self.step):
            part = self.network.gradients(self.weights, x, y, count)
            if total is None:
                total = part
            else:
                for name, gradient in part.items():
                    total[name].add_(gradient)
        assert total is not None
        self.step += 1
        self.taken += size
        self.update(self.weights, total, self.step)

    def _record(self) -> None:
        """A record of every living member; one that is not finite has diverged and keeps what it had."""
        values, at = self._evaluate(), len(self.samples)
        finite = np.isfinite(values).all(axis=1)
        self.samples.append(self.taken)
        for member, row, good in zip(self.living, values, finite, strict=True):
            if not member.diverged and not good:
                member.samples, member.diverged = self.samples[:at], True
            self.curves[at, self.column[member.index]] = row
        self._keep(values)

    @torch.no_grad()
    def _evaluate(self) -> NDArray[np.float64]:
        """Records of all rows, float64[members, names]: test set, next batch, norms."""
        columns: list[torch.Tensor] = []
        for parts in (self.feed.parts(self.feed.test), self.feed.batch(self.place, self.step)):
            sums: list[torch.Tensor] = []
            num = 0
            for x, y in parts:
                scores = self._scores(self.network.predictions(self.weights, x), y)
                sums = [a + b for a, b in zip(sums, scores, strict=True)] if sums else scores
                num += y[0].numel()
            columns += [total / num for total in sums]
        squares: dict[str, torch.Tensor] = {}
        for parameter in self.members[0].lowered.parameters:
            square = self.weights[parameter.name].double().square().flatten(1).sum(dim=1)
            squares[parameter.role] = squares[parameter.role] + square if parameter.role in squares else square
        columns += [square.sqrt() for square in squares.values()]
        return torch.stack(columns, dim=1).cpu().numpy()

    def _scores(self, prediction: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        """Sums over samples of every metric and of the loss, float64[members] each."""
        sums = []
        for number in range(len(self.run.task.metrics)):
            out = prediction.new_empty(len(prediction), dtype=torch.float64)
            for rows, metrics in self.metrics:
                score = vmap(metrics[number].score)(prediction[rows], y[rows])
                out[rows] = score.double().flatten(1).sum(dim=1)
            sums.append(out)
        return [*sums, vmap(self.run.loss)(prediction, y).double().flatten(1).sum(dim=1)]

    def _keep(self, values: NDArray[np.float64] | None) -> None:
        """Copy the weights of every living member at each moment asked for that is now."""
        for row, member in enumerate(self.living):
            if member.diverged or len(member.kept) == len(member.job.keep):
                continue
            last = None if values is None else dict(zip(self.names, values[row].tolist(), strict=True))
            for at in member.wanted(self.step, last):
                member.kept[at] = _row(self.weights, row)

    def _drop_diverged(self, living: list[Member]) -> None:
        """Give up the rows of members that diverged, once there are enough of them."""
        if len(living) > _LIVING * len(self.living):
            return
        rows = [row for row, member in enumerate(self.living) if not member.diverged]
        index = torch.tensor(rows, device=self.device)
        self.living = living
        self.weights, *moments = (
            {name: tensor.index_select(0, index) for name, tensor in stack.items()}
            for stack in (self.weights, *self.update.moments)
        )
        self.update = updates.build([m.run for m in living], [m.lowered for m in living], self.weights, moments or None)
        self._feed()

    def _feed(self) -> None:
        """The data of the living, and which metrics score which rows."""
        runs = [member.run for member in self.living]
        self.feed = Feed(runs, self.course, self.device, self.limits.rows, self.limits.block_bytes)
        rows: dict[object, list[int]] = {}
        for row, run in enumerate(runs):
            rows.setdefault(run.task, []).append(row)
        self.metrics: list[tuple[slice | list[int], tuple[Metric, ...]]] = [
            (slice(None) if len(rows) == 1 else its, runs[its[0]].task.metrics) for its in rows.values()
        ]

    def _build_update(self, moments: list[tuple[Weights, ...] | None]) -> updates.Update:
        given = [moment for moment in moments if moment]
        stacked = [self._stacked(list(each)) for each in zip(*given, strict=True)] if given else None
        return updates.build(
            [m.run for m in self.members], [m.lowered for m in self.members], self.weights, stacked
        )

    def _stacked(self, weights: Sequence[Weights]) -> Stack:
        return {
            p.name: torch.from_numpy(np.stack([each[p.name] for each in weights])).to(self.device)
            for p in self.members[0].lowered.parameters
        }

    def _hand_over(self, member: Member) -> None:
        """Put into the member what the cohort knows of it, but for its weights."""
        if not member.diverged:
            member.samples = list(self.samples)
        member.step, member.place = self.step, self.place
        member.values = self.curves[: len(member.samples), self.column[member.index]]

    def _save(self) -> None:
        """Write the checkpoint of every member; that of one that diverged says so, and is written once."""
        stacks = [{name: tensor.cpu() for name, tensor in s.items()} for s in (self.weights, *self.update.moments)]
        rows = {member.index: row for row, member in enumerate(self.living)}
        for member in self.members:
            if member.job.checkpoint is None or member.index in self.saved:
                continue
            self._hand_over(member)
            if member.diverged:
                self.saved.add(member.index)
            else:
                member.weights, *moments = (_row(stack, rows[member.index]) for stack in stacks)
                member.moments = tuple(moments)
            member.save()
            member.weights = member.moments = None


def _row(stack: Stack, row: int) -> Weights:
    """A copy of one member's tensors."""
    return {name: tensor[row].detach().cpu().numpy().copy() for name, tensor in stack.items()}


__all__ = ["Cohort", "Limits", "Pair"]
