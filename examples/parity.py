"""Sparse parity in plain PyTorch: all rows from the beginning, or growing subsets first.

python examples/parity.py            # the real thing: minutes on one core
python examples/parity.py --steps 50 # seconds: only that it runs

The label is the product of six of twenty signs. A network sees nothing for a long time, then learns at once; repeating
subsets first brings that moment forward (Less Data, Faster Training, Fig. 2a).
"""

import argparse

import torch
from torch import nn
from torch.utils.data import TensorDataset

import headstart as hs

ROWS, DIM, DEGREE, WIDTH, BATCH, RATE = 2**18, 20, 6, 64, 128, 0.25


def signs(rows: int, seed: int) -> TensorDataset:
    """Random signs and the product of the first six."""
    x = 2.0 * torch.randint(0, 2, (rows, DIM), generator=torch.Generator().manual_seed(seed)) - 1.0
    return TensorDataset(x, x[:, :DEGREE].prod(dim=1))


def network() -> nn.Module:
    """Three layers without biases."""
    sizes = [nn.Linear(DIM, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 1, bias=False)]
    return nn.Sequential(sizes[0], nn.ReLU(), sizes[1], nn.ReLU(), sizes[2], nn.Flatten(0))


def train(schedule: hs.PhaseSchedule, seed: int = 0) -> list[tuple[int, float]]:
    """(step, test accuracy) on the way; the loop is anybody's."""
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    x_test, y_test = signs(4096, seed=1).tensors
    loader = hs.PhasedLoader(signs(ROWS, seed=0), schedule, batch_size=BATCH, seed=seed)
    curve = []
    for step, (inputs, targets) in enumerate(loader):
        if step % max(1, len(loader) // 20) == 0:
            with torch.no_grad():
                curve.append((step, (model(x_test) * y_test > 0).float().mean().item()))
        optimizer.zero_grad()
        ((model(inputs) - targets) ** 2).mean().backward()
        optimizer.step()
    return curve


def main(steps: int = 2200) -> dict[str, list[tuple[int, float]]]:
    """Train both ways and print the accuracies side by side."""
    schedules = {
        "all rows": hs.PhaseSchedule([], everything=steps),
        "subsets first": hs.PhaseSchedule.geometric(1 / 128, 1 / 8, 4, steps=steps),
    }
    curves = {name: train(schedule) for name, schedule in schedules.items()}
    print(f"{'step':>6}  " + "  ".join(f"{name:>14}" for name in curves))
    for points in zip(*curves.values(), strict=True):
        print(f"{points[0][0]:>6}  " + "  ".join(f"{accuracy:>14.3f}" for _, accuracy in points))
    return curves


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="sparse parity, all rows or subsets first")
    parser.add_argument("--steps", type=int, default=2200)
    main(parser.parse_args().steps)
