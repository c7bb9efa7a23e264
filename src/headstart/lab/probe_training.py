"""The training of one run of a probe, which can be stopped and goes on exactly."""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.probe_arms import ProbeArm, full_arm
from headstart.lab.probe_factory import asking
from headstart.lab.probe_problem import Problem, Split, generators, seeded, split
from headstart.lab.workers import Advanced, in_worker
from headstart.plans import PhasedBatchSampler

# A run under way is saved this often, in seconds, and when it is told to stop.
_SAVE_EVERY = 10.0


@dataclass(frozen=True)
class Branch:
    """Where a run begins that goes on from a warmed-up state with batches of another size.

    The state is that of `warmup` steps at the problem's own batch size, the rate `lr` and the seed `seed`. What is
    recorded is minus the loss on test rows, and the run ends once that was at `until` at two records in a row.
    """

    warmup: int
    lr: float
    seed: int
    batch_size: int
    until: float | None = None


@dataclass(frozen=True)
class ProbeRun:
    """An arm at a learning rate and a seed, the steps at which it is evaluated, and where it begins if not anew."""

    arm: ProbeArm
    lr: float
    seed: int
    records: tuple[int, ...]
    branch: Branch | None = None


@dataclass(frozen=True)
class ProbeCurve:
    """What a run recorded: the test metric [records], whether it was lost, and how many steps it took."""

    curve: tuple[float, ...]
    diverged: bool
    steps: int


class Stopped(Exception):
    """A run was told to stop, and has written its checkpoint."""


class Training:
    """One run under way, which can be taken further from record to record."""

    def __init__(self, problem: Problem, data: Split, arm: ProbeArm, lr: float, seed: int, device: str = "cpu") -> None:
        self.problem, self.data, self.device = problem, data, device
        self.sampler = PhasedBatchSampler(data.num_train, arm.schedule, problem.batch_size, seed % 2**32, 1, 0)
        self.step, self.diverged, self.num_trained = 0, False, 0
        self.curve: list[float] = []
        with seeded(seed, device):
            with asking("Problem(model=...)"):
                self.model = problem.model().to(device)
            self.optimizer = problem.build_optimizer(self.model.parameters(), lr)
            random = [generator.get_state() for generator in generators(device)]
            self.curve.append(self.evaluate())
        self._random = random
        self._batches: Any = None

    def advance(self, to: int) -> None:
        """Train up to step `to` and record there."""
        if self._batches is None:
            self._batches = iter(self.sampler)
        with seeded(0, self.device):
            for generator, state in zip(generators(self.device), self._random, strict=True):
                generator.set_state(state)
            while self.step < to and not self.diverged:
                self._train()
                self.step += 1
            self.step = to
            # What is lost counts as having learned nothing.
            self.curve.append(self.curve[0] if self.diverged else self.evaluate())
            self._random = [generator.get_state() for generator in generators(self.device)]

    def _train(self) -> None:
        import torch

        self.model.train()
        self.optimizer.zero_grad()
        loss = self.problem.training_loss(self.model, self.data.batch(next(self._batches)))
        self.num_trained += 1
        if not torch.isfinite(loss):
            self.diverged = True
            return
        with asking("the backward pass"):
            loss.backward()
        self.optimizer.step()

    def evaluate(self) -> float:
        """The metric on the test rows: the mean over batches, weighed by their rows."""
        self.model.eval()
        total, rows = 0.0, 0
        for num, batch in self.data.test:
            total, rows = total + self.problem.test_metric(self.model, batch) * num, rows + num
        if np.isfinite(total):
            return total / rows
        if not self.curve:
            raise HeadstartError(f"Problem(metric=...): the metric of the untrained model is {total / rows}")
        self.diverged = True
        return self.curve[0]

    def save(self, path: Path) -> None:
        """Write all that changes: weights, the optimizer's memory, generators, place and curve."""
        import torch

        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": self._random,
            "sampler": self.sampler.state_dict(),
            "curve": self.curve,
            "counts": [self.step, self.num_trained, int(self.diverged)],
        }
        with replacing(path) as temporary:
            torch.save(state, temporary)

    def load(self, path: Path) -> None:
        """Go on from what `save` wrote."""
        import torch

        state = torch.load(path, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._random = [each.cpu() for each in state["random"]]
        self.sampler.load_state_dict(state["sampler"])
        self.curve = list(state["curve"])
        self.step, self.num_trained, diverged = state["counts"]
        self.diverged = bool(diverged)


def train_run(
    problem: Problem,
    data: Split,
    run: ProbeRun,
    device: str = "cpu",
    checkpoint: Path | None = None,
    heard: Callable[[int], bool] = lambda steps: False,
) -> ProbeCurve:
    """Train one run to its end, from its checkpoint if there is one.

    `heard(steps)` is told how many steps were done since it was last called, and answers whether to stop.
    """
    training = _begun(problem, data, run, device)
    if checkpoint is not None and checkpoint.exists():
        training = _resumed(training, checkpoint) or _begun(problem, data, run, device)
        heard(training.step)
    saved = time.monotonic()
    for step in run.records[len(training.curve) :]:
        before = training.step
        if run.branch is not None and _is_there(training.curve, run.branch.until):
            heard(run.records[-1] - before)  # as if it had gone to its end
            training.curve += [training.curve[-1]] * (len(run.records) - len(training.curve))
            break
        training.advance(step)
        stop = heard(step - before)
        if checkpoint is not None and (stop or time.monotonic() - saved > _SAVE_EVERY) and step < run.records[-1]:
            _save(training, checkpoint)
            saved = time.monotonic()
        if stop:
            raise Stopped
    return ProbeCurve(tuple(training.curve), training.diverged, training.num_trained)


def _is_there(curve: list[float], until: float | None) -> bool:
    return until is not None and len(curve) > 2 and min(curve[-2:]) >= until


def _begun(problem: Problem, data: Split, run: ProbeRun, device: str) -> Training:
    """A run at its beginning: a fresh model, or the warmed-up one with the branch's rate and batches."""
    branch = run.branch
    if branch is None:
        return Training(problem, data, run.arm, run.lr, run.seed, device)
    model, optimizer = _warmed(problem, data, branch, device)
    own = replace(problem, batch_size=branch.batch_size, metric=None)
    training = Training(own, data, run.arm, run.lr, run.seed, device)
    training.model.load_state_dict(model)
    training.optimizer.load_state_dict(deepcopy(optimizer))
    for group in training.optimizer.param_groups:
        group["lr"] = group["lr"] * (run.lr / branch.lr)
    training.curve.clear()
    training.curve.append(training.evaluate())
    return training


# The state that the branches of one probe begin from, made once in each process.
_warm: dict[tuple[Any, ...], tuple[Split, Any]] = {}


def _warmed(problem: Problem, data: Split, branch: Branch, device: str) -> Any:
    """The states of model and optimizer after the warm-up."""
    key = (id(data), branch.warmup, branch.lr, branch.seed, device)
    if key not in _warm:
        training = Training(problem, data, full_arm(branch.warmup), branch.lr, branch.seed, device)
        training.advance(branch.warmup)
        if training.diverged:
            raise HeadstartError(
                f"probe_batch(warmup={branch.warmup}): the warm-up diverged at lr={branch.lr:g}; lower Problem(lr=...)"
            )
        _warm.clear()
        # The split is held, so that no other can have its id.
        _warm[key] = data, (deepcopy(training.model.state_dict()), deepcopy(training.optimizer.state_dict()))
    return _warm[key][1]


def _save(training: Training, checkpoint: Path) -> None:
    # A checkpoint only saves time: a full disk, or an optimizer without a state_dict, is no reason to end.
    try:
        training.save(checkpoint)
    except (OSError, RuntimeError, AttributeError):
        checkpoint.unlink(missing_ok=True)


def _resumed(training: Training, checkpoint: Path) -> Training | None:
    try:
        training.load(checkpoint)
    except Exception:  # cut short, or of another version of torch: the run begins again
        return None
    return training


@lru_cache(maxsize=1)
def _prepared(factory: str, seed: int, most: int, device: str) -> tuple[Problem, Split]:
    """The problem in a worker, built once."""
    problem = Problem.of(factory)
    return problem, split(problem, seed, most, device)


def train_in_worker(
    where: tuple[str, int, int, str], run: ProbeRun, checkpoint: Path | None, seconds_per_step: float
) -> ProbeCurve:
    """The same in a process of a pool, which finds the factory by its name."""
    say, is_stopping = in_worker()

    def heard(steps: int) -> bool:
        say(Advanced(steps * seconds_per_step))
        return is_stopping()

    return train_run(*_prepared(*where), run, where[-1], checkpoint, heard)


def records_of(steps: int, num: int) -> tuple[int, ...]:
    """The steps at which runs are evaluated: `num` evenly spaced, and closer where easy problems are over early.

    Runs of few steps have fewer records, or evaluations would take most of the time.
    """
    num = min(num, max(10, steps // 4))
    even, early = np.linspace(0, steps, num), np.geomspace(1, steps, num // 2)
    return tuple(np.unique([0, *np.round(even), *np.round(early)]).astype(int).tolist())


def seconds_of(
    problem: Problem, data: Split, arm: ProbeArm, seed: int, device: str
) -> tuple[float, float, list[float]]:
    """Seconds per step and per evaluation, measured over a few, and the numbers seen on the way."""
    training = Training(problem, data, arm, problem.lr, seed, device)
    training.advance(1)  # the first one is slow
    began = time.monotonic()
    training.evaluate()
    evaluating = time.monotonic() - began
    began, evaluations = time.monotonic(), 1
    training.advance(4)
    seen = list(training.curve)
    while time.monotonic() - began < 0.3 and training.step < 40:
        training.advance(training.step + 12)
        evaluations += 1
    spent = time.monotonic() - began - evaluations * evaluating
    return max(spent / (training.step - 1), 1e-6), evaluating, seen
