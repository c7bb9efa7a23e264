"""PyTorch on modular addition: a loop over members, and torch.func.vmap over stacks of them."""

from typing import Any

import numpy as np
import torch
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy, embedding, linear


def start(setting: Any, members: int) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Weights at step 0, inputs int64[members, n, 2] and targets [members, n] of the first members."""
    runs = [setting.run.at(seed) for seed in range(members)]
    weights = [run.fresh_weights() for run in runs]
    data = [run.task.population(run.seed) for run in runs]
    stacked = {name: np.stack([each[name] for each in weights]) for name in weights[0]}
    return stacked, np.stack([d.x for d in data]), np.stack([d.y for d in data]).astype(np.int64)


def loss(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, way: str) -> torch.Tensor:
    """The mean loss of one member: the vectors of both symbols, or the first layer applied to the table, looked up."""
    table = weights["embedding.weight"]
    if "embedding.map" in weights:
        table = linear(table, weights["embedding.map"])
    layers = [weights[name] for name in weights if name.startswith("layers.")]
    if way == "vectors":
        h = linear(embedding(x, table).flatten(1), layers[0])
    else:
        one, two = layers[0].chunk(2, dim=1)
        h = embedding(x[:, 0], linear(table, one)) + embedding(x[:, 1], linear(table, two))
    for layer in layers[1:]:
        h = linear(torch.relu(h), layer)
    return cross_entropy(h, y)


def _adam(weights: dict[str, torch.Tensor], optimizer: Any) -> torch.optim.Optimizer:
    betas, decay = (optimizer.beta1, optimizer.beta2), optimizer.weight_decay
    return torch.optim.AdamW(
        list(weights.values()), lr=optimizer.lr, betas=betas, eps=optimizer.eps, weight_decay=decay, fused=True
    )


class TorchLoop:
    """One member: others take as long."""

    def __init__(self, setting: Any, way: str) -> None:
        arrays, x, y = start(setting, 1)
        self.way, self.x, self.y = way, torch.from_numpy(x[0]), torch.from_numpy(y[0])
        self.parameters = {name: torch.from_numpy(a[0]).requires_grad_() for name, a in arrays.items()}
        self.adam = _adam(self.parameters, setting.run.optimizer)

    def advance(self, num_steps: int) -> int:
        """Steps; the number of model-steps."""
        for _ in range(num_steps):
            self.adam.zero_grad()
            loss(self.parameters, self.x, self.y, self.way).backward()
            self.adam.step()
        return num_steps

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of the member, as a stack of one."""
        return {name: value.detach()[None] for name, value in self.parameters.items()}


class TorchVmap:
    """A stack of members."""

    def __init__(self, setting: Any, way: str, members: int) -> None:
        arrays, x, y = start(setting, members)
        self.members, self.x, self.y = members, torch.from_numpy(x), torch.from_numpy(y)
        self.parameters = {name: torch.from_numpy(a) for name, a in arrays.items()}
        self.adam = _adam(self.parameters, setting.run.optimizer)
        self.gradient = vmap(grad(lambda weights, x, y: loss(weights, x, y, way)))

    def advance(self, num_steps: int) -> int:
        """Steps of all members; the number of model-steps."""
        for _ in range(num_steps):
            for name, gradient in self.gradient(self.parameters, self.x, self.y).items():
                self.parameters[name].grad = gradient
            self.adam.step()
        return num_steps * self.members

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of the stack."""
        return self.parameters
