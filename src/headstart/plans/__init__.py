"""Level 2: which samples each step sees."""

from headstart.plans.course import Course, Leg, Place, Plan, Pool
from headstart.plans.fixed import Fixed
from headstart.plans.online import Online
from headstart.plans.phases import Phase, Phases

__all__ = ["Course", "Fixed", "Leg", "Online", "Phase", "Phases", "Place", "Plan", "Pool"]
