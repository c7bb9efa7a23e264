"""Pairs of logistic regressions on images, trained together: a part of a study."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag, check_nonnegative, check_positive
from headstart.core.kernels.compile import kernels
from headstart.core.signature import Signature
from headstart.core.streams import Stream, check_seed
from headstart.engines.pairs.pixels import MADE, Pixels, two_classes
from headstart.measures import Behaviour, compare_pair
from headstart.models import MLP
from headstart.tasks import Swap, draw_swap, row_numbers

_SCALE = np.float32(1 / 255)
# Seconds on one core: of a pixel of one row in a step of both models, and of one in an evaluation.
_STEP, _LOOK, _PIXELS = 1.2e-10, 4e-10, 784


@dataclass(frozen=True)
class LogisticPairs:
    """Logistic regressions on S and S' for pairs first_pair .. first_pair + num_pairs - 1, looked at at each `record`.

    f(x) = w . x / 255 + bias on images `data` of the data directory ("made" ones need no file), loss
    log(1 + exp(-y f)), y = +1 for the classes that are `positive`. A pair draws S of `size` training rows, z of all
    test rows and i as SwapRow(Images(data, size, all), pair) does; the trial draws initial weights, PyTorch's, and the
    order, a new permutation every epoch, as a run's seed does. SGD, no momentum, no decay; a step is read once for S
    and S', which differ in one row. With swapped=False both train on S, and differ by nothing; `nudge` is added to one
    weight of the second model at the start, pixel number i.

    Reference: Karp, Neyshabur and Mohri, On the Algorithmic Stability of SGD in Deep Learning, 2020, Fig. 2.1 of the
    thesis. Its initial weights are not stated.
    """

    size: int
    first_pair: int
    num_pairs: int = 10
    trial: int = 0
    record: tuple[int, ...] = (100_000,)
    data: str = "mnist"
    positive: tuple[int, ...] = (5, 6, 7, 8, 9)
    lr: float = 0.1
    batch: int = 128
    swapped: bool = True
    nudge: float = 0.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("LogisticPairs", "size", self.size, minimum=2)
        check_count("LogisticPairs", "num_pairs", self.num_pairs)
        check_count("LogisticPairs", "batch", self.batch, maximum=self.size)
        for seed in (self.trial, self.first_pair, self.first_pair + self.num_pairs - 1):
            check_seed(seed)
        check_positive("LogisticPairs", "lr", self.lr)
        check_nonnegative("LogisticPairs", "nudge", self.nudge)
        check_flag("LogisticPairs", "swapped", self.swapped)
        object.__setattr__(self, "record", tuple(self.record))
        object.__setattr__(self, "positive", tuple(self.positive))
        if not self.record or list(self.record) != sorted(set(self.record)) or self.record[0] < 0:
            raise HeadstartError(f"LogisticPairs(record={self.record!r}): give steps from 0 on, in order")

    @property
    def pairs(self) -> range:
        """The numbers of its pairs."""
        return range(self.first_pair, self.first_pair + self.num_pairs)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        looks = _LOOK * len(self.record) * (self.size + 10_000)
        pixels = _PIXELS if self.data != MADE else 64
        return 1.0 + self.num_pairs * pixels * (_STEP * self.batch * self.record[-1] + looks)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """step [t]; pair, place and z [n]; and what `compare_pair` says of each pair at each step, [n, t].

        place is i, and z the number of the test row in its file.
        """
        images = two_classes(self.data, self.positive)
        if self.size > len(images.train_x):
            raise HeadstartError(
                f"LogisticPairs(size={self.size}): {self.data} has {len(images.train_x)} training rows"
            )
        order = np.empty(self.record[-1] * self.batch, dtype=np.int32)
        kernels("engines.pairs.logistic_kernels").fill_order(self.trial, self.size, order)
        swaps = [self._swap(images, pair) for pair in self.pairs]
        found = [self._train(images, pair, swap, order) for pair, swap in zip(self.pairs, swaps, strict=True)]
        arrays: dict[str, NDArray[np.generic]] = {
            "step": np.array(self.record),
            "pair": np.array(self.pairs),
            "place": np.array([swap.place for swap in swaps]),
            "z": np.array([swap.test_row for swap in swaps]),
        }
        for name in found[0][0]:
            arrays[name] = np.array([[seen[name] for seen in pair] for pair in found])
        return arrays

    def _swap(self, images: Pixels, pair: int) -> Swap:
        """i, and the row of z in its file."""
        num = len(images.test_x)
        swap = draw_swap(pair, self.size, num)
        (row,) = row_numbers("LogisticPairs", pair, np.array([swap.test_row]), Stream.EVALUATION, 0, num, num)
        return Swap(swap.place, int(row))

    def _train(self, images: Pixels, pair: int, swap: Swap, order: NDArray[np.int32]) -> list[dict[str, float]]:
        """Both models of a pair, compared at each recorded step."""
        own = kernels("engines.pairs.logistic_kernels")
        num = len(images.train_x)
        rows = row_numbers("LogisticPairs", pair, np.arange(self.size), Stream.DATA, self.size, 0, num)
        fresh = (images.test_x, images.test_y, swap.test_row)
        from_x, from_y, at = fresh if self.swapped else (images.train_x, images.train_y, int(rows[swap.place]))
        blank = np.zeros((1, images.train_x.shape[1]), dtype=np.uint8)
        x = np.concatenate([images.train_x[rows], from_x[at : at + 1], blank])
        y = np.concatenate([images.train_y[rows], from_y[at : at + 1], [np.float32(0)]])
        w, biases = self._start(x.shape[1], swap.place)
        seen, step, rate = [], 0, np.float32(self.lr)
        for until in self.record:
            own.advance(x, y, order, step, until, self.batch, swap.place, rate, _SCALE, w, biases)
            step = until
            seen.append(self._look(images, x, y, w, biases, swap))
        return seen

    def _start(self, num_pixels: int, place: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weights [2, pixels] and biases [2] at step 0."""
        fresh = MLP(depth=1).initial_weights(Signature((num_pixels,)), self.trial)
        w = np.repeat(fresh["layers.0.weight"], 2, axis=0)
        w[1, place % num_pixels] += np.float32(self.nudge)
        return w, np.repeat(fresh["layers.0.bias"], 2)

    def _look(
        self,
        images: Pixels,
        x: NDArray[np.uint8],
        y: NDArray[np.float32],
        w: NDArray[np.float32],
        biases: NDArray[np.float32],
        swap: Swap,
    ) -> dict[str, float]:
        """What the two models do now."""
        outputs: Any = kernels("engines.pairs.logistic_kernels").outputs
        train, test = (np.empty((2, num)) for num in (self.size + 1, len(images.test_x)))
        outputs(x[: self.size + 1], _SCALE, w, biases, train)
        outputs(images.test_x, _SCALE, w, biases, test)
        labels = np.stack([y[: self.size]] * 2)
        labels[1, swap.place] = y[self.size]
        train[1, swap.place] = train[1, self.size]
        both = []
        for margins, test_margins, weight, bias in zip(
            labels * train[:, : self.size], images.test_y * test, w, biases, strict=True
        ):
            loss, test_loss = (np.logaddexp(0, -margin) for margin in (margins, test_margins))
            weights = {"weight": weight, "bias": np.array([bias])}
            both.append(Behaviour(loss, margins <= 0, test_loss, test_margins <= 0, weights))
        one, other = both
        return compare_pair(one, other, swap.test_row)
