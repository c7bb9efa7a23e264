"""The data directory: rows of real data as memory-mapped arrays, each set a folder with checksums.

A set NAME lies in rows/NAME of the directory: one .npy file per array and manifest.json, which says where the rows came
from and has a fingerprint of every array. Rows of images are uint8 [n, channels, height, width] with labels uint8 [n],
as "train_x", "train_y", "test_x" and "test_y"; a text is uint8 [bytes]. Nothing here downloads.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing_folder

_MANIFEST = "manifest.json"
_FORMAT = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_CHUNK_BYTES = 2**24


def data_directory() -> Path:
    """HEADSTART_DATA, or "data" in the user's cache."""
    named = os.environ.get("HEADSTART_DATA")
    return Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("headstart")) / "data"


def rows_folder(name: str) -> Path:
    """Where the rows of a set lie, or would lie."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise HeadstartError(f"data set {name!r}: a name is small letters, digits, - and _, such as mnist")
    return data_directory() / "rows" / name


@dataclass(frozen=True)
class Tables:
    """The arrays of a set as they are read from files, with the names of its classes."""

    arrays: Mapping[str, NDArray[Any]]
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dataset:
    """A set in the data directory. `dataset["train_x"]` maps the array into memory; only rows that are read are loaded.

    `fingerprints` has the SHA-256 of every array, `origin` what the rows were made from.
    """

    name: str
    folder: Path
    origin: str
    fingerprints: Mapping[str, str]
    classes: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self.fingerprints:
            raise HeadstartError(f"{self.name} has no array {key!r}; it has {', '.join(self.fingerprints)}")
        path = self.folder / f"{key}.npy"
        try:
            stat = path.stat()
            return _mapped(str(path), stat.st_ino, stat.st_mtime_ns)
        except (OSError, ValueError, EOFError) as error:
            raise HeadstartError(f"{path} cannot be read ({error}); {refill(self.name)}") from None

    def damage(self) -> Iterator[str]:
        """What is not as it was written, one line each."""
        for key, expected in self.fingerprints.items():
            try:
                found = fingerprint(self[key])
            except HeadstartError as error:
                yield str(error)
                continue
            if found != expected:
                yield f"{self.folder / key}.npy is not as it was written; {refill(self.name)}"


def refill(name: str) -> str:
    """What to do about a set that is missing or damaged."""
    return f"`headstart data get {name}` fills it"


@lru_cache(maxsize=64)
def _mapped(path: str, inode: int, changed: int) -> NDArray[Any]:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def fingerprint(array: NDArray[Any]) -> str:
    """The SHA-256 of an array's dtype, shape and bytes in C order, in hexadecimal."""
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    flat = array.reshape(-1)
    step = max(1, _CHUNK_BYTES // array.dtype.itemsize)
    for begin in range(0, len(flat), step):
        digest.update(np.ascontiguousarray(flat[begin : begin + step]).data)
    return digest.hexdigest()


def write(name: str, tables: Tables, origin: str) -> Dataset:
    """Put a set into the data directory; it is there as a whole or not at all."""
    manifest = {
        "format": _FORMAT,
        "origin": origin,
        "classes": list(tables.classes),
        "fingerprints": {key: fingerprint(array) for key, array in tables.arrays.items()},
        "shapes": {key: array.shape for key, array in tables.arrays.items()},
    }
    with replacing_folder(rows_folder(name)) as folder:
        for key, array in tables.arrays.items():
            np.save(folder / f"{key}.npy", array, allow_pickle=False)
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1))
    return open_dataset(name)


def find_dataset(name: str) -> Dataset | None:
    """The set of this name, or None if it is not in the data directory."""
    folder = rows_folder(name)
    try:
        stat = (folder / _MANIFEST).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _described(name, folder, stat.st_ino, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _described(name: str, folder: Path, inode: int, changed: int) -> Dataset:
    """A set by its manifest, which every batch asks for: it is read again only when it has changed."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        if manifest["format"] != _FORMAT:
            raise HeadstartError(f"{folder} is of format {manifest['format']}, which this version does not know")
        shapes = {key: tuple(shape) for key, shape in manifest["shapes"].items()}
        return Dataset(name, folder, manifest["origin"], manifest["fingerprints"], tuple(manifest["classes"]), shapes)
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        raise HeadstartError(f"{folder / _MANIFEST} is damaged; {refill(name)}") from None


def open_dataset(name: str) -> Dataset:
    """The set of this name; a miss says which command fills it."""
    found = find_dataset(name)
    if found is None:
        raise HeadstartError(f"{name} is not in the data directory {data_directory()}; {refill(name)}")
    return found


def datasets() -> list[str]:
    """The names of the sets in the data directory."""
    folder = data_directory() / "rows"
    return sorted(path.parent.name for path in folder.glob(f"*/{_MANIFEST}") if _NAME.fullmatch(path.parent.name))
