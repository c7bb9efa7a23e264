"""Results for people: the claims tables of the terminal, the pages of docs/results. Never typed by hand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.core.faults import one_line
from headstart.core.files import inside
from headstart.lab.checkout import changes, checkout_of
from headstart.lab.figures import save_small_figure
from headstart.lab.overview import as_cell, has_marks, write_text
from headstart.lab.results import Results
from headstart.lab.study import USUAL, Study
from headstart.lab.wording import beside, endpoint, few, interval, kind_of, primary_first, split_primary, tally

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "absent": "cyan"}


def seeds_of(report: Mapping[str, Any]) -> str:
    """How many seeds the claims use; cheap arms may have a multiple."""
    most = max(report["seeds_factor"].values(), default=1)
    return f"{report['seeds']} seeds" + (f" (cheap arms up to {most * report['seeds']})" if most > 1 else "")


def claims_table(report: Mapping[str, Any]) -> "Table":
    """The claims of a report as a rich table, primary ones first."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    title = escape(one_line(f"{report['study']} · {report['preset']} · {seeds_of(report)}"))
    table = Table(title=title, box=box.ROUNDED, show_lines=True)
    for name, ratio in (("claim", 5), ("ours [95% interval]", 3), ("paper", 4), ("kind", 2), ("verdict", 2)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for claim in primary_first(report["claims"]):
        verdict, ends = claim["verdict"], endpoint(claim)
        said = (escape(claim[part]) for part in ("statement", "paper"))  # E[x] is no markup
        ours = interval(claim) + (f"\n[dim]{ends}[/]" if ends else "")
        table.add_row(next(said), ours, next(said), kind_of(claim), f"[{_COLOURS[verdict]}]{verdict}[/]")
    return table


def print_finding(report: Mapping[str, Any], console: "Console") -> None:
    """Print what a study found, if it says so."""
    if report.get("finding"):
        console.print(report["finding"] + "\n", markup=False, highlight=False)


def write_report(study: Study, results: Results, report: Mapping[str, Any], root: Path) -> list[Path]:
    """Write <root>/<study>.png, .md and .json, of another preset than the usual <study>-<preset>; returns the paths."""
    name = study.name if report["preset"] == USUAL else f"{study.name}-{report['preset']}"
    png, page, data = (inside(root, name, end) for end in (".png", ".md", ".json"))
    picture = save_small_figure(study.draw(results), png)
    write_text(data, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    write_text(page, _page(study, report, picture.name))
    return [picture, page, data]


def changed_files(root: Path, readme: Path) -> list[str]:
    """What is not committed where a report would be written, besides earlier reports; nothing outside git."""
    written = [root, *([readme] if has_marks(readme) else [])]
    checkouts = {checkout for path in written if (checkout := checkout_of(path))}
    found = [(c, change.path) for c in checkouts for change in changes(c, root, readme)]
    return sorted(path.relative_to(checkout.resolve()).as_posix() for checkout, path in found)


def dirty_commits(report: Mapping[str, Any]) -> list[str]:
    """The commits that results came from while the checkout had changes, so that nobody can make them again."""
    return [commit for commit in report["commit"].split(", ") if commit.endswith("-dirty")]


def draft_reasons(report: Mapping[str, Any], changed: Sequence[str]) -> list[str]:
    """Why a report cannot be made again from its commit, one phrase each; none if it can."""
    dirty = dirty_commits(report)
    made = f"results were made at {few(dirty)}, with changes that are in no commit"
    page = f"the page was written beside changes in {few(changed)}"
    return [*([made] if dirty else []), *([page] if changed else [])]


def _settings(study: Study, report: Mapping[str, Any]) -> str:
    """The --set options that make the preset what was run."""
    preset = json.loads(json.dumps(asdict(study.presets[report["preset"]])))
    used = json.loads(report["knobs"])
    return "".join(f" --set '{name}={json.dumps(v)}'" for name, v in used.items() if preset.get(name) != v)


def _page(study: Study, report: Mapping[str, Any], picture: str) -> str:
    command = f"headstart run {study.command} --preset {report['preset']}{_settings(study, report)}"
    opening = "".join(f"{part}\n\n" for part in (_draft(report), report.get("finding")) if part)
    return (
        f"# {'Draft: ' if report.get('draft') else ''}{study.title}\n\n{opening}"
        f"{report['paper']}, {report['figures']}. `{command}`, {seeds_of(report)}, "
        f"{_minutes(report['minutes'])} on {report['machine']}, commit {report['commit']}.\n\n"
        f"![{study.title}]({picture})\n\n{_claims(report['claims'])}\n\n"
        f"{choices_table(report['choices'])}```text\n{study.doc.strip()}\n```\n"
    )


def _minutes(minutes: float) -> str:
    return f"{minutes:.1f} minutes" if minutes >= 0.05 else "under 0.1 minutes beside runs shared with other studies"


def _draft(report: Mapping[str, Any]) -> str:
    return f"> **Not from a clean tree:** {'; '.join(report['draft'])}." if report.get("draft") else ""


def choices_table(choices: Mapping[str, Any]) -> str:
    """What the sweep of each arm chose, from what, and by which score; nothing for a study without sweeps."""
    swept = {name: choice for name, choice in choices.items() if choice["tries"]}
    if not swept:
        return ""
    rows = "".join(
        f"| {name} | {choice_words(choice)} | {_tried(choice['tries'])} | {_by(choice)} |\n"
        for name, choice in swept.items()
    )
    said = "Settings, chosen on other seeds than those of the claims:"
    return f"{said}\n\n| arm | chosen | tried | by |\n|---|---|---|---|\n{rows}\n"


def _by(choice: Mapping[str, Any]) -> str:
    """The score that chose, and where a page published earlier has the choice from."""
    return str(choice["by"]) + (f"; chosen at commit {choice['page']}" if choice.get("page") else "")


def choice_words(choice: Mapping[str, Any]) -> str:
    """The values of a choice, and whether they were really chosen."""
    said = ", ".join(f"{_last(path)} {_value(value)}" for path, value in choice["values"].items())
    if not choice["learned"]:
        return f"{said}, kept: none is above chance"
    return said if choice["inside"] else f"{said}, at the end of what was tried"


def _tried(tries: Sequence[Mapping[str, Any]]) -> str:
    """The range of each value that was varied, with the number of tries and of seeds."""
    paths = {path: [t["values"][path] for t in tries] for path in tries[0]["values"]}
    parts = []
    for path, values in paths.items():
        if all(isinstance(v, int | float) for v in values):
            parts.append(f"{_last(path)} {min(values):g} to {max(values):g}")
        else:
            parts.append(f"{len({json.dumps(v) for v in values})} values of {_last(path)}")
    most = max(t["num_seeds"] for t in tries)
    return f"{', '.join(parts)}; {len(tries)} tries, {most} seeds"


def _last(path: str) -> str:
    """A path without the part of the Run that holds it."""
    return path.partition(".")[2] or path


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else json.dumps(value)


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    """The primary claims in a table and the rest folded below; all in one table where none is primary.

    GitHub and MyST read the blank lines around the folded table as its frame: without them it would be plain text.
    """
    primary, others = split_primary(claims)
    if not primary or not others:
        return _claims_table(claims, with_kind=len({kind_of(c) for c in claims}) > 1)
    kinds = ", ".join(dict.fromkeys(kind_of(c) for c in others))
    summary = f"{len(others)} other claim{'s' if len(others) > 1 else ''} ({kinds}): {tally(others)}"
    return (
        f"{_claims_table(primary)}\n\n<details>\n<summary>{summary}</summary>\n\n"
        f"{_claims_table(others, with_kind=True)}\n\n</details>"
    )


def _claims_table(claims: Sequence[Mapping[str, Any]], with_kind: bool = False) -> str:
    columns = ["claim", "ours [95% interval]", "paper", *(["kind"] if with_kind else []), "verdict"]
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for c in claims:
        notes = [note for note in (endpoint(c), *beside(c)) if note]
        ours = "<br>".join([interval(c), *(f"<small>{note}</small>" for note in notes)])
        kind = [kind_of(c)] if with_kind else []
        cells = [as_cell(c["statement"]), ours, as_cell(c["paper"]), *kind, f"**{c['verdict']}**"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def scoreboard(reports: Sequence[Mapping[str, Any]]) -> "Table":
    """One row per claim over all stored studies, the primary claims of each first."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.ROUNDED)
    for name in ("study", "claim", "ours [95% interval]", "paper", "kind", "verdict"):
        table.add_column(name, overflow="fold")
    for report in reports:
        for c in primary_first(report["claims"]):
            table.add_row(
                escape(f"{report['study']} ({report['preset']})"),
                escape(c["id"]),
                interval(c),
                escape(c["paper"]),
                kind_of(c),
                f"[{_COLOURS[c['verdict']]}]{c['verdict']}[/]",
            )
    return table
