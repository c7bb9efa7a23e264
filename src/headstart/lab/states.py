"""The States of runs that others start from: small ones in the database, large ones in files beside it."""

import json
import zlib
from pathlib import Path
from typing import NamedTuple

from headstart.core.encoding import encode
from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.core.state import State
from headstart.core.units import Cost
from headstart.engines import Outcome, lower
from headstart.lab.database import Database
from headstart.run import At, Run

# A State above this many bytes lies in a file of its own.
_LARGEST_ROW = 2**20
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
            self._db.execute("INSERT OR IGNORE INTO states VALUES (?, ?, ?, ?, NULL, NULL, NULL)", (*key, said))
            return
        data = state.to_bytes()
        checksum, file = zlib.crc32(data), None
        if len(data) > _LARGEST_ROW:
            file = f"{run.cell}-{run.seed}-{checksum:08x}.safetensors"
            with replacing(self.folder / file) as temporary:
                temporary.write_bytes(data)
        counters = {name: state.counter(name) for name in _COUNTED}
        row = (*key, json.dumps(counters), checksum, None if file else data, file)
        self._db.execute("INSERT OR IGNORE INTO states VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def moment(self, run: Run, at: At) -> Moment | None:
        """What is known of a moment; None if nothing is."""
        query = "SELECT counters, checksum FROM states WHERE cell = ? AND seed = ? AND moment = ?"
        row = self._db.execute(query, (run.cell, run.seed, _name(at))).fetchone()
        if row is None:
            return None
        counted = json.loads(row[0])
        samples = int(counted["samples"])
        cost = Cost(int(counted["step"]), samples, samples * lower(run).flops, counted["seconds"])
        return Moment(row[1] is not None, cost, int(counted["drawn"]))

    def get(self, run: Run, at: At) -> State | None:
        """The State at a moment; None if the run never reached it."""
        query = "SELECT checksum, data, file FROM states WHERE cell = ? AND seed = ? AND moment = ?"
        row = self._db.execute(query, (run.cell, run.seed, _name(at))).fetchone()
        where = f"cell {run.cell} seed {run.seed} at {at}"
        if row is None:
            raise HeadstartError(f"store {self._db.path} holds no State of {where}")
        checksum, data, file = row
        if checksum is None:
            return None
        data = self._bytes(data, file)
        if data is None or zlib.crc32(data) != checksum:
            raise HeadstartError(f"the State of {where} is missing or corrupt; add --repair to the run")
        return State.from_bytes(data)

    def _bytes(self, data: bytes | None, file: str | None) -> bytes | None:
        if file is None:
            return data
        path = self.folder / file
        return path.read_bytes() if path.exists() else None

    def repair(self) -> None:
        """Drop every State whose checksum fails or whose file is gone; part of a transaction of the caller's."""
        query = "SELECT cell, seed, moment, checksum, data, file FROM states WHERE checksum IS NOT NULL"
        for *key, checksum, data, file in self._db.execute(query).fetchall():
            found = self._bytes(data, file)
            if found is None or zlib.crc32(found) != checksum:
                self._db.execute("DELETE FROM states WHERE cell = ? AND seed = ? AND moment = ?", key)

    def collect_garbage(self, states: bool) -> tuple[int, int]:
        """Delete files that no row names and, with `states`, every State; returns how many, and their bytes."""
        num = size = 0
        with self._db.write():  # whoever writes a file holds this lock until its row is there
            if states:
                query = "SELECT COUNT(*), COALESCE(SUM(LENGTH(data)), 0) FROM states WHERE data IS NOT NULL"
                num, size = self._db.execute(query).fetchone()
                self._db.execute("DELETE FROM states")
            named = {file for (file,) in self._db.execute("SELECT file FROM states WHERE file IS NOT NULL")}
            for path in self.folder.glob("*.safetensors"):
                if path.name not in named:
                    num, size = num + 1, size + path.stat().st_size
                    path.unlink()
        return num, size


def _name(at: At) -> str:
    """The key of a moment: canonical JSON."""
    return json.dumps(encode(at), sort_keys=True)
