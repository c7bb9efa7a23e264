"""A pair of networks on S and S', trained together as one network of grouped convolutions: a part of a study."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag, check_nonnegative
from headstart.core.samples import Samples
from headstart.core.state import Arrays, State
from headstart.core.streams import check_seed
from headstart.core.units import FullBatch
from headstart.engines.loop import one_thread
from headstart.engines.lower import Lowered, lower
from headstart.measures import Behaviour, compare_pair, interpolate, line_points
from headstart.models import ConvNet, ResNet
from headstart.optimizers import SGD
from headstart.run import Fresh, Run
from headstart.tasks import Rows, SwapRow, held_out

# A stack of two, never wider: of four copies of one network not all stayed equal, bit for bit.
COPIES = 2
# Widths are multiples of this, or two copies of one network do not stay equal: some channels of one are summed by
# vector and those of the other are not.
LANES = 4
# Rows of an evaluation that are read at once; steps whose ids are drawn at once.
_CHUNK, _BLOCK = 512, 256
# Seconds on one core: of a step of a pair, of a training FLOP of one network, and of one in an evaluation.
_STEP, _TRAIN, _LOOK = 1.2e-3, 2.5e-11, 1.0e-11


@dataclass(frozen=True)
class NetworkPair:
    """Networks trained by a run on S and on S' of a pair, together, and compared at each step of `record`.

    `run` is an ordinary one on rows of images, such as Images(..., flat=False), with a ConvNet or ResNet and SGD; its
    seed, the trial, draws initial weights and order. The pair draws S, z and i as SwapRow(run.task, pair) does. What
    it finds is what two such runs find, in about two thirds of their time; their sums differ in the last bits, which
    training makes large: compare runs over few steps.

    With swapped=False both train on S, and differ by nothing, bit for bit. `nudge` is added to one weight of the second
    network, number i of the first layer, after `nudge_step` steps. With `interpolate` p, 3 k + 1, accuracies at p
    places on the line between the two at the last step of `record`, or at `interpolate_step`, one of them:
    alpha S + (1 - alpha) S' for alpha in [-1, 2], with means and variances of batch norm in between too.

    Reference: Karp, Neyshabur and Mohri, On the Algorithmic Stability of SGD in Deep Learning, 2020.
    """

    run: Run
    pair: int
    record: tuple[int, ...]
    swapped: bool = True
    nudge: float = 0.0
    nudge_step: int = 0
    interpolate: int = 0
    interpolate_step: int | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_seed(self.pair)
        check_flag("NetworkPair", "swapped", self.swapped)
        check_nonnegative("NetworkPair", "nudge", self.nudge)
        _check_run(self.run)
        steps = self.run.budget.steps
        object.__setattr__(self, "record", tuple(self.record))
        if not self.record or list(self.record) != sorted(set(self.record)) or not self.record[0] >= 0:
            raise HeadstartError(f"NetworkPair(record={self.record!r}): give steps from 0 on, in order")
        if self.record[-1] > steps:
            raise HeadstartError(f"NetworkPair(record={self.record!r}): the run has a budget of {steps} steps")
        check_count("NetworkPair", "nudge_step", self.nudge_step, minimum=0, maximum=self.record[-1])
        if self.interpolate:
            line_points(self.interpolate)
        if self.interpolate_step is not None and self.interpolate_step not in self.record:
            raise HeadstartError(
                f"NetworkPair(interpolate_step={self.interpolate_step!r}): give one of record, {self.record}, or None"
            )

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        lowered, task = lower(self.run), SwapRow(self.run.task, self.pair)
        rows = task.num_train + task.num_test
        looks = COPIES * len(self.record) + self.interpolate
        steps = self.record[-1] * (_STEP + _TRAIN * COPIES * (lowered.course.batch or 0) * lowered.flops)
        return 0.5 + steps + looks * rows * _LOOK * lowered.flops

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """step [t]; pair, place and z [1]; what `compare_pair` says at each step, [1, t].

        place is i, and z the id of the test row. With `interpolate` also alpha [p], train_accuracy (on S) and
        test_accuracy [1, p].
        """
        with one_thread():
            training = Training(self)
            between, seen = self.record[-1] if self.interpolate_step is None else self.interpolate_step, []
            line: dict[str, NDArray[np.generic]] = {}
            for step in self.record:
                seen.append(training.look(step))
                if self.interpolate and step == between:
                    line = training.line(self.interpolate)
            swap = training.tasks[1].swap
            arrays: dict[str, NDArray[np.generic]] = {
                "step": np.array(self.record),
                "pair": np.array([self.pair]),
                "place": np.array([swap.place]),
                "z": np.array([swap.test_row]),
                **{name: np.array([[each[name] for each in seen]]) for name in seen[0]},
            }
            return arrays | line


def _check_run(run: Run) -> None:
    """Raise unless a pair can be stacked."""
    if not isinstance(run, Run):
        raise HeadstartError(f"NetworkPair(run={run!r}): give a Run")
    course = run.plan.course(run.batch, run.budget.steps)
    wanted = {
        "task": (isinstance(run.task, Rows) and not isinstance(run.task, SwapRow), "rows of images; the pair swaps"),
        "model": (isinstance(run.model, ConvNet | ResNet), "a ConvNet or ResNet, which stack as groups of channels"),
        "optimizer": (isinstance(run.optimizer, SGD), "SGD(...), with or without momentum"),
        "methods": (not run.methods, "no methods"),
        "start": (isinstance(run.start, Fresh), "Fresh()"),
        "precision": (run.precision == "float32", "float32"),
        "plan": (len(course.legs) == 1 and course.aside is None, "Fixed(size, replacement=False)"),
        "batch": (not isinstance(run.batch, FullBatch), "Batch(...)"),
    }
    for name, (good, fix) in wanted.items():
        if not good:
            raise HeadstartError(f"NetworkPair(run=Run({name}={getattr(run, name)!r})): give {fix}")
    width: int = getattr(run.model, "width", LANES)
    if width % LANES:
        raise HeadstartError(
            f"NetworkPair(run=Run(model={run.model!r})): give a width that is a multiple of {LANES}; of other widths "
            "the two copies are summed in different orders, and differ in their last bits without any swap"
        )


class Training:
    """A pair under way: two networks as one, their rows, and the optimizer of both."""

    def __init__(self, part: NetworkPair) -> None:
        self.part, self.step, self.seed = part, 0, part.run.seed
        self.tasks = [SwapRow(part.run.task, part.pair, swapped) for swapped in (False, part.swapped)]
        self.lowered: Lowered = lower(replace(part.run, task=self.tasks[0]))
        self.course = self.lowered.course
        rows = [task.population(self.seed) for task in self.tasks]
        self.x, self.y = _stacked(rows)
        self.test = held_out(self.tasks[0], self.seed)
        model: Any = part.run.model
        self.module: Any = model.module(part.run.task.signature, copies=COPIES)
        self.module.load_state_dict(
            {name: torch.from_numpy(np.concatenate([w] * COPIES)) for name, w in self.lowered.fresh().weights.items()},
            strict=False,
        )
        self.module.to(memory_format=torch.channels_last)
        named = dict(self.module.named_parameters())
        rates = zip(self.lowered.parameters, self.lowered.rates, strict=True)
        self.optimizer = part.run.optimizer.build([{"params": [named[p.name]], "lr": lr} for p, lr in rates])
        self.ids = np.empty((0, self.course.batch or 0), dtype=np.int64)
        self.drawn = 0
        self._nudge()

    def advance(self, until: int) -> None:
        """Train up to a step."""
        self.module.train()
        while self.step < until:
            self._one_step()
            self.step += 1
            self._nudge()

    def _one_step(self) -> None:
        """One step of both networks, each on the mean loss of its own batch."""
        rows = self._rows()
        out = self.module(self.x[rows].contiguous(memory_format=torch.channels_last))
        y = self.y[rows]
        losses = self.lowered.losses[0](out.flatten(0, 1), y.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        (losses.sum() / len(rows)).backward()
        factor, shrink = self.lowered.factors[self.step], self.part.run.optimizer.shrink
        with torch.no_grad():
            for group, rate in zip(self.optimizer.param_groups, self.lowered.rates, strict=True):
                group["lr"] = rate * factor
                if shrink:
                    group["params"][0].mul_(1 - group["lr"] * shrink)
        self.optimizer.step()

    def _rows(self) -> torch.Tensor:
        """The rows of this step's batch: those of the run's plan."""
        if not self.drawn <= self.step < self.drawn + len(self.ids):
            num = min(_BLOCK, self.part.run.budget.steps - self.step)
            drawn = self.course.ids(self.course.start(self.seed), self.step, num)
            self.ids, self.drawn = drawn.reshape(num, -1) - self.course.legs[0].pool.first, self.step
        return torch.from_numpy(self.ids[self.step - self.drawn])

    @torch.no_grad()
    def _nudge(self) -> None:
        """Add to one weight of the second network, if it is time."""
        if not self.part.nudge or self.step != self.part.nudge_step:
            return
        weight = self.module.get_parameter(self.lowered.parameters[0].name)
        second = weight[len(weight) // COPIES :]  # of any memory format, so its numbers are counted by index
        index = np.unravel_index(self.tasks[1].swap.place % second.numel(), tuple(second.shape))
        second[tuple(map(int, index))] += self.part.nudge

    def look(self, step: int) -> dict[str, float]:
        """Train up to a step and compare the two."""
        self.advance(step)
        both = []
        train, test = self._outputs(self.x), self._outputs(self.test.x)
        test_y = torch.from_numpy(self.test.y)
        for k, state in enumerate(self.states()):
            scored = [
                _scored(self.part.run.loss, *pair) for pair in ((train[:, k], self.y[:, k]), (test[:, k], test_y))
            ]
            both.append(Behaviour(*scored[0], *scored[1], state.weights))
        return compare_pair(both[0], both[1], self.tasks[1].swap.test_row)

    @torch.no_grad()
    def _outputs(self, x: torch.Tensor | NDArray[np.float32]) -> torch.Tensor:
        """Scores [n, 2, classes] of both networks in evaluation mode; images of one are read by both."""
        self.module.eval()
        found = []
        for first in range(0, len(x), _CHUNK):
            rows: Any = x[first : first + _CHUNK]
            rows = rows if isinstance(rows, torch.Tensor) else torch.from_numpy(rows).repeat(1, COPIES, 1, 1)
            found.append(self.module(rows.contiguous(memory_format=torch.channels_last)))
        return torch.cat(found)

    def states(self) -> list[State]:
        """Weights and buffers of each."""
        weights = {name: _halves(value) for name, value in self.module.named_parameters()}
        buffers = {name: _halves(value) for name, value in self.module.named_buffers()}
        return [State(_each(weights, k), _each(buffers, k)) for k in range(COPIES)]

    @torch.no_grad()
    def line(self, num: int) -> dict[str, NDArray[np.generic]]:
        """Accuracies on the line between the two; at 1 is the network of S."""
        network: Any = self.part.run.model.module(self.part.run.task.signature).eval()
        one, other = self.states()
        channels = self.x.shape[1] // COPIES
        sets = {"train": (self.x[:, :channels], self.y[:, 0]),
                "test": (torch.from_numpy(self.test.x), torch.from_numpy(self.test.y))}  # fmt: skip
        places = line_points(num)
        found: dict[str, list[float]] = {name: [] for name in sets}
        for alpha in places:
            between = interpolate(other, one, float(alpha))
            network.load_state_dict({n: torch.from_numpy(v) for n, v in (between.weights | between.buffers).items()})
            network.to(memory_format=torch.channels_last)
            for name, (x, y) in sets.items():
                right = torch.cat([network(part).argmax(1) for part in x.split(_CHUNK)]) == y
                found[name].append(float(right.double().mean()))
        return {"alpha": places, **{f"{name}_accuracy": np.array([values]) for name, values in found.items()}}


def _stacked(rows: list[Samples]) -> tuple[torch.Tensor, torch.Tensor]:
    """Images [n, 2 channels, height, width] and labels [n, 2] of S and S'."""
    x = torch.from_numpy(np.concatenate([each.x for each in rows], axis=1))
    return x.contiguous(memory_format=torch.channels_last), torch.from_numpy(np.stack([r.y for r in rows], axis=1))


def _scored(loss: Any, scores: torch.Tensor, y: torch.Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
    """The loss, in float64, and the 0-1 error of each row."""
    return loss(scores.double(), y).numpy(), (scores.argmax(1) != y).numpy()


def _halves(tensor: torch.Tensor) -> list[NDArray[Any]]:
    return [part.detach().contiguous().numpy().copy() for part in tensor.chunk(COPIES)]


def _each(arrays: dict[str, list[NDArray[Any]]], k: int) -> Arrays:
    return {name: values[k] for name, values in arrays.items()}
