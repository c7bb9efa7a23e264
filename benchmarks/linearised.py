"""Contestants of `benchmarks.local_signal`: steps of a network linearised at the start, by us and by torch.func.

WRN-10-1 on images of 32 x 32 in colour, two classes, cross-entropy, plain SGD on the expansion at the initial weights
with batch norm fixed. The recipe is what people write: torch.func.jvp of a plain module's functional_call, a backward
pass through it, torch's SGD; its tensors as they come, or with channels last in memory. Ours is a run on the loop
engine. In function space a step takes all rows, and kernels are made before: that is not in its time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, jvp
from torch.nn import functional

import headstart as hs
from headstart.engines.engine import Job
from headstart.engines.loop import _Training
from headstart.engines.member import Member
from headstart.engines.tangent import TangentTraining, _Kernels

RATE = 1e-4


@dataclass(frozen=True)
class Steps:
    """Steps on `batch` of `rows` made images; a full batch, where they are the same."""

    name: str
    rows: int
    batch: int

    @property
    def run(self) -> hs.Run:
        """The run of ours."""
        full = self.batch == self.rows
        return hs.Run(
            hs.MadeImages(self.rows, 8, side=32, channels=3, classes=2, rows=self.rows + 8),
            hs.WideResNet(),
            hs.Fixed(self.rows, replacement=False),
            hs.CrossEntropy(),
            hs.SGD(RATE),
            hs.FullBatch() if full else hs.Batch(self.batch),
            methods=(hs.Linearised(),),
            budget=hs.Budget(10**6, 10**6),
        )


class Ours:
    """The loop engine."""

    def __init__(self, steps: Steps) -> None:
        self.training, self.step = _Training(Member.of(0, Job(steps.run), "loop"), "cpu"), 0

    def advance(self, num: int) -> None:
        """So many steps."""
        self.training.advance([0], self.step, self.step + num)
        self.step += num

    @property
    def scores(self) -> torch.Tensor:
        """Of the test rows."""
        with torch.no_grad():
            return self.training._predict(self.training.test.x)


class Block(nn.Module):
    """A pre-activation block of torch's layers."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(width)])
        self.first = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        """The sum."""
        h = self.first(torch.relu(self.norms[0](x)))
        return self.second(torch.relu(self.norms[1](h))) + self.shortcut(x)


class Recipe:
    """torch.func.jvp on torch's own layers, with the weights and the fixed batch norm of ours."""

    def __init__(self, steps: Steps, channels_last: bool) -> None:
        format = torch.channels_last if channels_last else torch.contiguous_format
        ours = Ours(steps)
        widths = ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        blocks = [Block(*each) for each in widths]
        self.module = nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1, bias=False), *blocks, nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(64, 2),
        ).eval()  # fmt: skip
        self._take(ours.training.module)
        self.module.to(memory_format=format)
        rows = steps.run.task.population(0)
        self.x = torch.from_numpy(rows.x).contiguous(memory_format=format)
        self.y, self.batch, self.place = torch.from_numpy(rows.y), steps.batch, 0
        self.test = torch.from_numpy(ours.training.test.x.numpy())
        self.origin = {name: w.detach().clone() for name, w in self.module.named_parameters()}
        self.weights = {name: w.clone().requires_grad_() for name, w in self.origin.items()}
        self.optimizer = torch.optim.SGD(self.weights.values(), lr=RATE)

    def _take(self, module: Any) -> None:
        """The numbers of our module: each norm's, each convolution's, the readout's."""
        state, own = module.state_dict(), {}
        norms = {"weight": "scale", "bias": "shift", "running_mean": "running_mean", "running_var": "running_var"}
        for b in range(3):
            for part, place in (("first", 0), ("second", 1)):
                own[f"{b + 1}.{part}.weight"] = state[f"blocks.{b}.{part}.weight"]
                own |= {f"{b + 1}.norms.{place}.{t}": state[f"blocks.{b}.{part}.norm.{o}"] for t, o in norms.items()}
            own[f"{b + 1}.shortcut.weight"] = state[f"blocks.{b}.shortcut.weight"]
        own |= {f"4.{t}": state[f"norm.{o}"] for t, o in norms.items()}
        own |= {"0.weight": state["stem.weight"], "8.weight": state["readout.weight"], "8.bias": state["readout.bias"]}
        self.module.load_state_dict(own, strict=False)

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """The expansion."""
        change = {name: self.weights[name] - w for name, w in self.origin.items()}
        value, slope = jvp(lambda w: functional_call(self.module, w, (x,)), (self.origin,), (change,))
        return value + slope

    def advance(self, num: int) -> None:
        """So many steps, on the rows in order."""
        for _ in range(num):
            rows = slice(self.place, self.place + self.batch)
            self.place = (self.place + self.batch) % len(self.x)
            self.optimizer.zero_grad()
            functional.cross_entropy(self.predict(self.x[rows]), self.y[rows]).backward()
            self.optimizer.step()

    @property
    def scores(self) -> torch.Tensor:
        """Of the test rows."""
        with torch.no_grad():
            return self.predict(self.test)


class InFunctionSpace:
    """Full batches by the kernel, which is there."""

    def __init__(self, steps: Steps) -> None:
        self.part = TangentTraining(steps.run, (RATE,), (1,))
        with torch.no_grad():
            self.kernels = _Kernels(steps.run)

    def advance(self, num: int) -> None:
        """So many steps from the start, with the scores of the test rows after the last."""
        with torch.no_grad():
            TangentTraining(self.part.run, (RATE,), (num,))._one(self.kernels, RATE)


def all_steps(quick: bool) -> list[Steps]:
    """A batch, and all of some rows."""
    few = [Steps("linearised, batch 32", 64, 32)]
    return few if quick else [*few, Steps("linearised, all of 256 rows", 256, 256)]


def same_scores(steps: Steps, num: int = 3) -> float:
    """The largest difference of test scores of ours and the recipe after full batches."""
    both = Ours(steps), Recipe(steps, channels_last=True)
    for each in both:
        each.advance(num)
    return float(np.abs((both[0].scores - both[1].scores).numpy()).max())
