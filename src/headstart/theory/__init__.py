"""Level 3: what predicts without training. Simulators of low-dimensional dynamics, and bounds beside them."""

from headstart.theory.quadratic_neuron import Labels, Neurons, Passage, Shift, run_until, step
from headstart.theory.sampling_bias import SamplingBias
from headstart.theory.two_phase import TwoPhase
from headstart.theory.two_phase_bounds import Prediction, norm_bound, predict, switch_point, switch_terms
from headstart.theory.two_phase_statements import INEQUALITIES, PROBABILITIES, Bounded, Chance, Inequality, Probable

__all__ = [
    "INEQUALITIES",
    "PROBABILITIES",
    "Bounded",
    "Chance",
    "Inequality",
    "Labels",
    "Neurons",
    "Passage",
    "Prediction",
    "Probable",
    "SamplingBias",
    "Shift",
    "TwoPhase",
    "norm_bound",
    "predict",
    "run_until",
    "step",
    "switch_point",
    "switch_terms",
]
