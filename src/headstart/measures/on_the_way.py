"""Measures on the way: what looks at a run while it trains, and when. They add stops to a run, never records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.errors import check_count
from headstart.core.roles import Parameter
from headstart.core.samples import Samples
from headstart.core.state import Arrays
from headstart.core.units import Budget
from headstart.models import Model
from headstart.tasks import Task


@dataclass(frozen=True)
class Recorded:
    """At the steps that the run records."""

    def steps(self, budget: Budget) -> tuple[int, ...]:
        """The steps, ascending."""
        return budget.recorded_steps()


@dataclass(frozen=True)
class Every:
    """At step 0, every `num` steps, and at the last."""

    num: int

    def __post_init__(self) -> None:
        check_count("Every", "num", self.num)

    def steps(self, budget: Budget) -> tuple[int, ...]:
        """The steps, ascending."""
        return (*range(0, budget.steps, self.num), budget.steps)


@dataclass(frozen=True)
class Geometric:
    """At step 0, and at `num` steps from 1 to the last at equal ratios; fewer where they fall together."""

    num: int

    def __post_init__(self) -> None:
        check_count("Geometric", "num", self.num, minimum=2)

    def steps(self, budget: Budget) -> tuple[int, ...]:
        """The steps, ascending."""
        spread = np.geomspace(1, budget.steps, self.num).round().astype(int)
        return (0, *np.unique(spread).tolist())


When = Recorded | Every | Geometric


@dataclass(frozen=True)
class View:
    """What a measure sees of a run after `step` optimizer steps. It may look at everything and change nothing.

    `weights` and `initial` are the weights by name now and at step 0, `buffers` what the module changes by itself.
    """

    step: int
    seed: int
    task: Task
    model: Model
    parameters: tuple[Parameter, ...]
    weights: Arrays
    initial: Arrays
    buffers: Arrays
    draw_train: Callable[[], Samples]
    draw_test: Callable[[], Samples]
    predictor: Callable[[Arrays], Callable[[NDArray[Any]], NDArray[Any]]]

    @cached_property
    def train(self) -> Samples:
        """The training samples: all of the present finite set, or the batch of fresh ones that the next step takes."""
        return self.draw_train()

    @cached_property
    def test(self) -> Samples:
        """The samples that the run is evaluated on."""
        return self.draw_test()

    def module(self, weights: Arrays | None = None) -> Any:
        """The torch module with these weights (default: those of now) and its buffers, in evaluation mode."""
        import torch

        module = self.model.module(self.task.signature)
        arrays = {**(self.weights if weights is None else weights), **self.buffers}
        if any(array.dtype == np.float64 for array in arrays.values()):
            module.double()
        module.load_state_dict({**module.state_dict(), **{n: torch.from_numpy(a.copy()) for n, a in arrays.items()}})
        return module.eval()

    def predict(self, x: NDArray[Any], weights: Arrays | None = None) -> NDArray[Any]:
        """Predictions for inputs x as the run makes them, with whatever its methods make of the model."""
        return self.predictor(self.weights if weights is None else weights)(x)


@runtime_checkable
class Measure(Protocol):
    """A frozen dataclass that looks at a run on the way: `measure(view)` is numbers or arrays by name.

    An array has one shape throughout a run. `at` says when: Recorded(), Every(20) or Geometric(100). What it saw is
    stored under (cell, seed, measure); raise `semantics` when its numbers change. It does not change the cell.
    """

    semantics: ClassVar[int]

    @property
    def at(self) -> When:
        """When it looks."""
        ...

    def __call__(self, view: View) -> Mapping[str, ArrayLike]:
        """What it sees."""
        ...
