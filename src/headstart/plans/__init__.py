"""Level 2: which samples each step sees."""

from headstart.plans.auto import AutoPhases
from headstart.plans.course import Course, Leg, Place, Plan, Pool
from headstart.plans.fixed import Fixed
from headstart.plans.online import Online
from headstart.plans.phases import Phase, Phases
from headstart.plans.two_set import TwoSet

__all__ = ["AutoPhases", "Course", "Fixed", "Leg", "Online", "Phase", "Phases", "Place", "Plan", "Pool", "TwoSet"]
