"""The store: traces, summaries, the States a From asks for, and the arrays of computed parts, in one SQLite file.

A result is known by (cell, seed). Every run has one row of summary; its curves, where they are kept, lie in blobs
[members x records], one per chunk and metric, each with a checksum. What is there is never written again.
"""

import json
import os
import time
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from headstart.core.encoding import canonical, decode, encode, identity, settings
from headstart.core.errors import HeadstartError
from headstart.core.files import left_behind
from headstart.core.state import read_arrays, save_arrays
from headstart.core.trace import Status, Summary, Trace, Traces, html_table
from headstart.core.units import Cost
from headstart.engines import Outcome, value_names
from headstart.lab import provenance
from headstart.lab.choices import Choices
from headstart.lab.database import Damaged, Database, in_words
from headstart.lab.ledger import Ledger
from headstart.lab.measured import Measured
from headstart.lab.repair import examine, repair, salvage
from headstart.lab.states import States
from headstart.lab.summaries import packed, summarise
from headstart.measures import Measure
from headstart.run import Run

_AXES = ("step", "samples", "flops")
# The bytes of a number of each kind that curves may have.
_DTYPES = {"<f8": 8, "<i8": 8, "<f4": 4, "<i4": 4}
_COUNTED = ("DISTINCT cell", "*")
_OF_CELL = "WHERE cell = ? ORDER BY seed"


class Keep(StrEnum):
    """What the store keeps of a run: all its curves, or one row of summary, for sweeps of millions."""

    CURVES = "curves"
    SUMMARY = "summary"


def default_path() -> Path:
    """HEADSTART_STORE, or store.sqlite in the user's data directory."""
    named = os.environ.get("HEADSTART_STORE")
    return Path(named) if named else Path(platformdirs.user_data_dir("headstart")) / "store.sqlite"


def open_store(path: str | Path | None = None) -> "Store":
    """Open the store at `path`; a directory holds it as store.sqlite.

    Opening changes nothing: a store that is not there reads as empty, and the first write makes it.
    """
    return Store(store_path(path))


def store_path(path: str | Path | None = None) -> Path:
    """The file of the store that `path` names, or of the default one."""
    if not isinstance(path, str | Path | None):
        raise HeadstartError(f"open_store(path={path!r}): give a path, or nothing for the default store")
    try:
        where = default_path() if path is None else Path(path).expanduser()
        if "\0" in str(where):
            raise ValueError("there is no file of this name")
        return where / "store.sqlite" if where.is_dir() else where
    except (OSError, ValueError, RuntimeError) as error:
        raise in_words(Path(str(path)), error) from None


def repair_store(path: Path) -> list[str]:
    """Repair the store at `path`, also one that is too damaged to be opened; says what `Store.repair` says."""
    try:
        with open_store(path) as store:
            return store.repair()
    except Damaged as error:
        said = [str(error.__cause__ or error), *salvage(path)]
    with open_store(path) as store:
        return said + store.repair()


class Store:
    """An open store. Use it as a context manager, or call `close`.

    `studies` is what it knows of studies, `states` the States of runs that others start from, `choices` what sweeps
    chose, `measured` what measures saw.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = Database(path)
        self.studies, self.states = Ledger(self._db), States(self._db)
        self.choices, self.measured = Choices(self._db), Measured(self._db)

    @property
    def database(self) -> Database:
        """The file itself, for those who copy its rows."""
        return self._db

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        cells, runs = (self._db.execute(f"SELECT COUNT({of}) FROM summaries").fetchone()[0] for of in _COUNTED)
        return f"Store({str(self.path)!r}: {runs} runs of {cells} cells)"

    def _repr_html_(self) -> str:
        """What it holds, for notebooks: how many runs, and the studies with their last verdicts."""
        rows = []
        for study, report in sorted(self.studies.reports().items()):
            said = [str(c.get("verdict")) for c in report.get("claims", ()) if isinstance(c, dict)]
            rows.append((study, report.get("preset"), ", ".join(f"{said.count(v)} {v}" for v in dict.fromkeys(said))))
        return html_table(repr(self), ("study", "preset", "claims"), rows)

    def checkpoint_path(self, run: Run) -> Path:
        """Where a run that is under way keeps its checkpoint."""
        return self.checkpoints / f"{run.cell}-{run.seed}.safetensors"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path.with_name(self.path.name + ".checkpoints")

    def old_checkpoints(self) -> list[Path]:
        """Checkpoints of version 0.1, which this one does not go on from."""
        return sorted(self.checkpoints.glob("*.pt"))

    def collect_garbage(self, states: bool = False) -> tuple[int, int]:
        """Drop files that nothing needs: of States that no row names, of finished runs, of version 0.1.

        With `states`, all kept States too: a run that starts from one trains its source again. Returns how many files
        and States were dropped, and their bytes.
        """
        num, size = self.states.collect_garbage(states)
        done = [p for p in self.checkpoints.glob("*.safetensors") if self._is_stored(p.stem, Keep.SUMMARY)]
        for path in [*self.old_checkpoints(), *done, *left_behind(self.checkpoints)]:
            num, size = num + 1, size + path.stat().st_size
            path.unlink()
        return num, size

    def sweep_checkpoints(self, under_way: Container[tuple[str, int]] = ()) -> None:
        """Drop what a kill left behind: half-written files, and checkpoints of stored runs that are not `under_way`."""
        done = [p for p in self.checkpoints.glob("*.safetensors") if self._is_stored(p.stem, Keep.CURVES, under_way)]
        for path in [*done, *left_behind(self.checkpoints)]:
            with suppress(OSError):
                path.unlink()

    def _is_stored(self, stem: str, keep: Keep, but: Container[tuple[str, int]] = ()) -> bool:
        cell, _, seed = stem.rpartition("-")
        return seed.isdecimal() and (cell, int(seed)) not in but and int(seed) in self.seeds(cell, keep)

    def seeds(self, cell: str, keep: Keep = Keep.CURVES) -> set[int]:
        """The seeds of a cell of which this much is stored."""
        table = {Keep.CURVES: "runs", Keep.SUMMARY: "summaries"}[keep]
        return {seed for (seed,) in self._db.execute(f"SELECT seed FROM {table} WHERE cell = ?", (cell,))}

    def add(self, outcomes: Sequence[Outcome], engine: str, keep: Keep = Keep.CURVES) -> None:
        """Store trained runs in one transaction; seeds that are there already stay as they are.

        Curves go in one chunk per cell. A State that is None says that the run never reached the moment.
        """
        cells: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            cells.setdefault(outcome.run.cell, []).append(outcome)
        with self._db.write():
            batch = self._add_batch(engine)
            for cell, trained in cells.items():
                names = json.dumps(list(value_names(trained[0].run)))
                self._db.add("cells", [(cell, trained[0].run.json, names)])
                there = self.seeds(cell)
                new = [o.trace for o in trained if o.trace.seed not in there]
                self._compare([o for o in trained if o.measured and o.trace.seed in there])
                if keep is Keep.CURVES and new:
                    self._add_chunk(cell, new, batch)
            summaries = [summarise(o.run, o.trace) for o in outcomes]
            rows = [
                (s.cell, s.seed, str(s.status), s.area, s.final, s.seconds, batch, packed(o.run, s.last))
                for o, s in zip(outcomes, summaries, strict=True)
            ]
            self._db.add("summaries", rows)
            for o in outcomes:
                for at in o.states:
                    self.states.add(o, at)
                self.measured.add(o.run.cell, o.run.seed, o.measured)

    def _compare(self, again: Sequence[Outcome]) -> None:
        """Raise where a run that was trained again for a measure is not the run that is stored."""
        for outcome in again:
            new = outcome.trace
            (old,) = self.cell_traces(new.cell, [new.seed])
            same = np.array_equal(old.steps, new.steps) and old.status == new.status
            if not same or any(not np.allclose(old[n], new[n], 1e-5, 1e-7, equal_nan=True) for n in old.values):
                raise HeadstartError(
                    f"cell {new.cell} seed {new.seed} was trained again, to be measured on the way, and came out "
                    f"otherwise than store {self.path} has it, by another machine or version "
                    f"({', '.join(self.commits([new.cell]))}); measure into another store with --store PATH"
                )

    def key_of(self, part: Any) -> str:
        """What a computed part is stored under."""
        return _key(part)[0]

    def _add_batch(self, engine: str) -> int | None:
        made = json.dumps({"commit": provenance.commit(), "machine": provenance.machine(), **provenance.versions()})
        query = "INSERT INTO batches (engine, provenance, created) VALUES (?, ?, ?)"
        return self._db.execute(query, (engine, made, time.time())).lastrowid

    def _add_chunk(self, cell: str, traces: Sequence[Trace], batch: int | None) -> None:
        # After damage there may be curves of a chunk that is not listed any more: its number is not used again.
        query = (
            "SELECT MAX(COALESCE((SELECT MAX(id) FROM chunks), 0), COALESCE((SELECT MAX(chunk) FROM curves), 0)) + 1"
        )
        (chunk,) = self._db.execute(query).fetchone()
        self._db.execute("INSERT INTO chunks VALUES (?, ?, ?)", (chunk, cell, batch))
        grid = Traces(tuple(traces)).grid()
        arrays: dict[str, NDArray[Any]] = {"step": grid.steps, "samples": grid.samples, "flops": grid.flops}
        arrays |= {name: Traces(tuple(traces)).stack(name) for name in grid.values}
        blobs = [np.ascontiguousarray(array).tobytes() for array in arrays.values()]
        curves = [(chunk, k, a.dtype.str, zlib.crc32(b)) for (k, a), b in zip(arrays.items(), blobs, strict=True)]
        self._db.add("curves", curves, blobs)
        rows = [
            (cell, t.seed, chunk, i, len(t.steps), str(t.status), t.seconds, *astuple(t.before))
            for i, t in enumerate(traces)
        ]
        self._db.add("runs", rows)

    def summaries(self, cell: str, seeds: Iterable[int] | None = None) -> list[Summary]:
        """The stored summaries of a cell in the order of `seeds` (default: all, ascending)."""
        names = self._cell(cell)[1]
        found = {
            seed: Summary(cell, seed, self._status(status), area, final, seconds, self._unpacked(cell, names, last))
            for _, seed, status, area, final, seconds, _, last in self._db.rows("summaries", _OF_CELL, (cell,))
        }
        for seed in [] if seeds is None else (seeds := list(seeds)):
            if seed not in found:
                raise HeadstartError(f"cell {cell} seed {seed} is not in store {self.path}; run its study first")
        return list(found.values()) if seeds is None else [found[seed] for seed in seeds]

    def _cell(self, cell: str) -> tuple[dict[str, Any], list[str]]:
        """The encoded Run of a cell, and the names of what its runs record; both empty if it is not stored."""
        rows = self._db.rows("cells", "WHERE cell = ?", (cell,))
        if not rows:
            return {}, []
        ((_, text, names),) = rows
        try:
            return dict(json.loads(text)), list(json.loads(names))
        except (ValueError, TypeError, RecursionError):
            raise self._db.damaged(f"cell {cell}") from None

    def _status(self, written: str) -> Status:
        if written not in list(Status):
            raise HeadstartError(f"a run in store {self.path} ended {written!r}, and runs end {', '.join(Status)}")
        return Status(written)

    def _unpacked(self, cell: str, names: Sequence[str], data: bytes) -> dict[str, float]:
        """The last values of a run by name; none where it recorded nothing, or was stored by version 0.1."""
        if len(data) not in (0, 8 * len(names)):
            raise self._db.damaged(f"the last values of cell {cell}")
        return dict(zip(names, np.frombuffer(data, dtype=np.float64).tolist(), strict=True)) if data else {}

    def cell_traces(
        self,
        cell: str,
        seeds: Iterable[int] | None = None,
        labels: Mapping[str, str] | None = None,
        measures: Sequence[Measure] = (),
        metrics: Sequence[str] | None = None,
    ) -> Traces:
        """The traces of a cell in the order of `seeds` (default: all, ascending), of `metrics` alone if given."""
        rows = {row[1]: row[2:] for row in self._db.rows("runs", _OF_CELL, (cell,))}
        encoded, names = self._cell(cell)
        described = settings(encoded)
        chunks: dict[int, dict[str, NDArray[Any]]] = {}
        out = []
        for seed in rows if seeds is None else seeds:
            if seed not in rows:
                raise HeadstartError(f"cell {cell} seed {seed} is not in store {self.path}; run its study first")
            chunk, place, num, status, seconds, *before = rows[seed]
            if chunk not in chunks:
                chunks[chunk] = self._curves(chunk, names, metrics)
            arrays = chunks[chunk]
            steps, samples, flops = (arrays[name][:num] for name in _AXES)
            curves = {name: array[place, :num] for name, array in arrays.items() if name not in _AXES}
            seen = {measure: self.measured.get(cell, seed, measure) for measure in measures}
            how = (self._status(status), seconds, labels or {}, Cost(*before), seen, described)
            out.append(Trace(cell, seed, steps, samples, flops, curves, *how))
        return Traces(tuple(out))

    def _curves(self, chunk: int, names: Sequence[str], only: Sequence[str] | None) -> dict[str, NDArray[Any]]:
        """The axes [records] and the curves [members, records] of a chunk, by these names where it has records."""
        arrays: dict[str, NDArray[Any]] = {}
        names, read = (names, ()) if only is None else ([n for n in names if n in only], (*_AXES, *only))
        query = "WHERE chunk = ?" + (f" AND metric IN ({', '.join('?' * len(read))})" if read else "")
        for _, metric, dtype, checksum, data in self._db.rows("curves", query, (chunk, *read), data=True):
            if zlib.crc32(data) != checksum or dtype not in _DTYPES or len(data) % _DTYPES[dtype]:
                raise self._db.damaged(f"chunk {chunk} ({metric})")
            arrays[metric] = np.frombuffer(data, dtype=np.dtype(dtype))
        num = len(arrays.get("step", ()))
        if not {*_AXES, *(names if num else ())} <= set(arrays) or any(
            len(a) % num if num else len(a) for a in arrays.values()
        ):
            raise self._db.damaged(f"chunk {chunk}")
        return {name: array if name in _AXES else array.reshape(-1, num) for name, array in arrays.items()}

    def damage(self) -> list[str]:
        """What is damaged, one sentence each; nothing is changed."""
        return examine(self._db, self.states).sentences()

    def repair(self) -> list[str]:
        """Drop what is damaged, with what depends on it, and say what was dropped, one sentence each.

        If SQLite cannot read pages of the file, what is readable goes into a new file, and the damaged one is kept.
        """
        return repair(self._db, self.states)

    def traces(self, study: str | None = None, arm: str | None = None, kind: str = "claim") -> Traces:
        """The traces of a study's last run (one arm, or all), or of every stored cell without a study.

        Kind "claim" is the seeds claims are computed on, "selection" those the learning rates were chosen on.
        """
        if study is None:
            # All rows are looked at, so that one whose cell was damaged is not merely missing.
            cells = dict.fromkeys(row[0] for row in self._db.rows("runs", "ORDER BY cell, seed", ()))
            return Traces(tuple(t for cell in cells for t in self.cell_traces(cell)))
        members: list[Trace] = []
        for row in self.studies.serving(study, arm, kind):
            members += self.cell_traces(row.cell, row.seeds, {"study": study, "arm": row.arm})
        return Traces(tuple(members))

    def run_of(self, cell: str, trust: Iterable[str] = ()) -> Run:
        """The Run of a stored cell, at seed 0, its parts built from their modules.

        Parts from modules outside headstart are built only if `trust` names the module or its package: a store that
        somebody sent you runs no code of its choosing.
        """
        data, _ = self._cell(cell)
        if not data:
            raise HeadstartError(f"cell {cell} is not in store {self.path}")
        if "format" not in data:
            raise HeadstartError(
                f"cell {cell} was stored by headstart 0.1: its traces can be read, and its Run cannot be built again"
            )
        return decode(data, Run, trust)

    def commits(self, cells: Iterable[str], parts: Iterable[Any] = ()) -> list[str]:
        """The distinct commits that trained these cells and computed these parts."""
        query = "SELECT DISTINCT json_extract(provenance, '$.commit') FROM batches WHERE id IN "
        trained = f"{query} (SELECT DISTINCT batch FROM summaries WHERE cell = ?)"
        computed = f"{query} (SELECT batch FROM simulations WHERE simulation = ?)"
        found = [row for cell in cells for row in self._db.execute(trained, (cell,))]
        found += [row for part in parts for row in self._db.execute(computed, (_key(part)[0],))]
        return sorted({commit for (commit,) in found})

    def add_computed(self, part: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store the arrays that a part computed in one transaction; what is there already stays as it is."""
        key, text = _key(part)
        data = save_arrays(arrays)
        with self._db.write():
            self._db.add("simulations", [(key, text, self._add_batch("computed"), zlib.crc32(data))], [data])

    def has_computed(self, part: Any) -> bool:
        """Whether the arrays of this part are stored."""
        query = "SELECT 1 FROM simulations WHERE simulation = ?"
        return self._db.execute(query, (_key(part)[0],)).fetchone() is not None

    def computed(self, part: Any) -> dict[str, NDArray[Any]]:
        """The stored arrays of a part by name."""
        rows = self._db.rows("simulations", "WHERE simulation = ?", (_key(part)[0],), data=True)
        if not rows:
            raise HeadstartError(f"{part} is not in store {self.path}; run its study first")
        ((*_, checksum, data),) = rows
        if zlib.crc32(data) != checksum:
            raise self._db.damaged(f"what {part} computed")
        return read_arrays(data, f"what {part} computed in store {self.path}")


def _key(part: Any) -> tuple[str, str]:
    """The identity of a computed part, and its canonical JSON."""
    text = canonical(encode(part))
    return identity(text), text
