"""The axes of a sweep: a path into a Run, and the values to try there."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError, check_positive
from headstart.run import Run

RATE = "optimizer.lr"


@dataclass(frozen=True)
class Axis:
    """One setting that a sweep varies: `path` is the field names that lead to it from the Run.

    A method is addressed by its class: "methods.LayerScale.init". The values are `values`, or run from `lowest` to at
    least `highest`, each `ratio` times the one below. Such a grid of learning rates extends itself; others do not.
    """

    path: str
    lowest: float | None = None
    highest: float | None = None
    ratio: float = 1.2
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        said = f"Axis({self.path!r})"
        if not isinstance(self.path, str):
            raise HeadstartError(f"{said}: a path is text, such as '{RATE}'")
        if isinstance(self.values, str) or not isinstance(self.values, Sequence):
            raise HeadstartError(f"{said}: values={self.values!r} must be a tuple of the values to try")
        object.__setattr__(self, "values", tuple(self.values))
        if (self.lowest is None) == (not self.values):
            raise HeadstartError(f"{said}: give lowest and highest, or values=(...), one of the two")
        if self.lowest is None:
            if self.highest is not None:
                raise HeadstartError(f"{said}: highest={self.highest} goes with lowest, not with values")
            return
        check_positive("Axis", "lowest", self.lowest)
        check_positive("Axis", "highest", self.highest)
        check_positive("Axis", "ratio", self.ratio)
        assert self.highest is not None
        if not self.lowest <= self.highest:
            raise HeadstartError(f"{said}: lowest={self.lowest} is above highest={self.highest}")
        if not 1 < self.ratio <= 10:
            raise HeadstartError(f"{said}: ratio={self.ratio}: neighbouring values differ by a factor in (1, 10]")

    @property
    def extends(self) -> bool:
        """Whether its grid goes on beyond its ends: that of learning rates does."""
        return self.path == RATE and self.lowest is not None

    def value(self, index: int) -> Any:
        """The value number `index`; of a grid it may lie outside, with four digits, so that equal ones are one cell."""
        if self.lowest is None:
            return self.values[index]
        return float(f"{self.lowest * self.ratio**index:.4g}")

    @property
    def indices(self) -> range:
        """The numbers of its values before any extension: the last of a grid is at least `highest`."""
        if self.lowest is None or self.highest is None:
            return range(len(self.values))
        return range(int(np.ceil(np.log(self.highest / self.lowest) / np.log(self.ratio) - 1e-9)) + 1)


def with_values(run: Run, values: Mapping[str, Any]) -> Run:
    """The run with other values at these paths."""
    for path, value in values.items():
        run = _replaced(run, path.split("."), value, path)
    return run


def _replaced(part: Any, names: Sequence[str], value: Any, path: str) -> Any:
    """A part with another value at the end of a path."""
    name, *rest = names
    if isinstance(part, tuple):
        numbers = [i for i, each in enumerate(part) if type(each).__name__ == name]
        if len(numbers) != 1 or not rest:
            there = ", ".join(type(each).__name__ for each in part) or "none"
            fix = "name a field of it" if numbers and not rest else f"there must be one {name}, and there are: {there}"
            raise HeadstartError(f"Axis({path!r}): a method is addressed by its class; {fix}")
        (number,) = numbers
        return (*part[:number], _replaced(part[number], rest, value, path), *part[number + 1 :])
    known = [f.name for f in fields(part)] if is_dataclass(part) else []
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(known) or 'no fields'}"
        raise HeadstartError(f"Axis({path!r}): {type(part).__name__} has no field {name!r}{meant}")
    return replace(part, **{name: _replaced(getattr(part, name), rest, value, path) if rest else value})
