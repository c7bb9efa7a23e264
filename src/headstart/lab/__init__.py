"""Level 6: studies, claims, the runner and the store."""

from headstart.lab.arms import Arm, Knobs, Side
from headstart.lab.axes import Axis
from headstart.lab.claims import (
    Checked,
    Claim,
    FinalRatio,
    GapRatio,
    Kind,
    StatisticRatio,
    TimeRatio,
    Typical,
    Verdict,
    Within,
    above,
    below,
    check_paired,
    closed,
    time_bounds,
)
from headstart.lab.computed import Computed, trained
from headstart.lab.conduct import conduct, stored
from headstart.lab.coordinate_check import coordinate_check
from headstart.lab.results import Results
from headstart.lab.scores import Area, Final, TimeToTarget
from headstart.lab.store import Keep, Store, open_store
from headstart.lab.study import Study
from headstart.lab.sweep import RateOf, Sweep, rates
from headstart.lab.train import train
from headstart.measures import Estimate, bootstrap, share

__all__ = [
    "Area",
    "Arm",
    "Axis",
    "Checked",
    "Claim",
    "Computed",
    "Estimate",
    "Final",
    "FinalRatio",
    "GapRatio",
    "Keep",
    "Kind",
    "Knobs",
    "RateOf",
    "Results",
    "Side",
    "StatisticRatio",
    "Store",
    "Study",
    "Sweep",
    "TimeRatio",
    "TimeToTarget",
    "Typical",
    "Verdict",
    "Within",
    "above",
    "below",
    "bootstrap",
    "check_paired",
    "closed",
    "conduct",
    "coordinate_check",
    "open_store",
    "rates",
    "share",
    "stored",
    "time_bounds",
    "train",
    "trained",
]
