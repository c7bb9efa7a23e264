"""The store's SQLite file: how it is opened, one transaction at a time, and faults in words."""

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.schema import FORMAT, PLAIN, SCHEMA, SEALED, is_current, renew, seal, shadow, statements, unshadow

# What SQLite says of contents that are not as they were written, without a code of its own for it.
_TORN = re.compile("decode to UTF-8|malformed")
_OTHER = "name another with --store PATH or HEADSTART_STORE"
_REPAIR = (
    "`headstart check-store` lists the damage, and `headstart run` with --repair drops it and trains only that again"
)


class Damaged(HeadstartError):
    """A store whose contents are not as they were written."""


class Connection(sqlite3.Connection):
    """A connection whose faults are HeadstartErrors that name the file."""

    path = Path()

    def execute(self, *args: Any) -> "Cursor":
        """As of sqlite3."""
        made: Cursor = self.cursor(Cursor)
        return made.execute(*args)

    def executemany(self, *args: Any) -> "Cursor":
        """As of sqlite3."""
        made: Cursor = self.cursor(Cursor)
        return made.executemany(*args)


class Cursor(sqlite3.Cursor):
    """A cursor whose faults are HeadstartErrors."""

    connection: Connection

    def execute(self, *args: Any) -> "Cursor":
        """As of sqlite3."""
        try:
            return super().execute(*args)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._in_words(error) from error

    def executemany(self, *args: Any) -> "Cursor":
        """As of sqlite3."""
        try:
            return super().executemany(*args)
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._in_words(error) from error

    def fetchone(self) -> Any:
        """As of sqlite3."""
        try:
            return super().fetchone()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._in_words(error) from error

    def fetchall(self) -> list[Any]:
        """As of sqlite3."""
        try:
            return super().fetchall()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._in_words(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise self._in_words(error) from error

    def _in_words(self, error: Exception) -> HeadstartError:
        return in_words(self.connection.path, error)


def in_words(path: Path, error: Exception) -> HeadstartError:
    """A fault of SQLite or of the system as a sentence that names the store and the fix."""
    code = getattr(error, "sqlite_errorcode", None)
    first = None if code is None else code & 0xFF
    if first == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == 28:
        fix = "free some space and run the same command again: what was stored is safe"
    elif first == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError) or _TORN.search(str(error)):
        return Damaged(f"store {path} is damaged: {error}; {_REPAIR}")
    elif first in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        fix = "another command holds it; run the same command again"
    elif first == sqlite3.SQLITE_READONLY:
        fix = f"you may read it only; {_OTHER}"
    else:
        fix = _OTHER
    return HeadstartError(f"store {path} cannot be used: {error}; {fix}")


def connect(path: Path, mode: str) -> Connection:
    """A connection to a file, mode "ro" or "rwc", or "memory"; what the file itself defines is not trusted to run."""
    where = ":memory:" if mode == "memory" else f"file:{quote(str(path.absolute()))}?mode={mode}"
    try:
        made = sqlite3.connect(
            where, timeout=60, isolation_level=None, check_same_thread=False, factory=Connection, uri=mode != "memory"
        )
    except sqlite3.Error as error:
        raise in_words(path, error) from error
    made.path = path
    made.execute("PRAGMA trusted_schema=OFF")
    return made


class Database:
    """An open store file. Several processes may have it open; each write holds the lock for itself.

    It is opened for reading, and opening changes nothing: a file that is not there reads as an empty store, and a file
    of an older format as one of this format. The first write makes it, in WAL mode, or brings it to this format, in one
    transaction, after a copy of it was put beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._look()

    def _look(self) -> None:
        """Open the file for reading, or nothing in its place."""
        self.writable = False
        self.missing = not self._is_there()
        try:
            self.connection = connect(self.path, "memory" if self.missing else self._reading_mode())
        except OSError as error:
            raise in_words(self.path, error) from error
        try:
            if not self.missing and self._is_empty():
                self.connection.close()
                self.connection, self.missing = connect(self.path, "memory"), True
            if self.missing:
                self._create()
            self.format = self._found()
            self.sealed = self._is_current()
            if not self.sealed:
                shadow(self.connection)
        except (HeadstartError, sqlite3.Error) as error:
            self.connection.close()
            raise (error if isinstance(error, HeadstartError) else in_words(self.path, error)) from None

    def _is_there(self) -> bool:
        try:
            if self.path.exists():
                return True
            parent = next(p for p in self.path.absolute().parents if p.exists())
        except OSError as error:
            raise in_words(self.path, error) from error
        if not parent.is_dir():
            raise in_words(self.path, NotADirectoryError(f"{parent} is no folder"))
        return False

    def _reading_mode(self) -> str:
        """Read only; of a file that nobody can be writing, without the files that readers of a live one share."""
        wal = self.path.with_name(f"{self.path.name}-wal")
        return "ro" if os.access(self.path.parent, os.W_OK) or wal.exists() else "ro&immutable=1"

    def _is_empty(self) -> bool:
        return self.connection.execute("SELECT 1 FROM main.sqlite_master").fetchone() is None

    def _found(self) -> int:
        """The format of the file; refused if it is no store, or of a newer version."""
        if self.connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'meta'").fetchone() is None:
            raise HeadstartError(f"{self.path} cannot be used: it is a database, and no store of headstart's; {_OTHER}")
        row = self.connection.execute("SELECT value FROM main.meta WHERE key = 'format'").fetchone()
        written = None if row is None else row[0]
        if not isinstance(written, str) or not written.isdecimal() or not int(written):
            raise HeadstartError(
                f"store {self.path} cannot be used: it says that its format is {written!r}, which is none; {_OTHER}"
            )
        if int(written) > FORMAT:
            raise HeadstartError(
                f"store {self.path} has format {written}, this version reads up to {FORMAT}; upgrade headstart, "
                "or name another store with --store PATH"
            )
        return int(written)

    def _is_current(self) -> bool:
        try:
            return is_current(self.connection)
        except sqlite3.Error as error:
            raise in_words(self.path, error) from error

    def _create(self) -> None:
        for each in statements(SCHEMA):
            self.connection.execute(each)
        self.connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))

    def _open_for_writing(self) -> None:
        """Open the file again, now to write: make it if it is not there, renew it if it is older."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise in_words(self.path, error) from error
        opened = connect(self.path, "rwc")
        self.connection.close()
        self.connection = opened
        self._set_wal()
        self.connection.execute("PRAGMA synchronous=FULL")
        if self._is_empty():
            with self._transaction():
                self._create()
        self.format = self._found()
        self.missing = False
        if self.format < FORMAT or not self._is_current():
            self._renew()
        self.sealed = self.writable = True

    def _set_wal(self) -> None:
        for attempt in range(100):
            try:
                self.connection.execute("PRAGMA journal_mode=WAL")
                return
            except HeadstartError as error:
                # Two processes that open a new store at once: SQLite's own patience does not cover this switch.
                if "locked" not in str(error) or attempt == 99:
                    raise
                time.sleep(0.1)

    def _renew(self) -> None:
        """Bring an older file to this format; another process may have done so in the meantime."""
        unshadow(self.connection)
        with self._transaction():
            if self._found() < FORMAT or not self._is_current():
                older = "format-1" if self._found() < FORMAT else "before-seals"
                self._copy(self.path.with_name(f"{self.path.name}.{older}"))
                renew(self.connection)
                self.connection.execute("UPDATE meta SET value = ? WHERE key = 'format'", (str(FORMAT),))
        self.format = FORMAT

    def _copy(self, path: Path) -> None:
        """Copy the file by a connection of its own: this one is in a transaction, which keeps other writers out."""
        try:
            with replacing(path) as temporary:
                source, target = sqlite3.connect(self.path), sqlite3.connect(temporary)
                source.backup(target)
                target.close()
                source.close()
        except (OSError, sqlite3.Error) as error:
            raise in_words(path, error) from error

    def execute(self, query: str, values: Sequence[Any] = ()) -> Cursor:
        """Run one statement."""
        if self.missing and self.path.exists():
            self.connection.close()  # somebody else has made it since
            self._look()
        return self.connection.execute(query, values)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        """Run one statement for each row."""
        return self.connection.executemany(query, rows)

    def add(self, table: str, rows: Iterable[Sequence[Any]], data: Iterable[bytes | None] = ()) -> None:
        """Seal rows and put them into a table; those whose key is there already stay as they are."""
        columns, blobs = SEALED[table].columns, list(data)
        names = (*columns, "seal", *(("data",) if blobs else ()))
        query = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        made = [(*row, seal(row)) for row in rows]
        self.executemany(query, [(*row, blob) for row, blob in zip(made, blobs, strict=True)] if blobs else made)

    def rows(self, table: str, where: str, values: Sequence[Any], data: bool = False) -> list[tuple[Any, ...]]:
        """The rows of a table, each with its seal checked; with `data`, the blob comes last."""
        columns = SEALED[table].columns
        more = ", data" if data else ""
        found = self.execute(f"SELECT {', '.join(columns)}, seal{more} FROM {table} {where}", values).fetchall()
        num = len(columns)
        for row in found:
            if not self.is_sealed(row[:num], row[num]):
                key = ", ".join(str(part) for part in row[: SEALED[table].num_keys])
                raise self.damaged(f"a row of {table} ({key})")
        return [(*row[:num], *row[num + 1 :]) for row in found]

    def copy(self, source: "Database", table: str, where: str, values: Sequence[Any]) -> None:
        """Copy rows of another file, each with its seal checked; those that are there stay as they are."""
        if table in PLAIN:
            columns = ", ".join(PLAIN[table])
            found = source.execute(f"SELECT {columns} FROM {table} WHERE {where}", values).fetchall()
            marks = ", ".join("?" * len(PLAIN[table]))
            self.executemany(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", found)
            return
        blobs = SEALED[table].has_data
        rows = source.rows(table, f"WHERE {where}", values, data=blobs)
        self.add(table, [row[:-1] if blobs else row for row in rows], [row[-1] for row in rows] if blobs else ())

    def is_sealed(self, row: Sequence[Any], written: Any) -> bool:
        """Whether a row is as it was written; of files without seals nothing is known."""
        return not self.sealed or seal(row) == written

    def damaged(self, what: str) -> HeadstartError:
        """What to say of a row whose checksum does not match."""
        return Damaged(f"{what} of store {self.path} is corrupt: its checksum does not match; {_REPAIR}")

    @contextmanager
    def write(self) -> Iterator[None]:
        """One transaction that holds the write lock from its start."""
        if not self.writable:
            self._open_for_writing()
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            # A signal may come right after it: then this is undone too.
            self.connection.execute("BEGIN IMMEDIATE")
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            with suppress(HeadstartError):
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
            raise

    def settle(self) -> None:
        """Leave WAL mode, so that the file stands alone and readers put nothing beside it: for giving it away."""
        self.execute("PRAGMA journal_mode=DELETE")

    def reopen(self) -> None:
        """Open the file anew, after it was replaced."""
        self.connection.close()
        self._look()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
