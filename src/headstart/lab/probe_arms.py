"""The arms of a probe, equal in compute, and the training of one run."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.lab.probe_problem import Problem, Split, seeded
from headstart.plans import Phase, PhasedBatchSampler, PhaseSchedule

FULL = "full data"


@dataclass(frozen=True)
class ProbeArm:
    """A way to spend the same number of steps: a schedule, and the line of code that makes it."""

    name: str
    schedule: PhaseSchedule
    code: str


def probe_arms(num_rows: int, batch_size: int, steps: int) -> tuple[ProbeArm, ...]:
    """All rows; fixed subsets of 1/64, 1/16 and 1/4 of the rows one pass could see; growing subsets, then all rows.

    One pass sees no more than batch x steps rows, so sizes are fractions of that or of the data set, the smaller one.
    A subset that is smaller than a batch is left out.
    """
    reach = min(num_rows, batch_size * steps)
    out = [ProbeArm(FULL, PhaseSchedule([], everything=steps), f"hs.PhaseSchedule([], everything={steps})")]
    for part in (64, 16, 4):
        size = reach // part
        if batch_size <= size < num_rows:
            code = f"hs.PhaseSchedule([hs.Phase(size={size})], steps={steps}, everything=None)"
            schedule = PhaseSchedule([Phase(size=size)], steps=steps, everything=None)
            out.append(ProbeArm(f"{size} rows", schedule, code))
    first, last = max(reach // 128, batch_size) / num_rows, max(reach // 8, batch_size) / num_rows
    if len(out) > 1 and last < 1 and steps >= 8:
        half = steps // 2
        numbers = f"first={first:.3g}, last={last:.3g}, phases=4, steps={steps}, everything={steps - half}"
        schedule = PhaseSchedule.geometric(
            float(f"{first:.3g}"), float(f"{last:.3g}"), 4, steps=steps, everything=steps - half, replacement=True
        )
        out.append(ProbeArm("phases", schedule, f"hs.PhaseSchedule.geometric({numbers})"))
    if len(out) < 2:
        raise HeadstartError(
            f"probe: {num_rows} rows and batches of {batch_size} leave no smaller subset to try; lower batch_size"
        )
    return tuple(out)


class Training:
    """One run under way: an arm at a learning rate and a seed, which can be taken further step by step."""

    def __init__(self, problem: Problem, data: Split, arm: ProbeArm, lr: float, seed: int) -> None:
        import torch

        self.problem, self.data, self.lr, self.seed = problem, data, lr, seed
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "this schedule uses")  # an arm of a subset alone leaves rows out
            sampler = PhasedBatchSampler(data.num_train, arm.schedule, problem.batch_size, seed % 2**32, 1, 0)
        self._batches = iter(sampler)
        with seeded(seed):
            self.model = problem.model()
            self._random = torch.default_generator.get_state()
        self.optimizer = problem.build_optimizer(self.model.parameters(), lr)
        self.step, self.diverged = 0, False
        self.steps, self.curve = [0], [self.evaluate()]

    def advance(self, to: int) -> int:
        """Train up to step `to` and record there; the number of steps it took."""
        import torch

        took = 0
        with seeded(0):
            torch.default_generator.set_state(self._random)
            while self.step < to:
                if not self.diverged:
                    self._train()
                    took += 1
                self.step += 1
            # What is lost counts as having learned nothing.
            self.steps.append(self.step)
            self.curve.append(self.curve[0] if self.diverged else self.evaluate())
            self._random = torch.default_generator.get_state()
        return took

    def _train(self) -> None:
        import torch

        self.model.train()
        inputs, targets = self.data.batch(next(self._batches))
        self.optimizer.zero_grad()
        loss = self.problem.loss(self.model(inputs), targets)
        if not isinstance(loss, torch.Tensor) or loss.ndim:
            raise HeadstartError("Problem(loss=...): loss(prediction, target) returns a scalar tensor; take its mean")
        if not torch.isfinite(loss):
            self.diverged = True
            return
        loss.backward()
        self.optimizer.step()

    def evaluate(self) -> float:
        """The metric on the test rows: the mean over batches, weighed by their rows."""
        import torch

        self.model.eval()
        total, rows = 0.0, 0
        with torch.no_grad():
            for inputs, targets in self.data.test:
                value = float(self.problem.metric(self.model(inputs), targets))
                total, rows = total + value * len(targets), rows + len(targets)
        if not np.isfinite(total) and not self.step:
            raise HeadstartError(f"Problem(metric=...): the metric of the untrained model is {total / rows}")
        self.diverged = self.diverged or not np.isfinite(total)
        return total / rows if np.isfinite(total) else self.curve[0]

    def record(self) -> Any:
        """(steps, metric): float64[records] each."""
        return np.asarray(self.steps, dtype=np.float64), np.asarray(self.curve)
