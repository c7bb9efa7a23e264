"""Reports as a stranger may have written them: checked, and without characters that would steer a terminal."""

import json
from pathlib import Path
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.faults import one_line
from headstart.lab.claims import Verdict
from headstart.lab.store import Store

_TEXTS = ("id", "statement", "paper", "verdict")
_NUMBERS = ("estimate", "low", "high")


def readable_reports(store: Store) -> dict[str, dict[str, Any]]:
    """The newest report of every study by its name; one that cannot be shown is refused with what is wrong in it."""
    out = {}
    for study, report in store.studies.reports().items():
        wrong = fault_of(report)
        if wrong:
            raise HeadstartError(
                f"the report of {study} in store {store.path} cannot be shown: {wrong}; run the study again"
            )
        out[one_line(study)] = plain(report)
    return out


def published_reports(folder: Path, pages: str = "*/*.json", option: str = "--results") -> list[dict[str, Any]]:
    """Every report in <folder>/<paper>/*.json, as `headstart report` writes them, by their names."""
    out = []
    for path in sorted(folder.glob(pages)):
        try:
            report = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise HeadstartError(f"{path}: cannot be read: {error}; write it again: headstart report") from None
        wrong = fault_of(report) if isinstance(report, dict) else "it is no report"
        if wrong:
            raise HeadstartError(f"{path} cannot be shown: {wrong}; write it again: headstart report")
        out.append(plain(report))
    if not out:
        raise HeadstartError(f"{option} {folder}: no report is in it; name a folder that `headstart report` filled")
    return out


def fault_of(report: dict[str, Any]) -> str | None:
    """What of a report is not as `headstart run` writes it; None if all is."""
    for name in ("study", "preset"):
        if not isinstance(report.get(name), str):
            return f"it has no {name}"
    claims = report.get("claims")
    if not isinstance(claims, list):
        return "it has no claims"
    for claim in claims:
        if not isinstance(claim, dict) or not all(isinstance(claim.get(name), str) for name in _TEXTS):
            return f"a claim lacks one of {', '.join(_TEXTS)}"
        if claim["verdict"] not in list(Verdict):
            return f"claim {claim['id']!r} has the verdict {claim['verdict']!r}; there are {', '.join(Verdict)}"
        for name in _NUMBERS:
            if not isinstance(claim.get(name), int | float | None) or isinstance(claim.get(name), bool):
                return f"the {name} of claim {claim['id']!r} is {claim.get(name)!r}, no number"
    return None


def plain(data: Any) -> Any:
    """Data with its text made safe to print."""
    if isinstance(data, dict):
        return {one_line(str(name)): plain(value) for name, value in data.items()}
    if isinstance(data, list):
        return [plain(value) for value in data]
    return one_line(data) if isinstance(data, str) else data
