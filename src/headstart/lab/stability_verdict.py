"""What a microscope says: comparisons, from which step on copies stay together, and when it cannot tell."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from headstart.lab.stability_training import Change, Kind

# Copies nearer to each other than this share of what a swapped row does have not grown apart.
_GROWN = 0.01


@dataclass(frozen=True)
class Compared:
    """A copy beside the training of S: what differs at the end, by the names of `compare_pair`, and on the way.

    `values` has also the "barrier" between both, and the metric of the training of S at its "start" and its "end";
    `distances` are those of the weights at the steps that were recorded.
    """

    size: int
    pair: int
    seed: int
    change: Change
    values: dict[str, float]
    distances: dict[int, float] = field(default_factory=dict)

    @property
    def is_same(self) -> bool:
        """Whether both networks are one, bit for bit."""
        return self.values["distance"] == 0 and self.values["stability"] == 0

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> "Compared":
        """The inverse of `to_json`, after JSON made names of the steps."""
        change = Change(Kind(data["change"]["kind"]), data["change"]["step"], data["change"]["size"])
        distances = {int(step): value for step, value in data["distances"].items()}
        return cls(data["size"], data["pair"], data["seed"], change, data["values"], distances)


@dataclass(frozen=True)
class Settled:
    """From which step on copies that are disturbed there end up connected; None with the reason where it cannot tell.

    `connected[step]` is how many of how many copies were, those left out that nothing came of. `after` is the last step
    at which they were not.
    """

    step: int | None
    after: int | None
    connected: dict[int, tuple[int, int]]
    reason: str = ""


def settle(compared: tuple[Compared, ...], within: float | None, unable: str) -> Settled:
    """The first step from which on all copies were connected, at it and at every later one that was tried."""
    copies = [each for each in compared if each.change.kind is Kind.ORDER]
    copies = copies or [each for each in compared if each.change.kind is Kind.NUDGE]
    if unable or not copies:
        return Settled(None, None, {}, unable or "no step was disturbed: give order_steps or nudge_steps")
    barriers = np.array([each.values["barrier"] for each in copies])
    if np.isnan(barriers).any():
        return Settled(None, None, {}, "a Behaviour has no line between two networks: let train_fn return the module")
    if within is None:
        return Settled(None, None, {}, "there is no metric: give one, or within=..., what of the loss is connected")
    connected = {}
    for step in sorted({each.change.step for each in copies}):
        here = [each for each in copies if each.change.step == step and each.values["stability"] > 0]
        connected[step] = sum(each.values["barrier"] <= within for each in here), len(here)
    swaps = [each for each in compared if each.change.kind is Kind.SWAP and each.size == copies[0].size]
    moved = np.median([each.values["distance"] for each in swaps])
    return _settled(connected, copies, within, _GROWN * float(moved))


def _settled(connected: dict[int, tuple[int, int]], copies: list[Compared], within: float, grown: float) -> Settled:
    values, kind = copies[0].values, copies[0].change.kind
    gain = values["end"] - values["start"]
    if gain <= 2 * within:
        said = f"from {values['start']:.4g} to {values['end']:.4g}"
        return Settled(None, None, connected, f"nothing was learned, the metric went {said}: raise steps")
    empty = [step for step, (_, num) in connected.items() if not num]
    if empty:
        why = f"every weight nudged before step {empty[0]} was one that changes no test row: raise copies"
        if kind is Kind.ORDER:
            why = f"another seed of torch's generators before step {empty[0]} changed nothing: give nudge_steps alone"
        return Settled(None, None, connected, why)
    loose = [step for step, (num, of) in connected.items() if num < of]
    later = [step for step in connected if not loose or step > loose[-1]]
    if not later:
        why = f"copies still part from step {loose[-1]} on, the last that was tried: give later {kind}_steps"
        return Settled(None, loose[-1], connected, why)
    far = [each.values["distance"] for each in copies if each.change.step == later[0]]
    if max(far) < grown:
        why = f"copies disturbed before step {later[0]} had not grown apart by the end, {max(far):.2g} in weights, so "
        return Settled(None, None, connected, f"{why}that they are connected says little: give order_steps, or nudge")
    return Settled(later[0], loose[-1] if loose else None, connected)
