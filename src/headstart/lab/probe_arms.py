"""The arms of a probe: schedules of equal compute, each of which ends on all rows."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.plans import Phase, PhaseSchedule

FULL = "full data"


@dataclass(frozen=True)
class ProbeArm:
    """A way to spend the same number of steps: a schedule, and the line of code that makes it."""

    name: str
    schedule: PhaseSchedule
    code: str


def full_arm(steps: int, name: str = FULL) -> ProbeArm:
    """So many steps on all rows."""
    return ProbeArm(name, PhaseSchedule([], everything=steps), f"hs.PhaseSchedule([], everything={steps})")


def probe_arms(num_rows: int, batch_size: int, steps: int) -> tuple[ProbeArm, ...]:
    """All rows; subsets of 1/64, 1/16 and 1/4 of the rows one pass could see; four growing subsets. All rows come last.

    One pass sees no more than batch x steps rows, so sizes are fractions of that or of the data set, the smaller one.
    A subset takes the first half of the steps, all rows take the second, so that what is pasted is what was trained. A
    subset that is smaller than a batch is left out.
    """
    reach, half = min(num_rows, batch_size * steps), steps // 2
    out = [full_arm(steps)]
    for part in (64, 16, 4):
        size = reach // part
        if batch_size <= size < num_rows:
            out.append(_arm(f"{size} rows first", [(size, half)], steps - half))
    first, last = max(reach // 128, batch_size), max(reach // 8, batch_size)
    if len(out) > 1 and first < last < num_rows:
        sizes = np.round(np.geomspace(first, last, 4)).astype(int).tolist()
        ends = [round(half * i / 4) for i in range(5)]
        lengths = [end - begin for begin, end in pairwise(ends)]
        out.append(_arm("growing subsets", list(zip(sizes, lengths, strict=True)), steps - half))
    if len(out) < 2:
        raise HeadstartError(
            f"probe: {num_rows} rows and batches of {batch_size} leave no smaller subset to try; lower batch_size"
        )
    return tuple(out)


def _arm(name: str, phases: list[tuple[int, int]], everything: int) -> ProbeArm:
    schedule = PhaseSchedule([Phase(size=size, steps=steps) for size, steps in phases], everything=everything)
    parts = [f"hs.Phase(size={size}, steps={steps})" for size, steps in phases]
    listed = f"[{parts[0]}]" if len(parts) == 1 else "".join(["[\n", *(f"    {part},\n" for part in parts), "]"])
    return ProbeArm(name, schedule, f"hs.PhaseSchedule({listed}, everything={everything})")
