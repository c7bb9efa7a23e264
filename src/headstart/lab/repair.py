"""What is damaged in a store, and how to go on without it.

Where SQLite can read the file, rows whose checksum fails are dropped with what depends on them, in one transaction.
Where it cannot, what is readable is salvaged into a new file first, and the damaged one is kept beside it.
"""

import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.database import Damaged, Database, in_words
from headstart.lab.schema import FORMAT, PLAIN, SCHEMA, SEALED, has_seals, seal, shadow, statements
from headstart.lab.states import States

_AXES = {"step", "samples", "flops"}
# Numbers that salvaged rows still name are not given to others.
_UNKNOWN = """'unknown', '{"commit": "unknown"}', 0"""
_NUMBERED = [
    *(
        f"INSERT OR IGNORE INTO batches SELECT DISTINCT batch, {_UNKNOWN} FROM {t}"
        for t in ("summaries", "simulations")
    ),
    "INSERT OR IGNORE INTO chunks SELECT DISTINCT chunk, cell, 0 FROM runs",
    "INSERT OR IGNORE INTO chunks SELECT DISTINCT chunk, '', 0 FROM curves",
]
Key = tuple[Any, ...]


@dataclass
class Findings:
    """What is damaged: pages of the file as SQLite describes them, rows by table and key, and what depends on them."""

    pages: list[str] = field(default_factory=list)
    rows: dict[str, set[Key]] = field(default_factory=dict)
    chunks: set[int] = field(default_factory=set)
    runs: set[Key] = field(default_factory=set)
    cells: set[str] = field(default_factory=set)
    editions: set[Key] = field(default_factory=set)

    def sentences(self) -> list[str]:
        """One sentence for each."""
        said = [f"the file itself: {page}" for page in self.pages]
        for table, keys in self.rows.items():
            said += [f"{table}: the row of {', '.join(str(part) for part in key)}" for key in sorted(keys, key=repr)]
        said += [f"chunk {chunk}: its curves are damaged or incomplete" for chunk in sorted(self.chunks)]
        said += [f"the run of cell {cell}, seed {seed}" for cell, seed in sorted(self.runs, key=repr)]
        said += [f"cell {cell}: what it stands for is lost, so are its runs" for cell in sorted(self.cells)]
        said += [f"the report of {study} ({preset})" for study, preset, _ in sorted(self.editions, key=repr)]
        return said


def examine(db: Database, states: States) -> Findings:
    """Look at every page and every row, and change nothing."""
    pages = _structure(db)
    if pages:
        return Findings(pages)
    try:
        return _examine_rows(db, states)
    except Damaged as error:  # such as text that is no UTF-8
        return Findings([str(error.__cause__ or error)])


def _examine_rows(db: Database, states: States) -> Findings:
    found = Findings()
    bad = {table: set(_bad_rows(db, states, table)) for table in SEALED}
    found.cells = {cell for (cell,) in bad.pop("cells")}
    for table in ("runs", "summaries"):
        found.runs |= bad.pop(table)
    found.chunks = {chunk for chunk, _ in bad.pop("curves")} | set(_incomplete_chunks(db))
    found.editions = {key[:3] for table in ("arms", "reports") for key in bad.pop(table)}
    found.rows = {table: keys for table, keys in bad.items() if keys}
    # A run needs its summary, and a summary with values needs their names.
    query = "SELECT cell, seed FROM runs EXCEPT SELECT cell, seed FROM summaries"
    found.runs |= set(db.execute(query).fetchall())
    query = "SELECT DISTINCT cell FROM summaries WHERE cell NOT IN (SELECT cell FROM cells)"
    found.cells |= {cell for (cell,) in db.execute(query)}
    return found


def _structure(db: Database) -> list[str]:
    """What SQLite says against the pages of the file; nothing if all is well."""
    try:
        said = [text for (text,) in db.execute("PRAGMA main.integrity_check(5)")]
        return [] if said == ["ok"] else [" ".join(text.split()) for text in said]
    except HeadstartError as error:
        return [str(error.__cause__ or error)]


def _bad_rows(db: Database, states: States, table: str) -> Iterator[Key]:
    """The keys of the rows that are not as they were written."""
    sealed = SEALED[table]
    more = ", data" if sealed.has_data else ""
    for row in db.execute(f"SELECT {', '.join(sealed.columns)}, seal{more} FROM {table}"):
        values, written = row[: len(sealed.columns)], row[len(sealed.columns)]
        named = dict(zip(sealed.columns, values, strict=True))
        if not db.is_sealed(values, written) or not _is_whole(table, named, row[-1], states):
            yield values[: sealed.num_keys]


def _is_whole(table: str, row: dict[str, Any], data: Any, states: States) -> bool:
    """Whether the blob or the file of a row has its checksum, and text that should be JSON is."""
    try:
        for name in ("counters", "names", "seeds", *(("json",) if table in ("reports", "cells", "choices") else ())):
            if name in row:
                json.loads(row[name])
        if table == "states":
            data = states.bytes_of(data, row["file"])
            return row["checksum"] is None or (data is not None and zlib.crc32(data) == row["checksum"])
        return not SEALED[table].has_data or zlib.crc32(data) == row["checksum"]
    except (TypeError, ValueError, RecursionError):
        return False


def _incomplete_chunks(db: Database) -> Iterator[int]:
    """Chunks that runs name and of which curves are missing."""
    names = dict(db.execute("SELECT cell, names FROM cells").fetchall())
    metrics: dict[int, set[str]] = {}
    for chunk, metric in db.execute("SELECT chunk, metric FROM curves"):
        metrics.setdefault(chunk, set()).add(metric)
    for chunk, cell, most in db.execute("SELECT chunk, cell, MAX(num_records) FROM runs GROUP BY chunk, cell"):
        with suppress(ValueError, TypeError):  # names that are no JSON are found elsewhere
            wanted = _AXES | (set(json.loads(names.get(cell, "[]"))) if most else set())
            if not wanted <= metrics.get(chunk, set()):
                yield chunk


def repair(db: Database, states: States) -> list[str]:
    """Drop what is damaged, with what depends on it, and say what was lost; see `Store.repair`."""
    said = []
    found = examine(db, states)
    if found.pages:
        db.close()
        said += [*found.sentences(), *salvage(db.path)]
        db.reopen()
        found = examine(db, states)
    said += found.sentences()
    if found.sentences():
        with db.write():
            _drop(db, found)
    return said


def _drop(db: Database, found: Findings) -> None:
    """Delete the rows; a run whose curves, summary or cell is gone goes with its States and is trained again."""
    of_run = ("runs", "summaries", "states", "measured")
    for table, keys in found.rows.items():
        where = " AND ".join(f"{key} = ?" for key in SEALED[table].keys)
        db.executemany(f"DELETE FROM {table} WHERE {where}", keys)
    for chunk in found.chunks:
        for table in ("states", "summaries", "measured"):
            query = f"DELETE FROM {table} WHERE (cell, seed) IN (SELECT cell, seed FROM runs WHERE chunk = ?)"
            db.execute(query, (chunk,))
        for table, column in (("curves", "chunk"), ("runs", "chunk"), ("chunks", "id")):
            db.execute(f"DELETE FROM {table} WHERE {column} = ?", (chunk,))
    for table in of_run:
        db.executemany(f"DELETE FROM {table} WHERE cell = ? AND seed = ?", found.runs)
    for table in (*of_run, "cells"):
        db.executemany(f"DELETE FROM {table} WHERE cell = ?", [(cell,) for cell in found.cells])
    for table in ("arms", "reports"):
        db.executemany(f"DELETE FROM {table} WHERE study = ? AND preset = ? AND knobs = ?", found.editions)


def salvage(path: Path) -> list[str]:
    """Put what is readable into a new file in the store's place, keep the damaged one, and say what became of both."""
    kept = next(p for n in range(1, 1000) if not (p := path.with_name(f"{path.name}.damaged-{n}")).exists())
    wal, index = (path.with_name(path.name + end) for end in ("-wal", "-shm"))
    try:
        with replacing(path) as temporary:
            counts = _copy_readable(path, temporary)
            shutil.copy2(path, kept)
            if wal.exists():
                shutil.copy2(wal, kept.with_name(f"{kept.name}-wal"))
            # The journal is of the damaged file: SQLite would replay it into the new one.
            wal.unlink(missing_ok=True)
            index.unlink(missing_ok=True)
    except (sqlite3.Error, UnicodeError) as error:
        raise HeadstartError(
            f"store {path} is damaged where its tables are listed, so that nothing can be read of it: {error}; it "
            "stays as it is: put a copy in its place, or name another store with --store PATH"
        ) from None
    except OSError as error:
        raise in_words(path, error) from error
    salvaged = ", ".join(f"{num} of {table}" for table, num in counts.items() if num) or "nothing"
    return [f"salvaged into a new file, in rows: {salvaged}", f"the damaged file is kept as {kept}"]


def _copy_readable(damaged: Path, new: Path) -> dict[str, int]:
    """Copy every row that can be read and is as it was written; returns how many of each table."""
    old = sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    made = sqlite3.connect(new, isolation_level=None)
    try:
        old.text_factory = lambda data: data.decode(errors="surrogateescape")
        current = has_seals(old)
        if not current:
            shadow(old)
        for each in ("PRAGMA journal_mode=OFF", "BEGIN", *statements(SCHEMA)):
            made.execute(each)
        made.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
        keys = _known_keys(old)
        counts = {}
        for table, columns in {**PLAIN, **{name: sealed.columns for name, sealed in SEALED.items()}}.items():
            counts[table] = _copy_table(old, made, table, columns, keys, current)
        for each in _NUMBERED:
            made.execute(each)
        made.execute("COMMIT")
        return counts
    finally:
        made.close()
        old.close()


def _copy_table(
    old: sqlite3.Connection,
    made: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    keys: dict[str, set[Any]],
    current: bool,
) -> int:
    """Copy the readable rows of a table: from both ends, and, key by key, between pages that cannot be read."""
    sealed = SEALED.get(table)
    names = columns if sealed is None else (*columns, "seal", *(("data",) if sealed.has_data else ()))
    query = f"SELECT {', '.join(names)} FROM {table}"
    put = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    def copy(rows: Iterable[Key]) -> None:
        for row in rows:
            values = row[: len(columns)]
            if sealed is not None and current and seal(values) != row[len(columns)]:
                continue
            sealing = () if sealed is None else (seal(values),)
            with suppress(sqlite3.Error, UnicodeError):  # a row that breaks a rule of its table is damaged too
                made.execute(put, (*values, *sealing, *row[len(columns) + 1 :]))

    copy(_readable(old, query))
    copy(_readable(old, f"{query} ORDER BY {', '.join(f'{name} DESC' for name in columns[: _num_keys(table)])}"))
    for value in keys.get(columns[0] if columns[0] != "id" else "chunk", ()):
        copy(_readable(old, f"{query} WHERE {columns[0]} = ?", (value,)))
    return int(made.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])


def _num_keys(table: str) -> int:
    return SEALED[table].num_keys if table in SEALED else 1


def _readable(old: sqlite3.Connection, query: str, values: Key = ()) -> Iterator[Key]:
    """The rows of a query up to the first that cannot be read."""
    with suppress(sqlite3.Error, OverflowError, UnicodeError):
        yield from old.execute(query, values)


def _known_keys(old: sqlite3.Connection) -> dict[str, set[Any]]:
    """The cells and chunks that any readable row names."""
    keys: dict[str, set[Any]] = {"cell": set(), "chunk": set()}
    for table, columns in {**PLAIN, **{name: sealed.columns for name, sealed in SEALED.items()}}.items():
        for column in set(columns) & set(keys):
            for order in ("", f"ORDER BY {columns[0]} DESC"):
                keys[column] |= {value for (value,) in _readable(old, f"SELECT {column} FROM {table} {order}")}
    keys["chunk"] |= {value for (value,) in _readable(old, "SELECT id FROM chunks")}
    return {name: {value for value in values if value is not None} for name, values in keys.items()}
