"""Sweeps: the settings of an arm, chosen by a stated score on seeds that no claim uses."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

from headstart.core.encoding import canonical, encode
from headstart.core.errors import HeadstartError, check_count
from headstart.lab.axes import RATE, Axis, with_values
from headstart.lab.scores import Area, Score, Scored
from headstart.run import Run


@dataclass(frozen=True)
class Sweep:
    """What is tried of an arm, and by which score one is chosen: every combination of the values of its axes.

    The best score wins, the lower rate on an exact tie. A grid of learning rates is extended until its best rate has a
    neighbour on both sides, and until `tries` rates were tried for each combination of the others, so that all arms of
    a comparison have the same number. One that diverges is extended to lower rates, one that learns nothing on both
    sides; if no rate learns anything, the middle of the first grid is kept.

    `rungs` makes it successive halving: all candidates on the first so many selection seeds, the better half of them
    on the next so many, and so on, at the full budget always, so that every run is a cell that others may reuse. A best
    rate at the end of those tried has its neighbours tried on all seeds. Without rungs every candidate has all
    selection seeds of the study.
    """

    axes: tuple[Axis, ...]
    score: Score = Area()
    tries: int = 8
    rungs: tuple[int, ...] = ()

    semantics: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if isinstance(self.axes, Axis):
            object.__setattr__(self, "axes", (self.axes,))
        if not isinstance(self.axes, Sequence) or not self.axes or not all(isinstance(a, Axis) for a in self.axes):
            raise HeadstartError(f"Sweep(axes={self.axes!r}): give a tuple, such as (Axis('{RATE}', 1e-3, 3e-3),)")
        object.__setattr__(self, "axes", tuple(self.axes))
        paths = [axis.path for axis in self.axes]
        if len(set(paths)) < len(paths):
            raise HeadstartError(f"Sweep(axes={', '.join(paths)}): each path may appear once")
        check_count("Sweep", "tries", self.tries)
        rungs = tuple(self.rungs) if isinstance(self.rungs, Sequence) else (None,)
        if any(type(n) is not int or n < 1 for n in rungs) or list(rungs) != sorted(set(rungs)):
            raise HeadstartError(f"Sweep(rungs={self.rungs!r}): numbers of seeds that grow, such as (2, 4, 8, 16)")
        object.__setattr__(self, "rungs", rungs)

    @property
    def num_combinations(self) -> int:
        """How many combinations of values there are, each with a grid of learning rates if there is one."""
        return len(list(product(*(axis.indices for axis in self.axes if not axis.extends))))

    def check(self, run: Run) -> None:
        """Raise where a path leads nowhere, a value does not fit, or the score cannot be read."""
        for axis in self.axes:
            for index in axis.indices:
                with_values(run, {axis.path: axis.value(index)})
        self.score.check(run)

    def base(self, run: Run) -> Run:
        """The run with the first value of every axis: the same for arms that are tuned alike."""
        return with_values(run, {axis.path: axis.value(0) for axis in self.axes})


def rates(lowest: float, highest: float, ratio: float = 1.2, beta2: Sequence[float] = (), **options: Any) -> Sweep:
    """A sweep of learning rates from `lowest` to `highest`, jointly with AdamW's second beta if values are given."""
    second = (Axis("optimizer.beta2", values=tuple(beta2)),) if beta2 else ()
    return Sweep((Axis(RATE, lowest, highest, ratio), *second), **options)


@dataclass(frozen=True)
class RateOf:
    """The learning rate, and all else, that the sweep of another arm of the study chose."""

    arm: str


@dataclass(frozen=True)
class Tuned:
    """The outcome of a sweep: the values chosen, and everything tried with what it scored.

    `by` says in words what chose. `learned` is False where nothing tried is better than chance, so that the values were
    kept and not chosen; `inside` is False where the best rate is at an end of the rates tried. An arm that is not swept
    has the rate it has, or the values of another arm, and no tries. `page` is the commit at which they were
    chosen, where a study took its settings from a published page.
    """

    values: Mapping[str, Any]
    tries: tuple[tuple[Mapping[str, Any], Scored], ...] = ()
    by: str = ""
    learned: bool = True
    inside: bool = True
    page: str = ""

    @property
    def rate(self) -> float:
        """The learning rate."""
        return float(self.values[RATE])

    @property
    def areas(self) -> tuple[float, ...]:
        """The area under the mean test curve of everything tried."""
        return tuple(scored.area for _, scored in self.tries)

    @property
    def num_tries(self) -> int:
        """The most rates that were tried for a combination of other values."""
        others = [canonical(encode({p: v for p, v in values.items() if p != RATE})) for values, _ in self.tries]
        return max(Counter(others).values(), default=0)

    def lent(self) -> "Tuned":
        """The outcome for an arm that takes these values without a sweep of its own."""
        return replace(self, tries=())

    def to_json(self) -> dict[str, Any]:
        """values, by, learned, inside, page; tries, each with its values, score, area, arrivals and number of seeds."""
        return {
            "values": encode(self.values),
            "by": self.by,
            "learned": self.learned,
            "inside": self.inside,
            **({"page": self.page} if self.page else {}),
            "tries": [{"values": encode(values), **_scored(scored)} for values, scored in self.tries],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], sweep: Sweep) -> "Tuned":
        """The inverse of `to_json`: values other than numbers and words are those of the sweep's axes."""
        known = {(axis.path, canonical(encode(value))): value for axis in sweep.axes for value in axis.values}

        def values(encoded: Mapping[str, Any]) -> dict[str, Any]:
            return {path: known.get((path, canonical(value)), value) for path, value in encoded.items()}

        tries = tuple(
            (values(t["values"]), Scored(_number(t["score"]), t["area"], t["diverged"], t["arrivals"], t["num_seeds"]))
            for t in data["tries"]
        )
        return cls(values(data["values"]), tries, data["by"], data["learned"], data["inside"], data.get("page", ""))


def _scored(scored: Scored) -> dict[str, Any]:
    finite = abs(scored.score) < float("inf")
    return {
        "score": scored.score if finite else None,
        "area": scored.area,
        "diverged": scored.diverged,
        "arrivals": scored.arrivals,
        "num_seeds": scored.num_seeds,
    }


def _number(score: float | None) -> float:
    return float("inf") if score is None else score
