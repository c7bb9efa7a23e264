"""Members that go in lockstep: one stack of weights, and how it advances and is evaluated."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.metric import Metric
from headstart.core.state import Arrays, State
from headstart.engines.ensemble import updates
from headstart.engines.ensemble.cross_entropy import is_classifier
from headstart.engines.ensemble.feed import Data, Feed
from headstart.engines.ensemble.network import Names, Network, Stack, network
from headstart.engines.member import Member
from headstart.methods import Hook
from headstart.optimizers import SGD
from headstart.plans import Place
from headstart.tasks import Task

# Members that diverged leave the stack once the living are no more than this share of it: a new size costs a trace.
_LIVING = 0.75
# Elementwise operations of torch take this many numbers at a time, or a divisor of it.
_VECTORS = 32


@dataclass(frozen=True)
class Limits:
    """How much a cohort takes at once: samples per member in one pass, and bytes of fresh samples drawn ahead."""

    rows: int
    block_bytes: float


class Cohort:
    """Members of one group at one step. Row i of every stack belongs to member `rows[i]`, which may have diverged."""

    def __init__(self, members: Sequence[Member], device: str, limits: Limits) -> None:
        self.members, self.device, self.limits = list(members), device, limits
        first = members[0]
        self.run, self.lowered, self.course = first.run, first.lowered, first.lowered.course
        self.step = first.step
        # One place for all, or, where metrics decide, one each. Ids of samples are asked for with each member's seed.
        self.places = [member.place for member in members] if self.course.adaptive else [first.place]
        self.observed: Sequence[float | None] = [None] * len(self.places)
        self.rows = list(range(len(members)))
        states = [member.take() for member in members]
        names = self.lowered.names  # rates go by this order, and a checkpoint comes back in another
        self.weights = self._stacked([{name: state.weights[name] for name in names} for state in states])
        self.origin: Stack = {}
        if Hook.REWRITE in self.lowered.hooks:
            self.origin = self._stacked([member.lowered.begin(member.job.start).weights for member in members])
        kinds = sorted({key.partition("/")[0] for state in states for key in state.moments})
        moments = {kind: self._stacked([_moments(kind, state, names) for state in states]) for kind in kinds}
        self.memory = {
            number: self._stacked([_under(str(number), state.hooks) for state in states])
            for number in sorted({int(key.partition("/")[0]) for key in states[0].hooks})
        }
        self._set_up(moments, np.array([state.ages(self.lowered.names) for state in states], dtype=np.int64))

    def advance(self, active: Sequence[int], step: int, until: int) -> int:
        """Steps step .. until - 1. The course observes before every step, and before the record that follows."""
        samples = 0
        for self.step in range(step, until):
            samples += self._step()
            self.places = [
                self.course.observe(place, self.step + 1, metric)
                for place, metric in zip(self.places, self.observed, strict=True)
            ]
        self.step = until
        return samples

    @torch.no_grad()
    def _step(self) -> int:
        """One optimizer step of every member on the mean loss of its batch; what its course observes."""
        size = self.feed.size(self.places)
        net = self._network(self.places[0].leg)
        main = frozenset(self.weights) - self.learn_aside if self.learn_aside else None
        gradients, score = self._gradients(net, self.feed.batch(self.places, self.step), size, main)
        if self.course.adaptive:
            self.observed = (score / size).tolist()
        if self.aside is not None and self.course.aside is not None:
            place = self.course.aside.course.start(0, self.places[0].fresh)
            batch, size_aside = self.aside.batch([place], self.step), self.course.samples_aside
            others, _ = self._gradients(net, batch, size_aside, self.learn_aside)
            gradients = gradients | {name: others[name] for name in self.learn_aside}
        for number, method in self.lowered.using(Hook.GRADIENTS):
            memory = self.memory.get(number, {})
            gradients, self.memory[number] = method.transform(
                gradients, memory, self.weights, self.lowered.named, self.step
            )
        self.update(self.weights, gradients, self.step)
        for _, method in self.lowered.using(Hook.PROJECTION):
            self.weights |= method.project(self.weights, self.lowered.named)
        return size + self.course.samples_aside

    def _network(self, leg: int) -> Network:
        return network(self.run, self.device, self.lowered.losses[leg])

    def _gradients(
        self, net: Network, batch: Iterable[Data], size: int, of: Names | None
    ) -> tuple[Stack, torch.Tensor]:
        """Gradients of the mean loss over `size` samples by all weights or at least those `of`.

        With them come the sums of the leading metric, if the course adapts.
        """
        total: Stack | None = None
        score = torch.zeros(len(self.rows), dtype=torch.float64, device=self.device)
        for x, y, *weights in batch:
            # The weights of a batch add up to its samples; without them every target of a sample counts once.
            count = torch.tensor(float(size if weights else size * y[0, 0].numel()), device=self.device)
            if self.course.adaptive:
                part, prediction = net.gradients_and_predictions(self.weights, self.origin, x, y, count, *weights)
                score += self._score(0, prediction, y, _counts(y, *weights))
            else:
                part = net.gradients(self.weights, self.origin, x, y, count, *weights, of=of)
            # Not in place: the gradients of two parameters may be one tensor.
            total = {name: total[name] + gradient for name, gradient in part.items()} if total else part
        assert total is not None
        return total, score

    @torch.no_grad()
    def evaluate(self, active: Sequence[int]) -> NDArray[np.float64]:
        """Records: test set, next batch, norms."""
        columns: list[torch.Tensor] = []
        net = self._network(0)
        batch = ((x, y, _counts(y, *weights)) for x, y, *weights in self.feed.batch(self.places, self.step))
        for parts in (self.feed.test_parts(), batch):
            sums: list[torch.Tensor] = []
            num: Any = 0
            for x, y, counts in parts:
                scores = self._scores(net, x, y, counts)
                sums = [a + b for a, b in zip(sums, scores, strict=True)] if sums else scores
                num += counts.flatten(1).sum(dim=1)
            columns += [total / num for total in sums]
        squares: dict[str, torch.Tensor] = {}
        for parameter in self.lowered.parameters:
            square = self.weights[parameter.name].double().square().flatten(1).sum(dim=1)
            squares[parameter.role] = squares[parameter.role] + square if parameter.role in squares else square
        columns += [square.sqrt() for square in squares.values()]
        return torch.stack(columns, dim=1).cpu().numpy()[[self.rows.index(number) for number in active]]

    def _scores(self, net: Network, x: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> list[torch.Tensor]:
        """Sums over samples of every metric and of the loss, float64[members] each. Both take samples in any number."""
        if all(is_classifier(self.run.loss, metrics) for _, metrics in self.metrics):
            losses, right = net.classified(self.weights, self.origin, x, y)
            return [_counted(scores, counts) for scores in (right, losses)]
        prediction = net.predictions(self.weights, self.origin, x)
        sums = [self._score(number, prediction, y, counts) for number in range(len(self.run.task.metrics))]
        return [*sums, _sums(self.run.loss, prediction, y, counts)]

    def _score(self, number: int, prediction: torch.Tensor, y: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Sums over samples of one metric, float64[members]; members may have tasks that score differently."""
        sums = prediction.new_empty(len(prediction), dtype=torch.float64)
        for rows, metrics in self.metrics:
            sums[rows] = _sums(metrics[number].score, prediction[rows], y[rows], counts[rows])
        return sums

    def place(self, member: int) -> Place:
        """Where a member stands."""
        return self.places[self.rows.index(member) if self.course.adaptive else 0]

    def state(self, member: int) -> State:
        """A copy of one member's part of every stack."""
        row, optimizer = self.rows.index(member), self.members[member].run.optimizer
        # One without momentum has none, whoever it shares a stack with.
        kinds = {} if isinstance(optimizer, SGD) and not optimizer.momentum else self.update.moments
        ages = self.update.ages
        return State(
            weights=_row(self.weights, row),
            moments={f"{kind}/{n}": a for kind, s in kinds.items() for n, a in _row(s, row).items()},
            hooks={f"{number}/{n}": a for number, s in self.memory.items() for n, a in _row(s, row).items()},
            counters={f"age/{name}": np.asarray(ages[row, i]) for i, name in enumerate(self.lowered.names)},
        )

    def saved(self, member: int) -> State:
        """All of its state."""
        return self.state(member)

    def retain(self, active: Sequence[int]) -> None:
        """Give up the rows of members that diverged, once there are enough of them."""
        if len(active) > _LIVING * len(self.rows):
            return
        rows = [self.rows.index(number) for number in active]
        index = torch.tensor(rows, device=self.device)
        if self.course.adaptive:
            self.places = [self.places[i] for i in rows]
            self.observed = [self.observed[i] for i in rows]

        def picked(stack: Stack) -> Stack:
            return {name: tensor.index_select(0, index) for name, tensor in stack.items()}

        self.rows, self.weights, self.origin = list(active), picked(self.weights), picked(self.origin)
        self.memory = {number: picked(stack) for number, stack in self.memory.items()}
        self._set_up({kind: picked(s) for kind, s in self.update.moments.items()}, self.update.ages[rows])

    def _set_up(self, moments: dict[str, Stack], ages: NDArray[np.int64]) -> None:
        """The update and the data of all rows, and which metrics score which."""
        lowered = [self.members[number].lowered for number in self.rows]
        self.update = updates.build(lowered, self.weights, moments, ages)
        self.feed = Feed(lowered, self.device, self.limits.rows, self.limits.block_bytes)
        roles = self.course.aside.roles if self.course.aside else ()
        self.learn_aside = frozenset(p.name for p in self.lowered.parameters if p.role in roles)
        aside = [each.aside for each in lowered if each.aside is not None]
        self.aside = Feed(aside, self.device, self.limits.rows, self.limits.block_bytes) if aside else None
        by_task: dict[Task, list[int]] = {}
        for row, each in enumerate(lowered):
            by_task.setdefault(each.run.task, []).append(row)
        self.metrics: list[tuple[slice | list[int], tuple[Metric, ...]]] = [
            (slice(None) if len(by_task) == 1 else rows, task.metrics) for task, rows in by_task.items()
        ]

    def _stacked(self, arrays: Sequence[Arrays]) -> Stack:
        return {name: torch.from_numpy(np.stack([each[name] for each in arrays])).to(self.device) for name in arrays[0]}


def _under(key: str, arrays: Arrays) -> Arrays:
    """The arrays named "<key>/<name>", by name."""
    return {name.partition("/")[2]: array for name, array in arrays.items() if name.partition("/")[0] == key}


def _moments(kind: str, state: State, names: Sequence[str]) -> Arrays:
    """The moments of one kind, zeros for a member that has none: one without momentum beside others with it."""
    there = _under(kind, state.moments)
    return {name: there[name] if name in there else np.zeros_like(state.weights[name]) for name in names}


def _counts(y: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    """Every sample counts once, float64[members, n], or each target as it weighs, [members, n, ...]."""
    return torch.ones(y.shape[:2], dtype=torch.float64, device=y.device) if weight is None else weight.double()


def _sums(
    score: Callable[[Any, Any], Any], prediction: torch.Tensor, y: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Sums over each member's samples, `counts` times each, of a score; of a sample's several scores by their mean.

    Counts of the shape of y are those of the targets themselves.
    """
    if y[0].numel() % _VECTORS == 0:
        scores: torch.Tensor = score(prediction.flatten(0, 1), y.flatten(0, 1))
    else:  # what is left over when vectors are full rounds otherwise, so that no two members may share a vector
        scores = torch.stack([score(p, target) for p, target in zip(prediction, y, strict=True)])
    return _counted(scores.reshape(y.shape), counts)


def _counted(scores: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Sums over each member's samples, [members, n, ...] to float64[members]."""
    if counts.shape == scores.shape:
        return (scores.double() * counts).flatten(1).sum(dim=1)
    return (scores.reshape(*scores.shape[:2], -1).double().mean(dim=2) * counts).sum(dim=1)


def _row(stack: Stack, row: int) -> Arrays:
    """A copy of one member's tensors."""
    return {name: tensor[row].detach().cpu().numpy().copy() for name, tensor in stack.items()}
