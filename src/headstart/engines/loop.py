"""The reference engine: one run at a time, plain PyTorch. What it computes is what every other engine must compute."""

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.core.trace import Status, Trace
from headstart.core.units import FullBatch, flops_per_sample
from headstart.engines.engine import Interrupted, Job, Outcome, Watch
from headstart.engines.lower import Lowered, has_diverged, lower, samples_processed
from headstart.models import Weights
from headstart.plans import Place
from headstart.run import At, Reaches, Run, Step, reached
from headstart.tasks import Samples, held_out

# Gradients of a full batch are summed over chunks this long, so that activations stay in cache.
CHUNK = 2**11
# Mini-batches are drawn for this many steps at once; ids are pure functions of the step, so nothing else changes.
BLOCK = 64


@dataclass(frozen=True)
class Loop:
    """Plain PyTorch, one run at a time, on one thread, with a checkpoint every `checkpoint_seconds`."""

    checkpoint_seconds: float = 10.0
    name: str = "loop"
    in_threads: bool = False

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """Everything."""
        return None

    def group_key(self, run: Run) -> Hashable:
        """Every run is alone: nothing is shared."""
        return run.cell, run.seed

    def least_members(self, run: Run) -> int:
        """One."""
        return 1

    def seconds(self, run: Run) -> float:
        """From a step of about 0.3 ms and 30 ps a training FLOP; evaluation counts as a third."""
        flops = flops_per_sample(run.model.parameters(run.task.dim))
        samples = samples_processed(run)
        evaluation = len(run.budget.recorded_steps()) * run.task.num_test * flops / 3
        return run.budget.steps * 3e-4 + 3e-11 * (samples * flops + evaluation)

    def memory(self, run: Run) -> float:
        """The largest pool, the test set, one chunk of activations and the weights with their optimizer state."""
        course = lower(run).course
        rows = [pool.size or (run.task.population_size or 0) for pool in (leg.pool for leg in course.legs)]
        pooled = max(rows) if isinstance(run.batch, FullBatch) else max(leg.pool.size or 0 for leg in course.legs)
        parameters = sum(int(np.prod(p.shape)) for p in run.model.parameters(run.task.dim))
        return 4.0 * ((pooled + run.task.num_test + BLOCK * (course.batch or 0)) * (run.task.dim + 1) + 16 * parameters)

    def train(self, jobs: Sequence[Job], device: str = "cpu", watch: Watch | None = None) -> Iterator[Outcome]:
        """Train the jobs one after another."""
        check_device(device)
        for index, job in enumerate(jobs):
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # small steps are slower on two threads, and sums must not depend on the count
            try:
                yield _Training(job, device, self.checkpoint_seconds).finish(index, watch)
            finally:
                torch.set_num_threads(threads)


def check_device(device: str) -> None:
    """Raise unless torch can use the device here."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device, False):
        here = ", ".join(name for name, there in available.items() if there)
        raise HeadstartError(f"--device {device}: not available on this machine; there is {here}")


class _Feed:
    """The tensors of each step's batch: pools are made once, fresh samples a block of steps at a time."""

    def __init__(self, run: Run, lowered: Lowered, device: str) -> None:
        self.run, self.lowered, self.course, self.device = run, lowered, lowered.course, device
        self.leg: int | None = None
        self.block: tuple[tuple[int, int], int, int] | None = None
        self.x, self.y = torch.empty(0), torch.empty(0)
        self.block_x, self.block_y = torch.empty(0), torch.empty(0)

    def batch(self, place: Place, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs [n, dim] and targets [n] of the batch at `step`."""
        self._hold(place)
        size = self.course.batch
        if size is None:
            return self.x, self.y
        if self.block is None or self.block[0] != place.stretch or not self.block[1] <= step < self.block[2]:
            self._draw(place, step)
        assert self.block is not None
        rows = slice((step - self.block[1]) * size, (step - self.block[1] + 1) * size)
        return self.block_x[rows], self.block_y[rows]

    def _hold(self, place: Place) -> None:
        if place.leg == self.leg:
            return
        self.leg = place.leg
        if self.course.pool(place).size is not None:
            self.x, self.y = self._tensors(self.lowered.pool(place.leg))
        elif self.course.batch is None:
            self.x, self.y = self._tensors(self.run.task.population(self.run.seed))

    def _draw(self, place: Place, step: int) -> None:
        left = self.course.steps_left(place, step)
        num_steps = BLOCK if left is None else min(BLOCK, left)
        ids = self.course.ids(place, step, num_steps)
        pool = self.course.pool(place)
        if pool.size is None:
            self.block_x, self.block_y = self._tensors(self.lowered.draw(place.leg, ids))
        else:
            rows = torch.from_numpy(ids - pool.first).to(self.device)
            self.block_x, self.block_y = self.x[rows], self.y[rows]
        self.block = (place.stretch, step, step + num_steps)

    def _tensors(self, data: Samples) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(data.x).to(self.device), torch.from_numpy(data.y).to(self.device)


@dataclass
class _Records:
    """The growing curves of a run."""

    steps: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, step: int, samples: int, values: dict[str, float]) -> None:
        self.steps.append(step)
        self.samples.append(samples)
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)


class _Training:
    """One run under way. Everything that changes is in the module, the optimizer and the fields saved by `_save`."""

    def __init__(self, job: Job, device: str, checkpoint_seconds: float) -> None:
        self.job, self.run, self.device = job, job.run, device
        self.checkpoint_seconds = checkpoint_seconds
        lowered = lower(self.run)
        self.course = lowered.course
        self.module, self.groups = _build(self.run, lowered, job.start, device)
        self.optimizer = self.run.optimizer.build(self.groups)
        self.flops = flops_per_sample(lowered.parameters)
        self.roles = {p.name: p.role for p in lowered.parameters}
        self.feed = _Feed(self.run, lowered, device)
        self.aside = None if lowered.aside is None else _Feed(self.run, lowered.aside, device)
        test = held_out(self.run.task, self.run.seed)
        self.test = tuple(torch.from_numpy(a).to(device) for a in (test.x, test.y))
        self.step, self.samples, self.seconds = 0, 0, 0.0
        self.place = self.course.start(self.run.seed)
        self.observed: float | None = None
        self.records = _Records()
        self.kept: dict[At, Weights] = {}

    def finish(self, index: int, watch: Watch | None) -> Outcome:
        """Train to the end of the budget, or to divergence."""
        self._load()
        began = saved = time.monotonic()
        before = self.seconds
        recorded = set(self.run.budget.recorded_steps())
        status = Status.FINISHED
        while True:
            self.place = self.course.observe(self.place, self.step, self.observed)
            if self.step in recorded and self.step not in self.records.steps[-1:]:
                values = self._evaluate()
                first = {name: curve[0] for name, curve in self.records.values.items()}
                if has_diverged(values, first or None):
                    status = Status.DIVERGED
                    break
                self.records.add(self.step, self.samples, values)
                self._keep()
                self.seconds = before + time.monotonic() - began
                due = time.monotonic() - saved > self.checkpoint_seconds
                stop = watch(index, self.step) if watch else False
                if (due or stop) and self.step < self.run.budget.steps:
                    self._save()
                    saved = time.monotonic()
                    if stop:
                        raise Interrupted
            elif self.job.keep:
                self._keep()
            if self.step == self.run.budget.steps:
                break
            self._advance()
        self.seconds = before + time.monotonic() - began
        return Outcome(self.run, self._trace(status), {at: self.kept.get(at) for at in self.job.keep})

    def _advance(self) -> None:
        """One optimizer step on the mean loss of the batch. A course that adapts observes the batch's metric."""
        x, y = self.feed.batch(self.place, self.step)
        aside = self._gradients_aside()
        self.optimizer.zero_grad(set_to_none=True)
        score = 0.0
        for chunk_x, chunk_y in zip(x.split(CHUNK), y.split(CHUNK), strict=True):
            prediction = self.module(chunk_x)
            loss = self.run.loss(prediction, chunk_y).sum() / len(y)
            loss.backward()
            if self.course.adaptive:
                scores = self.run.task.metrics[0].score(prediction.detach(), chunk_y)
                score += scores.double().mean().item() * len(chunk_y)
        self.observed = score / len(y) if self.course.adaptive else None
        for weight, gradient in aside:
            weight.grad = gradient
        self.optimizer.step()
        self.step += 1
        self.samples += len(y) + self.course.samples_aside

    def _gradients_aside(self) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Gradients at the same weights on another batch, for the parameters that learn from it."""
        if self.course.aside is None or self.aside is None:
            return []
        x, y = self.aside.batch(self.course.aside.course.start(self.run.seed), self.step)
        named = dict(self.module.named_parameters())
        chosen = [named[name] for name, role in self.roles.items() if role in self.course.aside.roles]
        if not chosen:
            return []
        gradients = torch.autograd.grad(self.run.loss(self.module(x), y).mean(), chosen)
        return list(zip(chosen, gradients, strict=True))

    @torch.no_grad()
    def _evaluate(self) -> dict[str, float]:
        """Test metrics, the same on the batch the next step takes, and weight norms by role."""
        values = {}
        batches = {"test": self.test, "train": self.feed.batch(self.place, self.step)}
        for split, (x, y) in batches.items():
            prediction = torch.cat([self.module(chunk) for chunk in x.split(CHUNK)])
            for metric in self.run.task.metrics:
                values[f"{split}_{metric.name}"] = metric.score(prediction, y).double().mean().item()
            values[f"{split}_loss"] = self.run.loss(prediction, y).double().mean().item()
        squares: dict[str, float] = {}
        for name, weight in self.module.named_parameters():
            role = f"norm_{self.roles[name]}"
            squares[role] = squares.get(role, 0.0) + weight.double().square().sum().item()
        return values | {role: square**0.5 for role, square in squares.items()}

    def _keep(self) -> None:
        """Copy the weights at each moment asked for that is now."""
        for at in self.job.keep:
            if at in self.kept:
                continue
            now = self.step == at.step if isinstance(at, Step) else self._reached_now(at)
            if now:
                self.kept[at] = {k: v.detach().cpu().numpy().copy() for k, v in self.module.state_dict().items()}

    def _reached_now(self, at: Reaches) -> bool:
        values = {name: np.asarray(curve) for name, curve in self.records.values.items()}
        return self.records.steps[-1:] == [self.step] and reached(self.run, at, values)

    def _trace(self, status: Status) -> Trace:
        samples = np.asarray(self.records.samples, dtype=np.int64)
        return Trace(
            cell=self.run.cell,
            seed=self.run.seed,
            steps=np.asarray(self.records.steps, dtype=np.int64),
            samples=samples,
            flops=samples.astype(np.float64) * self.flops,
            values={k: np.asarray(v, dtype=np.float64) for k, v in self.records.values.items()},
            status=status,
            seconds=self.seconds,
        )

    def _save(self) -> None:
        """Write the whole state."""
        path = self.job.checkpoint
        if path is None:
            return
        state = {
            "run": [self.run.cell, self.run.seed],
            "step": self.step,
            "samples": self.samples,
            "seconds": self.seconds,
            "place": list(self.place),
            "module": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "records": [self.records.steps, self.records.samples, self.records.values],
            "kept": [{k: torch.from_numpy(v) for k, v in self.kept[at].items()} for at in self.kept],
            "kept_at": [self.job.keep.index(at) for at in self.kept],
            "keep": repr(self.job.keep),
        }
        with replacing(path) as temporary:
            torch.save(state, temporary)

    def _load(self) -> None:
        """Go on from the checkpoint if there is one that fits; a checkpoint that cannot be read is not used."""
        path: Path | None = self.job.checkpoint
        if path is None or not path.exists():
            return
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
        except Exception:  # torch raises many kinds for a damaged file; training from the start is always right
            return
        mine = {"run": [self.run.cell, self.run.seed], "keep": repr(self.job.keep)}
        if not isinstance(state, dict) or {name: state.get(name) for name in mine} != mine:
            return
        self.step, self.samples, self.seconds = state["step"], state["samples"], state["seconds"]
        self.place = Place(*state["place"])
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.records = _Records(*state["records"])
        self.kept = {
            self.job.keep[i]: {k: v.cpu().numpy() for k, v in weights.items()}
            for i, weights in zip(state["kept_at"], state["kept"], strict=True)
        }


def _build(
    run: Run, lowered: Lowered, start: Weights | None, device: str
) -> tuple[torch.nn.Module, list[dict[str, Any]]]:
    """The module with its initial weights, and one parameter group a parameter."""
    weights = lowered.scaled(run.fresh_weights()) if start is None else start
    module = run.model.module(run.task.dim).to(device)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    named = dict(module.named_parameters())
    groups = [{"params": [named[p.name]], "lr": lr} for p, lr in zip(lowered.parameters, lowered.rates, strict=True)]
    return module, groups
