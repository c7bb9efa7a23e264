"""What a microscope keeps: one SQLite file of comparisons, and a file for the network that copies are compared with."""

import functools
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headstart.core.encoding import canonical, identity
from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.core.state import Arrays, load_arrays, save_arrays
from headstart.lab.probe_factory import source_file
from headstart.lab.probe_problem import Problem
from headstart.lab.probe_store import rows_digest

_APPLICATION = 0x48535354  # "HSST": written into the file, so that no other SQLite file is taken for one
_TABLE = "create table if not exists compared (key text primary key, found text, digest text)"


def fingerprint_function(function: Any, problem: Problem | None, num_rows: int) -> str:
    """What a user's function is known by: its file, its code, plain values that it closes over, and the rows."""
    held: list[Any] = []
    while isinstance(function, functools.partial):
        held += [*function.args, *sorted(function.keywords.items())]
        function = function.func
    file, code = source_file(function), getattr(function, "__code__", None)
    held += [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    held += [*(getattr(function, "__defaults__", None) or ()), *getattr(code, "co_consts", ())]
    parts = {
        "file": None if file is None else hashlib.sha256(file.read_bytes()).hexdigest(),
        "code": None if code is None else hashlib.sha256(code.co_code + repr(code.co_names).encode()).hexdigest(),
        "held": [repr(value) for value in held if _is_plain(value)],
        "rows": [num_rows, None if problem is None else rows_digest(problem)],
    }
    return identity(canonical(parts))


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str | bytes)


class StabilityStore:
    """Comparisons by key, and the trained network of the group under way. Without a path all stays in memory.

    A path that is a folder holds one file per training, called by its fingerprint.
    """

    def __init__(self, path: str | os.PathLike[str] | None, training: str) -> None:
        self.path: Path | None = None
        if path is not None:
            self.path = Path(path).expanduser()
            if self.path.is_dir() or not self.path.suffix:
                self.path = self.path / f"{training}.sqlite"
        self.training = training
        with self._named():
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            # Each statement is a transaction of its own: what was put is there, whatever ends the process.
            self.database = sqlite3.connect(self.path or ":memory:", timeout=60, isolation_level=None)
            self._check_ours()
            self.database.execute(_TABLE)

    def _check_ours(self) -> None:
        (number,) = self.database.execute("pragma application_id").fetchone()
        (tables,) = self.database.execute("select count(*) from sqlite_master").fetchone()
        if number != _APPLICATION and (number or tables):
            self.database.close()
            raise HeadstartError(
                f"stability(store={str(self.path)!r}): this file is no store of comparisons; name another, or a folder"
            )
        if number != _APPLICATION:
            self.database.execute(f"pragma application_id = {_APPLICATION}")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Faults of SQLite and the system name the file and what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise HeadstartError(
                f"stability(store={str(self.path)!r}): {error}; free space, change permissions, or name another"
            ) from None

    def key(self, parts: list[Any]) -> str:
        """What a comparison is known by: the training, and all that it was asked."""
        return identity(canonical([self.training, *parts]))

    def get(self, key: str) -> Any:
        """A comparison; None if it is not there, or is damaged and must be made again."""
        with self._named():
            row = self.database.execute("select found, digest from compared where key = ?", (key,)).fetchone()
        return None if row is None or _digest(key, row[0]) != row[1] else json.loads(row[0])

    def put(self, key: str, found: Any) -> None:
        """Keep a comparison."""
        text = json.dumps(found)
        with self._named():
            self.database.execute(
                "insert or replace into compared (key, found, digest) values (?, ?, ?)", (key, text, _digest(key, text))
            )

    def trained(self, key: str) -> Arrays | None:
        """The network that `keep_trained` kept, or None."""
        path = self._file(key)
        try:
            return None if path is None else load_arrays(path.read_bytes())[1]
        except Exception:  # not there, or cut short: it is trained again
            return None

    def keep_trained(self, key: str, arrays: Arrays) -> None:
        """Keep the network that copies are compared with until `forget`; a full disk is no reason to end."""
        path = self._file(key)
        if path is None:
            return
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(save_arrays(arrays))
        except OSError:
            path.unlink(missing_ok=True)

    def forget(self, key: str) -> None:
        """All copies were compared with it."""
        path = self._file(key)
        if path is not None:
            path.unlink(missing_ok=True)
            if path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()

    def _file(self, key: str) -> Path | None:
        return None if self.path is None else Path(f"{self.path}.trained") / f"{key}.safetensors"

    def close(self) -> None:
        """Close the file."""
        self.database.close()


def _digest(key: str, text: str) -> str:
    return hashlib.blake2b(f"{key} {text}".encode(), digest_size=16).hexdigest()
