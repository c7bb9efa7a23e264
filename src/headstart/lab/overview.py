"""What all reported studies say together: the tables of the README and of the documentation. Never typed by hand."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.files import replacing
from headstart.lab.wording import counts, interval, kind_of, primary_first, split_primary

BEGIN, END = "<!-- results: begin (headstart report writes this table) -->", "<!-- results: end -->"
SPEED_BEGIN, SPEED_END = "<!-- speed: begin (headstart report writes this table) -->", "<!-- speed: end -->"


def studies_table(root: Path) -> str:
    """A row per study of those reported in <root>/**/*.json, with how its claims came out, for the README.

    Primary claims have columns; the others stand beside them as hold / absent / undecided / do not hold.
    """
    rows = [
        "| study | of | hold | absent | undecided | do not hold | other claims | minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    every: list[Mapping[str, Any]] = []
    for report, link in _reports(root):
        every += report["claims"]
        said = _counts_row(report["claims"])
        rows.append(f"| {link}, {_preset(report)} | {report['figures']} | {said} | {report['minutes']:.1f} |")
    return "\n".join([*rows, f"| all | | {_counts_row(every)} | |"])


def _counts_row(claims: Sequence[Mapping[str, Any]]) -> str:
    primary, others = ([str(num) for num in counts(part).values()] for part in split_primary(claims))
    return f"{' | '.join(primary)} | {' / '.join(others)}"


def results_table(root: Path) -> str:
    """What was found and the table of every claim in <root>/**/*.json, primary ones first, for the documentation."""
    findings = []
    rows = ["| claim | study | paper | ours [95% interval] | kind | verdict |", "|---|---|---|---|---|---|"]
    for report, link in _reports(root):
        if report.get("finding"):
            findings.append(f"- {link}: {report['finding']}")
        where = f"{link}, {_preset(report)}, {report['minutes']:.1f} min"
        for c in primary_first(report["claims"]):
            said, paper = as_cell(c["statement"]), as_cell(c["paper"])
            rows.append(f"| {said} | {where} | {paper} | {interval(c)} | {kind_of(c)} | **{c['verdict']}** |")
    return "\n".join([*findings, *([""] if findings else []), *rows])


def _reports(root: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Every report in <root>/**/*.json with a link to its page."""
    for path in sorted(root.glob("*/*.json")):
        report = json.loads(path.read_text())
        page = path.with_suffix(".md").relative_to(root.parent if root.is_absolute() else "")
        yield report, f"[{report['study']}]({page.as_posix()})"


def _preset(report: Mapping[str, Any]) -> str:
    return str(report["preset"]) + (", draft" if report.get("draft") else "")


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


def has_marks(readme: Path) -> bool:
    """Whether a README has places for the tables."""
    try:
        text = readme.read_text() if readme.exists() else ""
    except (OSError, ValueError) as error:
        raise HeadstartError(f"--readme {readme}: cannot be read: {error}; name a text file") from None
    return BEGIN in text or SPEED_BEGIN in text


def update_readme(readme: Path, root: Path) -> bool:
    """Put the tables between the README's marks; False if it has none."""
    if not has_marks(readme):
        return False
    text = readme.read_text()
    for begin, end, table in ((BEGIN, END, studies_table(root)), (SPEED_BEGIN, SPEED_END, speed_table(root))):
        if begin in text and end in text:
            before, rest = text.split(begin, 1)
            text = f"{before}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}"
    write_text(readme, text)
    return True


def as_cell(text: str) -> str:
    """Text in a Markdown table, where |a| would end a cell."""
    return text.replace("|", "\\|")


def write_text(path: Path, text: str) -> None:
    """Write a file: temporary file, then rename."""
    try:
        with replacing(path) as temporary:
            temporary.write_text(text)
    except OSError as error:
        raise HeadstartError(f"{path} cannot be written: {error}; name another folder with --out") from None
