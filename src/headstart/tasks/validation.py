"""A validation set cut from the training samples of a task, so that no test label chooses anything."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.samples import Samples
from headstart.core.streams import Stream
from headstart.tasks.rows import Rows, RowsOfTask, check_ids
from headstart.tasks.task import Task


@dataclass(frozen=True)
class Validation(RowsOfTask):
    """The first `train` training samples of a task to train on, and the next `test` of them to evaluate on.

    Where others train on Fixed(train + test) of the task itself, both parts are samples that they train on, and none
    is one that they are tested on: a rule that reads "test_accuracy" here never sees a test label of theirs. For a
    task without end, such as Parity(40, 3), or one that is `Rows`; of a population, `Split` cuts three parts.
    """

    task: Any
    train: int
    test: int

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if isinstance(self.task, type) or not isinstance(self.task, Task):
            raise HeadstartError(f"Validation(task={self.task!r}): give a task, such as Parity(dim=40, degree=3)")
        for name in ("train", "test"):
            check_count("Validation", name, getattr(self, name))
        most = self.task.num_train if isinstance(self.task, Rows) else None
        if most is not None and self.train + self.test > most:
            raise HeadstartError(
                f"Validation(train={self.train}, test={self.test}): {self.task} has {most} training rows; use fewer"
            )

    @property
    def num_train(self) -> int:
        """The number of samples to train on."""
        return self.train

    @property
    def num_test(self) -> int:
        """The number of samples to evaluate on."""
        return self.test

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The task's training samples with these ids or, of the evaluation stream, those `train` further on."""
        testing = stream is Stream.EVALUATION
        ids = check_ids("Validation", ids, self.test if testing else self.train, testing)
        return self.task.sample(seed, ids + self.train * testing)
