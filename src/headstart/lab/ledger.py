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
            for table in ("arms", "reports"):
                self._db.execute(f"DELETE FROM {table} WHERE (study, preset, knobs) = (?, ?, ?)", edition)
            self._db.add("arms", rows)
            self._db.add("reports", [(*edition, json.dumps(report), time.time())])

    def last(self, study: str) -> Edition | None:
        """The edition of a study that was finished last; smoke runs count only where there is no other."""
        rows = self._db.rows("reports", f"WHERE study = ? {_NEWEST_LAST}", (study,))
        return Edition(*rows[-1][:3]) if rows else None

    def reports(self) -> dict[str, dict[str, Any]]:
        """The newest report of every study, by its name; smoke only where there is no other."""
        return {study: self._read(study, text) for study, _, _, text, _ in self._db.rows("reports", _NEWEST_LAST, ())}

    def _read(self, study: str, text: str) -> dict[str, Any]:
        """A report as it was written; refused if it is none."""
        try:
            report = json.loads(text)
            if not isinstance(report, dict):
                raise ValueError("it is no JSON object")
        except (ValueError, RecursionError) as error:
            raise HeadstartError(
                f"the report of {study} in store {self._db.path} cannot be read: {error}; run the study again, "
                "with --repair"
            ) from None
        return report

    def serving(self, study: str, arm: str | None = None, kind: str = "claim") -> list[Serving]:
        """Which cells serve the arms (or one arm) of a study's last edition."""
        edition = self.last(study)
        if edition is None:
            raise HeadstartError(
                f"study {study} has no finished run in store {self._db.path}; run it: headstart run {study}"
            )
        where = "WHERE (study, preset, knobs) = (?, ?, ?) ORDER BY arm, cell"
        rows = [
            Serving(a, k, cell, json.loads(seeds)) for *_, a, k, cell, seeds in self._db.rows("arms", where, edition)
        ]
        self._check_whole(edition, rows)
        if arm is not None and arm not in {row.arm for row in rows}:
            raise HeadstartError(f"there is no arm {arm!r}; {study} has {', '.join(sorted({r.arm for r in rows}))}")
        return [row for row in rows if row.kind == kind and arm in (None, row.arm)]

    def _check_whole(self, edition: Edition, rows: list[Serving]) -> None:
        """Raise where the report speaks of an arm that is not among the rows."""
        ((*_, text, _),) = self._db.rows("reports", "WHERE (study, preset, knobs) = (?, ?, ?)", edition)
        report = self._read(edition.study, text)
        served = {row.arm for row in rows if row.kind == "claim"}
        gone = set(report.get("choices", report.get("learning_rates", ()))) - served
        if gone:
            raise HeadstartError(
                f"store {self._db.path} has lost the rows of {', '.join(sorted(gone))} of {edition.study}; "
                "run the study again"
            )
