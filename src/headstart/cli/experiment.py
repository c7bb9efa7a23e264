"""Commands that run studies, or say what running them would take."""

import os
import sys
from typing import Annotated

from tyro.conf import OmitArgPrefixes, arg

from headstart.cli.machines import HERE, Machines, check_jobs
from headstart.cli.options import (
    Choices,
    Json,
    Preset,
    Settings,
    StorePath,
    StudyName,
    app,
    console,
    open_named,
    pages_of,
    print_json,
    settings,
)
from headstart.core.faults import one_line
from headstart.core.files import inside
from headstart.lab.adoption import adopt, published_choices
from headstart.lab.conduct import conduct
from headstart.lab.explain import explain_studies, print_explanation
from headstart.lab.figures import save_figure
from headstart.lab.progress import display
from headstart.lab.report import claims_table, print_finding
from headstart.lab.store import open_store, repair_store, store_path
from headstart.lab.study import USUAL
from headstart.studies import select


@app.command
def run(
    study: StudyName,
    /,
    preset: Preset = USUAL,
    seeds: Annotated[int | None, arg(metavar="N", help="seeds for the claims; extends what is stored")] = None,
    set_: Settings = (),
    only: Annotated[str | None, arg(metavar="TAG", help="of a whole paper, only the studies with this tag")] = None,
    choices: Choices = None,
    store: StorePath = None,
    jobs: Annotated[
        int | None, arg(metavar="N", help="workers: threads or processes here (default: cores), or jobs of Slurm")
    ] = None,
    device: Annotated[str, arg(metavar="NAME", help="cpu; cuda and mps are experimental")] = "cpu",
    machines: OmitArgPrefixes[Machines] = HERE,
    repair: Annotated[bool, arg(help="first drop what is damaged in the store, so that it is trained again")] = False,
    json: Json = False,
) -> None:
    """Run a study, or every study of a paper by its folder: train what is missing, print the claims, draw the figure.

    Ctrl-C keeps what is finished; the same command goes on from there. With --choices it takes the learning rates of
    published pages, as far as they fit, and trains the claims alone: a third of the time. On seeds that nobody looked
    at: headstart run STUDY --choices docs/results --set first_seed=20000

    Try: headstart run less_data/mini_and_full_batch_mlp --preset smoke
    """
    check_jobs(jobs)
    machines.check(device)
    chosen = [(s, s.knobs(preset, settings(set_, seeds))) for s in select(study, only)]
    for s, knobs in chosen:
        s.validate(knobs)  # a knob out of range is met here, before the store is touched
    pages = pages_of(choices)
    if device != "cpu" and not machines.is_far:
        from headstart.engines.loop import check_device

        check_device(device)
    if repair:
        lost = repair_store(store_path(store))
        for each in lost or ["nothing is damaged"]:
            print(f"repair: {one_line(each)}", file=sys.stderr)
    # One pool for all studies: its processes start once, and keep the networks they have traced.
    with open_store(store) as opened, machines.workers(jobs, device, opened) as pool:
        reports = []
        for s, knobs in chosen:
            if pages:
                taken, searched = adopt(s, knobs, opened, pages)
                print(f"{s.name}: settings of {taken} arms from {choices}, {searched} to be searched", file=sys.stderr)
            outcome = conduct(s, preset, knobs, opened, display(), pool, device)
            path = inside(opened.path.parent / "figures", f"{s.name}-{preset}", ".png")
            save_figure(s.draw(outcome.results), path)
            reports.append({**outcome.report, "figure": str(path)})
            if not json:
                screen = console()
                print_finding(outcome.report, screen)
                screen.print(claims_table(outcome.report))
                if preset == "smoke":
                    screen.print("smoke settings only exercise the machinery; their verdicts say nothing of the paper")
                screen.print(f"figure: {path}", soft_wrap=True, highlight=False, markup=False)
                screen.print(f"store:  {opened.path}", soft_wrap=True, highlight=False, markup=False)
        if json:
            print_json(reports[0] if len(reports) == 1 else reports)


@app.command
def explain(
    study: StudyName,
    /,
    preset: Preset = USUAL,
    only: Annotated[str | None, arg(metavar="TAG", help="of a paper, the studies with this tag")] = None,
    choices: Choices = None,
    seeds: Annotated[int | None, arg(metavar="N", help="seeds for the claims")] = None,
    set_: Settings = (),
    store: StorePath = None,
    jobs: Annotated[int, arg(metavar="N", help="threads or processes that train")] = os.cpu_count() or 1,
    json: Json = False,
) -> None:
    """Say what `run` would do before it runs: engine, number of runs, time and memory of each arm.

    Accepts a study, or a paper's folder (one line per study).

    Try: headstart explain less_data/mini_and_full_batch_mlp --preset paper
    """
    check_jobs(jobs)
    chosen = [(s, s.knobs(preset, settings(set_, seeds))) for s in select(study, only)]
    pages = pages_of(choices)
    with open_named(store) as opened:
        rows = explain_studies([(s, knobs, published_choices(s, knobs, pages)) for s, knobs in chosen], opened)
    if json:
        print_json(rows)
    else:
        print_explanation(rows, jobs, console())
