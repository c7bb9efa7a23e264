"""Problems as a user would write them: linear regression, sparse parities, a language model with batches of dicts."""

import argparse
from itertools import pairwise
from pathlib import Path

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


def small_parity():
    """The product of five of twelve signs, from 2^16 draws."""
    x = random_signs(2**16, 12, seed=0)
    return hs.Problem(
        model=lambda: nn.Sequential(
            nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)
        ),
        dataset=TensorDataset(x, x[:, :5].prod(dim=1)),
        loss=nn.functional.mse_loss,
        metric=lambda prediction, target: (prediction * target > 0).float().mean(),
        optimizer=torch.optim.SGD,
        lr=0.1,
    )


class Windows:
    """Stretches of 32 bytes of a text, as the rows of a language model."""

    def __init__(self, text, length=32):
        self.tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unfold(0, length, 8)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, row):
        return {"input_ids": self.tokens[row], "labels": self.tokens[row]}


def tiny_gpt2():
    """GPT-2 with two layers of width 32, on the bytes of a module of Python: its own loss, batches of dicts."""
    from transformers import GPT2Config, GPT2LMHeadModel

    text = Path(argparse.__file__).read_bytes()
    size = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 256}
    return hs.Problem(
        model=lambda: GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=0)),
        dataset=Windows(text[:-20_000]),
        test_set=Windows(text[-20_000:]),
        batch_size=16,
        lr=3e-3,
    )


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
