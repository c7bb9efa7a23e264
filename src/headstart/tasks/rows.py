"""Finite data: rows that the seed deals out to training and to evaluation, never to both."""

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, permute

# The permutation of the rows has an id of the task stream to itself; tasks draw their teachers from small ids.
_PERMUTATION_ID = 2**62


@runtime_checkable
class Rows(Protocol):
    """A task over finitely many rows: a split of a population, or rows of real data on disk.

    Training ids are 0 .. num_train - 1 and test ids 0 .. num_test - 1, each a row of its own (`row_numbers`), so that
    evaluation is disjoint from training. Tasks that are not `Rows` do not promise this.
    """

    @property
    def num_train(self) -> int:
        """The number of training rows."""
        ...

    @property
    def num_test(self) -> int:
        """The number of test rows."""
        ...


class TrainingRows(ABC):
    """What a task of rows has by its training rows alone, to inherit."""

    @property
    @abstractmethod
    def num_train(self) -> int:
        """The number of training rows."""

    @abstractmethod
    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The training rows with these ids or, of the evaluation stream, the test rows."""

    @property
    def population_size(self) -> int:
        """The number of training rows: the population that a full batch takes."""
        return self.num_train

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """All training rows, or those with these ids."""
        return self.sample(seed, np.arange(self.num_train) if ids is None else ids)


class RowsOfTask(TrainingRows):
    """What a task of rows has by the `task` that they come from, too."""

    task: Any

    @property
    def losses(self) -> tuple[str, ...]:
        """Those of the task."""
        return tuple(self.task.losses)

    @property
    def signature(self) -> Signature:
        """That of the task."""
        return self.task.signature

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of the task."""
        return tuple(self.task.metrics)


def row_numbers(
    owner: str, seed: int, ids: NDArray[np.int64], stream: Stream, num_train: int, num_test: int, num_rows: int
) -> NDArray[np.int64]:
    """The row of each id: training rows are first in a permutation of all rows that the seed names, test rows next."""
    testing = stream is Stream.EVALUATION
    ids = check_ids(owner, ids, num_test if testing else num_train, testing)
    return permute(seed, Stream.TASK, _PERMUTATION_ID, ids + num_train * testing, num_rows)


def check_ids(owner: str, ids: NDArray[np.int64], num: int, testing: bool) -> NDArray[np.int64]:
    """The ids as an array; raise where one is not among the `num` training or test rows there are."""
    ids = np.asarray(ids, dtype=np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < num:
        kind = "test" if testing else "training"
        raise HeadstartError(f"{owner}: there are {num} {kind} rows, and id {ids.max()} was asked for")
    return ids
