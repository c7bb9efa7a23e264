"""The rows that a run touches, their Gram matrix, and what the first layer makes of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.samples import Samples, joined
from headstart.engines.lower import Lowered
from headstart.engines.span.first import Origin
from headstart.run import Run
from headstart.tasks import held_out

# Rows go into a product this many at a time where they have to be made float64 for it.
_PART = 256


def num_rows(run: Run) -> int | None:
    """The training rows of all phases of the plan; None where fresh samples come without end."""
    course = run.plan.course(run.batch, run.budget.steps)
    whole = run.task.population_size if course.batch is None else None
    sizes = [whole if leg.pool.size is None else leg.pool.size for leg in course.legs]
    return None if None in sizes else sum(size or 0 for size in sizes)


@dataclass(frozen=True)
class Targets:
    """The targets of some rows, and their weights, None for equal ones."""

    y: torch.Tensor
    weight: torch.Tensor | None = None

    def __getitem__(self, taken: Any) -> "Targets":
        return Targets(self.y[taken], None if self.weight is None else self.weight[taken])

    def weighted(self, values: torch.Tensor) -> torch.Tensor:
        """Values of the targets times their weights."""
        return values if self.weight is None else values * self.weight

    @property
    def count(self) -> Any:
        """What a sum over targets is divided by to be a mean."""
        return self.y.numel() if self.weight is None else self.weight.sum()

    def mean(self, scores: torch.Tensor) -> float:
        """The mean over targets of a score, in float64."""
        scores = scores.double()
        if self.weight is None:
            return scores.mean().item()
        weight = self.weight.double()
        return (scores * weight).sum().item() / weight.sum().item()


class SpanRows:
    """The training rows X of all pools, one after another, and the test rows, of one (task, seed, plan, precision).

    `gram` is X X^T [n, n] and `cross` the product of test rows and training rows, [test, n]. Runs that differ in their
    start, rates or widths share all of it.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.dtype = torch.float64 if lowered.dtype is np.float64 else torch.float32
        run, legs = lowered.run, lowered.course.legs
        pools = [
            lowered.pool(number) if leg.pool.size is not None else run.task.population(run.seed)
            for number, leg in enumerate(legs)
        ]
        sizes = [len(pool) for pool in pools]
        ends = np.cumsum(sizes).tolist()
        self.legs = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        train, test = joined(pools), held_out(run.task, run.seed)
        self.train, self.test = self._targets(train), self._targets(test)
        self._train, self._test = (samples.x.reshape(len(samples), -1) for samples in (train, test))
        self.gram = self._product(self._train, self.x)
        self.cross = self._product(self._test, self.x)

    @property
    def x(self) -> torch.Tensor:
        """The training rows, [n, inputs], in the precision of the run."""
        return torch.from_numpy(self._train).to(self.dtype)

    def through(self, origin: Origin) -> tuple[torch.Tensor, torch.Tensor, float]:
        """X W_0^T [n, neurons], the same of the test rows, and |W_0|^2."""
        neurons = origin.shape[0]
        train, test = (torch.empty(len(x), neurons, dtype=self.dtype) for x in (self._train, self._test))
        square = 0.0
        for part, weights in origin.blocks():
            square += torch.linalg.vector_norm(weights, dtype=torch.float64).item() ** 2
            for x, out in ((self._train, train), (self._test, test)):
                out[:, part] = self._product(x, weights)
        return train, test, square

    def _product(self, x: NDArray[Any], other: torch.Tensor) -> torch.Tensor:
        """x other^T."""
        return torch.cat([part @ other.T for part in self._parts(x)])

    def _parts(self, x: NDArray[Any]) -> Iterator[torch.Tensor]:
        size = len(x) if torch.from_numpy(x[:0]).dtype == self.dtype else _PART
        return (torch.from_numpy(x[first : first + size]).to(self.dtype) for first in range(0, len(x), size))

    def _targets(self, samples: Samples) -> Targets:
        def moved(array: NDArray[Any]) -> torch.Tensor:
            tensor = torch.from_numpy(array)
            return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

        return Targets(moved(samples.y), None if samples.weight is None else moved(samples.weight))
