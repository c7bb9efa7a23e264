"""What the page reads of a store: reports, cells and runs. Nothing is ever written, and every query is short."""

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headstart.core.encoding import settings
from headstart.core.errors import HeadstartError
from headstart.core.faults import one_line
from headstart.core.state import read_arrays
from headstart.core.trace import Trace, Traces
from headstart.lab.claims import Kind
from headstart.lab.received import fault_of, plain
from headstart.lab.store import Store, open_store
from headstart.lab.wording import beside, endpoint, interval
from headstart.web.requests import Look, Part, Series
from headstart.web.thinning import difference, mean_curve, speed_up

# A cell with more settings, or longer ones, is shown cut: nobody reads them, and a browser must not choke on them.
_MOST_SETTINGS, _LONGEST_VALUE, _LONGEST_CELL = 400, 200, 2**20
_MOST_CELLS, _MOST_RUNS = 20_000, 5_000
_MOST_SIDE = 128
_SHORT = ("study", "title", "paper", "figures", "preset", "finding", "seeds", "minutes", "commit", "machine", "version")


class NotThere(HeadstartError):
    """What was asked for is not in the store."""


class Reading:
    """A store as the page sees it. One connection, read only; one request at a time uses it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._store: Store = open_store(path)
        self._inode = self._find_inode()

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def version(self) -> str:
        """A word that changes whenever somebody has written to the store, or put another file in its place."""
        with self._lock:
            inode = self._find_inode()
            if inode != self._inode:
                self._store.close()
                self._store, self._inode = open_store(self.path), inode
            (version,) = self._store.database.execute("PRAGMA data_version").fetchone()
            return f"{inode}-{version}"

    def _find_inode(self) -> int:
        try:
            return os.stat(self.path).st_ino
        except OSError:
            return 0

    def scoreboard(self) -> dict[str, Any]:
        """Every study's newest report in short, with its claims, and the reports that cannot be shown."""
        studies, refused = [], []
        for study, report in self._reports().items():
            if isinstance(report, str):
                refused.append({"study": study, "why": report})
            else:
                short = {name: report.get(name) for name in _SHORT}
                studies.append({**short, "draft": bool(report.get("draft")), "claims": _claims(report)})
        studies.sort(key=lambda r: (str(r["paper"]), str(r["study"])))
        return {"studies": studies, "refused": refused, "store": self.path.name}

    def _reports(self) -> dict[str, dict[str, Any] | str]:
        """The newest report of every study, smoke only where there is no other; or why it cannot be shown."""
        out: dict[str, dict[str, Any] | str] = {}
        with self._lock:
            rows = self._store.database.execute(
                "SELECT study, json FROM reports ORDER BY preset <> 'smoke', created"
            ).fetchall()
        for study, text in rows:
            out[one_line(str(study))] = _readable(text)
        return out

    def study(self, name: str, preset: str | None = None) -> dict[str, Any]:
        """A study's report with what its arms recorded and which runs serve them."""
        with self._lock:
            rows = self._store.database.rows("reports", "WHERE study = ? ORDER BY preset <> 'smoke', created", (name,))
            chosen = [row for row in rows if preset in (None, row[1])]
            if not chosen:
                known = f"presets {', '.join(row[1] for row in rows)}" if rows else "no run of it is finished"
                raise NotThere(f"study {name}{f' with preset {preset}' if preset else ''} is not in the store; {known}")
            report = _readable(chosen[-1][3])
            if isinstance(report, str):
                raise HeadstartError(f"the report of {name} cannot be shown: {report}; run the study again")
            where = "WHERE (study, preset, knobs) = (?, ?, ?) AND kind = 'claim'"
            served = self._store.database.rows("arms", where, chosen[-1][:3])
            arms = {arm: (cell, json.loads(seeds)) for *_, arm, _, cell, seeds in served}
            names = {cell: self._names(cell) for cell, _ in arms.values()}
            curves = {cell for cell in names if self._has_curves(cell)}
        described: dict[str, Any] = found if isinstance(found := report.get("arms"), dict) else {}
        report["arms"] = {
            arm: {
                **_described(described.get(arm), arm, number),
                "cell": arms[arm][0],
                "series": series_of(arms[arm][0], arms[arm][1]),
                "seeds": len(arms[arm][1]),
                "records": names[arms[arm][0]] if arms[arm][0] in curves else [],
            }
            for number, arm in enumerate(sorted(arms, key=_order(described)))
        }
        report["claims"] = _claims(report)
        report["presets"] = list(dict.fromkeys(row[1] for row in rows))
        return report

    def _names(self, cell: str) -> list[str]:
        rows = self._store.database.rows("cells", "WHERE cell = ?", (cell,))
        return [str(name) for name in json.loads(rows[0][2])] if rows else []

    def _has_curves(self, cell: str) -> bool:
        query = "SELECT 1 FROM runs WHERE cell = ? LIMIT 1"
        return self._store.database.execute(query, (cell,)).fetchone() is not None

    def curves(self, series: list[Series], look: Look, chances: Mapping[int, float] | None = None) -> dict[str, Any]:
        """Mean and band of each line, thinned."""
        view = (look.axis, look.width, look.log, look.low, look.high)
        made = []
        for number, line in enumerate(series):
            chance = (chances or {}).get(number)
            made.append(mean_curve(self._traces(line, look.metric), look.metric, chance, *view))
        return {"series": made}

    def pair(self, one: Series, other: Series, look: Look, chance: float | None, higher: bool) -> dict[str, Any]:
        """The difference of two lines, paired by seed, and how much sooner the first arrives at each target."""
        first, second = self._traces(one, look.metric), self._traces(other, look.metric)
        gap = difference(first, second, look.metric, chance, look.axis, look.width, look.log)
        return {"difference": gap, "speed_up": speed_up(first, second, look.metric, chance, higher, look.axis)}

    def _traces(self, line: Series, metric: str) -> Traces:
        """The stored runs of a line that recorded the metric; several cells must record at the same steps."""
        members: list[Trace] = []
        with self._lock:
            for part in line:
                seeds = self._seeds(part)
                found = self._store.cell_traces(part.cell, seeds, metrics=[metric])
                members += [trace for trace in found if not len(trace.steps) or metric in trace.values]
        if not members:
            raise NotThere(f"no curve of {metric} is stored for {', '.join(part.cell for part in line[:3])}")
        return Traces(tuple(members))

    def _seeds(self, part: Part) -> list[int]:
        query, values = "SELECT seed FROM runs WHERE cell = ?", [part.cell]
        if part.first is not None and part.last is not None:
            query, values = f"{query} AND seed BETWEEN ? AND ?", [part.cell, str(part.first), str(part.last)]
        return [seed for (seed,) in self._store.database.execute(f"{query} ORDER BY seed", values)]

    def cells(self) -> dict[str, Any]:
        """Every cell with its settings, who uses it, and its final values over seeds: num, mean, spread."""
        query = (
            "SELECT s.cell, COUNT(*), AVG(s.final), SUM((s.final - m.mean) * (s.final - m.mean)), AVG(s.area), "
            "SUM(s.seconds), SUM(s.status <> 'finished'), MIN(s.seed), MAX(s.seed) "
            "FROM summaries s JOIN (SELECT cell, AVG(final) AS mean FROM summaries GROUP BY cell) m USING (cell) "
            f"GROUP BY s.cell LIMIT {_MOST_CELLS + 1}"
        )
        with self._lock:
            rows = self._store.database.execute(query).fetchall()
            said = dict(self._store.database.execute("SELECT cell, json FROM cells").fetchall())
            kept = "SELECT cell, names FROM cells WHERE cell IN (SELECT DISTINCT cell FROM runs)"
            names = dict(self._store.database.execute(kept).fetchall())
            users: dict[str, list[list[str]]] = {}
            for cell, study, arm, kind in self._store.database.execute(
                "SELECT DISTINCT cell, study, arm, kind FROM arms ORDER BY study, arm"
            ):
                users.setdefault(cell, []).append([one_line(study), one_line(arm), one_line(kind)])
        out = []
        for cell, num, mean, squares, area, seconds, diverged, first, last in rows[:_MOST_CELLS]:
            numbers = {"num": num, "mean": mean, "squares": squares, "area": area, "seconds": seconds}
            ends = {"diverged": diverged, "first": first, "last": last}
            who = {"users": users.get(cell, []), "records": _list(names.get(cell))}
            out.append({"cell": cell, **numbers, **ends, **who, "settings": shown_settings(said.get(cell))})
        return {"cells": out, "more": len(rows) > _MOST_CELLS}

    def runs(self, cell: str) -> dict[str, Any]:
        """The runs of a cell: seed, how it ended, final value, area, seconds, and the last value of everything."""
        with self._lock:
            found = self._store.summaries(cell)[:_MOST_RUNS]
            rows = self._store.database.rows("cells", "WHERE cell = ?", (cell,))
            names = self._names(cell) if self._has_curves(cell) else []
        if not found or not rows:
            raise NotThere(f"cell {cell} is not in the store")
        runs = [
            {"seed": s.seed, "status": s.status, "final": s.final, "area": s.area, "seconds": s.seconds, "last": s.last}
            for s in found
        ]
        return {"cell": cell, "settings": shown_settings(rows[0][1]), "records": names, "runs": runs}

    def computed(self, study: str, name: str) -> dict[str, Any]:
        """The arrays of a computed part of a study that have one or two axes, the large ones as means of blocks."""
        key = (self.study(study).get("computed") or {}).get(name)
        with self._lock:
            rows = self._store.database.rows("simulations", "WHERE simulation = ?", (str(key),), data=True)
        if not rows:
            raise NotThere(f"study {study} has no computed part {name}")
        arrays = read_arrays(rows[0][-1], f"what {name} computed")
        shown = {key: a for key, a in arrays.items() if a.ndim in (1, 2) and a.size and a.dtype.kind in "fiub"}
        return {"arrays": {key: {"shape": list(a.shape), "values": blocks(a)} for key, a in shown.items()}}


def blocks(array: Any) -> Any:
    """An array of one or two axes, each brought to at most 128 places by means of neighbours."""
    out = np.asarray(array, dtype=np.float64)
    for axis in range(out.ndim):
        if out.shape[axis] > _MOST_SIDE:
            parts = np.array_split(out, _MOST_SIDE, axis=axis)
            out = np.stack([part.mean(axis=axis) for part in parts], axis=axis)
    return out


def _readable(text: str) -> dict[str, Any] | str:
    """A report made safe to show, or what is wrong with it."""
    try:
        report = json.loads(text)
        wrong = fault_of(report) if isinstance(report, dict) else "it is no JSON object"
        return wrong or plain(report)
    except (ValueError, RecursionError) as error:
        return f"it cannot be read: {error}"


def _claims(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The claims with what people read of them: the interval, the endpoint and other readings in words."""
    contrasts: dict[str, Any] = found if isinstance(found := report.get("contrasts"), dict) else {}
    out = []
    for claim in report["claims"]:
        try:
            words = {"interval": interval(claim), "endpoint": endpoint(claim), "readings": beside(claim)}
        except (KeyError, TypeError, AttributeError, ValueError):
            words = {"interval": "", "endpoint": "", "readings": []}
        kind = claim.get("kind", str(Kind.SECONDARY))
        out.append({**claim, **words, "kind": kind, "contrast": contrasts.get(claim["id"])})
    return out


def _described(said: Any, arm: str, number: int) -> dict[str, Any]:
    """What a report says of an arm; reports of earlier versions say nothing."""
    said = said if isinstance(said, dict) else {}
    metric = said.get("metric") if isinstance(said.get("metric"), dict) else {}
    phases = said.get("phases") if isinstance(said.get("phases"), list) else []
    colour = said.get("colour") if _is_colour(said.get("colour")) else None
    return {"label": str(said.get("label", arm)), "colour": colour, "metric": metric, "phases": phases, "at": number}


def _is_colour(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch("#[0-9a-fA-F]{6}", text) is not None


def _order(described: Any) -> Callable[[str], tuple[int, str]]:
    """Arms in the order of the report, then by name."""
    places = {name: number for number, name in enumerate(described or {})}
    return lambda arm: (places.get(arm, len(places)), arm)


def series_of(cell: str, seeds: list[int]) -> str:
    """The runs of a cell at these seeds, as `requests.parse_series` reads them."""
    return ",".join(f"{cell}:{first}-{last}" for first, last in _ranges(sorted(seeds))) or cell


def _ranges(seeds: list[int]) -> Iterator[tuple[int, int]]:
    """Seeds as stretches without gaps."""
    start = None
    for number, seed in enumerate(seeds):
        start = seed if start is None else start
        if number + 1 == len(seeds) or seeds[number + 1] != seed + 1:
            yield start, seed
            start = None


def shown_settings(text: str | None) -> dict[str, Any]:
    """The settings of a cell, flat, none too long and not too many."""
    try:
        if text is None or len(text) > _LONGEST_CELL:
            raise ValueError("too long")
        flat = settings(json.loads(text))
    except (ValueError, RecursionError):
        return {"cell": "its settings are too large to be shown"}
    out = {}
    for name, value in list(flat.items())[:_MOST_SETTINGS]:
        if isinstance(value, str):
            value = one_line(value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}...")
        out[one_line(name)[:_LONGEST_VALUE]] = value
    return out


def _list(text: str | None) -> list[str]:
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return [str(name) for name in found] if isinstance(found, list) else []
