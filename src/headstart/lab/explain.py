"""What a study would cost, before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headstart.engines import choose
from headstart.lab.axes import with_values
from headstart.lab.search import Search
from headstart.lab.store import Store
from headstart.lab.study import Study
from headstart.lab.sweep import Sweep, Tuned

# Up to which seed the runs of a cell are counted, by the cell and the first seed.
Counted = dict[tuple[Any, int], int]


def explain_studies(chosen: Sequence[tuple[Study, Any, Mapping[str, Tuned]]], store: Store) -> list[dict[str, Any]]:
    """A row per arm of each study with its knobs: engine, reasons against faster ones, runs, seconds and megabytes.

    Beside the knobs stand settings that are already chosen, by arm. A grid of learning rates may be extended beyond the
    tries that a sweep plans; `stored` counts the runs of the grid as it begins that the store has. Runs that several
    arms or studies share count where they come first. A computed part is one run of no engine; the runs that it needs
    are not counted.
    """
    counted: Counted = {}
    return [row for study, knobs, known in chosen for row in _rows(study, knobs, known, store, counted)]


def _new(key: Any, seeds: Sequence[int], counted: Counted) -> int:
    """How many runs of a cell at seeds that follow each other have not been counted yet; now they have."""
    first, end = seeds[0], seeds[-1] + 1
    before = counted.get((key, first), first)
    counted[key, first] = max(before, end)
    return max(0, end - before)


def _rows(study: Study, knobs: Any, known: Mapping[str, Tuned], store: Store, counted: Counted) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for arm in study.arms(knobs):
        if arm.name in known:
            arm = replace(arm, run=with_values(arm.run, known[arm.name].values), sweep=None)
        choice = choose(arm.run)
        seeds = arm.selection_seeds(knobs)
        search = Search(arm.run, arm.sweep, seeds) if isinstance(arm.sweep, Sweep) else None
        cells = search.needed() if search else []
        # Before a rate is chosen, the later runs of two arms are the same if the arms are.
        alike = (arm.run.cell, arm.sweep, len(seeds))
        runs = sum(_new(cell.cell, its, counted) for cell, its in cells)
        runs += _new(alike, arm.claim_seeds(knobs), counted)
        if search and (later := search.num_planned - sum(len(its) for _, its in cells)):
            runs += _new((alike, "later tries"), range(later), counted)
        rows.append(
            {
                "study": study.name,
                "arm": arm.name,
                "engine": choice.engine.name,
                "reasons": dict(choice.reasons),
                "runs": runs,
                "stored": sum(len(store.seeds(cell.cell, arm.keep) & set(its)) for cell, its in cells),
                "seconds_a_run": round(choice.engine.seconds(arm.run), 2),
                "settles": arm.run.budget.settled is not None,
                "megabytes_a_run": round(choice.engine.memory(arm.run) / 2**20, 1),
            }
        )
    for name, part in study.computed(knobs, {arm.name: arm for arm in study.arms(knobs)}).items():
        rows.append(
            {
                "study": study.name,
                "arm": name,
                "engine": "computed",
                "reasons": {},
                "runs": 1,
                "stored": int(store.has_computed(part)),
                "seconds_a_run": round(part.seconds, 2),
                "settles": False,
                "megabytes_a_run": None,
            }
        )
    return rows


def print_explanation(rows: list[dict[str, Any]], jobs: int, console: Any) -> None:
    """The rows as a table, or, for several studies, a row each; with the time in all."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    total = sum(row["runs"] * row["seconds_a_run"] for row in rows)
    said = f"about {total / jobs / 60:.1f} minutes on {jobs} cores from an empty store, extended sweeps aside"
    if any(row["settles"] for row in rows):
        said += " and runs to the end, which those that settle do not take"
    table = Table(box=box.ROUNDED)
    studies = list(dict.fromkeys(row["study"] for row in rows))
    if len(studies) > 1:
        for column in ("study", "engines", "arms", "runs", "minutes"):
            table.add_column(column)
        for study in studies:
            own = [row for row in rows if row["study"] == study]
            seconds = sum(row["runs"] * row["seconds_a_run"] for row in own)
            engines = ", ".join(dict.fromkeys(row["engine"] for row in own))
            runs = sum(row["runs"] for row in own)
            table.add_row(escape(study), engines, str(len(own)), str(runs), f"{seconds / jobs / 60:.1f}")
        console.print(table)
        console.print(f"{said}; runs that studies share count once")
        return
    for column in ("arm", "engine", "runs", "stored", "seconds a run", "MB a run", "why not faster"):
        table.add_column(column)
    for row in rows:
        fastest = "" if row["engine"] == "computed" else "it is the fastest"
        reasons = "; ".join(f"{name}: {why}" for name, why in row["reasons"].items()) or fastest
        table.add_row(
            escape(row["arm"]),
            row["engine"],
            str(row["runs"]),
            str(row["stored"]),
            f"{row['seconds_a_run']:g}",
            "" if row["megabytes_a_run"] is None else f"{row['megabytes_a_run']:g}",
            escape(reasons),
        )
    console.print(table)
    console.print(said)
