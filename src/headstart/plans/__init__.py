"""Level 2: which samples each step sees."""

from headstart.plans.auto import (
    AutoPhases,
)
from headstart.plans.by_role import (
    ByRole,
)
from headstart.plans.course import (
    Aside,
    Course,
    Leg,
    Place,
    Plan,
    Pool,
)
from headstart.plans.fixed import (
    Fixed,
)
from headstart.plans.loader import (
    PhasedLoader,
    Relabel,
    repeat_first,
)
from headstart.plans.online import (
    Online,
)
from headstart.plans.phases import (
    Phase,
    Phases,
)
from headstart.plans.sampler import (
    PhasedBatchSampler,
)
from headstart.plans.schedule import (
    PhaseSchedule,
)
from headstart.plans.two_set import (
    TwoSet,
)

__all__ = [
    "Aside",
    "AutoPhases",
    "ByRole",
    "Course",
    "Fixed",
    "Leg",
    "Online",
    "Phase",
    "PhaseSchedule",
    "PhasedBatchSampler",
    "PhasedLoader",
    "Phases",
    "Place",
    "Plan",
    "Pool",
    "Relabel",
    "TwoSet",
    "repeat_first",
]
