"""What sweeps chose, kept in the store: one choice for identical arms, shared by all studies."""

import json
import time
import zlib
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.database import Database


class Choices:
    """The choices of a store as JSON, each known by what was swept, on which seeds and with how many tries."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, key: str) -> Any:
        """The choice under a key; None if there is none."""
        row = self._db.execute("SELECT checksum, json FROM choices WHERE choice = ?", (key,)).fetchone()
        if row is None:
            return None
        if zlib.crc32(row[1].encode()) != row[0]:
            raise HeadstartError(f"choice {key} of store {self._db.path} is corrupt; add --repair to the run")
        return json.loads(row[1])

    def add(self, key: str, choice: Any) -> None:
        """Keep a choice; one that is there already stays as it is."""
        text = json.dumps(choice)
        with self._db.write():
            row = (key, zlib.crc32(text.encode()), text, time.time())
            self._db.execute("INSERT OR IGNORE INTO choices VALUES (?, ?, ?, ?)", row)

    def repair(self) -> None:
        """Drop every choice whose checksum fails; part of a transaction of the caller's."""
        for key, checksum, text in self._db.execute("SELECT choice, checksum, json FROM choices").fetchall():
            if zlib.crc32(text.encode()) != checksum:
                self._db.execute("DELETE FROM choices WHERE choice = ?", (key,))
