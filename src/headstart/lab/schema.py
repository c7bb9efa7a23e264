"""The tables of a store, the checksum that every row a claim reads carries, and how older files are read and renewed.

A row of a sealed table has `seal`: a CRC-32 of its other columns, but for `data`, of which `checksum` is the CRC-32.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

FORMAT = 2
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
  cell TEXT PRIMARY KEY, json TEXT NOT NULL, names TEXT NOT NULL, seal INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
  id INTEGER PRIMARY KEY, engine TEXT NOT NULL, provenance TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS summaries (
  cell TEXT, seed INTEGER, status TEXT NOT NULL, area REAL NOT NULL, final REAL NOT NULL, seconds REAL NOT NULL,
  batch INTEGER NOT NULL, last BLOB NOT NULL, seal INTEGER, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (id INTEGER PRIMARY KEY, cell TEXT NOT NULL, batch INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS curves (
  chunk INTEGER, metric TEXT, dtype TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL, seal INTEGER,
  PRIMARY KEY (chunk, metric)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
  cell TEXT, seed INTEGER, chunk INTEGER NOT NULL, place INTEGER NOT NULL, num_records INTEGER NOT NULL,
  status TEXT NOT NULL, seconds REAL NOT NULL, before_steps INTEGER NOT NULL, before_samples INTEGER NOT NULL,
  before_flops REAL NOT NULL, before_seconds REAL NOT NULL, seal INTEGER, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
  cell TEXT, seed INTEGER, moment TEXT, counters TEXT NOT NULL, checksum INTEGER, data BLOB, file TEXT, seal INTEGER,
  PRIMARY KEY (cell, seed, moment)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS simulations (
  simulation TEXT PRIMARY KEY, json TEXT NOT NULL, batch INTEGER NOT NULL, checksum INTEGER NOT NULL,
  data BLOB NOT NULL, seal INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS measured (
  cell TEXT, seed INTEGER, measure TEXT, json TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL,
  seal INTEGER, PRIMARY KEY (cell, measure, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS choices (
  choice TEXT PRIMARY KEY, json TEXT NOT NULL, created REAL NOT NULL, seal INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arms (
  study TEXT, preset TEXT, knobs TEXT, arm TEXT, kind TEXT, cell TEXT, seeds TEXT NOT NULL, seal INTEGER,
  PRIMARY KEY (study, preset, knobs, arm, kind, cell)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
  id INTEGER PRIMARY KEY, study TEXT, preset TEXT, knobs TEXT, started REAL, seconds REAL);
CREATE TABLE IF NOT EXISTS reports (
  study TEXT, preset TEXT, knobs TEXT, json TEXT NOT NULL, created REAL NOT NULL, seal INTEGER,
  PRIMARY KEY (study, preset, knobs)) WITHOUT ROWID;
"""


class Sealed(NamedTuple):
    """A table whose rows are sealed: its columns in the order of the seal, and how many of them are its key."""

    columns: tuple[str, ...]
    num_keys: int
    has_data: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self.columns[: self.num_keys]


_BEFORE = ("before_steps", "before_samples", "before_flops", "before_seconds")
# A state whose file and data are NULL was never reached; one above 1 MiB lies in a file.
SEALED = {
    "cells": Sealed(("cell", "json", "names"), 1),
    "summaries": Sealed(("cell", "seed", "status", "area", "final", "seconds", "batch", "last"), 2),
    "curves": Sealed(("chunk", "metric", "dtype", "checksum"), 2, has_data=True),
    "runs": Sealed(("cell", "seed", "chunk", "place", "num_records", "status", "seconds", *_BEFORE), 2),
    "states": Sealed(("cell", "seed", "moment", "counters", "checksum", "file"), 3, has_data=True),
    "simulations": Sealed(("simulation", "json", "batch", "checksum"), 1, has_data=True),
    "measured": Sealed(("cell", "measure", "seed", "json", "checksum"), 3, has_data=True),
    "choices": Sealed(("choice", "json", "created"), 1),
    "arms": Sealed(("study", "preset", "knobs", "arm", "kind", "cell", "seeds"), 6),
    "reports": Sealed(("study", "preset", "knobs", "json", "created"), 3),
}
# Tables that no claim reads, so that their rows carry no seal.
PLAIN = {
    "batches": ("id", "engine", "provenance", "created"),
    "chunks": ("id", "cell", "batch"),
    "sessions": ("id", "study", "preset", "knobs", "started", "seconds"),
}
# What older files lack, and what it is there. Format 1 is of version 0.1; drafts of format 2 had no seals, and a table
# `costs` for what runs owe to others.
_LACKING = {"names": "'[]'", "last": "x''", "seal": "NULL", **dict.fromkeys(_BEFORE, "0")}


def seal(values: Sequence[Any]) -> int:
    """The CRC-32 of a row. A whole number counts as the same real, since SQLite may give back either."""
    crc = 0
    for value in values:
        if isinstance(value, bytes):
            data = value
        elif isinstance(value, int | float):
            whole = isinstance(value, int) or value.is_integer()
            data = str(int(value)).encode() if whole else float(value).hex().encode()
        else:
            data = b"-" if value is None else b"'" + str(value).encode(errors="surrogatepass")
        crc = zlib.crc32(data, zlib.crc32(b"%d:" % len(data), crc))
    return crc


def statements(script: str) -> list[str]:
    """The statements of a script."""
    return [each.strip() for each in script.split(";") if each.strip()]


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")}


def _lacking(connection: sqlite3.Connection) -> Iterator[tuple[str, list[str] | None]]:
    """The tables that a file lacks (None), or whose columns it lacks."""
    for table, sealed in SEALED.items():
        there = _columns(connection, table)
        wanted = (*sealed.columns, *(("data",) if sealed.has_data else ()), "seal")
        missing = [column for column in wanted if column not in there]
        if missing:
            yield table, missing if there else None


def has_seals(connection: sqlite3.Connection) -> bool:
    """Whether any row of a file is sealed; of older files none is."""
    return any("seal" in _columns(connection, table) for table in SEALED)


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether a file has every sealed table with its seals. One that has some of them only is damaged."""
    lacking = dict(_lacking(connection))
    if lacking and has_seals(connection):
        table, columns = next(iter(lacking.items()))
        raise sqlite3.DatabaseError(f"malformed list of tables: {table} has no {', '.join(columns or ['columns'])}")
    return not lacking


def _definition(table: str) -> str:
    return next(each for each in statements(SCHEMA) if each.startswith(f"CREATE TABLE IF NOT EXISTS {table} "))


def shadow(connection: sqlite3.Connection) -> None:
    """Let a reader see an older file as if it were of this format: temporary tables and views, nothing in the file."""
    has_costs = connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'costs'").fetchone() is not None
    for table, missing in list(_lacking(connection)):
        if missing is None:
            connection.execute(_definition(table).replace("CREATE TABLE", "CREATE TEMP TABLE"))
            continue
        unknown = [column for column in missing if column not in _LACKING]
        if unknown:
            raise sqlite3.DatabaseError(f"its table {table} has no {', '.join(unknown)}")
        sealed = SEALED[table]
        columns = (*sealed.columns, *(("data",) if sealed.has_data else ()), "seal")
        said = [f"{_old_value(c, has_costs)} AS {c}" if c in missing else c for c in columns]
        connection.execute(f"CREATE TEMP VIEW {table} AS SELECT {', '.join(said)} FROM main.{table} AS old")


def _old_value(column: str, has_costs: bool) -> str:
    if column in _BEFORE and has_costs:
        of = column.removeprefix("before_")
        return f"COALESCE((SELECT {of} FROM main.costs c WHERE (c.cell, c.seed) = (old.cell, old.seed)), 0)"
    return _LACKING[column]


def unshadow(connection: sqlite3.Connection) -> None:
    """Take the temporary tables and views away."""
    for kind, name in connection.execute("SELECT type, name FROM temp.sqlite_master").fetchall():
        if kind in ("table", "view"):
            connection.execute(f"DROP {kind} temp.{name}")


def renew(connection: sqlite3.Connection) -> None:
    """Bring an older file to this format, within a transaction of the caller's; its rows are sealed as they are."""
    has_costs = connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = 'costs'").fetchone() is not None
    for table, missing in list(_lacking(connection)):
        for column in missing or ():
            rule = "" if column == "seal" else f" NOT NULL DEFAULT {_LACKING[column]}"
            connection.execute(f"ALTER TABLE main.{table} ADD COLUMN {column} {_type(column)}{rule}")
    for each in statements(SCHEMA):
        connection.execute(each)
    if has_costs:
        said = ", ".join(f"{c} = COALESCE((SELECT {c[7:]} FROM costs c WHERE {_SAME}), 0)" for c in _BEFORE)
        connection.execute(f"UPDATE main.runs SET {said}")
        connection.execute("DROP TABLE main.costs")
    for table, sealed in SEALED.items():
        where = " AND ".join(f"{key} = ?" for key in sealed.keys)
        rows = connection.execute(f"SELECT {', '.join(sealed.columns)} FROM main.{table}").fetchall()
        found = [(seal(row), *row[: sealed.num_keys]) for row in rows]
        connection.executemany(f"UPDATE main.{table} SET seal = ? WHERE {where}", found)


_SAME = "(c.cell, c.seed) = (runs.cell, runs.seed)"


def _type(column: str) -> str:
    if column in ("last",):
        return "BLOB"
    return "TEXT" if column == "names" else "REAL" if column in ("before_flops", "before_seconds") else "INTEGER"
