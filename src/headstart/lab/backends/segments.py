"""Files that one process appends to and another reads, perhaps on another machine: sealed records, synced to disk.

A record is its length (8 bytes), its seal (16 bytes) and a pickle. The seal is a checksum keyed by a secret of the
user's: a torn or damaged record is seen, and nothing is unpickled that somebody else has put there.
"""

import os
import pickle
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from hashlib import blake2b
from pathlib import Path
from typing import Any

import platformdirs

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing

_LENGTH, _SEAL = 8, 16
_KEY_BYTES = 32
# A full disk may be cleared: try again for so long, this often, in seconds.
_FULL_PATIENCE, _FULL_PAUSE = 600.0, 5.0


def users_key() -> bytes:
    """The secret that seals this user's records, made when first asked for."""
    path = Path(platformdirs.user_data_dir("headstart")) / "segments.key"
    try:
        if not path.exists():
            with replacing(path) as temporary:
                temporary.chmod(0o600)
                temporary.write_bytes(secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise HeadstartError(f"{path} cannot be used: {error}; it holds the key of records between machines") from None
    if len(key) != _KEY_BYTES:
        raise HeadstartError(f"{path} is damaged: it has {len(key)} bytes in place of {_KEY_BYTES}; delete it")
    return key


def _seal(key: bytes, data: bytes) -> bytes:
    return blake2b(data, digest_size=_SEAL, key=key).digest()


def sealed(record: Any, key: bytes) -> bytes:
    """A record as it stands in a file."""
    data = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH, "little") + _seal(key, data) + data


class Damaged(Exception):
    """A record that is not as it was written, or not by us."""


class Appender:
    """Appends records to a new file that is its own."""

    def __init__(self, path: Path, key: bytes, say: Callable[[str], None] = print) -> None:
        self.path, self.key, self.say = path, key, say
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        self.size = 0

    def append(self, record: Any, sync: bool = True) -> None:
        """Add a record, whole or not at all; where the disk is full, wait for room."""
        data, until = sealed(record, self.key), time.monotonic() + _FULL_PATIENCE
        while True:
            try:
                self._write(data)
                if sync:
                    os.fsync(self.file)
                self.size += len(data)
                return
            except OSError as error:
                with suppress(OSError):
                    os.ftruncate(self.file, self.size)
                if error.errno not in (ENOSPC, EDQUOT) or time.monotonic() > until:
                    raise
                self.say(f"{self.path}: {error.strerror}; free some space: nothing is lost yet")
                time.sleep(_FULL_PAUSE)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self.file, left) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)


class Reader:
    """Reads the records of a file as they come."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path, self.key, self.offset = path, key, 0

    def read(self) -> list[Any]:
        """The records since the last look; one that is not all there yet waits. Raises Damaged."""
        # Opened anew: a network file system shows what others wrote when a file is opened.
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        records, at = [], 0
        while len(data) - at >= _LENGTH + _SEAL:
            length = int.from_bytes(data[at : at + _LENGTH], "little")
            begin = at + _LENGTH + _SEAL
            if len(data) - begin < length:
                break
            payload = data[begin : begin + length]
            if not secrets.compare_digest(_seal(self.key, payload), data[at + _LENGTH : begin]):
                raise Damaged(f"{self.path} is damaged at byte {self.offset + at}, or was written by somebody else")
            records.append(pickle.loads(payload))
            at = begin + length
        self.offset += at
        return records
