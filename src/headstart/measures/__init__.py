"""What looks and does not touch: functions of weights and traces, and measures of a run on its way."""

from headstart.measures.area import area_under
from headstart.measures.cloze import Cloze
from headstart.measures.coordinates import coordinate_sizes
from headstart.measures.distance import Distance, distance
from headstart.measures.interpolation import CONNECTED_WITHIN, barrier, interpolate, is_connected, line_points
from headstart.measures.intervals import (
    Estimate,
    Known,
    bootstrap,
    bootstrap_bounds,
    mean_band,
    share,
    simultaneous_band,
)
from headstart.measures.kernel import NTKChange, pseudo_ntk, row_gradients
from headstart.measures.maxima import Maxima, MaximaExponent, exponent_of_maxima
from headstart.measures.norm_ratio import NormRatio, norm_ratio
from headstart.measures.norms import readout_ratio
from headstart.measures.on_the_way import Every, Geometric, Measure, Recorded, View, When
from headstart.measures.overlaps import Overlaps
from headstart.measures.power_law import PowerLaw, exponent, fit_exponents, fit_power_law, medians
from headstart.measures.rank_correlation import (
    Halved,
    change_point,
    correlations,
    recall,
    regrets,
    self_correlation,
    successive_halving,
    trailing_mean,
    transition,
)
from headstart.measures.sparsity import ActiveUnits, active_shares
from headstart.measures.spectrum import FourierSpectrum, concentration, spectrum
from headstart.measures.stability import Behaviour, compare_pair
from headstart.measures.time_ratio import Bounds, censored_time, median_time, quotient, restricted_times
from headstart.measures.time_to_target import monotone, success_probability, time_to_target

__all__ = [
    "CONNECTED_WITHIN",
    "ActiveUnits",
    "Behaviour",
    "Bounds",
    "Cloze",
    "Distance",
    "Estimate",
    "Every",
    "FourierSpectrum",
    "Geometric",
    "Halved",
    "Known",
    "Maxima",
    "MaximaExponent",
    "Measure",
    "NTKChange",
    "NormRatio",
    "Overlaps",
    "PowerLaw",
    "Recorded",
    "View",
    "When",
    "active_shares",
    "area_under",
    "barrier",
    "bootstrap",
    "bootstrap_bounds",
    "censored_time",
    "change_point",
    "compare_pair",
    "concentration",
    "coordinate_sizes",
    "correlations",
    "distance",
    "exponent",
    "exponent_of_maxima",
    "fit_exponents",
    "fit_power_law",
    "interpolate",
    "is_connected",
    "line_points",
    "mean_band",
    "median_time",
    "medians",
    "monotone",
    "norm_ratio",
    "pseudo_ntk",
    "quotient",
    "readout_ratio",
    "recall",
    "regrets",
    "restricted_times",
    "row_gradients",
    "self_correlation",
    "share",
    "simultaneous_band",
    "spectrum",
    "success_probability",
    "successive_halving",
    "time_to_target",
    "trailing_mean",
    "transition",
]
