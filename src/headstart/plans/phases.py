"""Multi-phase training: pools that change, usually grow, as training goes on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.units import Batch, FullBatch
from headstart.plans.course import Course, Leg, Pool, batch_size, check_pool


@dataclass(frozen=True)
class Phase:
    """One phase: how much data, and how long.

    The data is `size` samples, or `fraction` of the online budget (batch size x steps of the whole run) or, in a
    `PhaseSchedule`, of the data set, or, with neither, everything: fresh samples, the exact population under
    `FullBatch()`, the whole data set of a `PhaseSchedule`. The length is `steps`, or `epochs` over the pool, or, with
    neither, the rest of the run.
    """

    size: int | None = None
    fraction: float | None = None
    steps: int | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        for one, other in (("size", "fraction"), ("steps", "epochs")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise HeadstartError(
                    f"Phase({one}={getattr(self, one)!r}, {other}={getattr(self, other)!r}): give one of the two"
                )
        if self.size is not None:
            check_count("Phase", "size", self.size)
        if self.steps is not None:
            check_count("Phase", "steps", self.steps)
        if self.fraction is not None:
            check_positive("Phase", "fraction", self.fraction)
            if self.fraction > 1:
                raise HeadstartError(
                    f"Phase(fraction={self.fraction!r}): a fraction is at most 1; give a number of samples as size"
                )
        if self.epochs is not None:
            check_positive("Phase", "epochs", self.epochs)
        if self.epochs is not None and self.size is None and self.fraction is None:
            raise HeadstartError(
                f"Phase(epochs={self.epochs!r}): fresh samples have no epochs; give steps, or in a PhaseSchedule "
                "fraction=1, the whole data set"
            )

    def pool_size(self, batch: Batch | FullBatch, steps: int | None, rows: int | None = None) -> int | None:
        """The number of samples in a run of `steps` steps, on a data set of `rows` if there is one; None is everything.

        With a data set nothing is without end: everything is `rows`.
        """
        if self.fraction is None:
            return rows if self.size is None else self.size
        if rows is not None:
            return max(1, round(self.fraction * rows))
        if isinstance(batch, FullBatch):
            raise HeadstartError(
                f"Phase(fraction={self.fraction!r}): a fraction is of the online budget, batch x steps, "
                "which FullBatch() does not have; give size"
            )
        assert steps is not None, "a run has a budget"
        return max(1, round(self.fraction * batch.size * steps))

    def length(self, batch: Batch | FullBatch, steps: int | None, rows: int | None = None) -> float | None:
        """The length in steps, not rounded; None is the rest of the run."""
        if self.epochs is None or isinstance(batch, FullBatch):
            return self.steps if self.epochs is None else self.epochs
        if self.size is not None:
            return self.epochs * self.size / batch.size
        # Of the fraction itself, not of the pool it rounds to, so that schedules that sum to one fill the budget.
        share = (self.fraction or 0.0) * self.epochs
        return share * rows / batch.size if rows is not None else share * (steps or 0)


@dataclass(frozen=True)
class Phases:
    """Phases one after another. The last goes on until the budget ends.

    Nested subsets (the default) are prefixes of one another; independent ones share no sample. A phase on everything
    draws samples that no earlier phase has seen.
    """

    phases: tuple[Phase, ...]
    nested: bool = True
    replacement: bool = True

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", tuple(self.phases) if isinstance(self.phases, Sequence) else ())
        if not self.phases or not all(isinstance(phase, Phase) for phase in self.phases):
            raise HeadstartError("Phases(phases=...): give a sequence of at least one Phase")
        for phase in self.phases[:-1]:
            if phase.steps is None and phase.epochs is None:
                raise HeadstartError(f"{phase}: only the last phase may leave its length open; give steps or epochs")

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """One leg a phase. Boundaries are rounded to whole steps from exact running sums."""
        return Course(self.legs([batch] * len(self.phases), steps), batch_size(batch))

    def legs(self, batches: Sequence[Batch | FullBatch], steps: int | None, rows: int | None = None) -> tuple[Leg, ...]:
        """The legs of a run of `steps` steps (None: as long as they take) with a batch for each phase.

        With `rows`, fractions are of a data set of so many samples and everything is all of it.
        """
        legs: list[Leg] = []
        exact, begun, seen = 0.0, 0, 0
        for number, (phase, batch) in enumerate(zip(self.phases, batches, strict=True), start=1):
            size = phase.pool_size(batch, steps, rows)
            length = phase.length(batch, steps, rows)
            exact += length or 0.0
            end = max(begun + 1, round(exact)) if length is not None else steps if steps is not None else begun + 1
            if steps is not None and (end > steps or begun >= steps):
                raise HeadstartError(
                    f"Phases: phase {number} of {len(self.phases)} ends at step {max(end, begun + 1)}, beyond the "
                    f"budget of {steps} steps; shorten it or allow more steps"
                )
            if size is None:
                pool = Pool(seen)
                seen += (end - begun) * (batch_size(batch) or 0)
            else:
                check_pool(f"Phases, phase {number}", size, batch, self.replacement)
                pool = Pool(0 if self.nested or size == rows else seen, size)
                seen = max(seen, pool.first + size) if size != rows else seen
            if rows is not None and pool.size is not None and pool.first + pool.size > rows:
                apart = "" if self.nested else f" after {pool.first} that earlier phases hold"
                raise HeadstartError(
                    f"PhaseSchedule: phase {number} needs {pool.size} samples{apart}, the data set has {rows}; "
                    f"give size={rows - pool.first} at most, or a fraction"
                )
            legs.append(Leg(pool, None if length is None else end - begun, self.replacement))
            begun = end
        return tuple(legs)
