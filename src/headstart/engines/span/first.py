"""The first layer of a run: where it begins, and where in the span of its start and the training rows it is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.roles import Parameter
from headstart.core.state import State
from headstart.engines.lower import Lowered
from headstart.models import MLP
from headstart.models.embedding import TABLE
from headstart.optimizers import SGD, Decay
from headstart.run import Run

# Initial weights are drawn about this many numbers at a time.
BLOCK = 2**23
# Which training rows a step takes: all of a pool, or those of a mini-batch, which may repeat.
Taken = slice | torch.Tensor


def first_layer(run: Run) -> Parameter:
    """What acts on the inputs: the table of an embedding, [inputs, vector], or the first weights, [neurons, inputs]."""
    return run.parameters[0]


def begin(lowered: Lowered, start: State | None) -> State:
    """The State at step 0 without the first layer, which is not drawn here."""
    run, apart = lowered.run, first_layer(lowered.run).name
    if start is None and isinstance(run.model, MLP) and apart != TABLE:
        rest = zip(run.parameters[1:], lowered.init_scales[1:], strict=True)
        seed = run.init_seed
        drawn = {p.name: run.model.initial_rows(p, seed, 0, p.shape[0]) * np.float32(scale) for p, scale in rest}
        return State({name: array.astype(lowered.dtype, copy=False) for name, array in drawn.items()})
    state = lowered.begin(start)
    return replace(state, weights={name: array for name, array in state.weights.items() if name != apart})


class Origin:
    """The first layer at step 0, W_0 [neurons, inputs], some neurons at a time.

    What a State gave is held; a table is drawn whole, being narrow; initial weights are drawn as they are asked for.
    """

    def __init__(self, lowered: Lowered, start: State | None) -> None:
        self.lowered, self.parameter = lowered, first_layer(lowered.run)
        self.is_table = self.parameter.name == TABLE
        self.shape = self.parameter.shape[::-1] if self.is_table else self.parameter.shape
        self.held: NDArray[Any] | None = None
        if start is not None or self.is_table:
            held = lowered.begin(start).weights[self.parameter.name]
            self.held = np.ascontiguousarray(held.T) if self.is_table else held

    def blocks(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Neurons, and their weights [these neurons, inputs] in the precision of the run."""
        neurons, inputs = self.shape
        size = max(1, BLOCK // inputs)
        for first in range(0, neurons, size):
            part = slice(first, min(first + size, neurons))
            yield part, torch.from_numpy(self._drawn(part) if self.held is None else self.held[part])

    def _drawn(self, part: slice) -> NDArray[Any]:
        run, scale = self.lowered.run, np.float32(self.lowered.init_scales[0])
        assert isinstance(run.model, MLP)
        drawn = run.model.initial_rows(self.parameter, run.init_seed, part.start, part.stop)
        return (drawn if scale == 1 else drawn * scale).astype(self.lowered.dtype, copy=False)

    def whole(self, scale: float, rows: torch.Tensor, x: torch.Tensor) -> NDArray[Any]:
        """scale W_0 + rows^T x, in the shape of the parameter; rows are [n, neurons] and x [n, inputs]."""
        out = torch.empty(self.shape, dtype=x.dtype)
        for part, weights in self.blocks():
            torch.addmm(weights, rows[:, part].T, x, beta=scale, out=out[part])
        return np.ascontiguousarray(out.numpy().T) if self.is_table else out.numpy()


@dataclass
class Coefficients:
    """W = scale W_0 + rows^T X with rows [n, neurons]; the velocity, where there is momentum, is of the same form."""

    scale: float
    rows: torch.Tensor
    velocity_scale: float = 0.0
    velocity_rows: torch.Tensor | None = None

    def descend(self, gradient: torch.Tensor, taken: Taken, rate: float, optimizer: SGD) -> None:
        """One step of SGD on W, whose gradient is gradient^T X[taken], as torch takes it."""
        penalty = optimizer.weight_decay if optimizer.decay is Decay.COUPLED else 0.0
        self._shrink(1 - rate * optimizer.shrink)
        if not optimizer.momentum:
            self._shrink(1 - rate * penalty)
            _add(self.rows, taken, gradient, -rate)
            return
        momentum, velocity = optimizer.momentum, self.velocity_rows
        if velocity is None:
            velocity = self.velocity_rows = torch.zeros_like(self.rows)
        self.velocity_scale = momentum * self.velocity_scale + penalty * self.scale
        velocity.mul_(momentum)
        if penalty:
            velocity.add_(self.rows, alpha=penalty)
        _add(velocity, taken, gradient, 1.0)
        ahead = momentum if optimizer.nesterov else 1.0
        if optimizer.nesterov:  # the step is the gradient, with its penalty, and momentum times the velocity
            self._shrink(1 - rate * penalty)
            _add(self.rows, taken, gradient, -rate)
        self.scale -= rate * ahead * self.velocity_scale
        self.rows.add_(velocity, alpha=-rate * ahead)

    def _shrink(self, factor: float) -> None:
        if factor != 1:
            self.scale *= factor
            self.rows.mul_(factor)


def _add(to: torch.Tensor, taken: Taken, what: torch.Tensor, factor: float) -> None:
    """to[taken] += factor what, as often as a row is taken."""
    if isinstance(taken, slice):
        to[taken].add_(what, alpha=factor)
    else:
        to.index_add_(0, taken, what, alpha=factor)
