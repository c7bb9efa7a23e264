"""The command line. Each command is a function; tyro makes its flags from the signature.

Exit codes: 0 done, 1 a claim does not hold under `check --strict`, 2 a mistake in the call, 130 interrupted.
"""

import json as jsonlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from headstart import __version__
from headstart.core.errors import HeadstartError
from headstart.lab.conduct import conduct, make_report
from headstart.lab.explain import explain_studies, print_explanation
from headstart.lab.figures import save_figure
from headstart.lab.probe import probe
from headstart.lab.progress import display
from headstart.lab.report import claims_table, scoreboard, update_readme, write_report
from headstart.lab.store import Store, default_path, open_store
from headstart.lab.study import Results, Study, stored
from headstart.lab.workers import workers
from headstart.studies import all_studies, find, select

StudyName = Annotated[Positional[str], arg(metavar="STUDY", help="a study, as `headstart list` names it, or a file")]
StorePath = Annotated[
    Path | None, arg(metavar="PATH", help="the SQLite store (default: HEADSTART_STORE, or the user's data directory)")
]
Preset = Annotated[str, arg(metavar="NAME", help="smoke (seconds), laptop (minutes) or paper (the full setting)")]
Settings = Annotated[
    tuple[str, ...], arg(name="set", metavar="NAME=VALUE", help="set a knob of the study"), UseAppendAction
]
Json = Annotated[bool, arg(help="print JSON for a program to read")]

app = tyro.extras.SubcommandApp()


def _print(data: Any) -> None:
    print(jsonlib.dumps(data, indent=1, ensure_ascii=False))


def _console() -> Any:
    from rich.console import Console

    # Tables need room when the output goes to a file or a pipe.
    return Console() if sys.stdout.isatty() else Console(width=140)


def _settings(pairs: Sequence[str], seeds: int | None) -> dict[str, str]:
    out = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise HeadstartError(f"--set {pair}: write NAME=VALUE")
        out[name.strip()] = value.strip()
    return out | ({} if seeds is None else {"num_seeds": str(seeds)})


def _recall(study: Study, preset: str | None, store: Store) -> tuple[str, Any, Results]:
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


def _reports(store: Path | None) -> dict[str, Any]:
    """The stored reports by study; looking does not make a store, and a store that was named must be there."""
    path = store or default_path()
    if path.exists():
        with open_store(path) as opened:
            return opened.studies.reports()
    if store is not None:
        raise HeadstartError(f"--store {store}: there is no such store; run a study into it first")
    return {}


@app.command(name="list")
def list_(json: Json = False, store: StorePath = None) -> None:
    """List the studies: paper, figures, presets with expected minutes, claims and their last verdicts.

    Try: headstart list
    """
    reports = _reports(store)
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
        _print(rows)
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
    _console().print(table)


@app.command
def run(
    study: StudyName,
    /,
    preset: Preset = "laptop",
    seeds: Annotated[int | None, arg(metavar="N", help="seeds for the claims; extends what is stored")] = None,
    set_: Settings = (),
    only: Annotated[str | None, arg(metavar="TAG", help="of a whole paper, only the studies with this tag")] = None,
    store: StorePath = None,
    jobs: Annotated[int, arg(metavar="N", help="threads or processes that train")] = os.cpu_count() or 1,
    device: Annotated[str, arg(metavar="NAME", help="cpu, cuda or mps")] = "cpu",
    repair: Annotated[bool, arg(help="first drop damaged chunks of the store, so that they are trained again")] = False,
    json: Json = False,
) -> None:
    """Run a study, or every study of a paper by its folder: train what is missing, print the claims, draw the figure.

    Ctrl-C keeps what is finished; the same command goes on from there.

    Try: headstart run less_data/mini_and_full_batch_mlp --preset smoke
    """
    if jobs < 1:
        raise HeadstartError(f"--jobs {jobs}: use at least 1 process")
    chosen = [(s, s.knobs(preset, _settings(set_, seeds))) for s in select(study, only)]
    for s, knobs in chosen:
        s.validate(knobs)  # a knob out of range is met here, before the store is touched
    if device != "cpu":
        from headstart.engines.loop import check_device

        check_device(device)
    # One pool for all studies: its processes start once, and keep the networks they have traced.
    with open_store(store) as opened, workers(jobs) as pool:
        if repair:
            dropped = opened.repair()
            print(f"dropped {len(dropped)} damaged chunks", file=sys.stderr)
        reports = []
        for s, knobs in chosen:
            outcome = conduct(s, preset, knobs, opened, display(), pool, device)
            path = opened.path.parent / "figures" / f"{s.name}-{preset}.png"
            save_figure(s.figure(outcome.results), path)
            reports.append({**outcome.report, "figure": str(path)})
            if not json:
                console = _console()
                console.print(claims_table(outcome.report))
                if preset == "smoke":
                    console.print("smoke settings only exercise the machinery; their verdicts say nothing of the paper")
                console.print(f"figure: {path}", soft_wrap=True, highlight=False)
                console.print(f"store:  {opened.path}", soft_wrap=True, highlight=False)
        if json:
            _print(reports[0] if len(reports) == 1 else reports)


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
    with open_store(store) as opened:
        if opened.studies.last(s.name) is None and not json:
            print(s.doc.strip())
            print(f"\nNot run yet: headstart run {s.command}")
            return
        used, _, results = _recall(s, preset, opened)
        report = make_report(s, used, results, opened)
    if json:
        _print(report)
        return
    print(s.doc.strip() + "\n")
    console = _console()
    console.print(claims_table(report))
    for name, tuned in report["learning_rates"].items():
        console.print(f"{name}: lr {tuned['rate']:g} of {len(tuned['rates'])} tried", highlight=False)


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
    with open_store(store) as opened:
        _, _, results = _recall(s, preset, opened)
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
    found = _reports(store)
    reports = [r for name, r in sorted(found.items()) if only is None or name == only or name.startswith(f"{only}/")]
    if only is not None and found and not reports:
        raise HeadstartError(f"no claim of {only!r} is in the store; there are {', '.join(sorted(found))}")
    if json:
        _print(reports)
    elif not reports:
        print("no study has been run into this store; try: headstart run less_data/mini_and_full_batch_mlp")
    else:
        verdicts = [c["verdict"] for r in reports for c in r["claims"]]
        _console().print(scoreboard(reports))
        print(", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)))
    serious = [r for r in reports if r["preset"] != "smoke"]
    if strict and any(c["verdict"] == "does not hold" for r in serious for c in r["claims"]):
        raise SystemExit(1)


@app.command
def explain(
    study: StudyName,
    /,
    preset: Preset = "laptop",
    only: Annotated[str | None, arg(metavar="TAG", help="of a paper, the studies with this tag")] = None,
    seeds: Annotated[int | None, arg(metavar="N", help="seeds for the claims")] = None,
    set_: Settings = (),
    store: StorePath = None,
    jobs: Annotated[int, arg(metavar="N", help="threads or processes that train")] = os.cpu_count() or 1,
    json: Json = False,
) -> None:
    """Say what `run` would do before it runs: engine, number of runs, time and memory of each arm.

    Takes a study, or a paper by its folder, which is a line a study.

    Try: headstart explain less_data/mini_and_full_batch_mlp --preset paper
    """
    chosen = [(s, s.knobs(preset, _settings(set_, seeds))) for s in select(study, only)]
    with open_store(store) as opened:
        rows = explain_studies(chosen, opened)
    if json:
        _print(rows)
    else:
        print_explanation(rows, jobs, _console())


@app.command
def export(
    study: StudyName,
    /,
    out: Annotated[Path, arg(metavar="FILE", help="where to write it")],
    to: Annotated[str | None, arg(metavar="parquet|csv", help="default: by the name of the file")] = None,
    store: StorePath = None,
) -> None:
    """Export a study's traces, one row a record.

    Try: headstart export less_data/mini_and_full_batch_mlp --to csv --out traces.csv
    """
    kind = to or out.suffix.lstrip(".")
    if kind not in ("parquet", "csv"):
        raise HeadstartError(f"--to {kind}: choose parquet or csv")
    with open_store(store) as opened:
        traces = opened.traces(study=find(study).name)
        if not len(traces):
            raise HeadstartError(f"{study} trains nothing and has no traces; read its arrays by store.simulation(part)")
        frame = traces.to_pandas()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if kind == "csv":
            frame.to_csv(out, index=False)
        else:
            frame.to_parquet(out, index=False)
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
    with open_store(store) as opened:
        done = [s for s in select(study) if opened.studies.last(s.name) is not None]
        if not done:
            raise HeadstartError(f"no study of {study} is in store {opened.path}; run: headstart run {study}")
        for s in done:
            used, _, results = _recall(s, preset, opened)
            for path in write_report(s, results, make_report(s, used, results, opened), out):
                print(path)
    if update_readme(readme, out):
        print(readme)


@app.command(name="probe")
def probe_(
    factory: Annotated[Positional[str], arg(metavar="MODULE:FACTORY", help="a function that returns an hs.Problem")],
    /,
    steps: Annotated[int, arg(metavar="N", help="optimizer steps of every arm")] = 2000,
    seeds: Annotated[int, arg(metavar="N", help="seeds of every arm, and as many again while undecided")] = 8,
    max_seeds: Annotated[int, arg(metavar="N", help="seeds at most")] = 32,
    target: Annotated[
        float | None, arg(metavar="X", help="the test metric to reach (default: 90% of the gain)")
    ] = None,
    seed: Annotated[int, arg(metavar="N", help="everything random follows from it")] = 0,
    figure: Annotated[Path | None, arg(metavar="FILE", help="where to draw the arms: png, pdf or svg")] = None,
    json: Json = False,
) -> None:
    """Say whether repeating a small subset pays on a problem of yours, at what cost, and the lines to paste.

    Try: headstart probe my_problem:factory --steps 2000
    """
    outcome = probe(
        factory, steps=steps, seeds=seeds, max_seeds=max_seeds, target=target, seed=seed, progress=display()
    )
    if figure is not None:
        save_figure(outcome.figure(), figure, figure.suffix.lstrip(".") or "png")
    if json:
        _print(outcome.to_json())
    else:
        print(outcome)


@app.command
def version() -> None:
    """Print the version.

    Try: headstart version
    """
    print(__version__)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; mistakes in the call are one line and exit code 2."""
    try:
        app.cli(
            prog="headstart",
            description="Train neural networks in less compute by shaping the first part of training.",
            args=list(args) if args is not None else None,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except HeadstartError as error:
        print(f"headstart: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("\nstopped; what is finished is stored, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
