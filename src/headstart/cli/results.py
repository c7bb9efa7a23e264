"""Commands that look at what is stored: lists, claims, figures, reports and exports."""

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from headstart.cli.options import Json, StorePath, StudyName, app, console, open_named, print_json
from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.conduct import make_report, stored
from headstart.lab.figures import save_figure
from headstart.lab.received import readable_reports
from headstart.lab.report import claims_table, counted, scoreboard, update_readme, write_report
from headstart.lab.results import Results
from headstart.lab.store import Store
from headstart.lab.study import Study
from headstart.studies import all_studies, find, select


def recall(study: Study, preset: str | None, store: Store) -> tuple[str, Any, Results]:
    """A study's stored results: of the preset named, or as it was last run."""
    last = store.studies.last(study.name)
    if preset is None and last is not None:
        values = jsonlib.loads(last.knobs)
        preset = last.preset
        knobs = study.knobs(preset, {name: jsonlib.dumps(value) for name, value in values.items()})
    else:
        preset = preset or "laptop"
        knobs = study.knobs(preset)
    return preset, knobs, stored(study, preset, knobs, store)


def stored_reports(store: Path | None) -> dict[str, Any]:
    """The stored reports by study; looking does not make a store, and a store that was named must be there."""
    with open_named(store) as opened:
        return readable_reports(opened)


@app.command(name="list")
def list_(json: Json = False, store: StorePath = None) -> None:
    """List the studies: paper, figures, presets with expected minutes, claims and their last verdicts.

    Try: headstart list
    """
    reports = stored_reports(store)
    rows: list[dict[str, Any]] = []
    for name, study in all_studies().items():
        verdicts = {c["id"]: c["verdict"] for c in reports.get(name, {}).get("claims", [])}
        rows.append(
            {
                "study": name,
                "title": study.title,
                "paper": study.paper,
                "figures": study.figures,
                "presets": dict(study.minutes),
                "num_claims": len(study.claims(study.presets["laptop"])),
                "verdicts": verdicts,
                "tags": list(study.tags),
            }
        )
    if json:
        print_json(rows)
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.ROUNDED)
    for column in ("study", "paper", "minutes", "claims", "last verdicts"):
        table.add_column(column, overflow="fold")
    for row in rows:
        minutes = ", ".join(f"{preset} {value:g}" for preset, value in row["presets"].items())
        said = list(row["verdicts"].values())
        last = ", ".join(f"{said.count(v)} {v}" for v in dict.fromkeys(said)) or "not run"
        table.add_row(row["study"], f"{row['paper']}, {row['figures']}", minutes, str(row["num_claims"]), last)
    console().print(table)


@app.command
def show(
    study: StudyName,
    /,
    preset: Annotated[str | None, arg(metavar="NAME", help="default: as it was last run")] = None,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Show a study: its method section, and its claims computed from the store.

    Try: headstart show less_data/mini_and_full_batch_mlp --json
    """
    s = find(study)
    with open_named(store) as opened:
        if opened.studies.last(s.name) is None and not json:
            print(s.doc.strip())
            print(f"\nNot run yet: headstart run {s.command}")
            return
        used, _, results = recall(s, preset, opened)
        report = make_report(s, used, results, opened)
    if json:
        print_json(report)
        return
    print(s.doc.strip() + "\n")
    screen = console()
    screen.print(claims_table(report))
    for name, tuned in report["learning_rates"].items():
        screen.print(f"{name}: lr {tuned['rate']:g} of {len(tuned['rates'])} tried", highlight=False, markup=False)


@app.command
def figure(
    study: StudyName,
    /,
    out: Annotated[Path, arg(metavar="FILE", help="where to write it")],
    format: Annotated[str | None, arg(metavar="png|pdf|svg", help="default: by the name of the file")] = None,
    preset: Annotated[str | None, arg(metavar="NAME", help="default: as it was last run")] = None,
    store: StorePath = None,
) -> None:
    """Draw a study's figure from stored traces.

    Try: headstart figure less_data/mini_and_full_batch_mlp --out gap.pdf
    """
    s = find(study)
    with open_named(store) as opened:
        _, _, results = recall(s, preset, opened)
        print(save_figure(s.figure(results), out, format or out.suffix.lstrip(".") or "png"))


@app.command
def check(
    only: Annotated[Positional[str | None], arg(metavar="PAPER", help="a paper's folder or a study")] = None,
    /,
    strict: Annotated[bool, arg(help="exit with 1 when a claim does not hold (smoke runs aside)")] = False,
    store: StorePath = None,
    json: Json = False,
) -> None:
    """Print the scoreboard: every claim of every stored study, with its verdict.

    Try: headstart check --strict
    """
    found = stored_reports(store)
    reports = [r for name, r in sorted(found.items()) if only is None or name == only or name.startswith(f"{only}/")]
    if only is not None and found and not reports:
        raise HeadstartError(f"no claim of {only!r} is in the store; there are {', '.join(sorted(found))}")
    if json:
        print_json(reports)
    elif not reports:
        print("no study has been run into this store; try: headstart run less_data/mini_and_full_batch_mlp")
    else:
        console().print(scoreboard(reports))
        print(counted([c for r in reports for c in r["claims"]]))
    serious = [r for r in reports if r["preset"] != "smoke"]
    if strict and any(c["verdict"] == "does not hold" for r in serious for c in r["claims"]):
        raise SystemExit(1)


@app.command
def export(
    study: StudyName,
    /,
    out: Annotated[Path, arg(metavar="FILE", help="where to write it")],
    to: Annotated[str | None, arg(metavar="parquet|csv", help="default: by the name of the file")] = None,
    store: StorePath = None,
) -> None:
    """Export a study's traces, one row per record.

    Try: headstart export less_data/mini_and_full_batch_mlp --to csv --out traces.csv
    """
    kind = to or out.suffix.lstrip(".")
    if kind not in ("parquet", "csv"):
        raise HeadstartError(f"--to {kind}: choose parquet or csv")
    with open_named(store) as opened:
        traces = opened.traces(study=find(study).name)
        if not len(traces):
            raise HeadstartError(f"{study} trains nothing and has no traces; read its arrays by store.simulation(part)")
        frame = traces.to_pandas()
    try:
        with replacing(out) as temporary:
            frame.to_csv(temporary, index=False) if kind == "csv" else frame.to_parquet(temporary, index=False)
    except OSError as error:
        raise HeadstartError(f"--out {out}: cannot be written: {error}; name another file") from None
    print(f"{out}: {len(frame)} rows")


@app.command
def report(
    study: StudyName,
    /,
    out: Annotated[Path, arg(metavar="FOLDER", help="where results go")] = Path("docs/results"),
    readme: Annotated[Path, arg(metavar="FILE", help="whose table of results is renewed")] = Path("README.md"),
    preset: Annotated[str | None, arg(metavar="NAME", help="default: as it was last run")] = None,
    store: StorePath = None,
) -> None:
    """Write docs/results/<paper>/<study>.png, .md and .json from the store, and renew the README's table.

    Takes a study, or every stored study of a paper by its folder.

    Try: headstart report less_data
    """
    if readme.is_dir():
        raise HeadstartError(f"--readme {str(readme)!r}: that is a folder; name the file whose table is renewed")
    with open_named(store) as opened:
        done = [s for s in select(study) if opened.studies.last(s.name) is not None]
        if not done:
            raise HeadstartError(f"no study of {study} is in store {opened.path}; run: headstart run {study}")
        for s in done:
            used, _, results = recall(s, preset, opened)
            for path in write_report(s, results, make_report(s, used, results, opened), out):
                print(path)
    if update_readme(readme, out):
        print(readme)
