"""What sweeps chose, kept in the store: one choice for identical arms, shared by all studies."""

import json
import time
from typing import Any

from headstart.lab.database import Database


class Choices:
    """The choices of a store as JSON, each known by what was swept, on which seeds and with how many tries."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, key: str) -> Any:
        """The choice under a key; None if there is none."""
        rows = self._db.rows("choices", "WHERE choice = ?", (key,))
        return json.loads(rows[0][1]) if rows else None

    def add(self, key: str, choice: Any) -> None:
        """Keep a choice; one that is there already stays as it is."""
        with self._db.write():
            self._db.add("choices", [(key, json.dumps(choice), time.time())])
