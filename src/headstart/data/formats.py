"""Standard layouts of real data, read into arrays: idx, CIFAR-10's batches, SVHN's .mat, folders of images, texts.

A layout has `find(folder)`, the folder that holds its files or None, and `read(folder)`. Images are uint8
[n, channels, height, width], labels uint8 [n].
"""

import gzip
import io
import json
import pickle
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.data.directory import Tables

DIGITS = tuple("0123456789")
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PARTS = {"train": "train", "test": "t10k"}
_IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".gif", ".webp"}
_IDX_BYTES = 0x08  # the code of unsigned bytes, the only type these files have
# All that a pickle of arrays may call; whatever else it names is refused.
_PICKLED = {"_reconstruct", "ndarray", "dtype", "encode"}


@dataclass(frozen=True)
class Layout:
    """A way in which people keep a data set: how it is found in a folder, and how it is read; with labels, or not."""

    name: str
    files: str
    find: Callable[[Path], Path | None]
    read: Callable[[Path], Tables]
    labels: bool = True


def _first(folders: Iterable[Path], holds: Callable[[Path], bool]) -> Path | None:
    return next((folder for folder in folders if folder.is_dir() and holds(folder)), None)


def _unless_wrong(path: Path, wrong: bool, fix: str) -> None:
    if wrong:
        raise HeadstartError(f"{path}: {fix}")


# MNIST and its relatives


def _idx_file(folder: Path, stem: str) -> Path | None:
    """The file of an idx array, plain or compressed; some archives write a dot instead of the last dash but one."""
    names = (stem, stem.replace("-idx", ".idx"))
    paths = (folder / f"{name}{suffix}" for name in names for suffix in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def read_idx_file(path: Path) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes: two zero bytes, the type, the number of axes, their lengths, the values."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, OSError) as error:
        raise HeadstartError(f"{path} cannot be read: {error}; get it anew") from None
    short = len(data) < 4 or len(data) < 4 + 4 * data[3]
    _unless_wrong(path, short or data[:3] != bytes((0, 0, _IDX_BYTES)), "this is no idx file of bytes; get it anew")
    shape = struct.unpack(f">{data[3]}I", data[4 : 4 + 4 * data[3]])
    values = np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * data[3])
    cut = f"it has {len(values)} values where {shape} says {np.prod(shape, dtype=np.int64)}; get it anew"
    _unless_wrong(path, len(values) != np.prod(shape, dtype=np.int64), cut)
    return values.reshape(shape)


def find_idx(folder: Path) -> Path | None:
    """Where the four files of MNIST lie: here, or in MNIST/raw, as torchvision keeps them."""
    return _first(
        (folder, folder / "raw", folder / "MNIST" / "raw"), lambda f: _idx_file(f, _stem("train", 3)) is not None
    )


def _stem(part: str, axes: int) -> str:
    return f"{_PARTS[part]}-{'images' if axes == 3 else 'labels'}-idx{axes}-ubyte"


def read_idx(folder: Path) -> Tables:
    """The idx files of MNIST or of a set in its place: images [n, 1, height, width] and labels."""
    arrays: dict[str, NDArray[Any]] = {}
    for part in _PARTS:
        for axes, key in ((3, "x"), (1, "y")):
            path = _idx_file(folder, _stem(part, axes))
            if path is None:
                raise HeadstartError(f"{folder}: {_stem(part, axes)} (or .gz) is missing; put it there")
            array = read_idx_file(path)
            _unless_wrong(path, array.ndim != axes, f"it has {array.ndim} axes instead of {axes}")
            arrays[f"{part}_{key}"] = array[:, None] if axes == 3 else array
    num = int(max(arrays["train_y"].max(), arrays["test_y"].max())) + 1
    return checked(folder, Tables(arrays, DIGITS if num == 10 else tuple(map(str, range(num)))))


# CIFAR-10


class _Batches(pickle.Unpickler):
    """Reads arrays, lists, numbers and strings, and refuses to call anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray", "numpy", "_codecs") and name in _PICKLED:
            reconstruct = np.zeros(0).__reduce__()[0]
            return {"_reconstruct": reconstruct, "ndarray": np.ndarray, "dtype": np.dtype, "encode": _encode}[name]
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _encode(text: str, encoding: str) -> bytes:
    """What pickle writes bytes as for old protocols."""
    return text.encode("latin1" if encoding == "latin1" else "ascii")


def find_cifar(folder: Path) -> Path | None:
    """Where CIFAR-10's batches for Python lie: here, or in cifar-10-batches-py."""
    return _first((folder, folder / "cifar-10-batches-py"), lambda f: (f / "data_batch_1").is_file())


def read_cifar(folder: Path) -> Tables:
    """data_batch_1 .. data_batch_5 and test_batch: 3072 bytes per image, the red plane first, and labels."""
    arrays = {}
    for part, names in {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}.items():
        batches = [_cifar_batch(folder / name) for name in names]
        arrays[f"{part}_x"] = np.concatenate([x for x, _ in batches])
        arrays[f"{part}_y"] = np.concatenate([y for _, y in batches])
    return checked(folder, Tables(arrays, CIFAR10_CLASSES))


def _cifar_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    try:
        batch = _Batches(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        x = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        return x, np.asarray(batch[b"labels"], dtype=np.uint8)
    except Exception as error:  # a pickle that is damaged, or means harm, can fail in any way
        raise HeadstartError(f"{path} cannot be read as a batch of CIFAR-10: {error}; get it anew") from None


def read_cifar_pictures(folder: Path) -> Tables:
    """CIFAR-10 as pictures of 10,000 rows, one row of 1024 pixels per image, and lists of labels."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, names in {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}.items():
        pixels = [read_image(folder / f"{name}.png").reshape(3, -1, 32, 32).transpose(1, 0, 2, 3) for name in names]
        arrays[f"{part}_x"] = np.ascontiguousarray(np.concatenate(pixels))
        # The package spells it so.
        arrays[f"{part}_y"] = np.asarray(json.loads((folder / f"{part}_lables.json").read_text()), dtype=np.uint8)
    return checked(folder, Tables(arrays, CIFAR10_CLASSES))


# SVHN


def find_svhn(folder: Path) -> Path | None:
    """Where train_32x32.mat lies: here, or in SVHN."""
    return _first((folder, folder / "SVHN"), lambda f: (f / "train_32x32.mat").is_file())


def read_svhn(folder: Path) -> Tables:
    """train_32x32.mat and test_32x32.mat: X [32, 32, 3, n], and y, in which 10 is the digit 0."""
    from scipy.io import loadmat

    arrays: dict[str, NDArray[Any]] = {}
    for part in _PARTS:
        path = folder / f"{part}_32x32.mat"
        try:
            data = loadmat(path, variable_names=("X", "y"))
            x, y = np.asarray(data["X"], dtype=np.uint8), np.asarray(data["y"]).reshape(-1)
            arrays[f"{part}_x"] = np.ascontiguousarray(x.transpose(3, 2, 0, 1))
        except (OSError, KeyError, ValueError, TypeError, NotImplementedError) as error:
            raise HeadstartError(f"{path} cannot be read as SVHN's: {error}; get it anew") from None
        arrays[f"{part}_y"] = (y % 10).astype(np.uint8)
    return checked(folder, Tables(arrays, DIGITS))


# Folders of images


def find_images(folder: Path) -> Path | None:
    """A folder with train/CLASS and test/CLASS (or val/CLASS) of images."""
    return _first((folder,), lambda f: (f / "train").is_dir() and _test_folder(f) is not None)


def _test_folder(folder: Path) -> Path | None:
    return next((folder / name for name in ("test", "val") if (folder / name).is_dir()), None)


def read_image(path: Path) -> NDArray[np.uint8]:
    """An image as uint8 [channels, height, width]: one channel if it is grey, three otherwise."""
    try:
        from PIL import Image
    except ImportError:
        raise HeadstartError(f"{path}: reading images needs Pillow; pip install pillow") from None
    try:
        with Image.open(path) as image:
            grey = image.mode in ("1", "L", "LA", "I;16", "I")
            pixels = np.asarray(image.convert("L" if grey else "RGB"))
    except (OSError, ValueError) as error:
        raise HeadstartError(f"{path} cannot be read as an image: {error}; take it away, or get it anew") from None
    return pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def read_images(folder: Path) -> Tables:
    """train/CLASS/* and test/CLASS/* (or val/CLASS/*), all of one size; classes are numbered in the order of names."""
    classes = tuple(sorted(path.name for path in (folder / "train").iterdir() if path.is_dir()))
    _unless_wrong(
        folder / "train", not 2 <= len(classes) <= 256, f"it has {len(classes)} folders of classes; give 2-256"
    )
    arrays: dict[str, NDArray[Any]] = {}
    for part, place in (("train", folder / "train"), ("test", _test_folder(folder) or folder / "test")):
        files = [(path, number) for number, name in enumerate(classes) for path in images_in(place / name)]
        _unless_wrong(place, not files, f"there is no image in {', '.join(classes[:3])}, ...")
        images = [read_image(path) for path, _ in files]
        for (path, _), image in zip(files, images, strict=True):
            fix = f"it is {image.shape} and {files[0][0].name} {images[0].shape}; make all alike"
            _unless_wrong(path, image.shape != images[0].shape, fix)
        arrays[f"{part}_x"] = np.stack(images)
        arrays[f"{part}_y"] = np.asarray([number for _, number in files], dtype=np.uint8)
    return checked(folder, Tables(arrays, classes))


def images_in(folder: Path) -> list[Path]:
    """The files of images below a folder, in order."""
    return sorted(p for p in folder.glob("**/*") if p.suffix.lower() in _IMAGE_SUFFIXES and p.is_file())


# Texts


def read_texts(paths: Iterable[Path]) -> Tables:
    """Texts one after another as uint8 [bytes], with int64 [texts + 1] of where each begins and the last ends."""
    texts = [path.read_bytes() for path in paths]
    starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return Tables({"text": np.frombuffer(b"".join(texts), dtype=np.uint8), "starts": starts})


def find_texts(place: Path) -> Path | None:
    """A folder with .txt files, or one such file."""
    return place if (place.suffix == ".txt" and place.is_file()) or any(place.glob("*.txt")) else None


def read_text_files(place: Path) -> Tables:
    """The .txt files of a folder in the order of their names, or one such file."""
    paths = [place] if place.is_file() else sorted(place.glob("*.txt"))
    tables = read_texts(paths)
    _unless_wrong(place, not len(tables.arrays["text"]), "the text is empty; give one with something in it")
    return tables


def checked(folder: Path, tables: Tables) -> Tables:
    """The tables, unless images and labels do not go together."""
    for part in _PARTS:
        x, y = tables.arrays[f"{part}_x"], tables.arrays[f"{part}_y"]
        _unless_wrong(folder, len(x) != len(y), f"{len(x)} images and {len(y)} labels for {part}; get it anew")
        _unless_wrong(folder, len(x) == 0, f"no image for {part}; get it anew")
        fix = f"a label of {part} is {y.max()}, and there are {len(tables.classes)} classes; get it anew"
        _unless_wrong(folder, int(y.max()) >= len(tables.classes), fix)
    train, test = (tables.arrays[f"{part}_x"].shape[1:] for part in _PARTS)
    _unless_wrong(folder, train != test, f"training images are {train} and test images {test}; make all alike")
    return tables
