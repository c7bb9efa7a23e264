"""Pixels of two classes, as uint8 rows: from a set of the data directory, or made, which needs no file."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.streams import Stream, normals
from headstart.data import open_dataset

MADE = "made"
# Rows, pixels and the middle and spread of made images.
_NUM_TRAIN, _NUM_TEST, _NUM_PIXELS, _MIDDLE, _SPREAD = 4000, 500, 64, 128.0, 40.0


@dataclass(frozen=True)
class Pixels:
    """Images uint8[n, pixels] with labels float32[n], +1 for classes that are called positive and -1 for others."""

    train_x: NDArray[np.uint8]
    train_y: NDArray[np.float32]
    test_x: NDArray[np.uint8]
    test_y: NDArray[np.float32]


def two_classes(name: str, positive: tuple[int, ...]) -> Pixels:
    """The images of a set in the data directory; or "made" ones, whose classes are 0 to 9."""
    if name == MADE:
        train_x, train_y, test_x, test_y = _made()
    else:
        dataset = open_dataset(name)
        if "train_x" not in dataset.shapes:
            raise HeadstartError(f"data={name!r}: this set has no images; `headstart data list` says more")
        train_x, train_y, test_x, test_y = (dataset[key] for key in ("train_x", "train_y", "test_x", "test_y"))
    labels = [np.where(np.isin(y, positive), 1, -1).astype(np.float32) for y in (train_y, test_y)]
    if not all(-1 < label.mean() < 1 for label in labels):
        raise HeadstartError(f"positive={positive!r}: {name} has no row of one of the two classes; name others")
    return Pixels(train_x.reshape(len(train_x), -1), labels[0], test_x.reshape(len(test_x), -1), labels[1])


def _made() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Gaussian images whose class is a linear function of them with noise, cut into ten equal parts."""
    num = _NUM_TRAIN + _NUM_TEST
    z = normals(0, Stream.DATA, np.arange(num), _NUM_PIXELS).astype(np.float64)
    direction = normals(0, Stream.TASK, [0], _NUM_PIXELS)[0].astype(np.float64)
    noise = normals(0, Stream.NOISE, np.arange(num), 1)[:, 0]
    score = z @ direction / np.linalg.norm(direction) + 0.5 * noise
    classes = np.argsort(np.argsort(score)) * 10 // num
    x = np.clip(np.rint(_MIDDLE + _SPREAD * z), 0, 255).astype(np.uint8)
    return x[:_NUM_TRAIN], classes[:_NUM_TRAIN], x[_NUM_TRAIN:], classes[_NUM_TRAIN:]
