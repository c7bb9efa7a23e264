"""Level 6: studies, claims, the runner and the store."""

from headstart.lab.claims import Checked, Claim, FinalRatio, TimeRatio, Verdict, Within, above, below
from headstart.lab.conduct import conduct
from headstart.lab.simulation import Simulated, Simulation
from headstart.lab.store import Keep, Store, open_store
from headstart.lab.study import Arm, Knobs, Results, Side, Study, stored
from headstart.lab.sweep import Sweep
from headstart.lab.train import train
from headstart.measures import Estimate, bootstrap, share

__all__ = [
    "Arm",
    "Checked",
    "Claim",
    "Estimate",
    "FinalRatio",
    "Keep",
    "Knobs",
    "Results",
    "Side",
    "Simulated",
    "Simulation",
    "Store",
    "Study",
    "Sweep",
    "TimeRatio",
    "Verdict",
    "Within",
    "above",
    "below",
    "bootstrap",
    "conduct",
    "open_store",
    "share",
    "stored",
    "train",
]
