"""A finite population cut in two: some points to train on, the others to test on."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.samples import Samples
from headstart.core.streams import Stream
from headstart.tasks.rows import RowsOfTask, row_numbers
from headstart.tasks.task import Task


@dataclass(frozen=True)
class Split(RowsOfTask):
    """A task with an exact population, `train` of whose points are for training and the others for evaluation.

    `train` is a fraction, or a number of points; each seed draws its own split. Evaluation takes all other points, or
    `test` of them. Online() with FullBatch() takes every training point in every step, Fixed(size=n) the first n.
    Memorisation and generalisation come apart here, which is what grokking is about.
    """

    task: Any
    train: float
    test: int | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if isinstance(self.task, type) or not isinstance(self.task, Task) or self.task.population_size is None:
            raise HeadstartError(
                f"Split(task={self.task!r}): give a task with a finite population, such as ModularArithmetic(113)"
            )
        share, rows = self.train, self._num_rows
        number = isinstance(share, int | float) and not isinstance(share, bool)
        if not number or not (0 < share < 1 or (2 <= share < rows and share == int(share))):
            raise HeadstartError(
                f"Split(train={share!r}): give a fraction in (0, 1), or a number of points from 2, below {rows}"
            )
        if self.test is not None:
            check_count("Split", "test", self.test)
        if self.num_train < 1 or self.num_test < 1 or self.num_train + self.num_test > self._num_rows:
            raise HeadstartError(
                f"Split(train={share!r}, test={self.test!r}): {self.num_train} + {self.num_test} points do not fit "
                f"into the {self._num_rows} of {self.task}"
            )

    @property
    def _num_rows(self) -> int:
        return int(self.task.population_size)

    @property
    def num_train(self) -> int:
        """The number of training points."""
        return round(self.train * self._num_rows) if self.train < 1 else int(self.train)

    @property
    def num_test(self) -> int:
        """The number of test points."""
        return self._num_rows - self.num_train if self.test is None else self.test

    def _rows(self, seed: int, ids: NDArray[np.int64], stream: Stream) -> NDArray[np.int64]:
        return row_numbers("Split", seed, ids, stream, self.num_train, self.num_test, self._num_rows)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The training points with these ids or, of the evaluation stream, the test points."""
        return self.task.population(seed, self._rows(seed, ids, stream))
