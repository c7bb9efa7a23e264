"""Stacked matrix products with the backward pass by hand, every buffer made once; `chunked` takes samples in parts."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peer import Layers, Setup
from benchmarks.torch_data import batches
from benchmarks.vmap_peer import joined
from benchmarks.workloads import Workload
from headstart import SGD


class Bmm:
    """Stacks of `setup.members`; each takes all steps before the next."""

    def __init__(self, workload: Workload, first: int, members: int, setup: Setup) -> None:
        size = setup.members or members
        # A single member's chunks go to Python threads of one torch thread each: faster than torch's own threads.
        lanes = setup.threads if setup.samples and workload.members == 1 else 1
        if lanes > 1:
            torch.set_num_threads(1)
        self.stacks = [
            _Stack(workload, begin, min(size, first + members - begin), setup.samples, lanes)
            for begin in range(first, first + members, size)
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


class _Flat:
    """One vector with a view [members, out, in] a weight and [members, out] a bias, so that an update is one call."""

    def __init__(self, arrays: Layers) -> None:
        sizes = [sum(a.size for a in layer if a is not None) for layer in arrays]
        self.vector, begin = torch.zeros(sum(sizes)), 0
        self.layers: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        for layer in arrays:
            views = []
            for array in layer:
                views.append(None if array is None else self.vector[begin : begin + array.size].view(array.shape))
                begin += 0 if array is None else array.size
            self.layers.append((views[0], views[1]))


class _Pass:
    """Forward and backward of up to `samples` samples a member, in buffers of its own."""

    def __init__(self, arrays: Layers, members: int, samples: int) -> None:
        self.gradient = _Flat(arrays)
        self.hidden = [torch.empty(members, samples, w.shape[1]) for w, _ in arrays]
        self.delta = [torch.empty(members, samples, w.shape[1]) for w, _ in arrays]

    def add(self, weights: _Flat, x: torch.Tensor, y: torch.Tensor, scale: float, begin: bool) -> None:
        """Add the gradient of scale x sum (f - y)^2 / 2 to `gradient`, or, at the beginning, set it."""
        num, last, beta = x.shape[1], len(self.hidden) - 1, 0.0 if begin else 1.0
        h, delta = [z[:, :num] for z in self.hidden], [z[:, :num] for z in self.delta]
        inputs = [x, *h[:-1]]
        for i, (weight, bias) in enumerate(weights.layers):
            if bias is None:
                torch.bmm(inputs[i], weight.mT, out=h[i])
            else:
                torch.baddbmm(bias.unsqueeze(1), inputs[i], weight.mT, out=h[i])
            if i < last:
                h[i].clamp_min_(0)
        torch.sub(h[last], y.unsqueeze(-1), out=delta[last])
        delta[last].mul_(scale)
        for i in range(last, -1, -1):
            weight, bias = self.gradient.layers[i]
            weight.baddbmm_(delta[i].mT, inputs[i], beta=beta)
            if bias is not None:
                bias.mul_(beta).add_(delta[i].sum(1))
            if i == 0:
                break
            above = weights.layers[i][0]
            if i == last:
                torch.mul(delta[i], above, out=delta[i - 1])
            else:
                torch.bmm(delta[i], above, out=delta[i - 1])
            torch.ops.aten.threshold_backward.grad_input(delta[i - 1], h[i - 1], 0, grad_input=delta[i - 1])


class _Stack:
    def __init__(self, workload: Workload, first: int, members: int, samples: int, lanes: int) -> None:
        self.members, self.samples = members, min(samples or workload.samples, workload.samples)
        arrays = workload.weights(first, members)
        self.weights = _Flat(arrays)
        for views, layer in zip(self.weights.layers, arrays, strict=True):
            for view, array in zip(views, layer, strict=True):
                if view is not None:
                    view.copy_(torch.from_numpy(array))
        self.passes = [_Pass(arrays, members, self.samples) for _ in range(lanes)]
        self.pool = ThreadPoolExecutor(lanes) if lanes > 1 else None
        self.data = batches(workload, first, members)
        o = workload.run.optimizer
        self.rate, self.adam = o.lr, None
        if not isinstance(o, SGD):
            self.adam = torch.optim.AdamW(
                [self.weights.vector], o.lr, (o.beta1, o.beta2), o.eps, o.weight_decay, fused=True
            )

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        lanes, total = len(self.passes), x.shape[1]
        parts = list(zip(x.split(self.samples, 1), y.split(self.samples, 1), strict=True))

        def run(lane: int) -> None:
            for number, (own_x, own_y) in enumerate(parts[lane::lanes]):
                self.passes[lane].add(self.weights, own_x, own_y, 2.0 / total, number == 0)

        if self.pool is None:
            run(0)
        else:
            list(self.pool.map(run, range(lanes)))
        gradient = self.passes[0].gradient.vector
        for other in self.passes[1:]:
            gradient.add_(other.gradient.vector)
        if self.adam is None:
            self.weights.vector.add_(gradient, alpha=-self.rate)
        else:
            self.weights.vector.grad = gradient
            self.adam.step()

    def layers(self) -> Layers:
        return [(w.numpy().copy(), None if b is None else b.numpy().copy()) for w, b in self.weights.layers]
