"""What a study would cost, before anything runs."""

from typing import Any

from headstart.engines import choose
from headstart.lab.store import Store
from headstart.lab.study import Study
from headstart.lab.sweep import Search


def explain_study(study: Study, knobs: Any, store: Store) -> list[dict[str, Any]]:
    """A row an arm: engine, reasons against faster ones, runs in all, seconds and megabytes of one run.

    A grid of learning rates may still be extended, so the numbers are those of the grid as it begins; `stored` counts
    the runs of that grid that the store has. A simulation is one run of no engine.
    """
    rows: list[dict[str, Any]] = []
    for arm in study.arms(knobs):
        choice = choose(arm.run)
        cells, seeds = Search(arm.run, arm.sweep).needed(), arm.selection_seeds(knobs)
        rows.append(
            {
                "arm": arm.name,
                "engine": choice.engine.name,
                "reasons": dict(choice.reasons),
                "runs": len(cells) * len(seeds) + len(arm.claim_seeds(knobs)),
                "stored": sum(len(store.seeds(cell.cell, arm.keep) & set(seeds)) for cell in cells),
                "seconds_a_run": round(choice.engine.seconds(arm.run), 2),
                "megabytes_a_run": round(choice.engine.memory(arm.run) / 2**20, 1),
            }
        )
    for simulation in study.simulations(knobs):
        rows.append(
            {
                "arm": simulation.name,
                "engine": "simulation",
                "reasons": {},
                "runs": 1,
                "stored": int(store.has_simulation(simulation.part)),
                "seconds_a_run": round(simulation.part.seconds, 2),
                "megabytes_a_run": None,
            }
        )
    return rows


def print_explanation(rows: list[dict[str, Any]], jobs: int, console: Any) -> None:
    """The rows as a table, with the time in all."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.ROUNDED)
    for column in ("arm", "engine", "runs", "stored", "seconds a run", "MB a run", "why not faster"):
        table.add_column(column)
    for row in rows:
        fastest = "" if row["engine"] == "simulation" else "it is the fastest"
        reasons = "; ".join(f"{name}: {why}" for name, why in row["reasons"].items()) or fastest
        table.add_row(
            row["arm"],
            row["engine"],
            str(row["runs"]),
            str(row["stored"]),
            f"{row['seconds_a_run']:g}",
            "" if row["megabytes_a_run"] is None else f"{row['megabytes_a_run']:g}",
            reasons,
        )
    console.print(table)
    total = sum(row["runs"] * row["seconds_a_run"] for row in rows)
    console.print(f"about {total / jobs / 60:.1f} minutes on {jobs} cores from an empty store")
