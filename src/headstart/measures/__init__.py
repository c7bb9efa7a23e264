"""Level 3: pure functions of weights and traces. What looks and does not touch."""

from headstart.measures.area import area_under
from headstart.measures.intervals import Estimate, bootstrap, mean_band
from headstart.measures.norms import readout_ratio
from headstart.measures.time_to_target import success_probability, time_to_target

__all__ = [
    "Estimate",
    "area_under",
    "bootstrap",
    "mean_band",
    "readout_ratio",
    "success_probability",
    "time_to_target",
]
