"""Sparse parity in plain PyTorch: all rows from the beginning, or growing subsets first.

python examples/parity.py            # seconds on one core
python examples/parity.py --steps 50 # less: only that it runs

The label is the product of four of thirty signs. A network sees nothing for a long time, then learns at once; repeating
subsets first brings that moment forward (Less Data, Faster Training, Fig. 2). The rate is the best of 0.2, 0.3, 0.4 and
0.5 both ways.
"""

import argparse

import torch
from torch import nn

import headstart as hs

ROWS, DIM, DEGREE, WIDTH, BATCH, RATE = 2**18, 30, 4, 64, 128, 0.4

Curve = list[tuple[int, float]]


def signs(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random signs [rows, DIM] and the product of the first four."""
    x = 2.0 * torch.randint(0, 2, (rows, DIM), generator=torch.Generator().manual_seed(seed)) - 1.0
    return x, x[:, :DEGREE].prod(dim=1)


def network() -> nn.Module:
    """Four layers without biases."""
    one, two, three = (nn.Linear(size, WIDTH, bias=False) for size in (DIM, WIDTH, WIDTH))
    last = nn.Linear(WIDTH, 1, bias=False)
    return nn.Sequential(one, nn.ReLU(), two, nn.ReLU(), three, nn.ReLU(), last, nn.Flatten(0))


def train(schedule: hs.PhaseSchedule, seed: int = 0) -> Curve:
    """(step, test accuracy) on the way; the loop is anybody's."""
    torch.manual_seed(seed)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    (x, y), (x_test, y_test) = signs(ROWS, seed=0), signs(4096, seed=1)
    sampler = hs.PhasedBatchSampler(x, schedule, batch_size=BATCH, seed=seed)
    curve = []
    for step, rows in enumerate(sampler, start=1):
        optimizer.zero_grad()
        ((model(x[rows]) - y[rows]) ** 2).mean().backward()
        optimizer.step()
        if step % max(1, len(sampler) // 12) == 0:
            with torch.no_grad():
                curve.append((step, (model(x_test) * y_test > 0).float().mean().item()))
    return curve


def main(steps: int = 600, seeds: int = 5) -> dict[str, list[Curve]]:
    """Train both ways from several seeds and print the mean accuracies side by side."""
    schedules = {
        "all rows": hs.PhaseSchedule([], everything=steps),
        "subsets first": hs.PhaseSchedule.geometric(1 / 128, 1 / 16, 3, steps=steps),
    }
    curves = {name: [train(schedule, seed) for seed in range(seeds)] for name, schedule in schedules.items()}
    print(f"{'step':>6}  " + "  ".join(f"{name:>14}" for name in curves))
    for number, (step, _) in enumerate(curves["all rows"][0]):
        means = [sum(curve[number][1] for curve in each) / seeds for each in curves.values()]
        print(f"{step:>6}  " + "  ".join(f"{mean:>14.3f}" for mean in means))
    return curves


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="sparse parity, all rows or subsets first")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the layers are small
    main(arguments.steps, arguments.seeds)
