"""Level 3: what predicts without training. Simulators of low-dimensional dynamics, and bounds beside them."""

from headstart.theory.batch_plan import BatchPlan, plan_batch
from headstart.theory.batch_search import BatchChoice, How, Spread
from headstart.theory.decision_list_runs import AttentionDescent, ListDescent, ValueStep
from headstart.theory.decision_lists import (
    Bound,
    Gradients,
    every_set,
    first_value_gradient,
    gradients,
    joint_bound,
    joint_smoothness,
    misclassified_delta,
    set_delta,
    triple_delta,
    triple_delta_by_enumeration,
    w_only_bound,
)
from headstart.theory.direct_sgd import DirectRuns
from headstart.theory.exponent_of_data import ExponentEstimate, Strength, estimate_exponent, whiten
from headstart.theory.hermite import hermite_coefficients
from headstart.theory.information_exponent import generative_exponent, information_exponent
from headstart.theory.inputs import Correlated, Gaussian, PrincipalRows, RandomSigns, StudentT, principal_rows
from headstart.theory.leap_index import Leap, Step, leap_index
from headstart.theory.learnability import Learnability, Outlook, learnability
from headstart.theory.local_signal import FilterFlow, Filters, FilterSGD
from headstart.theory.odd_parity import best_on_three, threshold_correlation, two_layer_ceiling
from headstart.theory.overlap_limits import Kept, escape_threshold, kept_terms, ode_path
from headstart.theory.overlap_loss import population_error, target_variance
from headstart.theory.overlaps import Form, Objective, Process
from headstart.theory.process_runs import ProcessPath, StepRuns, cold_overlaps
from headstart.theory.process_times import ProcessTimes
from headstart.theory.quadratic_neuron import Labels, Neurons, Passage, Shift, run_until, step
from headstart.theory.reduced_sgd import Recovery, RecoveryRuns, ReducedSGD, Switch, simulate
from headstart.theory.sampling_bias import SamplingBias
from headstart.theory.tuned_runs import TunedRuns
from headstart.theory.two_phase import TwoPhase
from headstart.theory.two_phase_bounds import Prediction, norm_bound, predict, switch_point, switch_terms
from headstart.theory.two_phase_statements import INEQUALITIES, PROBABILITIES, Bounded, Chance, Inequality, Probable
from headstart.theory.xor_events import EVENTS, Draw, Event
from headstart.theory.xor_ideal import IdealStep
from headstart.theory.xor_statements import (
    Assumption,
    NetworkSearch,
    assumptions,
    cluster_mean_ratio,
    least_constant,
    least_log_samples,
    noise_bound,
    one_number_ceiling,
    width_ceiling,
)
from headstart.theory.xor_transfer import (
    FEATURES,
    Rows,
    Target,
    descend,
    embedded,
    initial_target,
    learned_features,
    outputs,
    unit_features,
)

__all__ = [
    "EVENTS",
    "FEATURES",
    "INEQUALITIES",
    "PROBABILITIES",
    "Assumption",
    "AttentionDescent",
    "BatchChoice",
    "BatchPlan",
    "Bound",
    "Bounded",
    "Chance",
    "Correlated",
    "DirectRuns",
    "Draw",
    "Event",
    "ExponentEstimate",
    "FilterFlow",
    "FilterSGD",
    "Filters",
    "Form",
    "Gaussian",
    "Gradients",
    "How",
    "IdealStep",
    "Inequality",
    "Kept",
    "Labels",
    "Leap",
    "Learnability",
    "ListDescent",
    "NetworkSearch",
    "Neurons",
    "Objective",
    "Outlook",
    "Passage",
    "Prediction",
    "PrincipalRows",
    "Probable",
    "Process",
    "ProcessPath",
    "ProcessTimes",
    "RandomSigns",
    "Recovery",
    "RecoveryRuns",
    "ReducedSGD",
    "Rows",
    "SamplingBias",
    "Shift",
    "Spread",
    "Step",
    "StepRuns",
    "Strength",
    "StudentT",
    "Switch",
    "Target",
    "TunedRuns",
    "TwoPhase",
    "ValueStep",
    "assumptions",
    "best_on_three",
    "cluster_mean_ratio",
    "cold_overlaps",
    "descend",
    "embedded",
    "escape_threshold",
    "estimate_exponent",
    "every_set",
    "first_value_gradient",
    "generative_exponent",
    "gradients",
    "hermite_coefficients",
    "information_exponent",
    "initial_target",
    "joint_bound",
    "joint_smoothness",
    "kept_terms",
    "leap_index",
    "learnability",
    "learned_features",
    "least_constant",
    "least_log_samples",
    "misclassified_delta",
    "noise_bound",
    "norm_bound",
    "ode_path",
    "one_number_ceiling",
    "outputs",
    "plan_batch",
    "population_error",
    "predict",
    "principal_rows",
    "run_until",
    "set_delta",
    "simulate",
    "step",
    "switch_point",
    "switch_terms",
    "target_variance",
    "threshold_correlation",
    "triple_delta",
    "triple_delta_by_enumeration",
    "two_layer_ceiling",
    "unit_features",
    "w_only_bound",
    "whiten",
    "width_ceiling",
]
