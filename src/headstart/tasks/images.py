"""Rows of real data: images with their classes, from the data directory."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.metric import Metric, class_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream
from headstart.data import Dataset, open_dataset, source
from headstart.tasks.rows import TrainingRows, row_numbers


@dataclass(frozen=True)
class Images(TrainingRows):
    """`train` rows of a set's training images, and `test` rows of its test images, drawn anew by every seed.

    `name` is a set of the data directory: "mnist", "cifar10", "svhn" or one of your own. `headstart data get NAME`
    fills it; `sample` never downloads. x = (pixel / 255 - mean) / std in float32, with one `mean` and `std`, or one per
    channel; the defaults keep it in [0, 1]. It is flattened to [channels * height * width], or with
    flat=False [channels, height, width]. y is the number of the class. With `shrink` k a pixel is the mean of k x k of
    the set's, so that 32 x 32 become 16 x 16 for k = 2. The set's own split is kept: no test image is ever trained on,
    and training images are never tested on.

    With `groups` y is the number of the group that holds the class, and images of other classes are left out:
    ((0, 1, 8, 9), (2, 3, 4, 5, 6, 7)) tells the vehicles of CIFAR-10 from its animals, and ((0,), (1,), (8,), (9,))
    tells its vehicles apart.
    """

    name: str = "mnist"
    train: int = 200
    test: int = 400
    flat: bool = True
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    shrink: int = field(default=1, metadata={"since": 2})
    groups: tuple[tuple[int, ...], ...] = field(default=(), metadata={"since": 3})

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)

    def __post_init__(self) -> None:
        check_count("Images", "train", self.train)
        check_count("Images", "test", self.test)
        check_flag("Images", "flat", self.flat)
        check_count("Images", "shrink", self.shrink)
        object.__setattr__(self, "groups", _checked_groups(self.groups))
        for name in ("mean", "std"):
            value = getattr(self, name)
            numbers = tuple(value) if isinstance(value, tuple | list) else (value,)
            good = numbers and all(type(n) in (int, float) and abs(n) < float("inf") for n in numbers)
            if not good or (name == "std" and min(numbers) <= 0):
                raise HeadstartError(f"Images({name}={value!r}): give one number, or one per channel; std is above 0")
            object.__setattr__(self, name, tuple(map(float, numbers)))

    @property
    def num_train(self) -> int:
        """The number of training rows."""
        return self.train

    @property
    def num_test(self) -> int:
        """The number of test rows."""
        return self.test

    @property
    def _form(self) -> tuple[tuple[int, ...], int]:
        """The shape of an image and the number of classes; those of a known set need no file."""
        known = source(self.name)
        if known is not None and known.num_classes:
            shape, num_classes = known.shape, known.num_classes
        else:
            dataset = self._dataset
            shape, num_classes = dataset.shapes["train_x"][1:], len(dataset.classes)
        if self.groups:
            if max(map(max, self.groups)) >= num_classes:
                raise HeadstartError(f"Images(groups={self.groups}): {self.name} has classes 0 to {num_classes - 1}")
            num_classes = len(self.groups)
        if any(side % self.shrink for side in shape[1:]):
            raise HeadstartError(f"Images(shrink={self.shrink}): it must divide the sides of an image, {shape[1:]}")
        return (shape[0], *(side // self.shrink for side in shape[1:])), num_classes

    @property
    def _dataset(self) -> Dataset:
        dataset = open_dataset(self.name)
        if "train_x" not in dataset.shapes:
            raise HeadstartError(f"Images(name={self.name!r}): this set has no images; `headstart data list` says more")
        return dataset

    @property
    def signature(self) -> Signature:
        """Pixels to one score per class."""
        shape, num_classes = self._form
        return Signature((int(np.prod(shape)),) if self.flat else shape, outputs=(num_classes,))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of images whose largest score is that of their class."""
        return (class_accuracy(self._form[1]),)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The training images with these ids or, of the evaluation stream, the test images."""
        dataset, part = self._dataset, "test" if stream is Stream.EVALUATION else "train"
        x, y = dataset[f"{part}_x"], dataset[f"{part}_y"]
        wanted, groups = getattr(self, part), self._group_of_class
        there = np.arange(len(x)) if groups is None else np.flatnonzero(groups[y] >= 0)
        if wanted > len(there):
            raise HeadstartError(f"Images({part}={wanted}): {self.name} has {len(there)} images for {part}; give fewer")
        # Training and test images are files of their own, so each is dealt from its first row on.
        numbers = row_numbers("Images", seed, ids, stream, 0 if part == "test" else self.train, self.test, len(there))
        rows = there[numbers]
        scaled = self._scaled(x[rows])
        classes = y[rows].astype(np.int64)
        labels = classes if groups is None else groups[classes]
        return Samples(scaled.reshape(len(scaled), *self.signature.inputs), labels)

    @property
    def _group_of_class(self) -> NDArray[np.int64] | None:
        """The number of the group of each class, -1 for a class that is left out; None without groups."""
        if not self.groups:
            return None
        found = np.full(256, -1, dtype=np.int64)
        for number, classes in enumerate(self.groups):
            found[list(classes)] = number
        return found

    def _scaled(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        for name in ("mean", "std"):
            if len(getattr(self, name)) not in (1, pixels.shape[1]):
                raise HeadstartError(
                    f"Images({name}={getattr(self, name)!r}): give one number, or {pixels.shape[1]}, one per channel"
                )
        mean, std = (np.asarray(value, dtype=np.float32)[:, None, None] for value in (self.mean, self.std))
        values = pixels.astype(np.float32) / np.float32(255)
        if self.shrink > 1:
            num, channels, height, width = values.shape
            k = self.shrink
            values = values.reshape(num, channels, height // k, k, width // k, k).mean(axis=(3, 5), dtype=np.float32)
        return (values - mean) / std


def _checked_groups(groups: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The groups as tuples; raise unless they are two or more, and no class is in two of them."""
    try:
        found = tuple(tuple(group) for group in groups)
    except TypeError:
        found = ((-1,),)
    flat = [number for group in found for number in group]
    good = all(type(n) is int and 0 <= n < 256 for n in flat) and len(set(flat)) == len(flat) and all(found)
    if not good or len(found) == 1:
        raise HeadstartError(f"Images(groups={groups!r}): give two or more, such as ((0, 1), (2,)), no class in two")
    return found
