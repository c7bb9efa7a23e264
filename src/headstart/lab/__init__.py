"""Level 6: studies, claims, the runner and the store."""

from headstart.lab.claims import Checked, Claim, FinalRatio, TimeRatio, Verdict, Within, above, below
from headstart.lab.conduct import conduct
from headstart.lab.store import Store, open_store
from headstart.lab.study import Arm, Knobs, Results, Side, Study, stored
from headstart.lab.sweep import Sweep
from headstart.lab.train import train

__all__ = [
    "Arm",
    "Checked",
    "Claim",
    "FinalRatio",
    "Knobs",
    "Results",
    "Side",
    "Store",
    "Study",
    "Sweep",
    "TimeRatio",
    "Verdict",
    "Within",
    "above",
    "below",
    "conduct",
    "open_store",
    "stored",
    "train",
]
