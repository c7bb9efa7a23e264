"""What a browser may ask for: parameters of a request, checked, as small frozen values."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headstart.core.errors import HeadstartError
from headstart.core.trace import AXES

_CELL = re.compile(r"[0-9a-f]{8,64}")
_SEEDS = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_NAME = re.compile(r"[\w./:+-]{1,200}")
_MOST_SERIES, _MOST_PARTS, _MOST_PIXELS = 64, 4000, 4000


class BadRequest(HeadstartError):
    """A parameter that says nothing the page could show."""


class Part(NamedTuple):
    """The runs of one cell: those with seeds `first` to `last`, or all."""

    cell: str
    first: int | None = None
    last: int | None = None


# Runs that make one line: mean and band are over all of them.
Series = tuple[Part, ...]


@dataclass(frozen=True)
class Look:
    """How curves are looked at: which metric, on which axis, between which ends, on how many pixels."""

    metric: str
    axis: str = "steps"
    width: int = 600
    log: bool = False
    low: float = -math.inf
    high: float = math.inf


def parse_name(what: str, text: str | None) -> str:
    """A name of a study, an arm or a metric."""
    if text is None or not _NAME.fullmatch(text) or ".." in text:
        raise BadRequest(f"{what}={_said(text)}: give a name of letters, digits and ./:+-_")
    return text


def parse_series(text: str | None) -> list[Series]:
    """`cell`, `cell:seed` or `cell:first-last`; parts of one line joined by "," and lines by ";"."""
    lines = (text or "").split(";")
    if not text or len(lines) > _MOST_SERIES or text.count(",") > _MOST_PARTS:
        raise BadRequest(f"series={_said(text)}: give 1 to {_MOST_SERIES} lines, such as cell:0-15;cell:0-15")
    return [tuple(_part(part) for part in line.split(",")) for line in lines]


def _part(text: str) -> Part:
    cell, colon, seeds = text.partition(":")
    found = _SEEDS.fullmatch(seeds)
    if not _CELL.fullmatch(cell) or (colon and not found):
        raise BadRequest(f"series={_said(text)}: write cell, cell:seed or cell:first-last, the cell in hexadecimal")
    if not found:
        return Part(cell)
    first = int(found[1])
    return Part(cell, first, int(found[2]) if found[2] else first)


def parse_look(asked: Mapping[str, str]) -> Look:
    """How to look at curves."""
    axis = asked.get("axis", "steps")
    if axis not in AXES:
        raise BadRequest(f"axis={_said(axis)}: choose {', '.join(AXES)}")
    width = asked.get("width", "600")
    if not width.isdecimal() or not 16 <= int(width[:9]) <= _MOST_PIXELS:
        raise BadRequest(f"width={_said(width)}: give 16 to {_MOST_PIXELS} pixels")
    ends = [_number(name, asked.get(name), other) for name, other in (("from", -math.inf), ("to", math.inf))]
    return Look(parse_name("metric", asked.get("metric")), axis, int(width), asked.get("log") == "1", *ends)


def _number(name: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRequest(f"{name}={_said(text)}: give a number")
    return value


def _said(text: str | None) -> str:
    """What was asked, cut short; None is nothing."""
    return "" if text is None else repr(text if len(text) <= 80 else f"{text[:80]}...")
