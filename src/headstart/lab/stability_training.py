"""The trainings that a microscope compares: copies that differ in one row, in one weight at one step, or in order."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.state import Arrays, State
from headstart.core.streams import Stream, integers, permute
from headstart.lab.probe_factory import asking
from headstart.lab.probe_problem import Problem, fetch, generators, seeded
from headstart.measures import distance

# Pairs of one size have numbers of their own, so that S at several sizes are independent of each other.
MOST_PAIRS = 10_000
# The id of the noise stream from which another order is drawn; places of nudges have the numbers of pairs.
_ORDER_ID = 2**61
# Seeds are below this, so that every library takes them.
_SEEDS = 2**31

Rows = NDArray[np.int64]


class Kind(StrEnum):
    """What a copy differs in: one row, nothing at all, one weight from a step on, or the order from a step on."""

    SWAP = "swap"
    NONE = "none"
    NUDGE = "nudge"
    ORDER = "order"


@dataclass(frozen=True)
class Change:
    """How a copy is trained otherwise; `size` is what a nudge adds to one weight before step `step`."""

    kind: Kind
    step: int = 0
    size: float = 0.0

    @property
    def disturbs(self) -> bool:
        """Whether it begins at a step."""
        return self.kind in (Kind.NUDGE, Kind.ORDER)


NOTHING = Change(Kind.NONE)


@dataclass(frozen=True)
class PairRows:
    """S, S' and the seed of the pair number `pair` at one size: row numbers, which differ at one place."""

    size: int
    pair: int
    seed: int
    rows: Rows
    swapped: Rows


def draw_pair(seed: int, size: int, pair: int, num_rows: int) -> PairRows:
    """S without replacement, i uniform in S, z uniform among the rows that are not in S, and a seed of the pair's."""
    number = size * MOST_PAIRS + pair
    drawn = permute(seed, Stream.TASK, number, np.arange(size + 1), num_rows)
    swapped = drawn[:-1].copy()
    swapped[integers(seed, Stream.DATA, [number], 1, size).item()] = drawn[-1]
    return PairRows(size, pair, integers(seed, Stream.INIT, [number], 1, _SEEDS).item(), drawn[:-1], swapped)


class Look:
    """What a training calls before every step, `look(step, model)`: it disturbs, and looks at the weights.

    A nudge adds to one weight. Another order gives torch's generators another seed, and `order`, by which a `Problem`
    deals its batches.

    At the steps of `record` the first training of a pair leaves its weights in `seen`; another one, given those as
    `against`, leaves its distances from them in `distances`. `start` is the first one's state before any step.
    """

    def __init__(
        self,
        record: tuple[int, ...],
        seed: int,
        change: Change = NOTHING,
        against: dict[int, Arrays] | None = None,
        device: str = "cpu",
    ) -> None:
        self.record, self.seed, self.change, self.against = frozenset(record), seed, change, against
        self.device, self.order = device, seed
        self.seen: dict[int, Arrays] = {}
        self.distances: dict[int, float] = {}
        self.start: State | None = None
        self.last, self.disturbed = -1, False

    def __call__(self, step: int, model: Any) -> None:
        """Disturb and look, if this is the step."""
        self.last = max(self.last, step)
        if step == 0 and self.against is None:
            self.start = state_of(model)
        if self.change.disturbs and step == self.change.step and not self.disturbed:
            self._disturb(model)
            self.disturbed = True
        if step in self.record:
            weights = state_of(model).weights
            if self.against is None:
                self.seen[step] = weights
            elif step in self.against:
                self.distances[step] = distance(weights, self.against[step])

    def _disturb(self, model: Any) -> None:
        if self.change.kind is Kind.NUDGE:
            nudge_weight(model, self.change.size, self.seed)
        else:
            self.order = integers(self.seed, Stream.NOISE, [_ORDER_ID], 1, _SEEDS).item()
            for generator in generators(self.device):
                generator.manual_seed(self.order)


def nudge_weight(model: Any, size: float, seed: int) -> None:
    """Add `size` to one weight, drawn from all; where that rounds to nothing, to the next number that there is."""
    import torch

    weights = [weight for weight in model.parameters() if weight.requires_grad and weight.is_floating_point()]
    num = sum(weight.numel() for weight in weights)
    if not num:
        raise HeadstartError(f"stability(nudge={size!r}): the model has no weight to nudge; give nudge_steps=()")
    place = integers(seed, Stream.NOISE, [0], 1, min(num, 2**32)).item()
    for weight in weights:
        if place < weight.numel():
            with torch.no_grad():
                flat = weight.view(-1) if weight.is_contiguous() else weight.reshape(-1)
                old = flat[place].clone()
                new = old + size
                new = torch.nextafter(old, torch.full_like(old, torch.inf)) if new == old else new
                weight[tuple(int(i) for i in np.unravel_index(place, weight.shape))] = new
            return
        place -= weight.numel()


def state_of(model: Any) -> State:
    """Weights and buffers of a module, as arrays of their own; half precision becomes single, which holds it."""
    import torch

    def array(tensor: Any) -> NDArray[Any]:
        tensor = tensor.detach()
        tensor = tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
        return np.array(tensor.cpu().numpy())

    kept = model.state_dict().keys()
    return State(
        {name: array(value) for name, value in model.named_parameters()},
        {name: array(value) for name, value in model.named_buffers() if name in kept},
    )


def put_state(model: Any, state: State) -> None:
    """Give a module these weights and buffers."""
    import torch

    arrays = state.weights | state.buffers
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if name in arrays:
                tensor.copy_(torch.from_numpy(arrays[name]))


@dataclass(frozen=True)
class ProblemTraining:
    """The training of a `Problem`: so many steps on batches of the rows, epoch after epoch without replacement.

    The order of places is that of the seed, so S and S' see their rows at the same steps.
    """

    problem: Problem
    steps: int
    device: str = "cpu"

    can_look: ClassVar[bool] = True

    def __call__(self, rows: Rows, seed: int, look: Look) -> Any:
        """The trained module."""
        problem = self.problem
        with seeded(seed, self.device):
            with asking("Problem(model=...)"):
                model = problem.model().to(self.device)
            optimizer = problem.build_optimizer(model.parameters(), problem.lr)
            for step in range(self.steps):
                look(step, model)
                self._train(model, optimizer, rows[self.places(look.order, step, len(rows))], step)
        return model

    def places(self, seed: int, step: int, num_rows: int) -> Rows:
        """The places in S of the batch of a step."""
        at = step * self.problem.batch_size + np.arange(self.problem.batch_size)
        return permute(seed, Stream.ORDER, at // num_rows, at % num_rows, num_rows)

    def _train(self, model: Any, optimizer: Any, rows: Rows, step: int) -> None:
        import torch

        model.train()
        optimizer.zero_grad()
        loss = self.problem.training_loss(model, fetch(self.problem, self.problem.dataset, rows.tolist()))
        if not torch.isfinite(loss):
            raise HeadstartError(
                f"stability: the training diverged at step {step}, its loss is {loss.item()}; lower "
                f"Problem(lr={self.problem.lr:g})"
            )
        with asking("the backward pass"):
            loss.backward()
        optimizer.step()


@dataclass(frozen=True)
class OwnTraining:
    """A function of the user's, train_fn(rows, seed) or train_fn(rows, seed, look=...), called under this seed."""

    function: Callable[..., Any]
    can_look: bool

    device: ClassVar[str] = "cpu"

    def __call__(self, rows: Rows, seed: int, look: Look) -> Any:
        """What it returns."""
        with seeded(seed), asking("train_fn"):
            own = rows.copy()  # theirs to change
            return self.function(own, seed, look=look) if self.can_look else self.function(own, seed)


Training = ProblemTraining | OwnTraining
