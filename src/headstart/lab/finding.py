"""The finding of a study: two sentences with slots, which its claims fill once they are computed.

A slot names a claim by its id. `{faster}` is the estimate with its interval. `{faster.estimate}`, `{faster.low}`,
`{faster.high}`, `{faster.verdict}` and `{faster.paper}` are its parts. `{faster.says}` is the verdict as a verb:
"holds", "does not hold", "is undecided" or "is absent". With it a sentence reads right whatever comes out. A brace that
is no slot is written twice.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from string import Formatter
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.lab.claims import Verdict
from headstart.lab.wording import SAYS, estimate, interval, number

_PARTS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "": interval,
    "estimate": estimate,
    "low": lambda claim: number(claim["low"]),
    "high": lambda claim: number(claim["high"]),
    "verdict": lambda claim: str(claim["verdict"]),
    "says": lambda claim: SAYS[Verdict(claim["verdict"])][0],
    "paper": lambda claim: str(claim["paper"]),
}


def _pieces(finding: str) -> list[tuple[str, str | None]]:
    """Pairs of a text and the slot behind it, None at the end."""
    try:
        parsed = list(Formatter().parse(finding))
    except ValueError as error:
        raise HeadstartError(f"the finding {finding!r}: {error}; write a brace that is no slot twice") from None
    for _, slot, spec, conversion in parsed:
        if slot is not None and (spec or conversion):
            raise HeadstartError(f"the finding's slot {{{slot}}} has a format; give the claim's id, or a part of it")
    return [(text, slot) for text, slot, _, _ in parsed]


def _claim_and_part(slot: str, ids: Collection[str]) -> tuple[str, str]:
    """The claim and the part of it that a slot names; ids may have dots."""
    if slot in ids:
        return slot, ""
    id, _, part = slot.rpartition(".")
    if id in ids and part in _PARTS:
        return id, part
    if id in ids:
        parts = ", ".join(name for name in _PARTS if name)
        raise HeadstartError(f"the finding's slot {{{slot}}}: a claim has no {part!r}; choose one of {parts}")
    raise HeadstartError(f"the finding's slot {{{slot}}} names no claim; there are {', '.join(ids) or 'none'}")


def check_finding(finding: str, ids: Collection[str]) -> None:
    """Raise unless every slot names a claim, and a part that claims have."""
    for _, slot in _pieces(finding):
        if slot is not None:
            _claim_and_part(slot, ids)


def fill_finding(finding: str, claims: Sequence[Mapping[str, Any]]) -> str:
    """The finding with its slots filled from the JSON of computed claims."""
    by_id = {claim["id"]: claim for claim in claims}

    def said(slot: str) -> str:
        id, part = _claim_and_part(slot, by_id)
        return _PARTS[part](by_id[id])

    return "".join(text + ("" if slot is None else said(slot)) for text, slot in _pieces(finding))
