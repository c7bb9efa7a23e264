"""torch.compile of the whole stacked step: forward, backward by hand and update in one graph."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peer import Layers, Setup
from benchmarks.torch_data import batches
from benchmarks.vmap_peer import joined
from benchmarks.workloads import Workload
from headstart import SGD
from headstart.optimizers import Optimizer

Tensors = list[torch.Tensor]


class Compiled:
    """Stacks of `setup.members`, all served by one compiled step; each takes all steps before the next."""

    def __init__(self, workload: Workload, first: int, members: int, setup: Setup) -> None:
        size = min(setup.members or members, members)
        if members % size:
            raise ValueError(f"{members} members are no multiple of {size}, and each size would compile again")
        torch._dynamo.reset()
        step = torch.compile(stacked_step(workload), dynamic=False)
        self.stacks = [_Stack(workload, begin, size, step) for begin in range(first, first + members, size)]

    def step(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        for number, stack in enumerate(self.stacks):
            own = slice(number * stack.members, (number + 1) * stack.members)
            stack.step(torch.from_numpy(x[own]), torch.from_numpy(y[own]))

    def advance(self, num_steps: int) -> int:
        for stack in self.stacks:
            for x, y in stack.data.take(num_steps):
                stack.step(x, y)
        return num_steps * sum(stack.members for stack in self.stacks)

    def layers(self) -> Layers:
        return joined([stack.layers() for stack in self.stacks])


def gradients(weights: Tensors, biases: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[Tensors, Tensors]:
    """The gradients of mean (f - y)^2 with respect to weights [members, out, in] and biases [members, out]."""
    inputs = [x]
    for i, weight in enumerate(weights):
        z = torch.bmm(inputs[-1], weight.mT)
        z = z + biases[i].unsqueeze(1) if biases else z
        inputs.append(torch.relu(z) if i + 1 < len(weights) else z)
    delta = (inputs[-1] - y.unsqueeze(-1)) * (2.0 / y.shape[1])
    by_weight, by_bias = [], []
    for i in range(len(weights) - 1, -1, -1):
        by_weight.append(torch.bmm(delta.mT, inputs[i]))
        by_bias.append(delta.sum(1))
        if i:
            back = delta * weights[i] if i + 1 == len(weights) else torch.bmm(delta, weights[i])
            delta = back * (inputs[i] > 0)
    return by_weight[::-1], by_bias[::-1] if biases else []


def stacked_step(workload: Workload) -> Callable[..., None]:
    """A step in place: (weights, biases, first moments, second moments, step [1], x, y)."""
    update = _update(workload.run.optimizer)

    def step(
        weights: Tensors, biases: Tensors, m: Tensors, v: Tensors, t: torch.Tensor, x: torch.Tensor, y: torch.Tensor
    ):
        by_weight, by_bias = gradients(weights, biases, x, y)
        t.add_(1.0)
        for i, (value, gradient) in enumerate(zip([*weights, *biases], [*by_weight, *by_bias], strict=True)):
            update(value, gradient, m[i] if m else None, v[i] if v else None, t)

    return step


def _update(o: Optimizer) -> Callable[..., None]:
    def sgd(value: torch.Tensor, gradient: torch.Tensor, m: None, v: None, t: torch.Tensor) -> None:
        value.sub_(o.lr * gradient)

    def adam(value: torch.Tensor, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor, t: torch.Tensor) -> None:
        m.mul_(o.beta1).add_(gradient, alpha=1 - o.beta1)
        v.mul_(o.beta2).addcmul_(gradient, gradient, value=1 - o.beta2)
        root = (v / (1 - o.beta2**t)).sqrt() + o.eps
        value.mul_(1 - o.lr * o.weight_decay).sub_(o.lr / (1 - o.beta1**t) * m / root)

    return sgd if isinstance(o, SGD) else adam


class _Stack:
    def __init__(self, workload: Workload, first: int, members: int, step: Callable[..., None]) -> None:
        self.members, self.compiled = members, step
        arrays = workload.weights(first, members)
        self.weights = [torch.from_numpy(w) for w, _ in arrays]
        self.biases = [torch.from_numpy(b) for _, b in arrays if b is not None]
        adam = not isinstance(workload.run.optimizer, SGD)
        self.moments = [[torch.zeros_like(p) for p in (*self.weights, *self.biases)] if adam else [] for _ in "mv"]
        self.time = torch.zeros(1)
        self.data = batches(workload, first, members)

    @torch.no_grad()
    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.compiled(self.weights, self.biases, *self.moments, self.time, x, y)

    def layers(self) -> Layers:
        biases = [b.numpy().copy() for b in self.biases] or [None] * len(self.weights)
        return [(w.numpy().copy(), b) for w, b in zip(self.weights, biases, strict=True)]
