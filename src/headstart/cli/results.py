"""Commands that look at what is stored: lists, claims, figures and exports."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from headstart.cli.options import Json, StorePath, StudyName, app, console, open_named, print_json
from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.archive import recheck, write_archive
from headstart.lab.conduct import make_report, stored
from headstart.lab.figures import save_figure
from headstart.lab.received import published_reports, readable_reports
from headstart.lab.report import choice_words, claims_table, print_finding, scoreboard
from headstart.lab.results import Results
from headstart.lab.store import Store
from headstart.lab.study import USUAL, Study
from headstart.lab.summary_figure import draw_summary
from headstart.lab.wording import counted, deciding, few, interval
from headstart.studies import all_studies, find, names


def recall(study: Study, preset: str | None, store: Store) -> tuple[str, Any, Results]:
    """A study's stored results: of the preset named, or as it was last run."""
    last = store.studies.last(study.name)
    if preset is None and last is not None:
        values = jsonlib.loads(last.knobs)
        preset = last.preset
        knobs = study.knobs(preset, {name: jsonlib.dumps(value) for name, value in values.items()})
    else:
        preset = preset or USUAL
        knobs = study.knobs(preset)
    return preset, knobs, stored(study, preset, knobs, store)


Published = Annotated[
    Path | None, arg(metavar="FOLDER", help="read what `headstart report` published there, and no store")
]


def reports_of(
    store: Path | None, results: Path | None, only: str | None, preset: str | None = None
) -> list[dict[str, Any]]:
    """The reports of a store or of published pages, of a paper's folder or a study if `only` names one."""
    if store is not None and results is not None:
        raise HeadstartError(f"--store {store} and --results {results}: name one of them")
    found = list(stored_reports(store).values()) if results is None else published_reports(results)
    name = (only or "").rstrip("/")
    kept = [r for r in found if only is None or r["study"] == name or r["study"].startswith(f"{name}/")]
    if found and not kept:
        where = "the store" if results is None else results
        raise HeadstartError(
            f"no claim of {only!r} is in {where}; there are {few(sorted({r['study'] for r in found}))}"
        )
    kept = [r for r in kept if preset in (None, r["preset"])]
    return sorted(kept, key=lambda report: str(report["study"]))


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
        last_report = reports.get(name, {})
        verdicts = {c["id"]: c["verdict"] for c in last_report.get("claims", [])}
        rows.append(
            {
                "study": name,
                "title": study.title,
                "paper": study.paper,
                "figures": study.figures,
                "presets": dict(study.minutes),
                "num_claims": len(study.claims(study.presets[USUAL])),
                "verdicts": verdicts,
                "finding": last_report.get("finding", ""),
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
    """Show a study: its method section, its finding, and its claims computed from the store.

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
    print_finding(report, screen)
    screen.print(claims_table(report))
    for name, choice in report["choices"].items():
        screen.print(f"{name}: {choice_words(choice)}, of {len(choice['tries'])} tried", highlight=False, markup=False)


@app.command
def figure(
    study: StudyName,
    /,
    out: Annotated[Path, arg(metavar="FILE", help="where to write it")],
    format: Annotated[str | None, arg(metavar="png|pdf|svg", help="default: by the name of the file")] = None,
    preset: Annotated[str | None, arg(metavar="NAME", help="default: as it was last run")] = None,
    store: StorePath = None,
    results: Published = None,
) -> None:
    """Draw a study's figure from stored traces; of a paper's folder, the primary claims of all its studies.

    Claims can be drawn from published pages as well: headstart figure less_data --results docs/results --out all.png

    Try: headstart figure less_data/mini_and_full_batch_mlp --out gap.pdf
    """
    how = format or out.suffix.lstrip(".") or "png"
    if any(name.startswith(f"{study.rstrip('/')}/") for name in names()):
        print(save_figure(draw_summary(reports_of(store, results, study, preset)), out, how))
        return
    s = find(study)
    if results is not None:
        raise HeadstartError(f"--results {results}: a study is drawn from its traces, which are in a --store")
    with open_named(store) as opened:
        _, _, found = recall(s, preset, opened)
        print(save_figure(s.draw(found), out, how))


def recheck_archive(path: Path, study: str | None, json: bool) -> None:
    """Print the claims of an archive as computed now; exit with 1 where they are not as published."""
    found = recheck(path, lambda name: find(study or name))
    differing = {each.study: each.differing for each in found if each.differing}
    if json:
        print_json([{**each.computed, "differing": each.differing} for each in found])
    else:
        console().print(scoreboard([each.computed for each in found]))
        print(counted([c for each in found for c in each.computed["claims"]]))
        said = "; ".join(f"{name}: {', '.join(ids)}" for name, ids in differing.items())
        print(f"not as published: {said}" if differing else f"{path}: every claim comes out as published")
    if differing:
        raise SystemExit(1)


@app.command
def check(
    only: Annotated[
        Positional[str | None], arg(metavar="PAPER|FILE", help="a paper's folder, a study, or an archive")
    ] = None,
    /,
    study: Annotated[
        str | None, arg(metavar="FILE", help="the study of an archive, if it is not in the package")
    ] = None,
    strict: Annotated[bool, arg(help="exit with 1 when a primary claim does not hold (smoke runs aside)")] = False,
    preset: Annotated[str | None, arg(metavar="NAME", help="only what was run with this preset")] = None,
    store: StorePath = None,
    results: Published = None,
    json: Json = False,
) -> None:
    """Print the scoreboard: every claim of every stored study, with its verdict.

    With --strict the primary claims decide; in a study that has none, all its claims do. Of an archive, every
    verdict is computed again from what is in the file, without training. Of published pages, the claims are shown as
    they were reported: headstart check less_data --preset laptop --results docs/results

    Try: headstart check --strict
    """
    if only is not None and Path(only).is_file():
        recheck_archive(Path(only), study, json)
        return
    reports = reports_of(store, results, only, preset)
    if json:
        print_json(reports)
    elif not reports and preset is not None:
        raise HeadstartError(f"--preset {preset}: no study has been run with it, or name another store")
    elif not reports:
        print("no study has been run into this store; try: headstart run less_data/mini_and_full_batch_mlp")
    else:
        console().print(scoreboard(reports))
        print(counted([c for r in reports for c in r["claims"]]))
    serious = [r for r in reports if r["preset"] != "smoke"]
    failed = [(r, c) for r in serious for c in deciding(r["claims"]) if c["verdict"] == "does not hold"]
    if strict and failed:
        for r, c in failed:
            print(f"does not hold: {r['study']} ({r['preset']}): {c['id']}, {interval(c)}", file=sys.stderr)
        raise SystemExit(1)


@app.command
def export(
    study: StudyName,
    /,
    out: Annotated[Path | None, arg(metavar="FILE", help="where to write its traces; a folder for TensorBoard")] = None,
    to: Annotated[str | None, arg(metavar="parquet|csv|tensorboard", help="default: by the name of the file")] = None,
    archive: Annotated[
        Path | None, arg(metavar="FILE", help="where to write all that its claims are computed from")
    ] = None,
    store: StorePath = None,
) -> None:
    """Export a study's traces, one row per record, or an archive of it that `headstart check` computes claims from.

    With --to tensorboard, --out names a folder that gets one file of events per run.

    Try: headstart export less_data/mini_and_full_batch_mlp --to csv --out traces.csv
    """
    if (out is None) == (archive is None):
        raise HeadstartError("export: name one file, --out FILE for a table of traces or --archive FILE")
    if archive is not None:
        s = find(study)
        with open_named(store) as opened:
            used, _, results = recall(s, None, opened)
            write_archive(s, used, results, opened, archive)
        print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB; check it: headstart check {archive}")
        return
    assert out is not None
    kind = to or out.suffix.lstrip(".")
    if kind not in ("parquet", "csv", "tensorboard"):
        raise HeadstartError(f"--to {kind}: choose parquet or csv, or tensorboard for a folder of event files")
    if kind == "tensorboard":
        from headstart.integrations.tensorboard import export_events

        with open_named(store) as opened:
            num = export_events(opened, find(study).name, out)
        print(f"{out}: {num} runs; look at them: tensorboard --logdir {out}")
        return
    with open_named(store) as opened:
        traces = opened.traces(study=find(study).name)
        if not len(traces):
            raise HeadstartError(f"{study} trains nothing and has no traces; read its arrays by store.computed(part)")
        frame = traces.to_pandas()
    try:
        with replacing(out) as temporary:
            frame.to_csv(temporary, index=False) if kind == "csv" else frame.to_parquet(temporary, index=False)
    except OSError as error:
        raise HeadstartError(f"--out {out}: cannot be written: {error}; name another file") from None
    print(f"{out}: {len(frame)} rows")
