"""Photographs as backgrounds: squares of one side, from the pictures of a package or from a folder of a user's own."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.data.directory import Tables
from headstart.data.formats import images_in, read_image

BACKGROUNDS = "backgrounds"
# The side of a square. A picture of a package is cut at these reductions, each square half over the one before.
SIDE = 64
_REDUCTIONS = (1, 2, 4)


def find_photographs(folder: Path) -> Path | None:
    """A folder of pictures, or of folders of pictures, such as those of synsets of ImageNet."""
    return folder if folder.is_dir() and not (folder / "train").exists() and images_in(folder) else None


def read_photographs(folder: Path) -> Tables:
    """Every picture of a folder, as ImageNet has them, CLASS/*.JPEG: its middle square, made small."""
    return Tables({"photographs": np.stack([_middle(path) for path in images_in(folder)])})


def read_squares(paths: Iterable[Path]) -> Tables:
    """Squares of pictures at several reductions: a pixel is the rounded mean of k x k, so nothing is resampled."""
    return Tables({"photographs": np.concatenate([_squares(_colours(path)) for path in paths])})


def _colours(path: Path) -> NDArray[np.uint8]:
    """uint8[3, height, width]; grey ones have three equal channels."""
    image = read_image(path)
    return np.repeat(image, 3, axis=0) if len(image) == 1 else image


def _squares(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    found = []
    for k in _REDUCTIONS:
        height, width = (side // k for side in image.shape[1:])
        cut = image[:, : height * k, : width * k].reshape(3, height, k, width, k)
        small = np.rint(cut.mean(axis=(2, 4))).astype(np.uint8)
        for top in range(0, height - SIDE + 1, SIDE // 2):
            for left in range(0, width - SIDE + 1, SIDE // 2):
                found.append(small[:, top : top + SIDE, left : left + SIDE])
    return np.stack(found)


def _middle(path: Path) -> NDArray[np.uint8]:
    from PIL import Image

    image = _colours(path)
    side = min(image.shape[1:])
    if side < SIDE // 2:
        raise HeadstartError(f"{path}: it is {image.shape[2]} x {image.shape[1]}; take away those below {SIDE // 2}")
    top, left = ((length - side) // 2 for length in image.shape[1:])
    square = Image.fromarray(image[:, top : top + side, left : left + side].transpose(1, 2, 0))
    return np.ascontiguousarray(np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BOX)).transpose(2, 0, 1))
