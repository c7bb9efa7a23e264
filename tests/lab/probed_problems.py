"""Problems as a user would write them: linear regression, and a sparse parity that only a network learns."""

from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import TensorDataset

import headstart as hs


def random_signs(rows, dim, seed):
    return 2.0 * torch.randint(0, 2, (rows, dim), generator=torch.Generator().manual_seed(seed)) - 1.0


def linear_regression():
    """y = <w, x> + noise: a subset has nothing that the data do not."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 10, generator=generator)
    y = x @ torch.linspace(-1, 1, 10) + 0.1 * torch.randn(20_000, generator=generator)
    return {
        "model": lambda: nn.Sequential(nn.Linear(10, 1), nn.Flatten(0)),
        "dataset": TensorDataset(x, y),
        "loss": nn.functional.mse_loss,
        "metric": lambda prediction, target: -nn.functional.mse_loss(prediction, target),
        "optimizer": torch.optim.SGD,
        "lr": 0.05,
    }


def network(*sizes):
    layers = [layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o, bias=False), nn.ReLU())]
    return nn.Sequential(*layers[:-1], nn.Flatten(0))


def parity(dim=20, degree=6, rows=2**18, width=64):
    """The product of six of twenty signs, from a quarter of all points, for a three-layer network."""
    x = random_signs(rows, dim, seed=0)
    test = random_signs(2048, dim, seed=1)
    return hs.Problem(
        model=lambda: network(dim, width, width, 1),
        dataset=TensorDataset(x, x[:, :degree].prod(dim=1)),
        test_set=TensorDataset(test, test[:, :degree].prod(dim=1)),
        loss=nn.functional.mse_loss,
        metric=lambda prediction, target: (prediction * target > 0).float().mean(),
        optimizer=torch.optim.SGD,
        batch_size=128,
        lr=0.25,
    )
