"""The States of runs that others start from: small ones in the database, large ones in files beside it."""

import json
import zlib
from pathlib import Path
from typing import NamedTuple

from headstart.core.encoding import encode
from headstart.core.errors import HeadstartError
from headstart.core.files import left_behind, replacing
from headstart.core.state import State
from headstart.core.units import Cost
from headstart.engines import Outcome, lower
from headstart.lab.database import Database, in_words
from headstart.run import At, Run

# A State above this many bytes lies in a file of its own.
_LARGEST_ROW = 2**20
_ONE = "WHERE (cell, seed, moment) = (?, ?, ?)"
_COUNTED = ("step", "samples", "drawn", "seconds")


class Moment(NamedTuple):
    """What is known of a moment of a run: whether it came, and what the run had used by then, or by its end."""

    reached: bool
    cost: Cost
    drawn: int = 0


class States:
    """The States of a store, each known by (cell, seed, moment). They are dropped by `headstart gc` alone."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def folder(self) -> Path:
        """Where large ones lie."""
        return self._db.path.with_name(self._db.path.name + ".states")

    def add(self, outcome: Outcome, at: At) -> None:
        """Store the State of a run at a moment, or that the moment never came; within a transaction of the caller's."""
        run, state = outcome.run, outcome.states[at]
        key = (run.cell, run.seed, _name(at))
        if state is None:
            end = (outcome.cost.steps, outcome.cost.samples, outcome.drawn, outcome.cost.seconds)
            said = json.dumps(dict(zip(_COUNTED, end, strict=True)))
            self._db.add("states", [(*key, said, None, None)])
            return
        data = state.to_bytes()
        checksum, file = zlib.crc32(data), None
        if len(data) > _LARGEST_ROW:
            file = f"{run.cell}-{run.seed}-{checksum:08x}.safetensors"
            try:
                with replacing(self.folder / file) as temporary:
                    temporary.write_bytes(data)
            except OSError as error:
                raise in_words(self.folder / file, error) from error
        counters = {name: state.counter(name) for name in _COUNTED}
        self._db.add("states", [(*key, json.dumps(counters), checksum, file)], [None if file else data])

    def moment(self, run: Run, at: At) -> Moment | None:
        """What is known of a moment; None if nothing is."""
        rows = self._db.rows("states", _ONE, (run.cell, run.seed, _name(at)))
        if not rows:
            return None
        ((_, _, _, text, checksum, _),) = rows
        counted = json.loads(text)
        samples = int(counted["samples"])
        cost = Cost(int(counted["step"]), samples, samples * lower(run).flops, counted["seconds"])
        return Moment(checksum is not None, cost, int(counted["drawn"]))

    def get(self, run: Run, at: At) -> State | None:
        """The State at a moment; None if the run never reached it."""
        rows = self._db.rows("states", _ONE, (run.cell, run.seed, _name(at)), data=True)
        where = f"cell {run.cell} seed {run.seed} at {at}"
        if not rows:
            raise HeadstartError(f"store {self._db.path} holds no State of {where}")
        ((*_, checksum, file, data),) = rows
        if checksum is None:
            return None
        data = self.bytes_of(data, file)
        if data is None or zlib.crc32(data) != checksum:
            raise HeadstartError(f"the State of {where} is missing or corrupt; add --repair to the run")
        try:
            return State.from_bytes(data)
        except Exception as error:  # bytes that were written so, and are no State, fail in many ways
            raise HeadstartError(f"the State of {where} cannot be read: {error}; add --repair to the run") from None

    def bytes_of(self, data: bytes | None, file: str | None) -> bytes | None:
        """What a row holds itself, or the contents of the file that it names; None if the file is not there."""
        if file is None:
            return data
        path = self.folder / Path(file).name  # a file of this folder, whatever the row says
        try:
            return path.read_bytes() if path.exists() else None
        except OSError as error:
            raise in_words(path, error) from error

    def collect_garbage(self, states: bool) -> tuple[int, int]:
        """Delete files that no row names and, with `states`, every State; returns how many, and their bytes."""
        num = size = 0
        with self._db.write():  # whoever writes a file holds this lock until its row is there
            if states:
                query = "SELECT COUNT(*), COALESCE(SUM(LENGTH(data)), 0) FROM states WHERE data IS NOT NULL"
                num, size = self._db.execute(query).fetchone()
                self._db.execute("DELETE FROM states")
            named = {file for (file,) in self._db.execute("SELECT file FROM states WHERE file IS NOT NULL")}
            stale = left_behind(self.folder)
            for path in [*self.folder.glob("*.safetensors"), *stale]:
                if path.name not in named:
                    num, size = num + 1, size + path.stat().st_size
                    path.unlink()
        return num, size


def _name(at: At) -> str:
    """The key of a moment: canonical JSON."""
    return json.dumps(encode(at), sort_keys=True)
