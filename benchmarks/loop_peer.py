"""PyTorch as a user writes it: a module, autograd and a torch optimizer, one member after another."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.peer import Layers, Setup
from benchmarks.torch_data import batches
from benchmarks.workloads import Workload


class Loop:
    """Members share nothing, so their number does not change the rate: one a process is timed."""

    def __init__(self, workload: Workload, first: int, members: int, setup: Setup) -> None:
        self.members = [_Member(workload, seed) for seed in range(first, first + members)]

    def step(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        for member, own_x, own_y in zip(self.members, torch.from_numpy(x), torch.from_numpy(y), strict=True):
            member.step(own_x, own_y)

    def advance(self, num_steps: int) -> int:
        for x, y in self.members[0].data.take(num_steps):
            self.members[0].step(x[0], y[0])
        return num_steps

    def layers(self) -> Layers:
        linear = [[layer for layer in m.model if isinstance(layer, nn.Linear)] for m in self.members]
        out: Layers = []
        for same in zip(*linear, strict=True):
            biases = [layer.bias for layer in same if layer.bias is not None]
            weight = np.stack([layer.weight.detach().numpy() for layer in same])
            out.append((weight, np.stack([b.detach().numpy() for b in biases]) if biases else None))
        return out


class _Member:
    def __init__(self, workload: Workload, seed: int) -> None:
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for weight, bias in workload.weights(seed, 1):
            linear = nn.Linear(weight.shape[2], weight.shape[1], bias=bias is not None)
            with torch.no_grad():
                linear.weight.copy_(torch.from_numpy(weight[0]))
                if bias is not None:
                    linear.bias.copy_(torch.from_numpy(bias[0]))
            layers += [linear, nn.ReLU()]
        self.model = nn.Sequential(*layers[:-1])
        parameters = list(self.model.parameters())
        self.optimizer = workload.run.optimizer.build([{"params": parameters}])
        self.loss = nn.MSELoss()
        self.data = batches(workload, seed, 1)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x).squeeze(-1), y)
        loss.backward()
        self.optimizer.step()
