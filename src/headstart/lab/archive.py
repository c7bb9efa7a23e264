"""Archives: a small store with one study's runs, choices and claims, from which its verdicts can be computed again."""

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.conduct import make_report, serving, stored
from headstart.lab.database import Database
from headstart.lab.ledger import Edition
from headstart.lab.results import Results
from headstart.lab.store import Store, open_store
from headstart.lab.study import Study, edition
from headstart.lab.tuning import Tuning

# By (cell, seed): what claims read of runs. Curves of sweeps stay behind; what they scored is in the choices.
_OF_CLAIMS = ("summaries", "runs", "measured")


def write_archive(study: Study, preset: str, results: Results, store: Store, path: Path) -> Path:
    """Write the archive of a study to `path`: summaries and curves of its claims, choices, computed arrays, report.

    It is a store like any other, with the provenance of every run. Temporary file, then rename.
    """
    key = edition(study, preset, results.knobs)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".archive-", dir=path.parent) as folder:
        made = Path(folder) / "store.sqlite"
        with open_store(made) as archive:
            _copy(store.database, archive.database, _rows(study, key, results, store))
        os.replace(made, path)
    return path


def _copy(source: Database, archive: Database, rows: Iterable[tuple[str, str, Sequence[Any]]]) -> None:
    """Copy rows, (table, condition, values) each, with the chunks and batches that they name; seals are checked."""
    with archive.write():
        for table, condition, values in rows:
            archive.copy(source, table, condition, values)
        for (chunk,) in archive.execute("SELECT DISTINCT chunk FROM runs").fetchall():
            archive.copy(source, "chunks", "id = ?", (chunk,))
            archive.copy(source, "curves", "chunk = ?", (chunk,))
        query = "SELECT batch FROM summaries UNION SELECT batch FROM simulations"
        for (batch,) in archive.execute(query).fetchall():
            archive.copy(source, "batches", "id = ?", (batch,))
    archive.settle()


def _rows(study: Study, key: Edition, results: Results, store: Store) -> Iterable[tuple[str, str, Sequence[Any]]]:
    """What an archive has: (table, condition, values)."""
    for row in serving(results):
        yield "cells", "cell = ?", (row.cell,)
        for seed in row.seeds:
            for table in _OF_CLAIMS if row.kind == "claim" else ("summaries",):
                yield table, "cell = ? AND seed = ?", (row.cell, seed)
    for part in results.parts.values():
        yield "simulations", "simulation = ?", (store.key_of(part),)
    arms = {arm.name: arm for arm in study.arms(results.knobs)}
    for choice in Tuning(arms, study.compared(results.knobs), results.knobs, store).choice_keys():
        yield "choices", "choice = ?", (choice,)
    for table in ("arms", "reports", "sessions"):
        yield table, "(study, preset, knobs) = (?, ?, ?)", key


@dataclass(frozen=True)
class Rechecked:
    """A study of an archive: its report as published, and as computed again."""

    study: str
    published: dict[str, Any]
    computed: dict[str, Any]

    @property
    def differing(self) -> list[str]:
        """The ids of the claims that come out otherwise than published."""
        old = {claim["id"]: claim for claim in self.published["claims"]}
        new = {claim["id"]: claim for claim in self.computed["claims"]}
        return [id for id in dict.fromkeys([*old, *new]) if old.get(id) != new.get(id)]


def recheck(path: Path, find: Any) -> list[Rechecked]:
    """Compute every verdict of an archive again. `find` gives the study of a name."""
    with open_store(path) as archive:
        reports = archive.studies.reports()
        if not reports:
            raise HeadstartError(
                f"{path}: no study was finished in it; write one: headstart export STUDY --archive FILE"
            )
        return [_recheck(find(name), report, archive) for name, report in sorted(reports.items())]


def _recheck(study: Study, report: dict[str, Any], archive: Store) -> Rechecked:
    values = json.loads(report["knobs"])
    knobs = study.knobs(report["preset"], {name: json.dumps(value) for name, value in values.items()})
    results = stored(study, report["preset"], knobs, archive)
    return Rechecked(study.name, report, make_report(study, report["preset"], results, archive))
