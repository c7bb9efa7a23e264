"""scikit-learn's digits with an MLP: ask the probe first.

python examples/digits.py            # a minute or two
python examples/digits.py --steps 40 # seconds: only that it runs

1797 images of 8 x 8 pixels are learned in a few passes. Growing subsets cost several times the compute here, and a
quarter of the rows is as good as all of them, as far as 32 seeds can tell: no reason to change anything.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

import headstart as hs


def problem() -> hs.Problem:
    """Images scaled to [0, 1], their classes, and a network of one hidden layer."""
    images, classes = load_digits(return_X_y=True)
    return hs.Problem(
        model=lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)),
        dataset=TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(classes)),
        loss=nn.functional.cross_entropy,
        metric=lambda logits, target: (logits.argmax(dim=1) == target).float().mean(),
        lr=0.03,
    )


def main(steps: int = 300, seeds: int = 8) -> hs.Probe:
    """Probe and print."""
    outcome = hs.probe(problem, steps=steps, seeds=seeds, rates=(0.3, 1.0, 3.0))
    print(outcome)
    return outcome


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="does repeating a subset of the digits pay?")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    main(arguments.steps, arguments.seeds)
