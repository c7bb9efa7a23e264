"""The command that writes pages of results, from committed code alone."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from headstart.cli.options import StorePath, StudyName, app, open_named
from headstart.cli.results import recall
from headstart.core.errors import HeadstartError
from headstart.lab.conduct import make_report
from headstart.lab.overview import update_readme
from headstart.lab.quotes import renew
from headstart.lab.report import changed_files, dirty_commits, draft_reasons, write_report
from headstart.lab.summary_figure import write_summary
from headstart.lab.wording import few
from headstart.studies import select


@app.command
def report(
    study: StudyName,
    /,
    out: Annotated[Path, arg(metavar="FOLDER", help="where results go")] = Path("docs/results"),
    readme: Annotated[Path, arg(metavar="FILE", help="whose table of results is renewed")] = Path("README.md"),
    preset: Annotated[str | None, arg(metavar="NAME", help="default: as it was last run")] = None,
    draft: Annotated[bool, arg(help="write in spite of changes in no commit; the page's first line says so")] = False,
    store: StorePath = None,
) -> None:
    """Write docs/results/<paper>/<study>.png, .md and .json from the store, and renew the README's table.

    Beside them stands claims.png, the primary claims of all pages of the paper. Numbers of claims that the README and
    the pages of docs quote are written anew too, and a verdict that turned is said. Takes a study, or every stored
    study of a paper by its folder. Presets other than the usual one have pages of their own, <study>-<preset>. Refuses
    to write beside changes in no commit, and from runs that were made with such changes: nobody could make that page
    again from the commit it names.

    Try: headstart report less_data
    """
    if readme.is_dir():
        raise HeadstartError(f"--readme {str(readme)!r}: that is a folder; name the file whose table is renewed")
    changed = changed_files(out, readme)
    if changed and not draft:
        fix = "commit or stash them, let git ignore what is no code, or write a --draft"
        raise HeadstartError(f"--out {out}: not committed: {few(changed)}; {fix}")
    with open_named(store) as opened:
        done = [s for s in select(study) if opened.studies.last(s.name) is not None]
        if not done:
            raise HeadstartError(f"no study of {study} is in store {opened.path}; run: headstart run {study}")
        refused, drafts, commits, folders = [], [], set(), set()
        for s in done:
            used, _, results = recall(s, preset, opened)
            made = make_report(s, used, results, opened)
            if dirty_commits(made) and not draft:
                refused.append(s.name)
                commits.update(dirty_commits(made))
                continue
            if reasons := draft_reasons(made, changed):
                made["draft"] = reasons
                drafts.append(s.name)
            for path in write_report(s, results, made, out):
                print(path)
                folders.add(path.parent)
    for folder in sorted(folders - {out}):  # a study of no paper has its pages in `out` itself
        if picture := write_summary(folder):
            print(picture)
    if not drafts and len(refused) < len(done):
        if update_readme(readme, out):
            print(readme)
        for page in (path for path in (readme, *sorted(out.parent.glob("*.md"))) if path.exists()):
            for quote in renew(page):
                if quote.turned:
                    print(quote.turned)
    if refused:
        raise HeadstartError(
            f"{few(refused)} not written: runs were made with changes in no commit ({few(sorted(commits))}); run "
            "again from a clean checkout into a new store (--store FILE), or write a --draft"
        )
