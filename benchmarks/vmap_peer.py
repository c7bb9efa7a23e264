"""torch.func: the gradient of one member's loss, vmapped over stacked members."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad, vmap

from benchmarks.peer import Layers, Setup
from benchmarks.torch_data import batches
from benchmarks.workloads import Workload
from headstart import SGD


class Vmap:
    """`setup.members` stacked at a time; each stack takes all steps before the next, so that weights stay in cache."""

    def __init__(self, workload: Workload, first: int, members: int, setup: Setup) -> None:
        size = setup.members or members
        self.stacks = [
            _Stack(workload, begin, min(size, first + members - begin)) for begin in range(first, first + members, size)
        ]

    def step(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        begin = 0
        for stack in self.stacks:
            own = slice(begin, begin + stack.members)
            stack.step(torch.from_numpy(x[own]), torch.from_numpy(y[own]))
            begin += stack.members

    def advance(self, num_steps: int) -> int:
        for stack in self.stacks:
            for x, y in stack.data.take(num_steps):
                stack.step(x, y)
        return num_steps * sum(stack.members for stack in self.stacks)

    def layers(self) -> Layers:
        return joined([stack.layers() for stack in self.stacks])


def joined(stacks: list[Layers]) -> Layers:
    """The layers of several stacks as one."""
    out: Layers = []
    for same in zip(*stacks, strict=True):
        biases = [bias for _, bias in same if bias is not None]
        out.append((np.concatenate([w for w, _ in same]), np.concatenate(biases) if biases else None))
    return out


class _Stack:
    def __init__(self, workload: Workload, first: int, members: int) -> None:
        self.members = members
        self.module = workload.run.model.module(workload.run.task.signature)
        self.names = [name for name, _ in self.module.named_parameters()]
        arrays = [a for layer in workload.weights(first, members) for a in layer if a is not None]
        self.parameters = {n: torch.from_numpy(a) for n, a in zip(self.names, arrays, strict=True)}
        self.gradient = vmap(grad(self.loss))
        optimizer = workload.run.optimizer
        self.rate = optimizer.lr if isinstance(optimizer, SGD) else None
        self.adam = None
        if self.rate is None:
            self.adam = torch.optim.AdamW(
                list(self.parameters.values()),
                lr=optimizer.lr,
                betas=(optimizer.beta1, optimizer.beta2),
                eps=optimizer.eps,
                weight_decay=optimizer.weight_decay,
                fused=True,
            )
        self.data = batches(workload, first, members)

    def loss(self, parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (functional_call(self.module, parameters, x) - y).square().mean()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        gradients = self.gradient(self.parameters, x, y)
        values = [self.parameters[name] for name in self.names]
        own = [gradients[name] for name in self.names]
        if self.adam is None:
            torch._foreach_add_(values, own, alpha=-self.rate)
            return
        for value, gradient in zip(values, own, strict=True):
            value.grad = gradient
        self.adam.step()

    def layers(self) -> Layers:
        arrays = {name: value.numpy().copy() for name, value in self.parameters.items()}
        weights = [arrays[name] for name in self.names if name.endswith("weight")]
        return [(w, arrays.get(f"layers.{i}.bias")) for i, w in enumerate(weights)]
