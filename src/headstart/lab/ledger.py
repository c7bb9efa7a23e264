"""What the store knows of studies: when they ran, which cells serve which arm, and how their claims came out."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headstart.core.errors import HeadstartError
from headstart.lab.database import Database

_NEWEST_LAST = "ORDER BY preset <> 'smoke', created"


class Edition(NamedTuple):
    """A study as it was run: its name, the preset, and all knobs as canonical JSON."""

    study: str
    preset: str
    knobs: str


class Serving(NamedTuple):
    """Which cell at which seeds serves an arm: kind "claim" for its claims, "selection" for its learning rate."""

    arm: str
    kind: str
    cell: str
    seeds: list[int]


class Ledger:
    """The studies of a store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(self, edition: Edition) -> int:
        """Note that a study is being run; returns the session's number."""
        with self._db.write():
            query = "INSERT INTO sessions (study, preset, knobs, started, seconds) VALUES (?, ?, ?, ?, 0)"
            session = self._db.execute(query, (*edition, time.time())).lastrowid
        assert session is not None
        return session

    def set_seconds(self, session: int, seconds: float) -> None:
        """Set the wall time of a session so far."""
        with self._db.write():
            self._db.execute("UPDATE sessions SET seconds = ? WHERE id = ?", (seconds, session))

    def seconds(self, edition: Edition) -> float:
        """The wall time of all sessions of an edition."""
        query = "SELECT SUM(seconds) FROM sessions WHERE (study, preset, knobs) = (?, ?, ?)"
        return float(self._db.execute(query, edition).fetchone()[0] or 0.0)

    def finish(self, edition: Edition, serving: Iterable[Serving], report: Mapping[str, Any]) -> None:
        """Keep how an edition came out, in place of what was said of it before."""
        rows = [(*edition, s.arm, s.kind, s.cell, json.dumps(s.seeds)) for s in serving]
        with self._db.write():
            self._db.execute("DELETE FROM arms WHERE (study, preset, knobs) = (?, ?, ?)", edition)
            self._db.executemany("INSERT INTO arms VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            row = (*edition, json.dumps(report), time.time())
            self._db.execute("INSERT OR REPLACE INTO reports VALUES (?, ?, ?, ?, ?)", row)

    def last(self, study: str) -> Edition | None:
        """The edition of a study that was finished last; smoke runs count only where there is no other."""
        query = f"SELECT preset, knobs FROM reports WHERE study = ? {_NEWEST_LAST}"
        rows = self._db.execute(query, (study,)).fetchall()
        return Edition(study, *rows[-1]) if rows else None

    def reports(self) -> dict[str, dict[str, Any]]:
        """The newest report of every study, by its name; smoke only where there is no other."""
        query = f"SELECT study, json FROM reports {_NEWEST_LAST}"
        return {study: json.loads(text) for study, text in self._db.execute(query)}

    def serving(self, study: str, arm: str | None = None, kind: str = "claim") -> list[Serving]:
        """Which cells serve the arms (or one arm) of a study's last edition."""
        edition = self.last(study)
        if edition is None:
            raise HeadstartError(
                f"study {study} has no finished run in store {self._db.path}; run it: headstart run {study}"
            )
        query = "SELECT arm, kind, cell, seeds FROM arms WHERE (study, preset, knobs) = (?, ?, ?) ORDER BY arm, cell"
        rows = [Serving(a, k, cell, json.loads(seeds)) for a, k, cell, seeds in self._db.execute(query, edition)]
        if arm is not None and arm not in {row.arm for row in rows}:
            raise HeadstartError(f"there is no arm {arm!r}; {study} has {', '.join(sorted({r.arm for r in rows}))}")
        return [row for row in rows if row.kind == kind and arm in (None, row.arm)]
