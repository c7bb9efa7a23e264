"""Numbers of claims in prose: links whose text is the number, kept true to the reports they lead to.

    [0.81 [0.77, 0.85]](results/less_data/mini_and_full_batch_mlp.md "sgd_parity_steps: holds")

The title names the claim and how it came out. `headstart report` writes the number anew. The words around it are a
person's, so a verdict that changed is said, not written.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from re import Match
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.checkout import QUOTE
from headstart.lab.overview import write_text


@dataclass(frozen=True)
class Quote:
    """A number in a file: what it says, and what the report says, the verdict too."""

    place: str
    claim: str
    number: str
    reported: str
    verdict: str
    reported_verdict: str

    @property
    def turned(self) -> str:
        """What to say where the verdict is another one than the words around the number were written for."""
        if self.verdict == self.reported_verdict:
            return ""
        return f"{self.place}: {self.claim} was {self.verdict!r} and is {self.reported_verdict!r}: mend the sentence"


def short(value: float | None) -> str:
    """A number in two decimals, or two digits where it is small or large."""
    if value is None:
        return "∞"
    return f"{value:.2f}" if 0.095 <= abs(value) < 100 or value == 0 else f"{value:.2g}"


def quotes(path: Path) -> list[Quote]:
    """The numbers of claims in a Markdown file."""
    return [quote for _, quote in _found(path, path.read_text())]


def renew(path: Path) -> list[Quote]:
    """Write the numbers of claims in a Markdown file as their reports have them; returns them as they were."""
    text, found, out, end = path.read_text(), [], [], 0
    for match, quote in _found(path, text):
        found.append(quote)
        out += [text[end : match.start("number")], quote.reported]
        end = match.end("number")
    if any(quote.number != quote.reported for quote in found):
        write_text(path, "".join([*out, text[end:]]))
    return found


def _found(path: Path, text: str) -> Iterator[tuple[Match[str], Quote]]:
    for match in QUOTE.finditer(text):
        place = f"{path.name}:{text.count(chr(10), 0, match.start()) + 1}"
        report = (path.parent / f"{match['page']}.json").resolve()
        if not report.exists():
            raise HeadstartError(f"{place}: it quotes {match['claim']} of {match['page']}, which has no report")
        claims = _claims(report, report.stat().st_mtime_ns)
        if match["claim"] not in claims:
            there = ", ".join(claims)
            raise HeadstartError(f"{place}: {match['page']} has no claim {match['claim']!r}; it has {there}")
        claim = claims[match["claim"]]
        reported = "not reached" if claim["estimate"] is None else f"{claim['estimate']:.3g}"
        if "[" in match["number"]:
            number = short(claim["estimate"]) if claim["estimate"] is not None else reported
            reported = f"{number} [{short(claim['low'])}, {short(claim['high'])}]"
        yield match, Quote(place, match["claim"], match["number"], reported, match["verdict"], claim["verdict"])


@cache
def _claims(report: Path, written: int) -> Mapping[str, Any]:
    return {claim["id"]: claim for claim in json.loads(report.read_text())["claims"]}
