"""What measures saw on the way, kept in the store under (cell, seed, measure)."""

import zlib
from collections.abc import Iterable, Mapping

from headstart.core.encoding import canonical, encode, identity
from headstart.core.errors import HeadstartError
from headstart.core.state import Arrays, read_arrays, save_arrays
from headstart.lab.database import Database
from headstart.measures import Measure, When


class Measured:
    """What the measures of a store saw. A measure is known by its type, fields and `semantics`, as a part of a Run is.

    It is no part of the cell: asking for another measure does not make another run.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, cell: str, seed: int, measured: Mapping[Measure, Arrays]) -> None:
        """Store what measures saw of a run; what is there stays as it is. Within a transaction of the caller's."""
        for measure, arrays in measured.items():
            data, text = save_arrays(arrays), canonical(encode(measure))
            self._db.add("measured", [(cell, identity(text), seed, text, zlib.crc32(data))], [data])

    def seeds(self, cell: str, measure: Measure) -> set[int]:
        """The seeds of a cell that a measure has looked at."""
        query = "SELECT seed FROM measured WHERE cell = ? AND measure = ?"
        return {seed for (seed,) in self._db.execute(query, (cell, _key(measure)))}

    def lacking(self, cell: str, seed: int, measures: Iterable[Measure]) -> tuple[Measure, ...]:
        """Those of the measures that have not looked at a run."""
        return tuple(measure for measure in measures if seed not in self.seeds(cell, measure))

    def get(self, cell: str, seed: int, measure: Measure) -> Arrays:
        """What a measure saw of a run: "step" int64[moments], and arrays [moments, ...] by name."""
        key = (cell, seed, _key(measure))
        rows = self._db.rows("measured", "WHERE (cell, seed, measure) = (?, ?, ?)", key, data=True)
        where = f"{measure} of cell {cell} seed {seed}"
        if not rows:
            raise HeadstartError(f"{where} is not in store {self._db.path}; run its study first")
        ((*_, checksum, data),) = rows
        if zlib.crc32(data) != checksum:
            raise self._db.damaged(where)
        return read_arrays(data, f"{where} in store {self._db.path}")


def check_measure(measure: object) -> None:
    """Raise unless this is a measure on the way that the store can know."""
    if isinstance(measure, type) or not isinstance(measure, Measure) or not isinstance(measure.at, When):
        raise HeadstartError(
            f"measures: {measure!r} is no measure; give a frozen dataclass with `semantics` and `at`, such as "
            "Distance(at=Every(20)), that is called with a View"
        )
    encode(measure)


def _key(measure: Measure) -> str:
    return identity(canonical(encode(measure)))
