"""What the PyTorch peers train on: fresh samples from torch's own generator, or the finite set."""

from collections.abc import Iterator

import numpy as np
import torch

import headstart as hs
from benchmarks.workloads import Workload

# Floats of a block of steps drawn at once: large enough to amortise the calls, small enough to stay in cache.
BLOCK = 2**17


def batches(workload: Workload, first: int, members: int) -> "Signs | Normals | Whole":
    """The data of these members."""
    if not workload.is_online:
        return Whole(*(torch.from_numpy(a) for a in workload.finite_set(first, members)))
    source = Signs if isinstance(workload.run.task, hs.Parity) else Normals
    return source(workload, first, members)


class Signs:
    """Fresh uniform points of {-1, +1}^dim, x [members, batch, dim], with their parity, y [members, batch].

    The fastest way found in torch: random integers pick rows of a table of all points of half the coordinates. One
    random number a coordinate costs five times as much.
    """

    def __init__(self, workload: Workload, first: int, members: int) -> None:
        task, batch = workload.run.task, workload.samples
        assert task.dim % 2 == 0
        self.half = task.dim // 2
        points = np.arange(2**self.half)[:, None] >> np.arange(self.half) & 1
        table = 1 - 2 * torch.from_numpy(points).float()
        halves = [[i for i in task.support if i < self.half], [i - self.half for i in task.support if i >= self.half]]
        self.table, self.labels = table, [table[:, own].prod(1) for own in halves]
        self.steps = max(1, BLOCK // (members * batch * task.dim))
        self.rows = torch.empty(self.steps * members * batch * 2, dtype=torch.int32)
        self.x = torch.empty(self.steps, members, batch, task.dim)
        self.y = torch.empty(self.steps, members, batch)
        self.used = self.steps
        self.generator = torch.Generator().manual_seed(first)

    def draw(self) -> None:
        """Fill the block."""
        self.rows.random_(0, 2**self.half, generator=self.generator)
        torch.index_select(self.table, 0, self.rows, out=self.x.view(-1, self.half))
        pairs = self.rows.view(-1, 2)
        first, second = (labels.index_select(0, pairs[:, i]) for i, labels in enumerate(self.labels))
        torch.mul(first, second, out=self.y.view(-1))

    def take(self, num_steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The batches of the next steps."""
        for _ in range(num_steps):
            if self.used == self.steps:
                self.draw()
                self.used = 0
            self.used += 1
            yield self.x[self.used - 1], self.y[self.used - 1]


class Normals:
    """Fresh Gaussian points with the labels He_3(<w*, x>), w* as ours."""

    def __init__(self, workload: Workload, first: int, members: int) -> None:
        task, batch = workload.run.task, workload.samples
        assert task.link.degree == 3
        teachers = np.stack([task.teacher(seed) for seed in range(first, first + members)])
        self.teachers = torch.from_numpy(teachers).float().unsqueeze(-1)
        self.steps = max(1, BLOCK // (members * batch * task.dim))
        self.x = torch.empty(self.steps, members, batch, task.dim)
        self.y = torch.empty(self.steps, members, batch)
        self.used = self.steps
        self.generator = torch.Generator().manual_seed(first)

    def draw(self) -> None:
        """Fill the block."""
        self.x.normal_(generator=self.generator)
        z = self.y.unsqueeze(-1)
        torch.matmul(self.x, self.teachers, out=z)
        cube = z.square().sub_(3)
        z.mul_(cube)

    take = Signs.take


class Whole:
    """The finite set in every step."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def take(self, num_steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """The same batch again."""
        for _ in range(num_steps):
            yield self.x, self.y
