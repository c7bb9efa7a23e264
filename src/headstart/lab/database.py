"""The store's SQLite file: its tables, its format, one transaction at a time."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headstart.core.errors import HeadstartError

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (cell TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
  id INTEGER PRIMARY KEY, engine TEXT NOT NULL, provenance TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS summaries (
  cell TEXT, seed INTEGER, status TEXT NOT NULL, area REAL NOT NULL, final REAL NOT NULL, seconds REAL NOT NULL,
  batch INTEGER NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (id INTEGER PRIMARY KEY, cell TEXT NOT NULL, batch INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS curves (
  chunk INTEGER, metric TEXT, dtype TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (chunk, metric)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
  cell TEXT, seed INTEGER, chunk INTEGER NOT NULL, place INTEGER NOT NULL, num_records INTEGER NOT NULL,
  status TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS weights (
  cell TEXT, seed INTEGER, moment TEXT, checksum INTEGER, data BLOB, PRIMARY KEY (cell, seed, moment)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS simulations (
  simulation TEXT PRIMARY KEY, json TEXT NOT NULL, batch INTEGER NOT NULL, checksum INTEGER NOT NULL,
  data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arms (
  study TEXT, preset TEXT, knobs TEXT, arm TEXT, kind TEXT, cell TEXT, seeds TEXT NOT NULL,
  PRIMARY KEY (study, preset, knobs, arm, kind, cell)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
  id INTEGER PRIMARY KEY, study TEXT, preset TEXT, knobs TEXT, started REAL, seconds REAL);
CREATE TABLE IF NOT EXISTS reports (
  study TEXT, preset TEXT, knobs TEXT, json TEXT NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (study, preset, knobs)) WITHOUT ROWID;
"""


class Database:
    """An open store file in WAL mode. Several processes may have it open; each write holds the lock for itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            found = self._set_up()
        except sqlite3.Error as error:
            self.connection.close()
            raise self._unusable(error) from None
        if found > FORMAT:
            self.connection.close()
            raise HeadstartError(
                f"store {path} has format {found}, this version reads up to {FORMAT}; upgrade headstart, "
                "or name another store with --store PATH"
            )
        self.execute = self.connection.execute
        self.executemany = self.connection.executemany

    def _unusable(self, error: Exception) -> HeadstartError:
        return HeadstartError(
            f"store {self.path} cannot be used: {error}; name another with --store PATH or HEADSTART_STORE"
        )

    def _set_up(self) -> int:
        """Make the tables if they are not there; returns the format of the file."""
        for attempt in range(100):
            try:
                self.connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                # Two processes that open a new store at once: SQLite's own patience does not cover this switch.
                if "locked" not in str(error) or attempt == 99:
                    raise
                time.sleep(0.1)
        self.connection.execute("PRAGMA synchronous=FULL")
        with self.write():
            for statement in _SCHEMA.split(";"):
                self.connection.execute(statement)
            self.connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
        return int(self.connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()[0])

    @contextmanager
    def write(self) -> Iterator[None]:
        """One transaction that holds the write lock from its start."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
