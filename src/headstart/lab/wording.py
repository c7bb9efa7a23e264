"""How the JSON of a claim is said to people: its interval, its endpoint, its verdict, and counts of many."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from headstart.lab.claims import Kind, Verdict

# A verdict as one claim has it, and as several have it.
SAYS = {
    Verdict.HOLDS: ("holds", "hold"),
    Verdict.ABSENT: ("is absent", "are absent"),
    Verdict.UNDECIDED: ("is undecided", "are undecided"),
    Verdict.DOES_NOT_HOLD: ("does not hold", "do not hold"),
}
_UNITS = {"steps": "steps", "samples": "samples", "flops": "FLOPs", "seconds": "seconds"}


def number(value: float | None) -> str:
    """A number in three digits; infinity where the runs do not bound it."""
    return "∞" if value is None else f"{value:.3g}"


def estimate(claim: Mapping[str, Any]) -> str:
    """The estimate, or the bound of it that is known."""
    sign = {"at most": "≤ ", "at least": "≥ "}.get(claim.get("known", ""), "")
    return "not reached" if claim["estimate"] is None else sign + number(claim["estimate"])


def interval(claim: Mapping[str, Any]) -> str:
    """The estimate, or the bound of it that is known, with its interval; infinity where the runs do not bound it."""
    return f"{estimate(claim)} [{number(claim['low'])}, {number(claim['high'])}]"


def endpoint(claim: Mapping[str, Any]) -> str:
    """Where the times of a claim end, and the least share of an arm's runs that arrive before; "" if it has neither.

    A share is rounded down, so that "all" means all.
    """
    horizon, arrivals = claim.get("horizon"), claim.get("arrivals")
    said = []
    if horizon is not None:
        most = f"{horizon:.0f}" if horizon < 1e6 else f"{horizon:.3g}"
        said.append(f"min(T, {most} {_UNITS[claim['axis']]})" if claim.get("axis") else f"min(T, {most})")
    if arrivals is not None:
        percent = f"at least {math.floor(100 * arrivals + 1e-9)}% arrive"
        said.append({0.0: "of an arm none arrive", 1.0: "all arrive"}.get(arrivals, percent))
    return ", ".join(said)


def beside(claim: Mapping[str, Any]) -> list[str]:
    """What other readings of the same comparison say, such as the median seed; they decide nothing."""
    return [f"{name} {interval(other)}" for name, other in claim.get("beside", {}).items()]


def few(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def kind_of(claim: Mapping[str, Any]) -> str:
    """What a claim is to its study; those of version 0.1 are secondary."""
    return str(claim.get("kind", Kind.SECONDARY))


def split_primary(claims: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The primary claims, and the others, each in the order of the study."""
    primary = [c for c in claims if kind_of(c) == Kind.PRIMARY]
    return primary, [c for c in claims if kind_of(c) != Kind.PRIMARY]


def primary_first(claims: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The claims, primary ones first."""
    return [c for part in split_primary(claims) for c in part]


def deciding(claims: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The claims by which a study is judged: the primary ones, or all if none is, as in version 0.1."""
    primary, others = split_primary(claims)
    return primary or others


def counts(claims: Sequence[Mapping[str, Any]]) -> dict[Verdict, int]:
    """How many claims came out how, for every verdict."""
    verdicts = [c["verdict"] for c in claims]
    return {verdict: verdicts.count(verdict) for verdict in SAYS}


def tally(claims: Sequence[Mapping[str, Any]]) -> str:
    """The same in words: 3 hold, 1 is undecided."""
    said = [f"{num} {SAYS[verdict][num != 1]}" for verdict, num in counts(claims).items() if num]
    return ", ".join(said) or "none"


def counted(claims: Sequence[Mapping[str, Any]]) -> str:
    """A line that counts primary claims, how many of them are decided, and the rest beside them."""
    primary, others = split_primary(claims)
    open_ = counts(primary)[Verdict.UNDECIDED]
    decided = f" ({len(primary) - open_} of {len(primary)} decided)" if open_ else ""
    return f"primary claims: {tally(primary)}{decided}; others: {tally(others)}"
