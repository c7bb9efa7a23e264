"""Pairs of data sets that differ in one row: what algorithmic stability is about."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.samples import Samples, joined
from headstart.core.streams import Stream, check_seed, integers
from headstart.tasks.rows import Rows, RowsOfTask, check_ids

# Ids of the task stream from which a pair draws: teachers have small ids, the permutation of the rows has 2^62.
_PLACE_ID, _ROW_ID = 2**61, 2**61 + 1


class Swap(NamedTuple):
    """What a pair exchanges: the training row at `place` for the test row `test_row`, both ids of a task's rows."""

    place: int
    test_row: int


def draw_swap(pair: int, num_train: int, num_test: int) -> Swap:
    """i uniform on the training ids and z uniform on the test ids, independent of each other and of the rows of S."""
    check_seed(pair)
    drawn = (
        integers(pair, Stream.TASK, [id], 1, num).item() for id, num in ((_PLACE_ID, num_train), (_ROW_ID, num_test))
    )
    return Swap(*drawn)


@dataclass(frozen=True)
class SwapRow(RowsOfTask):
    """S' of the pair number `pair`: the training rows S of a task, row i of which is exchanged for the test row z.

    The pair draws S (the rows of a task are dealt without replacement), z and i; it takes the place of the seed in the
    task. The seed of a run, the trial, then draws initial weights and order alone, so that all pairs of a trial share
    them. With swapped=False it is S itself, in the same order.

        for swapped in (False, True):
            Run(SwapRow(Images("mnist", 800, 10_000), pair=3, swapped=swapped), ..., Fixed(800, replacement=False))

    A stated exception to `Rows`: z is trained on and stays among the test rows, as there; one of 10,000 of MNIST. With
    z_in_test=False both S and S' are evaluated on all test rows but z. Pairs of one number have nested S at several
    sizes; give each size numbers of its own where they should be independent.

    Reference: Karp, Neyshabur and Mohri, On the Algorithmic Stability of SGD in Deep Learning, 2020.
    """

    task: Any
    pair: int
    swapped: bool = True
    z_in_test: bool = True

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if isinstance(self.task, type) or not isinstance(self.task, Rows):
            raise HeadstartError(f"SwapRow(task={self.task!r}): give a task of rows, such as Images or Split")
        check_seed(self.pair)
        check_flag("SwapRow", "swapped", self.swapped)
        check_flag("SwapRow", "z_in_test", self.z_in_test)
        if not self.z_in_test:
            check_count("SwapRow", "task.num_test", self.task.num_test, minimum=2)

    @property
    def swap(self) -> Swap:
        """The id i in S of the row that is exchanged, and the test id of z."""
        return draw_swap(self.pair, self.task.num_train, self.task.num_test)

    @property
    def num_train(self) -> int:
        """The number of training rows."""
        return int(self.task.num_train)

    @property
    def num_test(self) -> int:
        """The number of test rows: those of the task, or one less."""
        return int(self.task.num_test) - (not self.z_in_test)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The rows of S or S' with these ids or, of the evaluation stream, the test rows; the seed changes nothing."""
        swap, testing = self.swap, stream is Stream.EVALUATION
        ids = check_ids("SwapRow", ids, self.num_test if testing else self.num_train, testing)
        if testing:
            return self.task.sample(self.pair, ids + (ids >= swap.test_row) * (not self.z_in_test), stream)
        rows = self.task.sample(self.pair, ids, stream)
        here = np.flatnonzero(ids == swap.place) if self.swapped else ids[:0]
        if not here.size:
            return rows
        order = np.arange(len(ids))
        order[here] = len(ids)  # z stands after the rows
        return joined([rows, self.task.sample(self.pair, np.array([swap.test_row]), Stream.EVALUATION)])[order]
