"""One run under way: its first layer by coefficients, the layers above it as they are."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.state import Arrays, State
from headstart.engines.member import Member
from headstart.engines.span.first import Coefficients, Origin, Taken, first_layer
from headstart.engines.span.rows import SpanRows, Targets
from headstart.losses import Loss
from headstart.models import MLP
from headstart.models.activations import torch_function
from headstart.models.embedding import MAP, TABLE
from headstart.optimizers import SGD, Decay
from headstart.plans import Place
from headstart.run import Run

# Mini-batches are drawn for this many steps at once; ids are pure functions of the step, so nothing else changes.
_BLOCK = 64
_BUFFER = "momentum_buffer"
# Where a checkpoint has the first layer: among the memory of methods, none of which this engine takes.
_SCALE, _ROWS, _VELOCITY_SCALE, _VELOCITY_ROWS = (
    f"span/{name}" for name in ("scale", "rows", "velocity_scale", "velocity_rows")
)

Above = Callable[[torch.Tensor, dict[str, torch.Tensor]], Any]


def above(run: Run) -> Above:
    """The predictions of an MLP, from what its first layer makes of the inputs [n, neurons] and its other weights."""
    model, outputs = run.model, run.task.signature.outputs
    assert isinstance(model, MLP)
    activation, has_table = torch_function(model.activation), first_layer(run).name == TABLE
    linear = torch.nn.functional.linear

    def forward(h: torch.Tensor, weights: dict[str, torch.Tensor]) -> Any:
        bias = weights.get("layers.0.bias")
        if has_table:
            z = linear(h, weights[MAP]) if MAP in weights else h
            z = linear(z, weights["layers.0.weight"], bias)
        else:
            z = h if bias is None else h + bias
        for i in range(1, model.depth):
            z = linear(activation(z), weights[f"layers.{i}.weight"], weights.get(f"layers.{i}.bias"))
        return z.reshape(-1, *outputs) if len(outputs) > 1 else z if outputs else z.squeeze(-1)

    return forward


class Training:
    """A member in lockstep with itself alone.

    The first layer is W = c W_0 + B^T X, so that it makes c X W_0^T + G B of the training rows, G = X X^T, and the
    gradient with respect to W is that with respect to this product, transposed, times X.
    """

    def __init__(self, member: Member, rows: SpanRows) -> None:
        self.member, self.lowered, self.run, self.rows = member, member.lowered, member.run, rows
        self.course, self.at, self.step = self.lowered.course, member.place, member.step
        self.first, self.above = first_layer(self.run), above(self.run)
        self.origin = Origin(self.lowered, member.job.start)
        self.train, self.test, self.square = rows.through(self.origin)
        self.rates = dict(zip(self.lowered.names, self.lowered.rates, strict=True))
        self._set_state(member.take())
        self.observed: float | None = 0.0 if self.course.adaptive else None
        self.block: tuple[tuple[int, int], int, int] | None = None
        self.picked = torch.empty(0, dtype=torch.int64)
        # What the first layer makes of the next batch, where a record has asked for it just before.
        self.ahead: torch.Tensor | None = None

    def _set_state(self, state: State) -> None:
        upper = [name for name in self.lowered.names if name != self.first.name]
        self.weights = {name: torch.from_numpy(np.array(state.weights[name])).requires_grad_() for name in upper}
        self.velocity = {
            key.partition("/")[2]: torch.from_numpy(np.array(array)) for key, array in state.moments.items()
        }
        saved, rows = state.hooks, torch.zeros_like(self.train)
        self.w = Coefficients(1.0, rows)
        if _ROWS in saved:
            self.w = Coefficients(saved[_SCALE].item(), torch.from_numpy(saved[_ROWS].copy()))
        if _VELOCITY_ROWS in saved:
            self.w.velocity_scale = saved[_VELOCITY_SCALE].item()
            self.w.velocity_rows = torch.from_numpy(saved[_VELOCITY_ROWS].copy())

    @property
    def _moves(self) -> bool:
        """Whether the first layer is trained; else it stays W_0."""
        return self.rates[self.first.name] != 0

    def advance(self, active: Sequence[int], step: int, until: int) -> int:
        """Steps step .. until - 1. The course observes before every step, and before the record that follows."""
        samples = 0
        for self.step in range(step, until):
            samples += self._step()
            self.at = self.course.observe(self.at, self.step + 1, self.observed)
        self.step = until
        return samples

    def _step(self) -> int:
        """One optimizer step on the mean loss of the batch."""
        taken = self._taken()
        targets, loss = self.rows.train[taken], self.lowered.losses[self.at.leg]
        h = (self.hidden(taken) if self.ahead is None else self.ahead).requires_grad_()
        self.ahead = None
        prediction = self.above(h, self.weights)
        gradient, gradients = self._gradients(loss, targets, prediction, h)
        if self.course.adaptive:
            self.observed = targets.mean(self.run.task.metrics[0].score(prediction.detach(), targets.y))
        with torch.no_grad():
            self._update(gradients)
            self.w.descend(gradient, taken, self._rate(self.first.name), self._optimizer)
        return len(targets.y)

    def _gradients(
        self, loss: Loss, targets: Targets, prediction: Any, h: torch.Tensor
    ) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        """With respect to what the first layer made, and to the weights above it."""
        total = targets.weighted(loss(prediction, targets.y)).sum() / targets.count
        first, *others = torch.autograd.grad(total, [h, *self.weights.values()])
        return first, others

    @property
    def _optimizer(self) -> SGD:
        assert isinstance(self.run.optimizer, SGD)
        return self.run.optimizer

    def _rate(self, name: str) -> float:
        return float(self.rates[name] * self.lowered.factors[self.step])

    def _update(self, gradients: Sequence[torch.Tensor]) -> None:
        """torch's step of SGD on the weights above the first layer, and a decoupled decay before it."""
        optimizer = self._optimizer
        momentum, penalty = optimizer.momentum, optimizer.weight_decay * (optimizer.decay is Decay.COUPLED)
        for (name, weight), g in zip(self.weights.items(), gradients, strict=True):
            rate = self._rate(name)
            if optimizer.shrink:
                weight.mul_(1 - rate * optimizer.shrink)
            g = g.add(weight, alpha=penalty) if penalty else g
            if momentum:
                v = self.velocity.get(name)
                v = self.velocity[name] = g.clone() if v is None else v.mul_(momentum).add_(g)
                g = g.add(v, alpha=momentum) if optimizer.nesterov else v
            weight.add_(g, alpha=-rate)

    def _taken(self) -> Taken:
        """The training rows of the batch at the present step."""
        rows, size = self.rows.legs[self.at.leg], self.course.batch
        if size is None:
            return rows
        if self.block is None or self.block[0] != self.at.stretch or not self.block[1] <= self.step < self.block[2]:
            left = self.course.steps_left(self.at, self.step)
            num = min(_BLOCK, self.run.budget.steps + 1 - self.step, _BLOCK if left is None else left)
            ids = self.course.ids(self.at, self.step, num)
            self.picked = torch.from_numpy(ids - self.course.pool(self.at).first + rows.start)
            self.block = (self.at.stretch, self.step, self.step + num)
        first = (self.step - self.block[1]) * size
        return self.picked[first : first + size]

    def hidden(self, taken: Taken | None) -> torch.Tensor:
        """What the first layer makes of these training rows, or of the test rows: [n, neurons]."""
        if taken is None:
            start, gram = self.test, self.rows.cross
        else:
            start, gram = self.train[taken], self.rows.gram[taken]
        if not self._moves:
            return start.clone()
        # Transposed: of a few neurons the product is five times as fast in this order.
        return torch.addmm(start.T, self.w.rows.T, gram.T, beta=self.w.scale).T

    @torch.no_grad()
    def evaluate(self, active: Sequence[int]) -> NDArray[np.float64]:
        """Test metrics, the same on the batch the next step takes, and weight norms by role."""
        values, taken = [], self._taken()
        self.ahead = self.hidden(taken)
        for h, targets in ((self.hidden(None), self.rows.test), (self.ahead, self.rows.train[taken])):
            prediction = self.above(h, self.weights)
            values += [targets.mean(metric.score(prediction, targets.y)) for metric in self.run.task.metrics]
            values.append(targets.mean(self.run.loss(prediction, targets.y)))
        squares: dict[str, float] = {}
        for p in self.lowered.parameters:
            own = self._first_square(taken) if p is self.first else self.weights[p.name].double().square().sum().item()
            squares[p.role] = squares.get(p.role, 0.0) + own
        return np.array([[*values, *(square**0.5 for square in squares.values())]])

    def _first_square(self, taken: Taken) -> float:
        """|c W_0 + B^T X|^2 = c^2 |W_0|^2 + c <B, X W_0^T> + <B, X W^T>; of a full batch the last product is there."""
        c, rows = self.w.scale, self.w.rows
        every = slice(0, len(rows))
        whole = isinstance(taken, slice) and taken == every
        h = self.ahead if whole and self.ahead is not None else self.hidden(every)
        at_start, now = ((rows * other).sum(dtype=torch.float64).item() for other in (self.train, h))
        return max(0.0, c * c * self.square + c * at_start + now)

    def place(self, member: int) -> Place:
        """Where the run stands."""
        return self.at

    def retain(self, active: Sequence[int]) -> None:
        """There is one member."""

    def state(self, member: int) -> State:
        """A copy of all that changes, the first layer written out."""
        x, own = self.rows.x, self._above()
        weights = {self.first.name: self.origin.whole(self.w.scale, self.w.rows, x), **own.weights}
        moments = dict(own.moments)
        if self.w.velocity_rows is not None:
            velocity = self.origin.whole(self.w.velocity_scale, self.w.velocity_rows, x)
            moments[f"{_BUFFER}/{self.first.name}"] = velocity
        return State(weights, moments=moments)

    def saved(self, member: int) -> State:
        """The layers above and the coefficients of the first: what it starts from is drawn again."""
        own = self._above()
        hooks: Arrays = {_SCALE: np.asarray(self.w.scale), _ROWS: self.w.rows.numpy().copy()}
        if self.w.velocity_rows is not None:
            hooks |= {_VELOCITY_SCALE: np.asarray(self.w.velocity_scale)}
            hooks |= {_VELOCITY_ROWS: self.w.velocity_rows.numpy().copy()}
        return State(own.weights, moments=own.moments, hooks=hooks)

    def _above(self) -> State:
        weights = {name: weight.detach().numpy().copy() for name, weight in self.weights.items()}
        return State(weights, moments={f"{_BUFFER}/{name}": v.numpy().copy() for name, v in self.velocity.items()})
