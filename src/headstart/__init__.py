"""Headstart: train neural networks in less compute by shaping the first part of training.

import headstart as hs
traces = hs.train(run, seeds=range(64))
"""

from typing import Any

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric, class_accuracy, sign_accuracy
from headstart.core.roles import Parameter, Role
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.state import State
from headstart.core.streams import Stream
from headstart.core.trace import Status, Summary, Trace, Traces
from headstart.core.units import Batch, Budget, Cost, FullBatch
from headstart.lab import (
    Arm,
    Claim,
    FinalRatio,
    Keep,
    Kind,
    Knobs,
    RateOf,
    Results,
    Side,
    Simulated,
    Simulation,
    Store,
    Study,
    Sweep,
    TimeRatio,
    Typical,
    Verdict,
    Within,
    above,
    below,
    closed,
    open_store,
    train,
)
from headstart.lab.figures import draw_curve, house_style
from headstart.lab.probe import probe
from headstart.lab.probe_problem import Problem
from headstart.lab.probe_verdict import Probe, ProbeVerdict
from headstart.losses import MSE, Correlation, CorrelationLoss, CrossEntropy, Hinge, Logistic, Loss
from headstart.measures import Estimate, bootstrap
from headstart.methods import (
    AttachedFilter,
    Found,
    GradientFilter,
    Hook,
    InBall,
    LayerScale,
    Linearised,
    Method,
    MuP,
    OnSphere,
    PhaseLoss,
    RandomLabels,
    Roles,
    Same,
    SampledBias,
    Scale,
    Site,
    Transformation,
    Whiten,
    ZeroMean,
    balance_layers,
    mup_groups,
    param_groups,
    roles,
)
from headstart.models import MLP, Activation, Embedding, Init, Model, Readout, Signs, Transformer, Vectors
from headstart.optimizers import (
    SGD,
    Adafactor,
    AdamW,
    Constant,
    Cosine,
    Decay,
    Optimizer,
    Schedule,
    StepDecay,
    WarmUp,
    WarmUpStableDecay,
)
from headstart.plans import (
    AutoPhases,
    ByRole,
    Fixed,
    Online,
    Phase,
    PhasedBatchSampler,
    PhasedLoader,
    Phases,
    PhaseSchedule,
    Plan,
    Relabel,
    TwoSet,
    repeat_first,
)
from headstart.run import Best, Carry, First, Fresh, From, Precision, Reaches, Run, Step
from headstart.tasks import (
    Hermite,
    InContextRegression,
    ModularArithmetic,
    Operation,
    Parity,
    Rows,
    SingleIndex,
    Split,
    Task,
)

__version__ = "0.2.0"

__all__ = [
    "MLP",
    "MSE",
    "SGD",
    "Activation",
    "Adafactor",
    "AdamW",
    "Arm",
    "AttachedFilter",
    "AutoPhases",
    "Batch",
    "Best",
    "Budget",
    "ByRole",
    "Carry",
    "Claim",
    "Constant",
    "Correlation",
    "CorrelationLoss",
    "Cosine",
    "Cost",
    "CrossEntropy",
    "Decay",
    "Embedding",
    "Estimate",
    "FinalRatio",
    "First",
    "Fixed",
    "Found",
    "Fresh",
    "From",
    "FullBatch",
    "GradientFilter",
    "HeadstartError",
    "Hermite",
    "Hinge",
    "Hook",
    "InBall",
    "InContextRegression",
    "Init",
    "Keep",
    "Kind",
    "Knobs",
    "LayerScale",
    "Linearised",
    "Logistic",
    "Loss",
    "Method",
    "Metric",
    "Model",
    "ModularArithmetic",
    "MuP",
    "OnSphere",
    "Online",
    "Operation",
    "Optimizer",
    "Parameter",
    "Parity",
    "Phase",
    "PhaseLoss",
    "PhaseSchedule",
    "PhasedBatchSampler",
    "PhasedLoader",
    "Phases",
    "Plan",
    "Precision",
    "Probe",
    "ProbeVerdict",
    "Problem",
    "RandomLabels",
    "RateOf",
    "Reaches",
    "Readout",
    "Relabel",
    "Results",
    "Role",
    "Roles",
    "Rows",
    "Run",
    "Same",
    "SampledBias",
    "Samples",
    "Scale",
    "Schedule",
    "Side",
    "Signature",
    "Signs",
    "Simulated",
    "Simulation",
    "SingleIndex",
    "Site",
    "Split",
    "State",
    "Status",
    "Step",
    "StepDecay",
    "Store",
    "Stream",
    "Study",
    "Summary",
    "Sweep",
    "Task",
    "TimeRatio",
    "Trace",
    "Traces",
    "Transformation",
    "Transformer",
    "TwoSet",
    "Typical",
    "Vectors",
    "Verdict",
    "WarmUp",
    "WarmUpStableDecay",
    "Whiten",
    "Within",
    "ZeroMean",
    "above",
    "balance_layers",
    "below",
    "bootstrap",
    "class_accuracy",
    "closed",
    "draw_curve",
    "house_style",
    "mup_groups",
    "open_store",
    "param_groups",
    "probe",
    "repeat_first",
    "roles",
    "sign_accuracy",
    "train",
]

# Names of version 0.1 that are gone, each with what to write instead.
_REMOVED = {
    "QueryKey": "LayerScale.query_key(rate=..., init=...)",
    "ModularAddition": "ModularArithmetic(...)",
    "ModularMultiplication": 'ModularArithmetic(..., operation="multiplication")',
    "Symbols": "nothing: a Transformer looks up the symbols that its task has",
}


class _Removed(HeadstartError, AttributeError):
    """An attribute that was there in an earlier version."""


def __getattr__(name: str) -> Any:
    if name in _REMOVED:
        raise _Removed(f"headstart.{name} was removed in version 0.2; use {_REMOVED[name]}")
    raise AttributeError(f"module 'headstart' has no attribute {name!r}")
