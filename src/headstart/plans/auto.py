"""Phases that end when the training set is learned: no schedule to choose."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.units import Batch, FullBatch
from headstart.plans.course import Course, Leg, Pool, batch_size, check_pool


@dataclass(frozen=True)
class AutoPhases:
    """Pools of geometric sizes; each gives way to the next once it is learned, or after `max_epochs` epochs.

        size_i = smallest (largest / smallest)^(i / (num_phases - 1)),  i = 0 .. num_phases - 1

    `fractions` gives (smallest, largest) as fractions of the online budget, batch x steps; `sizes` gives them in
    samples instead, and is what a full batch needs. A pool is learned when the leading metric of the training batches,
    each before its step, has a mean of at least `target` over an epoch (`Course`), or, with `falling`, of at most: for
    tasks whose leading metric falls as they are learned. The last phase has no exit.
    Reference: Less Data, Faster Training, Fig. 19.
    """

    num_phases: int = 6
    fractions: tuple[float, float] = (1 / 320, 1 / 50)
    target: float = 0.75
    max_epochs: float = 50.0
    sizes: tuple[int, int] | None = None
    nested: bool = True
    replacement: bool = True
    falling: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("AutoPhases", "num_phases", self.num_phases)
        check_positive("AutoPhases", "target", self.target)
        check_positive("AutoPhases", "max_epochs", self.max_epochs)
        for name in ("fractions", "sizes"):
            ends = getattr(self, name)
            if name == "sizes" and ends is None:
                continue
            if not isinstance(ends, Sequence) or len(ends) != 2:
                raise HeadstartError(f"AutoPhases({name}={ends!r}): give two numbers, the smallest and the largest")
            for end in ends:
                (check_positive if name == "fractions" else check_count)("AutoPhases", name, end)
            if ends[0] > ends[1] or (name == "fractions" and ends[1] > 1):
                limit = "" if name == "sizes" else ", and a fraction of the online budget is at most 1"
                raise HeadstartError(f"AutoPhases({name}={ends!r}): the smallest comes first{limit}")
            object.__setattr__(self, name, tuple(ends))

    def pool_sizes(self, batch: Batch | FullBatch, steps: int) -> tuple[int, ...]:
        """The sizes of all pools in a run of `steps` steps."""
        ends: tuple[float, float] | None = self.sizes
        if ends is None and isinstance(batch, FullBatch):
            raise HeadstartError(
                f"AutoPhases(fractions={self.fractions!r}): a fraction is of the online budget, batch x steps, "
                "which FullBatch() does not have; give sizes"
            )
        if ends is None:
            assert isinstance(batch, Batch)
            ends = self.fractions[0] * batch.size * steps, self.fractions[1] * batch.size * steps
        ratio = (ends[1] / ends[0]) ** (1 / max(1, self.num_phases - 1))
        return tuple(max(1, round(ends[0] * ratio**i)) for i in range(self.num_phases))

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """One leg per pool; all but the last have a target, and end after `max_epochs` at the latest."""
        legs: list[Leg] = []
        seen = 0
        for number, size in enumerate(self.pool_sizes(batch, steps), start=1):
            check_pool(f"AutoPhases, phase {number}", size, batch, self.replacement)
            pool = Pool(0 if self.nested else seen, size)
            seen += size
            longest = max(1, round(self.max_epochs * size / (batch_size(batch) or size)))
            last = number == self.num_phases
            target = None if last else self.target
            legs.append(Leg(pool, None if last else longest, self.replacement, target, self.falling))
        return Course(tuple(legs), batch_size(batch))
