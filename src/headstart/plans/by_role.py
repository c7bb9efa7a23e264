"""Per-parameter plans: some parameters learn from other batches than the rest."""

from dataclasses import dataclass, replace
from typing import ClassVar

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role, checked_roles
from headstart.core.units import Batch, FullBatch
from headstart.plans.course import Aside, Course, Plan, Pool
from headstart.plans.online import Online

# Samples of the other plan have ids from here on, so that its fresh samples are none of the plan's own.
_FIRST_OTHER_ID = 2**40


@dataclass(frozen=True)
class ByRole:
    """Parameters with these `roles` take their gradient from the batches of `other`, the rest from those of `plan`.

    Both gradients are at the same weights, and one optimizer step uses the two; compute counts both batches. `other`
    is a plan without phases, such as `Online()`, and its samples are none of `plan`'s. Without roles this is `plan`.
    Reference: Less Data, Faster Training, Fig. 30.
    """

    plan: Plan
    roles: tuple[Role, ...]
    other: Plan = Online()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", checked_roles("ByRole", self.roles))
        if isinstance(self.plan, ByRole) or isinstance(self.other, ByRole):
            raise HeadstartError("ByRole(plan=..., other=...): a per-parameter plan has two plain plans")

    def course(self, batch: Batch | FullBatch, steps: int) -> Course:
        """The course of `plan`, with that of `other` beside it."""
        course = self.plan.course(batch, steps)
        if not self.roles:
            return course
        if isinstance(batch, FullBatch):
            raise HeadstartError("ByRole(...): FullBatch() takes whole pools; per-parameter plans use Batch(...)")
        other = self.other.course(batch, steps)
        if len(other.legs) != 1:
            raise HeadstartError(f"ByRole(other={self.other}): a plan without phases; use Online() or Fixed(...)")
        (leg,) = other.legs
        shifted = replace(leg, pool=Pool(_FIRST_OTHER_ID + leg.pool.first, leg.pool.size))
        return replace(course, aside=Aside(self.roles, Course((shifted,), other.batch)))
