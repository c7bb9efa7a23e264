"""Level 6: studies, claims, the runner and the store."""

from headstart.lab.areas import Gain, GapDifference, better, goodness, no_skill
from headstart.lab.arms import Arm, Knobs
from headstart.lab.axes import Axis
from headstart.lab.claims import Checked, Claim, Kind, Verdict, Within, above, below, closed
from headstart.lab.colours import cold, warm
from headstart.lab.computed import Computed, trained
from headstart.lab.conduct import conduct, stored
from headstart.lab.coordinate_check import coordinate_check
from headstart.lab.costs import SecondsRatio, TotalCostRatio, training_cost, tuning_cost
from headstart.lab.deficits import LargestDeficit, mark_deficits
from headstart.lab.estimates import (
    FinalRatio,
    GapRatio,
    GapTrend,
    StatisticRatio,
    TimeRatio,
    Times,
    Typical,
    check_paired,
    time_bounds,
)
from headstart.lab.figures import Curve, draw_curve, legend_below
from headstart.lab.gaps import InverseGap, TimeGap, TimeGapRatio
from headstart.lab.means import ArmCorrelation, FinalDifference, FinalMean, Share
from headstart.lab.panels import (
    NO_EFFECT,
    NO_GAP,
    Line,
    Panel,
    arms_of,
    draw_lines,
    draw_panels,
    shaded,
    small_and_large,
    with_medians,
)
from headstart.lab.results import Results
from headstart.lab.scores import Area, Final, TimeToTarget
from headstart.lab.store import Keep, Store, open_store
from headstart.lab.study import Study
from headstart.lab.sweep import RateOf, Sweep, rates
from headstart.lab.train import train
from headstart.measures import Estimate, bootstrap, share

__all__ = [
    "NO_EFFECT",
    "NO_GAP",
    "Area",
    "Arm",
    "ArmCorrelation",
    "Axis",
    "Checked",
    "Claim",
    "Computed",
    "Curve",
    "Estimate",
    "Final",
    "FinalDifference",
    "FinalMean",
    "FinalRatio",
    "Gain",
    "GapDifference",
    "GapRatio",
    "GapTrend",
    "InverseGap",
    "Keep",
    "Kind",
    "Knobs",
    "LargestDeficit",
    "Line",
    "Panel",
    "RateOf",
    "Results",
    "SecondsRatio",
    "Share",
    "StatisticRatio",
    "Store",
    "Study",
    "Sweep",
    "TimeGap",
    "TimeGapRatio",
    "TimeRatio",
    "TimeToTarget",
    "Times",
    "TotalCostRatio",
    "Typical",
    "Verdict",
    "Within",
    "above",
    "arms_of",
    "below",
    "better",
    "bootstrap",
    "check_paired",
    "closed",
    "cold",
    "conduct",
    "coordinate_check",
    "draw_curve",
    "draw_lines",
    "draw_panels",
    "goodness",
    "legend_below",
    "mark_deficits",
    "no_skill",
    "open_store",
    "rates",
    "shaded",
    "share",
    "small_and_large",
    "stored",
    "time_bounds",
    "train",
    "trained",
    "training_cost",
    "tuning_cost",
    "warm",
    "with_medians",
]
