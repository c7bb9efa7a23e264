"""The store: traces, and the weights a From asks for, in one SQLite file.

A result is known by (cell, seed). Curves lie in blobs [members x records], one a chunk and metric, each with a
checksum. The file is in WAL mode, every write is one transaction, and what is there is never written again, so several
processes may use one store and a kill loses nothing that was stored.
"""

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray
from safetensors.numpy import load, save

from headstart.core.errors import HeadstartError
from headstart.core.trace import Status, Trace, Traces
from headstart.engines import Outcome
from headstart.lab import provenance
from headstart.models import Weights
from headstart.run import At, Run, decode, encode

FORMAT = 1
_AXES = ("step", "samples", "flops")
_NEWEST_LAST = "ORDER BY preset <> 'smoke', created"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (cell TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (
  id INTEGER PRIMARY KEY, cell TEXT NOT NULL, engine TEXT NOT NULL, provenance TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS curves (
  chunk INTEGER, metric TEXT, dtype TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (chunk, metric)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
  cell TEXT, seed INTEGER, chunk INTEGER NOT NULL, place INTEGER NOT NULL, num_records INTEGER NOT NULL,
  status TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS weights (
  cell TEXT, seed INTEGER, moment TEXT, checksum INTEGER, data BLOB, PRIMARY KEY (cell, seed, moment)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS arms (
  study TEXT, preset TEXT, knobs TEXT, arm TEXT, kind TEXT, cell TEXT, seeds TEXT NOT NULL,
  PRIMARY KEY (study, preset, knobs, arm, kind, cell)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
  id INTEGER PRIMARY KEY, study TEXT, preset TEXT, knobs TEXT, started REAL, seconds REAL);
CREATE TABLE IF NOT EXISTS reports (
  study TEXT, preset TEXT, knobs TEXT, json TEXT NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (study, preset, knobs)) WITHOUT ROWID;
"""


def default_path() -> Path:
    """HEADSTART_STORE, or store.sqlite in the user's data directory."""
    named = os.environ.get("HEADSTART_STORE")
    return Path(named) if named else Path(platformdirs.user_data_dir("headstart")) / "store.sqlite"


def open_store(path: str | Path | None = None) -> "Store":
    """Open the store at `path`, made if it is not there; a directory holds it as store.sqlite."""
    where = default_path() if path is None else Path(path).expanduser()
    return Store(where / "store.sqlite" if where.is_dir() else where)


class Store:
    """An open store. Use it as a context manager, or call `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
            found = self._set_up()
        except (OSError, sqlite3.Error) as error:
            raise HeadstartError(
                f"store {path} cannot be used: {error}; name another with --store PATH or HEADSTART_STORE"
            ) from None
        if found > FORMAT:
            self.close()
            raise HeadstartError(
                f"store {path} has format {found}, this version reads up to {FORMAT}; upgrade headstart, "
                "or name another store with --store PATH"
            )

    def _set_up(self) -> int:
        """Make the tables if they are not there; returns the format of the file."""
        for attempt in range(100):
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                # Two processes that open a new store at once: SQLite's own patience does not cover this switch.
                if "locked" not in str(error) or attempt == 99:
                    raise
                time.sleep(0.1)
        self._db.execute("PRAGMA synchronous=FULL")
        with self._write():
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
        return int(self._db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _write(self) -> Iterator[None]:
        """One transaction that holds the write lock from its start."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # ---- traces

    def checkpoint_path(self, run: Run) -> Path:
        """Where a run that is under way keeps its checkpoint."""
        return self.path.with_name(self.path.name + ".checkpoints") / f"{run.cell}-{run.seed}.pt"

    def seeds(self, cell: str) -> set[int]:
        """The stored seeds of a cell."""
        return {seed for (seed,) in self._db.execute("SELECT seed FROM runs WHERE cell = ?", (cell,))}

    def add(self, outcomes: Sequence[Outcome], engine: str) -> None:
        """Store trained runs in one transaction, a chunk a cell; seeds that are there already stay as they are.

        Weights that are None say that the run never reached the moment.
        """
        cells: dict[str, list[Trace]] = {}
        with self._write():
            for outcome in outcomes:
                run = outcome.run
                if run.cell not in cells:
                    self._db.execute("INSERT OR IGNORE INTO cells VALUES (?, ?)", (run.cell, run.json))
                cells.setdefault(run.cell, []).append(outcome.trace)
                for at, kept in outcome.weights.items():
                    data = None if kept is None else save(kept)
                    row = (run.cell, run.seed, moment(at), None if data is None else zlib.crc32(data), data)
                    self._db.execute("INSERT OR REPLACE INTO weights VALUES (?, ?, ?, ?, ?)", row)
            for cell, traces in cells.items():
                there = self.seeds(cell)
                new = [trace for trace in traces if trace.seed not in there]
                if new:
                    self._add_chunk(cell, new, engine)

    def _add_chunk(self, cell: str, traces: Sequence[Trace], engine: str) -> None:
        made = json.dumps({"commit": provenance.commit(), "machine": provenance.machine(), **provenance.versions()})
        chunk = self._db.execute(
            "INSERT INTO chunks (cell, engine, provenance, created) VALUES (?, ?, ?, ?)",
            (cell, engine, made, time.time()),
        ).lastrowid
        grid = Traces(tuple(traces)).grid()
        arrays: dict[str, NDArray[Any]] = {"step": grid.steps, "samples": grid.samples, "flops": grid.flops}
        arrays |= {name: Traces(tuple(traces)).stack(name) for name in grid.values}
        for name, array in arrays.items():
            data = np.ascontiguousarray(array).tobytes()
            curve = (chunk, name, array.dtype.str, zlib.crc32(data), data)
            self._db.execute("INSERT INTO curves VALUES (?, ?, ?, ?, ?)", curve)
        for place, t in enumerate(traces):
            row = (cell, t.seed, chunk, place, len(t.steps), str(t.status), t.seconds)
            self._db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def cell_traces(
        self, cell: str, seeds: Iterable[int] | None = None, labels: Mapping[str, str] | None = None
    ) -> Traces:
        """The stored traces of a cell in the order of `seeds` (default: all, ascending)."""
        rows = {
            seed: rest
            for seed, *rest in self._db.execute(
                "SELECT seed, chunk, place, num_records, status, seconds FROM runs WHERE cell = ? ORDER BY seed",
                (cell,),
            )
        }
        chunks: dict[int, dict[str, NDArray[Any]]] = {}
        out = []
        for seed in rows if seeds is None else seeds:
            if seed not in rows:
                raise HeadstartError(f"cell {cell} seed {seed} is not in store {self.path}; run its study first")
            chunk, place, num, status, seconds = rows[seed]
            if chunk not in chunks:
                chunks[chunk] = self._curves(chunk)
            arrays = chunks[chunk]
            steps, samples, flops = (arrays[name][:num] for name in _AXES)
            curves = {k: v.reshape(-1, len(arrays["step"]))[place, :num] for k, v in arrays.items() if k not in _AXES}
            out.append(Trace(cell, seed, steps, samples, flops, curves, Status(status), seconds, labels or {}))
        return Traces(tuple(out))

    def _curves(self, chunk: int) -> dict[str, NDArray[Any]]:
        arrays = {}
        query = "SELECT metric, dtype, checksum, data FROM curves WHERE chunk = ?"
        for metric, dtype, checksum, data in self._db.execute(query, (chunk,)):
            if zlib.crc32(data) != checksum:
                raise HeadstartError(
                    f"chunk {chunk} ({metric}) of store {self.path} is corrupt: its checksum does not match; "
                    "add --repair to `headstart run` to drop the damaged chunks and train only those again"
                )
            arrays[metric] = np.frombuffer(data, dtype=np.dtype(dtype))
        return arrays

    def repair(self) -> list[int]:
        """Drop every chunk and weight whose checksum fails, with its runs; returns the chunks dropped."""
        query = "SELECT chunk, checksum, data FROM curves"
        bad = sorted({chunk for chunk, checksum, data in self._db.execute(query) if zlib.crc32(data) != checksum})
        query = "SELECT cell, seed, moment, checksum, data FROM weights WHERE data IS NOT NULL"
        lost = [key for *key, checksum, data in self._db.execute(query) if zlib.crc32(data) != checksum]
        with self._write():
            for chunk in bad:
                for table, column in (("curves", "chunk"), ("runs", "chunk"), ("chunks", "id")):
                    self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (chunk,))
            for key in lost:
                self._db.execute("DELETE FROM weights WHERE cell = ? AND seed = ? AND moment = ?", key)
        return bad

    def traces(self, study: str | None = None, arm: str | None = None, kind: str = "claim") -> Traces:
        """The traces of a study's last run (one arm, or all), or of every stored cell without a study.

        Kind "claim" is the seeds claims are computed on, "selection" those the learning rates were chosen on.
        """
        if study is None:
            cells = [cell for (cell,) in self._db.execute("SELECT cell FROM cells ORDER BY cell")]
            return Traces(tuple(t for cell in cells for t in self.cell_traces(cell)))
        found = self._db.execute(
            "SELECT arm, cell, seeds FROM arms WHERE study = ? AND kind = ? AND (preset, knobs) = (?, ?) "
            "ORDER BY arm, cell",
            (study, kind, *(self.last_report(study) or ("", ""))),
        ).fetchall()
        if not found:
            raise HeadstartError(
                f"study {study} has no finished run in store {self.path}; run it: headstart run {study}"
            )
        if arm is not None and arm not in [name for name, *_ in found]:
            raise HeadstartError(f"there is no arm {arm!r}; {study} has {', '.join(sorted({n for n, *_ in found}))}")
        members: list[Trace] = []
        for name, cell, seeds in found:
            if arm in (None, name):
                members += self.cell_traces(cell, json.loads(seeds), {"study": study, "arm": name})
        return Traces(tuple(members))

    def run_of(self, cell: str) -> Run:
        """The Run of a stored cell, at seed 0, its parts built from their modules."""
        row = self._db.execute("SELECT json FROM cells WHERE cell = ?", (cell,)).fetchone()
        if row is None:
            raise HeadstartError(f"cell {cell} is not in store {self.path}")
        return decode(json.loads(row[0]))

    # ---- weights

    def moments(self, run: Run) -> set[str]:
        """The moments at which this run's weights were kept, or are known never to have been reached."""
        query = "SELECT moment FROM weights WHERE cell = ? AND seed = ?"
        return {m for (m,) in self._db.execute(query, (run.cell, run.seed))}

    def weights(self, run: Run, at: At) -> Weights | None:
        """The weights kept at a moment; None if the run never reached it."""
        query = "SELECT checksum, data FROM weights WHERE cell = ? AND seed = ? AND moment = ?"
        row = self._db.execute(query, (run.cell, run.seed, moment(at))).fetchone()
        if row is None:
            raise HeadstartError(f"store {self.path} holds no weights of cell {run.cell} seed {run.seed} at {at}")
        if row[1] is None:
            return None
        if zlib.crc32(row[1]) != row[0]:
            raise HeadstartError(f"weights of cell {run.cell} seed {run.seed} are corrupt; add --repair to the run")
        return dict(load(row[1]))

    # ---- studies

    def begin_session(self, study: str, preset: str, knobs: str) -> int:
        """Note that a study is being run; returns the session's number."""
        with self._write():
            row = (study, preset, knobs, time.time(), 0.0)
            query = "INSERT INTO sessions (study, preset, knobs, started, seconds) VALUES (?, ?, ?, ?, ?)"
            session = self._db.execute(query, row).lastrowid
        assert session is not None
        return session

    def set_seconds(self, session: int, seconds: float) -> None:
        """Set the wall time of a session so far."""
        with self._write():
            self._db.execute("UPDATE sessions SET seconds = ? WHERE id = ?", (seconds, session))

    def seconds(self, study: str, preset: str, knobs: str) -> float:
        """The wall time of all sessions of a study with these knobs."""
        query = "SELECT SUM(seconds) FROM sessions WHERE (study, preset, knobs) = (?, ?, ?)"
        return float(self._db.execute(query, (study, preset, knobs)).fetchone()[0] or 0.0)

    def last_report(self, study: str) -> tuple[str, str] | None:
        """The (preset, knobs) of a study's newest finished run; smoke runs count only where there is no other."""
        query = f"SELECT preset, knobs FROM reports WHERE study = ? {_NEWEST_LAST}"
        rows = self._db.execute(query, (study,)).fetchall()
        return (rows[-1][0], rows[-1][1]) if rows else None

    def set_arm(
        self, study: str, preset: str, knobs: str, arm: str, kind: str, cells: Iterable[str], seeds: Iterable[int]
    ) -> None:
        """Say which cells at which seeds serve an arm, in place of what was said before."""
        with self._write():
            key, listed = (study, preset, knobs, arm, kind), json.dumps(list(seeds))
            self._db.execute("DELETE FROM arms WHERE (study, preset, knobs, arm, kind) = (?, ?, ?, ?, ?)", key)
            for cell in cells:
                self._db.execute("INSERT INTO arms VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, cell, listed))

    def save_report(self, study: str, preset: str, knobs: str, report: Mapping[str, Any]) -> None:
        """Keep a study's claims as they came out."""
        with self._write():
            row = (study, preset, knobs, json.dumps(report), time.time())
            self._db.execute("INSERT OR REPLACE INTO reports VALUES (?, ?, ?, ?, ?)", row)

    def reports(self) -> dict[str, dict[str, Any]]:
        """The newest report of every study in the store, by the study's name; smoke only where there is no other."""
        query = f"SELECT study, json FROM reports {_NEWEST_LAST}"
        return {study: json.loads(text) for study, text in self._db.execute(query)}

    def commits(self, cells: Iterable[str]) -> list[str]:
        """The distinct commits that trained these cells."""
        found: set[str] = set()
        for cell in cells:
            for (made,) in self._db.execute("SELECT DISTINCT provenance FROM chunks WHERE cell = ?", (cell,)):
                found.add(json.loads(made)["commit"])
        return sorted(found)


def moment(at: At) -> str:
    """The key of a moment: canonical JSON."""
    return json.dumps(encode(at), sort_keys=True)
