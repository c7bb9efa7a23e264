"""Level 6: studies, claims, the runner and the store."""

from headstart.lab.claims import Checked, Claim, Verdict, Within, above, below, final_ratio, time_ratio
from headstart.lab.conduct import conduct
from headstart.lab.store import Store, open_store
from headstart.lab.study import Arm, Knobs, Results, Side, Study, stored
from headstart.lab.sweep import Sweep
from headstart.lab.train import train

__all__ = [
    "Arm",
    "Checked",
    "Claim",
    "Knobs",
    "Results",
    "Side",
    "Store",
    "Study",
    "Sweep",
    "Verdict",
    "Within",
    "above",
    "below",
    "conduct",
    "final_ratio",
    "open_store",
    "stored",
    "time_ratio",
    "train",
]
