"""What is training now, read from the live files beside a store: whole at first, then what is new."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headstart.lab.live import live_files

_MOST_BYTES_AT_A_TIME = 8 * 2**20
_MOST_RECORDS = 512


@dataclass
class Session:
    """A command that is running a study: what its live file has said so far."""

    name: str
    inode: int
    offset: int = 0
    about: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] = field(default_factory=dict)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, list[list[Any]]] = field(default_factory=dict)

    def take(self, line: dict[str, Any]) -> dict[str, Any] | None:
        """Learn a line; what of it is news to somebody who knew all before."""
        if "session" in line:
            self.about = dict(line["session"])
            return {"about": self.about}
        if "progress" in line:
            self.progress = dict(line["progress"])
            return {"progress": self.progress}
        if "cell" in line:
            self.cells[str(line["cell"]["cell"])] = line["cell"]
            return {"cell": line["cell"]}
        if "begun" in line:
            self.runs |= {_key(cell, seed): [] for cell, seed in line["begun"]}
            return {"begun": [_key(*key) for key in line["begun"]]}
        if "ended" in line:
            for key in line["ended"]:
                self.runs.pop(_key(*key), None)
            return {"ended": [_key(*key) for key in line["ended"]]}
        if "record" in line:
            cell, seed, *row = line["record"]
            kept = self.runs.setdefault(_key(cell, seed), [])
            kept.append(row)
            if len(kept) > _MOST_RECORDS:
                del kept[1::2]
            return {"record": [_key(cell, seed), *row]}
        return None

    def whole(self) -> dict[str, Any]:
        """All that is known, for somebody new."""
        used = {key.partition(":")[0] for key in self.runs}
        cells = {cell: said for cell, said in self.cells.items() if cell in used}
        return {"name": self.name, "about": self.about, "progress": self.progress, "cells": cells, "runs": self.runs}


def _key(cell: str, seed: int) -> str:
    return f"{cell}:{seed}"


class LiveReading:
    """The sessions of a store."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.sessions: dict[str, Session] = {}

    def whole(self) -> list[dict[str, Any]]:
        """All sessions as they are."""
        return [session.whole() for session in self.sessions.values()]

    def look(self) -> list[dict[str, Any]]:
        """What has been said since the last look: {"session": name, ...} each."""
        news: list[dict[str, Any]] = []
        found = {path.name: path for path in live_files(self.store)}
        for name in [name for name in self.sessions if name not in found]:
            del self.sessions[name]
            news.append({"session": name, "over": True})
        for name, path in found.items():
            try:
                news += [{"session": name, **each} for each in self._look_at(name, path)]
            except OSError:  # it ended between two looks
                continue
        return news

    def _look_at(self, name: str, path: Path) -> Iterable[dict[str, Any]]:
        stat = path.stat()
        session = self.sessions.get(name)
        if session is None or session.inode != stat.st_ino or stat.st_size < session.offset:
            # New, or written anew: everything in it is told again.
            session = self.sessions[name] = Session(name, stat.st_ino)
            yield {"anew": True}
        if stat.st_size == session.offset:
            return
        with path.open("rb") as file:
            file.seek(session.offset)
            data = file.read(_MOST_BYTES_AT_A_TIME)
        end = data.rfind(b"\n") + 1  # a line that is not whole yet is read next time
        session.offset += end
        for line in data[:end].splitlines():
            try:
                said = session.take(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                continue  # not as we write it: it is not shown
            if said is not None:
                yield said
