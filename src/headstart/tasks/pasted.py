"""Images on backgrounds: the label is decided by a part of the image, and the rest is noise of a chosen strength."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_nonnegative
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals, uniforms
from headstart.data import open_dataset
from headstart.tasks.rows import Rows, RowsOfTask
from headstart.tasks.task import Task

# Of the noise stream: uniforms that place an image and choose its background; normals come after. Test rows have ids
# from here on.
_UNIFORMS, _TEST = 8, 2**40

Pixels = NDArray[np.float32]


class Placement(StrEnum):
    """Where an image is put: anywhere, in one of the four corners, or always in the last corner."""

    RANDOM = "random"
    CORNER = "corner"
    FIXED = "fixed"


@dataclass(frozen=True)
class GaussianNoise:
    """Independent standard normals, one per channel and pixel."""

    def draw(self, seed: int, keys: NDArray[np.int64], testing: bool, shape: tuple[int, ...]) -> Pixels:
        """Backgrounds [n, *shape] of the rows with these keys."""
        return normals(seed, Stream.NOISE, keys, int(np.prod(shape)), first=_UNIFORMS).reshape(len(keys), *shape)


@dataclass(frozen=True)
class Photographs:
    """Squares of photographs in [0, 1], a random one for each row: `headstart data get backgrounds`, or your own.

    A set that `headstart data get NAME --from FOLDER` made of a folder of photographs, such as the plants of ImageNet,
    is named here. Training and test rows draw from the same squares, as in Local Signal Adaptivity.
    """

    name: str = "backgrounds"

    def draw(self, seed: int, keys: NDArray[np.int64], testing: bool, shape: tuple[int, ...]) -> Pixels:
        """Backgrounds [n, *shape] of the rows with these keys; a pixel is the mean of as many as fit."""
        dataset = open_dataset(self.name)
        if "photographs" not in dataset.shapes:
            raise HeadstartError(f"Photographs(name={self.name!r}): this set has no photographs; it has images to tell")
        rows = dataset["photographs"]
        if shape[0] != rows.shape[1] or rows.shape[2] % shape[1] or shape[1] != shape[2]:
            raise HeadstartError(
                f"Photographs(name={self.name!r}): they are {rows.shape[1:]}, and the images to be are {shape}; "
                f"give Pasted a side that divides {rows.shape[2]}, and images with {rows.shape[1]} channels"
            )
        k = rows.shape[2] // shape[1]
        pixels = rows[_choices(seed, keys, 2, 1, len(rows))[:, 0]].astype(np.float32) / np.float32(255)
        return pixels.reshape(len(keys), shape[0], shape[1], k, shape[2], k).mean(axis=(3, 5), dtype=np.float32)


@dataclass(frozen=True)
class Distractors:
    """Images of another task, a random one in each of the four quarters: training rows for training, else test rows."""

    task: Any

    def __post_init__(self) -> None:
        _check_images("Distractors", self.task)

    def draw(self, seed: int, keys: NDArray[np.int64], testing: bool, shape: tuple[int, ...]) -> Pixels:
        """Backgrounds [n, *shape] of the rows with these keys."""
        own = self.task.signature.inputs
        if (own[0], 2 * own[1], 2 * own[2]) != shape:
            raise HeadstartError(f"Distractors(task={self.task!r}): images are {own}; four of them must fill {shape}")
        num = self.task.num_test if testing else self.task.num_train
        chosen = _choices(seed, keys, 2, 4, num)
        stream = Stream.EVALUATION if testing else Stream.DATA
        four = self.task.sample(seed, chosen.ravel(), stream).x.reshape(len(keys), 2, 2, *own)
        return np.ascontiguousarray(four.transpose(0, 3, 1, 4, 2, 5).reshape(len(keys), *shape))


@dataclass(frozen=True)
class Pasted(RowsOfTask):
    """The images of `task` on backgrounds of `side` x `side` times `strength`; labels are those of the images.

    `background` is GaussianNoise(), Photographs() or Distractors(task); `strength` 0 is black, and of noise its
    standard deviation. Rows are those of the task, and id, seed and stream decide place and background, so that the
    same rows at another strength have the same ones, weaker. On a `side` that is the image's own it is the task.

    Reference: Karp, Winston, Li and Singh, Local Signal Adaptivity: Provable Feature Learning in Neural Networks Beyond
    Kernels, 2021, Section 6.
    """

    task: Any
    background: GaussianNoise | Photographs | Distractors
    strength: float = 1.0
    side: int = 32
    placement: Placement = Placement.RANDOM

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_images("Pasted", self.task)
        if not isinstance(self.background, GaussianNoise | Photographs | Distractors):
            raise HeadstartError(
                f"Pasted(background={self.background!r}): give GaussianNoise(), Photographs() or Distractors(task)"
            )
        check_nonnegative("Pasted", "strength", self.strength)
        check_count("Pasted", "side", self.side)
        if self.placement not in list(Placement):
            raise HeadstartError(f"Pasted(placement={self.placement!r}): choose one of {', '.join(Placement)}")
        object.__setattr__(self, "placement", Placement(self.placement))

    @property
    def num_train(self) -> int:
        """The number of training rows."""
        return int(self.task.num_train)

    @property
    def num_test(self) -> int:
        """The number of test rows."""
        return int(self.task.num_test)

    @property
    def signature(self) -> Signature:
        """Pixels to what the task asks for."""
        channels, *sides = self.task.signature.inputs
        if max(sides) > self.side:
            raise HeadstartError(f"Pasted(side={self.side}): images are {sides}; give a side of {max(sides)} or more")
        return Signature((channels, self.side, self.side), outputs=self.task.signature.outputs)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The training images with these ids or, of the evaluation stream, the test images."""
        images, testing = self.task.sample(seed, ids, stream), stream is Stream.EVALUATION
        keys = np.asarray(ids, dtype=np.int64) + _TEST * testing
        shape = self.signature.inputs
        x = np.zeros((len(keys), *shape), dtype=np.float32)
        if self.strength:
            x += np.float32(self.strength) * self.background.draw(seed, keys, testing, shape)
        height, width = images.x.shape[2:]
        for row, (top, left) in enumerate(self.places(seed, keys, (self.side - height, self.side - width)).tolist()):
            x[row, :, top : top + height, left : left + width] = images.x[row]
        return Samples(x, images.y)

    def places(self, seed: int, keys: NDArray[np.int64], most: tuple[int, int]) -> NDArray[np.int64]:
        """The first row and column of each image, int64[n, 2], at most `most`."""
        if self.placement is Placement.FIXED:
            return np.tile(np.array(most, dtype=np.int64), (len(keys), 1))
        if self.placement is Placement.CORNER:
            return _choices(seed, keys, 0, 2, 2) * np.array(most)
        return np.stack([_choices(seed, keys, k, 1, most[k] + 1)[:, 0] for k in range(2)], axis=1)


def _choices(seed: int, keys: NDArray[np.int64], first: int, num: int, high: int) -> NDArray[np.int64]:
    """`num` numbers uniform on [0, high) of each row, from the uniform `first` on: int64[n, num]."""
    return np.floor(uniforms(seed, Stream.NOISE, keys, num, first) * high).astype(np.int64)


def _check_images(owner: str, task: Any) -> None:
    """Raise unless the task is rows of images [channels, height, width]."""
    fits = not isinstance(task, type) and isinstance(task, Rows) and isinstance(task, Task)
    if not fits or len(task.signature.inputs) != 3:
        raise HeadstartError(f"{owner}(task={task!r}): give rows of images, such as Images(..., flat=False)")
