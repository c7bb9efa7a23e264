"""The reference engine: one run at a time, plain PyTorch. What it computes is what every other engine must compute."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call

from headstart.core.errors import HeadstartError
from headstart.core.samples import Samples
from headstart.core.state import State
from headstart.core.units import FullBatch
from headstart.engines.engine import Job, Outcome, Watch
from headstart.engines.lockstep import train_together
from headstart.engines.lower import Lowered, first_buffers, lower, samples_processed
from headstart.engines.member import Member
from headstart.engines.views import rewritten
from headstart.losses import Loss
from headstart.methods import Hook, fix_statistics
from headstart.plans import Place
from headstart.run import Precision, Run
from headstart.tasks import held_out

T = TypeVar("T")
# Gradients of a full batch are summed over chunks this long, so that activations stay in cache.
CHUNK = 2**11
# Mini-batches are drawn for this many steps at once, fewer where they have more bytes than this; ids are pure functions
# of the step, so nothing else changes.
BLOCK, _BLOCK_BYTES = 64, 2**26
# Steps of this many FLOPs gain from several threads.
_LARGE_STEP = 2e9


@dataclass(frozen=True)
class Loop:
    """Plain PyTorch, one run at a time, with a checkpoint every `checkpoint_seconds`.

    On one thread, but for models so large that they gain from more: those take as many as torch is set to, and their
    sums depend on the number.
    """

    checkpoint_seconds: float = 10.0
    name: str = "loop"
    in_threads: bool = False

    @property
    def hooks(self) -> frozenset[Hook]:
        """All."""
        return frozenset(Hook)

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """Everything that the device can compute."""
        if device == "mps" and run.precision is Precision.FLOAT64:
            return "mps has no float64; use Run(precision='float32') or the cpu"
        return None

    def group_key(self, run: Run) -> Hashable:
        """Every run is alone: nothing is shared."""
        return run.cell, run.seed

    def least_members(self, run: Run) -> int:
        """One."""
        return 1

    def seconds(self, run: Run) -> float:
        """From a step of about 0.3 ms and 30 ps per training FLOP; evaluation counts as a third."""
        flops, samples = lower(run).flops, samples_processed(run)
        evaluation = len(run.budget.recorded_steps()) * run.task.num_test * flops / 3
        return run.budget.steps * 3e-4 + 3e-11 * (samples * flops + evaluation)

    def memory(self, run: Run) -> float:
        """The largest pool, the test set, one chunk of activations and the weights with their optimizer state."""
        course = lower(run).course
        rows = [pool.size or (run.task.population_size or 0) for pool in (leg.pool for leg in course.legs)]
        pooled = max(rows) if isinstance(run.batch, FullBatch) else max(leg.pool.size or 0 for leg in course.legs)
        parameters = sum(int(np.prod(p.shape)) for p in run.parameters)
        each, batch = run.task.signature.num_inputs + 1, course.batch or 0
        return 4.0 * ((pooled + run.task.num_test + _steps_at_once(run, batch) * batch) * each + 16 * parameters)

    def train(self, jobs: Sequence[Job], device: str = "cpu", watch: Watch | None = None) -> Iterator[Outcome]:
        """Train the jobs one after another."""
        check_device(device)
        for index, job in enumerate(jobs):
            member = Member.of(index, job, self.name)
            training = _Training(member, device)
            ended = train_together([member], training, watch, self.checkpoint_seconds)
            within = nullcontext if _is_large(member.lowered) else one_thread
            yield from (outcome for _, outcome in each_within(within, ended))


def _steps_at_once(run: Run, batch: int) -> int:
    """For how many steps mini-batches are drawn."""
    return min(BLOCK, max(1, _BLOCK_BYTES // (4 * max(1, batch) * run.task.signature.num_inputs)))


def _is_large(lowered: Lowered) -> bool:
    """Whether steps gain from several threads."""
    return samples_processed(lowered.run) / lowered.run.budget.steps * lowered.flops >= _LARGE_STEP


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread: small steps are slower on two, and sums must not depend on the count."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def each_within(context: Callable[[], AbstractContextManager[None]], items: Iterator[T]) -> Iterator[T]:
    """The items, each made within a context that the caller does not see between them."""
    while True:
        with context():
            item = next(items, None)
        if item is None:
            return
        yield item


def check_device(device: str) -> None:
    """Raise unless torch can use the device here."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device, False):
        here = ", ".join(name for name, there in available.items() if there)
        raise HeadstartError(f"--device {device}: not available on this machine; there is {here}")


@dataclass(frozen=True)
class _Batch:
    """Inputs, targets and the weight of each target, None for equal ones."""

    x: torch.Tensor
    y: torch.Tensor
    weight: torch.Tensor | None = None

    def __getitem__(self, rows: Any) -> "_Batch":
        return _Batch(self.x[rows], self.y[rows], None if self.weight is None else self.weight[rows])

    @property
    def count(self) -> Any:
        """What a sum over targets is divided by to be a mean."""
        return self.y.numel() if self.weight is None else self.weight.sum()

    def chunks(self) -> Iterator["_Batch"]:
        """Parts that stay in cache."""
        return (self[first : first + CHUNK] for first in range(0, len(self.y), CHUNK))

    def weighted(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the targets times their weights."""
        return values if self.weight is None else values * self.weight.to(values.device)

    def mean(self, scores: torch.Tensor) -> float:
        """The mean over targets of a score, in float64."""
        # On the processor: not every device has float64.
        scores = scores.cpu().double()
        if self.weight is None:
            return scores.mean().item()
        weight = self.weight.cpu().double()
        return (scores * weight).sum().item() / weight.sum().item()

    def total(self, scores: torch.Tensor) -> float:
        """The sum over targets of a score times its weight, in float64; divided by `count`, the mean of a batch."""
        return self.weighted(scores.cpu().double()).sum().item()


class _Feed:
    """The tensors of each step's batch: pools are made once, fresh samples a block of steps at a time."""

    def __init__(self, lowered: Lowered, device: str) -> None:
        self.run, self.lowered, self.course, self.device = lowered.run, lowered, lowered.course, device
        self.leg: int | None = None
        self.block: tuple[tuple[int, int], int, int] | None = None
        self.pool = self.drawn = _Batch(torch.empty(0), torch.empty(0))

    def batch(self, place: Place, step: int) -> _Batch:
        """The batch at `step`."""
        self._hold(place)
        size = self.course.batch
        if size is None:
            return self.pool
        if self.block is None or self.block[0] != place.stretch or not self.block[1] <= step < self.block[2]:
            self._draw(place, step)
        assert self.block is not None
        return self.drawn[(step - self.block[1]) * size : (step - self.block[1] + 1) * size]

    def rows(self, place: Place, step: int) -> _Batch:
        """All rows of a finite pool, or the batch at `step`."""
        batch = self.batch(place, step)
        return batch if self.course.pool(place).size is None else self.pool

    def _hold(self, place: Place) -> None:
        if place.leg == self.leg:
            return
        self.leg = place.leg
        if self.course.pool(place).size is not None:
            self.pool = self.tensors(self.lowered.pool(place.leg))
        elif self.course.batch is None:
            self.pool = self.tensors(self.run.task.population(self.run.seed))

    def _draw(self, place: Place, step: int) -> None:
        left = self.course.steps_left(place, step)
        most = _steps_at_once(self.run, self.course.batch or 0)
        num_steps = most if left is None else min(most, left)
        # Rows of finite tasks end with the last step: nothing beyond the batch after it is asked for.
        num_steps = min(num_steps, self.run.budget.steps + 1 - step)
        ids = self.course.ids(place, step, num_steps)
        pool = self.course.pool(place)
        if pool.size is None:
            self.drawn = self.tensors(self.lowered.draw(place.leg, ids))
        else:
            self.drawn = self.pool[torch.from_numpy(ids - pool.first).to(self.device)]
        self.block = (place.stretch, step, step + num_steps)

    def tensors(self, data: Samples) -> _Batch:
        """Samples on the device; real numbers in the precision of the run, symbols as they are."""

        def moved(array: NDArray[Any] | None) -> Any:
            if array is None:
                return None
            real = np.issubdtype(array.dtype, np.floating)
            return torch.from_numpy(array.astype(self.lowered.dtype, copy=False) if real else array).to(self.device)

        return _Batch(moved(data.x), moved(data.y), moved(data.weight))


class _Training:
    """One run under way: the module, the optimizer, and the memory of its methods."""

    def __init__(self, member: Member, device: str) -> None:
        self.member, self.lowered, self.run = member, member.lowered, member.run
        self.course, self.device = self.lowered.course, device
        # Where the model is rewritten, at the start of the run, not where it goes on.
        rewrites = Hook.REWRITE in self.lowered.hooks
        self.frozen = rewrites and bool(first_buffers(self.run.model, self.run.task.signature))
        origin = self.lowered.begin(member.job.start).weights if rewrites else {}
        self.origin = {name: torch.from_numpy(array.copy()).to(device) for name, array in origin.items()}
        self.module = self.run.model.module(self.run.task.signature).to(device)
        if self.lowered.dtype is np.float64:
            self.module.double()
        self.named = dict(self.module.named_parameters())
        rates = zip(self.lowered.parameters, self.lowered.rates, strict=True)
        self.optimizer = self.run.optimizer.build([{"params": [self.named[p.name]], "lr": lr} for p, lr in rates])
        self.memory: dict[int, dict[str, torch.Tensor]] = {}
        state = member.take()
        self.set_state(state)
        self.feed = _Feed(self.lowered, device)
        if self.frozen and not state.buffers:
            fix_statistics(self.module, self.feed.rows(member.place, member.step).x)
        self.aside = None if self.lowered.aside is None else _Feed(self.lowered.aside, device)
        self.test = self.feed.tensors(held_out(self.run.task, self.run.seed))
        self.at, self.observed = member.place, None if not self.course.adaptive else 0.0
        self.step = member.step

    def advance(self, active: Sequence[int], step: int, until: int) -> int:
        """Steps step .. until - 1. The course observes before every step, and before the record that follows."""
        samples = 0
        for self.step in range(step, until):
            samples += self._step()
            self.at = self.course.observe(self.at, self.step + 1, self.observed)
        self.step = until
        return samples

    def _step(self) -> int:
        """One optimizer step on the mean loss of the batch. A course that adapts observes the batch's metric."""
        batch, loss = self.feed.batch(self.at, self.step), self.lowered.losses[self.at.leg]
        self.module.train(not self.frozen)
        aside = self._gradients_aside(loss)
        self.optimizer.zero_grad(set_to_none=True)
        score = 0.0
        for part in batch.chunks():
            prediction = self._predict(part.x)
            (part.weighted(loss(prediction, part.y)).sum() / batch.count).backward()
            if self.course.adaptive:
                score += part.total(self.run.task.metrics[0].score(prediction.detach(), part.y))
        self.observed = score / float(batch.count) if self.course.adaptive else None
        for weight, gradient in aside:
            weight.grad = gradient
        self._transform()
        self._update()
        return len(batch.y) + self.course.samples_aside

    def _predict(self, x: torch.Tensor) -> Any:
        """The module's predictions, or those of what methods make of it."""
        rewriting = self.lowered.using(Hook.REWRITE)
        if not rewriting:
            return self.module(x)
        forward: Any = lambda weights, x: functional_call(self.module, weights, (x,))  # noqa: E731
        for _, method in rewriting:
            forward = rewritten(method, forward, self.origin)
        return forward(self.named, x)

    def _gradients_aside(self, loss: Loss) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
        """Gradients at the same weights on another batch, for the parameters that learn from it."""
        if self.course.aside is None or self.aside is None:
            return []
        place = self.course.aside.course.start(self.run.seed, self.at.fresh)
        batch = self.aside.batch(place, self.step)
        chosen = [self.named[p.name] for p in self.lowered.parameters if p.role in self.course.aside.roles]
        total = batch.weighted(loss(self._predict(batch.x), batch.y)).sum() / batch.count
        return list(zip(chosen, torch.autograd.grad(total, chosen), strict=True))

    @torch.no_grad()
    def _transform(self) -> None:
        """What methods make of the gradients."""
        for number, method in self.lowered.using(Hook.GRADIENTS):
            gradients = {name: w.grad for name, w in self.named.items() if w.grad is not None}
            weights = {name: w.detach() for name, w in self.named.items()}
            memory = self.memory.get(number, {})
            changed, kept = method.transform(gradients, memory, weights, self.lowered.named, self.step)
            self.memory[number] = kept
            for name, gradient in changed.items():
                self.named[name].grad = gradient

    @torch.no_grad()
    def _update(self) -> None:
        """The step itself: rates by the schedule, decay that torch's optimizer lacks, the projections of methods."""
        factor, shrink = self.lowered.factors[self.step], self.run.optimizer.shrink
        for group, rate in zip(self.optimizer.param_groups, self.lowered.rates, strict=True):
            group["lr"] = rate * factor
            if shrink:
                group["params"][0].mul_(1 - group["lr"] * shrink)
        self.optimizer.step()
        for _, method in self.lowered.using(Hook.PROJECTION):
            weights = {name: w.detach() for name, w in self.named.items()}
            for name, weight in method.project(weights, self.lowered.named).items():
                self.named[name].copy_(weight)

    @torch.no_grad()
    def evaluate(self, active: Sequence[int]) -> NDArray[np.float64]:
        """Test metrics, the same on the batch the next step takes, and weight norms by role."""
        self.module.eval()
        values = []
        for batch in (self.test, self.feed.batch(self.at, self.step)):
            prediction = torch.cat([self._predict(part.x) for part in batch.chunks()])
            values += [batch.mean(metric.score(prediction, batch.y)) for metric in self.run.task.metrics]
            values.append(batch.mean(self.run.loss(prediction, batch.y)))
        squares: dict[str, float] = {}
        for parameter in self.lowered.parameters:
            square = self.named[parameter.name].cpu().double().square().sum().item()
            squares[parameter.role] = squares.get(parameter.role, 0.0) + square
        return np.array([[*values, *(square**0.5 for square in squares.values())]])

    def place(self, member: int) -> Place:
        """Where the run stands."""
        return self.at

    def retain(self, active: Sequence[int]) -> None:
        """There is one member."""

    def state(self, member: int) -> State:
        """A copy of all that changes."""
        moments, ages = {}, {}
        for name, weight in self.named.items():
            for what, value in self.optimizer.state.get(weight, {}).items():
                if what == "step":
                    ages[f"age/{name}"] = np.asarray(int(value))
                elif value is not None:
                    moments[f"{what}/{name}"] = _array(value)
        hooks = {f"{n}/{name}": _array(t) for n, memory in self.memory.items() for name, t in memory.items()}
        kept = self.module.state_dict()  # without buffers that are constants of the module
        buffers = {name: _array(buffer) for name, buffer in self.module.named_buffers() if name in kept}
        weights = {name: _array(weight) for name, weight in self.named.items()}
        return State(weights, buffers, moments, hooks, counters=ages)

    def saved(self, member: int) -> State:
        """All of its state."""
        return self.state(member)

    def set_state(self, state: State) -> None:
        """Go on from a state."""
        arrays = {**state.weights, **state.buffers}
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        self.module.load_state_dict({**self.module.state_dict(), **tensors})
        for key, array in state.moments.items():
            what, _, name = key.partition("/")
            weight = self.named[name]
            self.optimizer.state[weight][what] = torch.from_numpy(np.array(array)).to(self.device)
            if f"age/{name}" in state.counters:
                self.optimizer.state[weight]["step"] = torch.tensor(float(state.counter(f"age/{name}")))
        for key, array in state.hooks.items():
            number, _, name = key.partition("/")
            self.memory.setdefault(int(number), {})[name] = torch.from_numpy(np.array(array)).to(self.device)


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy().copy()
