"""What the sampler costs: microseconds a batch beside torch's RandomSampler, and the share of a small training step.

python -m benchmarks.sampler

The small step is a two-layer MLP of width 64 on one core, batches of 128 through a DataLoader: about as little work as
a training step can be. Times are processor time, the least of several repeats: what else the machine does matters less.
"""

import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

import headstart as hs

BATCH, STEPS, REPEATS = 128, 4000, 7
TIMED_STEPS = 300
ROWS = (60_000, 1_000_000, 10_000_000)


def least_time(make: Callable[[], Iterable[Any]], num: int, repeats: int = REPEATS) -> float:
    """Seconds an item: the least over repeats of taking `num` items, the set-up included."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        for _ in islice(make(), num):
            pass
        times.append((time.process_time() - began) / num)
    return min(times)


def phased(rows: int) -> hs.PhasedBatchSampler:
    """The sampler on the default geometric phases with everything in the end."""
    return hs.PhasedBatchSampler(rows, hs.PhaseSchedule.geometric(steps=STEPS, everything=STEPS // 2), BATCH)


def shuffled(rows: int) -> BatchSampler:
    """What DataLoader(shuffle=True) uses."""
    return BatchSampler(RandomSampler(range(rows)), BATCH, drop_last=True)


def small_steps(data: TensorDataset) -> Iterable[None]:
    """Training steps of a small network on batches in order, so that no sampler is in their time."""
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in DataLoader(data, batch_size=BATCH):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        yield


def measure(rows: int, repeats: int = REPEATS) -> dict[str, float]:
    """Microseconds a batch of both samplers, of a step, and the phased sampler's share of the step."""
    torch.set_num_threads(1)
    ours = least_time(lambda: phased(rows), STEPS, repeats)
    torchs = least_time(lambda: shuffled(rows), min(STEPS, rows // BATCH), repeats)
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(50_000, 20, generator=generator), torch.randn(50_000, 1, generator=generator))
    step = least_time(lambda: small_steps(data), TIMED_STEPS, repeats)
    return {"phased": ours * 1e6, "random": torchs * 1e6, "step": step * 1e6, "share": ours / step}


def main() -> None:
    """Print the table."""
    print(f"{'rows':>10} {'PhasedBatchSampler':>20} {'RandomSampler':>15} {'small step':>12} {'share':>7}")
    for rows in ROWS:
        m = measure(rows)
        print(f"{rows:>10,} {m['phased']:>17.1f} us {m['random']:>12.1f} us {m['step']:>9.1f} us {m['share']:>6.1%}")


if __name__ == "__main__":
    main()
