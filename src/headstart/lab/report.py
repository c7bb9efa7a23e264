"""Results for people: the claims table, the pages of docs/results, the table in the README. Never typed by hand."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.faults import one_line
from headstart.core.files import inside, replacing
from headstart.lab.claims import Kind, Verdict
from headstart.lab.figures import save_figure
from headstart.lab.results import Results
from headstart.lab.study import Study

if TYPE_CHECKING:
    from rich.table import Table

BEGIN, END = "<!-- results: begin (headstart report writes this table) -->", "<!-- results: end -->"
SPEED_BEGIN, SPEED_END = "<!-- speed: begin (headstart report writes this table) -->", "<!-- speed: end -->"
# The studies whose pages were written under the rules of an earlier version. It only shrinks.
STALE = "stale.txt"
_COLOURS = {"holds": "green", "does not hold": "red", "undecided": "yellow", "absent": "cyan"}
_ORDER = (Verdict.HOLDS, Verdict.ABSENT, Verdict.UNDECIDED, Verdict.DOES_NOT_HOLD)


def interval(claim: Mapping[str, Any]) -> str:
    """The estimate, or the bound of it that is known, with its interval; infinity where the runs do not bound it."""

    def number(value: float | None) -> str:
        return "∞" if value is None else f"{value:.3g}"

    sign = {"at most": "≤ ", "at least": "≥ "}.get(claim.get("known", ""), "")
    estimate = "not reached" if claim["estimate"] is None else sign + number(claim["estimate"])
    return f"{estimate} [{number(claim['low'])}, {number(claim['high'])}]"


def kind_of(claim: Mapping[str, Any]) -> str:
    """What a claim is to its study; those of version 0.1 are secondary."""
    return str(claim.get("kind", Kind.SECONDARY))


def counts(claims: Sequence[Mapping[str, Any]], primary: bool) -> dict[Verdict, int]:
    """How many of the primary claims, or of the others, came out how."""
    chosen = [c["verdict"] for c in claims if (kind_of(c) == Kind.PRIMARY) == primary]
    return {verdict: chosen.count(verdict) for verdict in _ORDER}


def counted(claims: Sequence[Mapping[str, Any]]) -> str:
    """The same in a line: of primaries, and of the rest beside them."""

    def said(primary: bool) -> str:
        found = counts(claims, primary)
        return ", ".join(f"{num} {verdict}" for verdict, num in found.items() if num) or "none"

    return f"primary claims: {said(True)}; others: {said(False)}"


def seeds_of(report: Mapping[str, Any]) -> str:
    """How many seeds the claims use; cheap arms may have a multiple."""
    most = max(report["seeds_factor"].values(), default=1)
    return f"{report['seeds']} seeds" + (f" (cheap arms up to {most * report['seeds']})" if most > 1 else "")


def claims_table(report: Mapping[str, Any]) -> "Table":
    """The claims of a report as a rich table."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        title=escape(one_line(f"{report['study']} · {report['preset']} · {seeds_of(report)}")),
        box=box.ROUNDED,
        show_lines=True,
    )
    for name, ratio in (("claim", 5), ("ours [95% interval]", 3), ("paper", 4), ("kind", 2), ("verdict", 2)):
        table.add_column(name, ratio=ratio, overflow="fold")
    for claim in report["claims"]:
        verdict = claim["verdict"]
        said = (escape(claim[part]) for part in ("statement", "paper"))  # E[x] is no markup
        table.add_row(next(said), interval(claim), next(said), kind_of(claim), f"[{_COLOURS[verdict]}]{verdict}[/]")
    return table


def write_report(study: Study, results: Results, report: Mapping[str, Any], root: Path) -> list[Path]:
    """Write <root>/<study>.png, .md and .json; returns the three paths."""
    png, page, data = (inside(root, study.name, end) for end in (".png", ".md", ".json"))
    picture = save_figure(study.figure(results), png)
    _write(data, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    _write(page, _page(study, report, picture.name))
    _freshen(study.name, root / STALE)
    return [picture, page, data]


def _freshen(study: str, path: Path) -> None:
    """Take a study off the list of results whose rules are of an earlier version."""
    if path.exists() and study in (listed := path.read_text().split()):
        _write(path, "".join(f"{name}\n" for name in listed if name != study))


def _kept(tuned: Mapping[str, Any]) -> str:
    return "" if tuned.get("learned", True) else ", kept: none is above chance"


def _beta2(tuned: Mapping[str, Any]) -> str:
    return f", beta2 {tuned['beta2']:g}" if "beta2" in tuned else ""


def _settings(study: Study, report: Mapping[str, Any]) -> str:
    """The --set options that make the preset what was run."""
    preset = json.loads(json.dumps(asdict(study.presets[report["preset"]])))
    used = json.loads(report["knobs"])
    return "".join(f" --set '{name}={json.dumps(v)}'" for name, v in used.items() if preset.get(name) != v)


def _page(study: Study, report: Mapping[str, Any], picture: str) -> str:
    rates = "".join(
        f"| {name} | {tuned['rate']:g}{_beta2(tuned)}{_kept(tuned)} "
        f"| {min(tuned['rates']):g} to {max(tuned['rates']):g} ({tuned.get('num_tried', len(tuned['rates']))}) |\n"
        for name, tuned in report["learning_rates"].items()
    )
    if rates:
        said = "Learning rates, chosen on other seeds by the area under the mean test curve:"
        rates = f"{said}\n\n| arm | rate | tried |\n|---|---|---|\n{rates}\n"
    claims = "\n".join(
        f"| {_cell(c['statement'])} | {interval(c)} | {_cell(c['paper'])} | **{c['verdict']}** |"
        for c in report["claims"]
    )
    command = f"headstart run {study.command} --preset {report['preset']}{_settings(study, report)}"
    return (
        f"# {study.title}\n\n{report['paper']}, {report['figures']}. `{command}`, {seeds_of(report)}, "
        f"{report['minutes']:.1f} minutes on {report['machine']}, commit {report['commit']}.\n\n"
        f"![{study.title}]({picture})\n\n"
        f"| claim | ours [95% interval] | paper | verdict |\n|---|---|---|---|\n{claims}\n\n"
        f"{rates}```text\n{study.doc.strip()}\n```\n"
    )


def _cell(text: str) -> str:
    """Text in a Markdown table, where |a| would end a cell."""
    return text.replace("|", "\\|")


def studies_table(root: Path) -> str:
    """A row per study of those reported in <root>/**/*.json, with how its claims came out, for the README.

    Primary claims have columns; the others stand beside them as hold / absent / undecided / do not hold.
    """
    rows = [
        "| study | of | hold | absent | undecided | do not hold | other claims | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every: list[Mapping[str, Any]] = []
    for path in sorted(root.glob("*/*.json")):
        report = json.loads(path.read_text())
        every += report["claims"]
        link = f"[{report['study']}]({root.name if root.is_absolute() else root}/{report['study']}.md)"
        said = _counts_row(report["claims"])
        rows.append(f"| {link}, {report['preset']} | {report['figures']} | {said} | {report['minutes']:.1f} |")
    return "\n".join([*rows, f"| all | | {_counts_row(every)} | |"])


def _counts_row(claims: Sequence[Mapping[str, Any]]) -> str:
    primary = " | ".join(str(num) for num in counts(claims, True).values())
    return f"{primary} | {' / '.join(str(num) for num in counts(claims, False).values())}"


def results_table(root: Path) -> str:
    """The table of every claim in <root>/**/*.json, for the documentation."""
    rows = ["| claim | study | paper | ours [95% interval] | verdict |", "|---|---|---|---|---|"]
    for path in sorted(root.glob("*/*.json")):
        report = json.loads(path.read_text())
        link = f"[{report['study']}]({root.name if root.is_absolute() else root}/{report['study']}.md)"
        where = f"{link}, {report['preset']}, {report['minutes']:.1f} min"
        for c in report["claims"]:
            said, paper = _cell(c["statement"]), _cell(c["paper"])
            rows.append(f"| {said} | {where} | {paper} | {interval(c)} | **{c['verdict']}** |")
    return "\n".join(rows)


def speed_table(root: Path) -> str:
    """The rows of <root>/benchmark.json in short, for the README: our rate beside PyTorch's loop and the best peer."""
    path = root / "benchmark.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    head = ("workload", "engine", "model-steps a second", "over a PyTorch loop", "over the best other peer")
    out = [f"| {' | '.join(head)} |", "|---|---|---|---|---|"]
    for name in dict.fromkeys((row["workload"], row["variant"]) for row in rows):
        peers = {row["peer"]: row for row in rows if (row["workload"], row["variant"]) == name}
        first, loop = next(iter(peers.values())), peers.get("loop")
        best = min((row for peer, row in peers.items() if peer != "loop"), key=lambda row: row["ratio"])
        loops = f"{loop['ratio']:.1f}" if loop else ""
        out.append(
            f"| {f'{name[0]} {name[1]}'.strip()} | {first['engine']} | {first['steps_per_second']:,.0f} | {loops} "
            f"| {best['ratio']:.1f} ({best['peer']}) |"
        )
    return "\n".join(out)


def update_readme(readme: Path, root: Path) -> bool:
    """Put the tables between the README's marks; False if it has none."""
    try:
        text = old = readme.read_text() if readme.exists() else ""
    except (OSError, ValueError) as error:
        raise HeadstartError(f"--readme {readme}: cannot be read: {error}; name a text file") from None
    for begin, end, table in ((BEGIN, END, studies_table(root)), (SPEED_BEGIN, SPEED_END, speed_table(root))):
        if begin in text and end in text:
            before, rest = text.split(begin, 1)
            text = f"{before}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}"
    if BEGIN in old or SPEED_BEGIN in old:
        _write(readme, text)
    return BEGIN in old or SPEED_BEGIN in old


def scoreboard(reports: Sequence[Mapping[str, Any]]) -> "Table":
    """One row per claim over all stored studies."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.ROUNDED)
    for name in ("study", "claim", "ours [95% interval]", "paper", "verdict"):
        table.add_column(name, overflow="fold")
    for report in reports:
        for c in report["claims"]:
            table.add_row(
                escape(f"{report['study']} ({report['preset']})"),
                escape(c["id"]),
                interval(c),
                escape(c["paper"]),
                f"[{_COLOURS[c['verdict']]}]{c['verdict']}[/]",
            )
    return table


def _write(path: Path, text: str) -> None:
    try:
        with replacing(path) as temporary:
            temporary.write_text(text)
    except OSError as error:
        raise HeadstartError(f"{path} cannot be written: {error}; name another folder with --out") from None
