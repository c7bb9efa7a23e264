"""What a task must offer. Joining the contract tests (tests/contracts) takes one row."""

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.metric import Metric
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream


@runtime_checkable
class Task(Protocol):
    """Where samples come from: a pure map from (seed, ids) to samples, so one id is one sample in every plan.

    Training and test samples come from streams of their own. On a finite population they may coincide: only tasks
    that are also `Rows`, such as `Split`, promise that no test row is trained on.
    """

    semantics: ClassVar[int]

    @property
    def losses(self) -> tuple[str, ...]:
        """The names of the losses that fit its targets."""
        ...

    @property
    def num_test(self) -> int:
        """The number of samples that runs are evaluated on."""
        ...

    @property
    def signature(self) -> Signature:
        """The shapes of inputs and predictions."""
        ...

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, the leading one first."""
        ...

    @property
    def population_size(self) -> int | None:
        """The number of points of the exact population, or None where it is infinite or too large to enumerate."""
        ...

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The samples with these ids."""
        ...

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """Every point of the population once, or those at `ids` of its enumeration."""
        ...


@runtime_checkable
class Relabelled(Protocol):
    """A task whose labels are a function of the input, so that inputs may be changed and labelled again."""

    def label(self, seed: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """The labels of inputs x, float32[n]."""
        ...


@runtime_checkable
class RandomlyLabelled(Protocol):
    """A task that says what labels without information about it are."""

    def random_labels(self, seed: int, ids: NDArray[np.int64], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Labels float32[n] for the samples with these ids, the same whenever asked."""
        ...


def held_out(task: Task, seed: int) -> Samples:
    """The `task.num_test` fresh points that `seed` is evaluated on, drawn from the evaluation stream."""
    return task.sample(seed, np.arange(task.num_test, dtype=np.int64), Stream.EVALUATION)
