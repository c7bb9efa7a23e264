"""The store's SQLite file: its tables, its format, one transaction at a time."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing

FORMAT = 2
# Tables of every format.
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
# Tables that format 2 adds. A state whose file and data are NULL was never reached; one above 1 MiB lies in a file.
_SINCE_2 = """
CREATE {kind} IF NOT EXISTS states (
  cell TEXT, seed INTEGER, moment TEXT, counters TEXT NOT NULL, checksum INTEGER, data BLOB, file TEXT,
  PRIMARY KEY (cell, seed, moment)) WITHOUT ROWID;
CREATE {kind} IF NOT EXISTS costs (
  cell TEXT, seed INTEGER, steps INTEGER NOT NULL, samples INTEGER NOT NULL, flops REAL NOT NULL,
  seconds REAL NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE {kind} IF NOT EXISTS measured (
  cell TEXT, seed INTEGER, measure TEXT, json TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (cell, measure, seed)) WITHOUT ROWID;
CREATE {kind} IF NOT EXISTS choices (
  choice TEXT PRIMARY KEY, checksum INTEGER NOT NULL, json TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID;
"""


class Database:
    """An open store file in WAL mode. Several processes may have it open; each write holds the lock for itself.

    A file of format 1 is read as it is. The first write brings it to format 2, in one transaction, after a copy of it
    was put beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self.format = self._set_up()
        except sqlite3.Error as error:
            self.connection.close()
            raise self._unusable(error) from None
        if self.format > FORMAT:
            self.connection.close()
            raise HeadstartError(
                f"store {path} has format {self.format}, this version reads up to {FORMAT}; upgrade headstart, "
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
        known = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
        if known is None:
            with self._transaction():
                self._run(_SCHEMA)
                if self.connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),)).rowcount:
                    self._add_format_2()
        found = self._found()
        if found == 1:
            self._run(_SINCE_2.format(kind="TEMP TABLE"))  # empty, for readers
        return found

    def _found(self) -> int:
        return int(self.connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()[0])

    def _run(self, script: str) -> None:
        for statement in script.split(";"):
            self.connection.execute(statement)

    def _add_format_2(self) -> None:
        self._run(_SINCE_2.format(kind="TABLE"))
        # The last recorded values of a run, float64, in the order of the names of its cell.
        self.connection.execute("ALTER TABLE summaries ADD COLUMN last BLOB NOT NULL DEFAULT x''")
        self.connection.execute("ALTER TABLE cells ADD COLUMN names TEXT NOT NULL DEFAULT '[]'")

    def _migrate(self) -> None:
        """Bring a file of format 1 to format 2; another process may have done so in the meantime."""
        self._run("DROP TABLE IF EXISTS temp.states; DROP TABLE IF EXISTS temp.costs")
        with self._transaction():
            if self._found() < FORMAT:
                self._copy(self.path.with_name(f"{self.path.name}.format-1"))
                self._add_format_2()
                self.connection.execute("UPDATE meta SET value = ? WHERE key = 'format'", (str(FORMAT),))
        self.format = FORMAT

    def _copy(self, path: Path) -> None:
        """Copy the file by a connection of its own: this one is in a transaction, which keeps other writers out."""
        with replacing(path) as temporary:
            source, target = sqlite3.connect(self.path), sqlite3.connect(temporary)
            source.backup(target)
            target.close()
            source.close()

    @contextmanager
    def write(self) -> Iterator[None]:
        """One transaction that holds the write lock from its start."""
        if self.format < FORMAT:
            self._migrate()
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
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
