"""Headstart: train neural networks in less compute by shaping the first part of training.

import headstart as hs
traces = hs.train(run, seeds=range(64))
"""

from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric, class_accuracy, sign_accuracy
from headstart.core.roles import Parameter, Role
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.state import State
from headstart.core.streams import Stream
from headstart.core.trace import Status, Summary, Trace, Traces
from headstart.core.units import Batch, Budget, Cost, FullBatch, Settled
from headstart.lab import (
    Area,
    Arm,
    ArmCorrelation,
    Axis,
    Claim,
    Computed,
    Final,
    FinalDifference,
    FinalMean,
    FinalRatio,
    Gain,
    InverseGap,
    Keep,
    Kind,
    Knobs,
    Line,
    Panel,
    RateOf,
    Results,
    SecondsRatio,
    Share,
    Store,
    Study,
    Sweep,
    TimeGap,
    TimeGapRatio,
    TimeRatio,
    TimeToTarget,
    TotalCostRatio,
    Typical,
    Verdict,
    Within,
    above,
    below,
    closed,
    cold,
    draw_curve,
    draw_lines,
    draw_panels,
    open_store,
    rates,
    train,
    trained,
    warm,
)
from headstart.lab.critical_batch import BatchVerdict
from headstart.lab.figures import house_style
from headstart.lab.lag import Lag, LagChild, lag
from headstart.lab.probe import probe
from headstart.lab.probe_batch import probe_batch
from headstart.lab.probe_batch_report import BatchProbe
from headstart.lab.probe_problem import Problem
from headstart.lab.probe_report import Probe
from headstart.lab.probe_verdict import ProbeVerdict
from headstart.lab.stability import stability
from headstart.lab.stability_report import StabilityReport
from headstart.losses import MSE, Correlation, CorrelationLoss, CrossEntropy, Exponential, Hinge, Logistic, Loss
from headstart.measures import (
    ActiveUnits,
    Cloze,
    Distance,
    Estimate,
    Every,
    FourierSpectrum,
    Geometric,
    Measure,
    NTKChange,
    Overlaps,
    Recorded,
    View,
    When,
    bootstrap,
)
from headstart.methods import (
    AttachedFilter,
    Found,
    GradientFilter,
    Grow,
    Grown,
    Hook,
    InBall,
    InitScale,
    LayerScale,
    Linearised,
    LossSchedule,
    MergeEmbedding,
    Method,
    MuP,
    NewCount,
    NewLayers,
    NewMoments,
    OnSphere,
    PhaseLoss,
    Preservation,
    RandomLabels,
    Roles,
    Same,
    SampledBias,
    Scale,
    Site,
    TransferEmbedding,
    TransferFirstLayer,
    TransferredEmbedding,
    Transformation,
    Whiten,
    ZeroMean,
    balance_layers,
    design_space,
    grow,
    merge_embedding,
    mup_groups,
    param_groups,
    roles,
    transfer_embedding,
)
from headstart.models import (
    MLP,
    Activation,
    AttentionOnly,
    Binary,
    ConvNet,
    Embedding,
    Fourier,
    Init,
    Model,
    Norm,
    OneHot,
    Positions,
    Readout,
    ResNet,
    Signs,
    Text,
    ThresholdFilter,
    Transformer,
    Vectors,
    WideResNet,
)
from headstart.optimizers import (
    SGD,
    Adafactor,
    AdamW,
    Constant,
    Cosine,
    Decay,
    Optimizer,
    PartOf,
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
    BPE,
    Bytes,
    Causal,
    Characters,
    Committee,
    DecisionList,
    Distractors,
    Erf,
    GaussianNoise,
    Hermite,
    HermiteSum,
    Images,
    InContextRegression,
    Language,
    Link,
    LocalSignal,
    MadeImages,
    MadeText,
    Masked,
    Mixture,
    ModularArithmetic,
    MultiIndex,
    MultiLink,
    Operation,
    Parity,
    Pasted,
    Photographs,
    Placement,
    Prefix,
    ProductOf,
    Relu,
    Rows,
    Series,
    Sign,
    SingleIndex,
    Spans,
    Split,
    SwapRow,
    Tanh,
    Task,
    Validation,
    XorClusters,
    named_link,
)
from headstart.theory import Objective, estimate_exponent, plan_batch

if TYPE_CHECKING:
    from headstart.methods.low_rank_embedding import LowRankEmbedding

__version__ = "0.2.0"

# fmt: off
__all__ = [
    "BPE", "MLP", "MSE", "SGD", "Activation", "ActiveUnits", "Adafactor", "AdamW", "Area", "Arm", "ArmCorrelation",
    "AttachedFilter", "AttentionOnly", "AutoPhases", "Axis", "Batch", "BatchProbe", "BatchVerdict", "Best",
    "Binary", "Budget", "ByRole", "Bytes", "Carry", "Causal", "Characters", "Claim", "Cloze", "Committee",
    "Computed", "Constant", "ConvNet", "Correlation", "CorrelationLoss", "Cosine", "Cost", "CrossEntropy", "Decay",
    "DecisionList", "Distance", "Distractors", "Embedding", "Erf", "Estimate", "Every", "Exponential", "Final",
    "FinalDifference", "FinalMean", "FinalRatio", "First", "Fixed", "Found", "Fourier", "FourierSpectrum", "Fresh",
    "From", "FullBatch", "Gain", "GaussianNoise", "Geometric", "GradientFilter", "Grow", "Grown", "HeadstartError",
    "Hermite", "HermiteSum", "Hinge", "Hook", "Images", "InBall", "InContextRegression", "Init", "InitScale",
    "InverseGap", "Keep", "Kind", "Knobs", "Lag", "LagChild", "Language", "LayerScale", "Line", "Linearised",
    "Link", "LocalSignal", "Logistic", "Loss", "LossSchedule", "LowRankEmbedding", "MadeImages", "MadeText",
    "Masked", "Measure", "MergeEmbedding", "Method", "Metric", "Mixture", "Model", "ModularArithmetic", "MuP",
    "MultiIndex", "MultiLink", "NTKChange", "NewCount", "NewLayers", "NewMoments", "Norm", "Objective", "OnSphere",
    "OneHot", "Online", "Operation", "Optimizer", "Overlaps", "Panel", "Parameter", "Parity", "PartOf", "Pasted",
    "Phase", "PhaseLoss", "PhaseSchedule", "PhasedBatchSampler", "PhasedLoader", "Phases", "Photographs",
    "Placement", "Plan", "Positions", "Precision", "Prefix", "Preservation", "Probe", "ProbeVerdict", "Problem",
    "ProductOf", "RandomLabels", "RateOf", "Reaches", "Readout", "Recorded", "Relabel", "Relu", "ResNet", "Results",
    "Role", "Roles", "Rows", "Run", "Same", "SampledBias", "Samples", "Scale", "Schedule", "SecondsRatio", "Series",
    "Settled", "Share", "Sign", "Signature", "Signs", "SingleIndex", "Site", "Spans", "Split", "StabilityReport",
    "State", "Status", "Step", "StepDecay", "Store", "Stream", "Study", "Summary", "SwapRow", "Sweep", "Tanh", "Task",
    "Text", "ThresholdFilter", "TimeGap", "TimeGapRatio", "TimeRatio", "TimeToTarget", "TotalCostRatio", "Trace",
    "Traces", "TransferEmbedding", "TransferFirstLayer", "TransferredEmbedding", "Transformation", "Transformer",
    "TwoSet", "Typical", "Validation", "Vectors", "Verdict", "View", "WarmUp", "WarmUpStableDecay", "When",
    "Whiten", "WideResNet", "Within", "XorClusters", "ZeroMean", "above", "balance_layers", "below", "bootstrap",
    "class_accuracy", "closed", "cold", "design_space", "draw_curve", "draw_lines", "draw_panels",
    "estimate_exponent", "grow", "house_style", "lag", "merge_embedding", "mup_groups", "named_link", "open_store",
    "param_groups", "plan_batch", "probe", "probe_batch", "rates", "repeat_first", "roles", "sign_accuracy",
    "stability", "train", "trained", "transfer_embedding", "warm",
]
# fmt: on

# Names of version 0.1 that are gone, each with what to write instead.
_REMOVED = {
    "QueryKey": "LayerScale.query_key(rate=..., init=...)",
    "ModularAddition": "ModularArithmetic(...)",
    "ModularMultiplication": 'ModularArithmetic(..., operation="multiplication")',
    "Simulation": "Study(computed=lambda knobs, arms: {name: part})",
    "Simulated": "Computed, whose parts have compute() instead of simulate()",
    "Side": "Arm(colour=warm()) for a small set, cold() for a large one, or no colour at all",
    "Symbols": "nothing: a Transformer looks up the symbols that its task has",
}


class _Removed(HeadstartError, AttributeError):
    """An attribute that was there in an earlier version."""


def __getattr__(name: str) -> Any:
    if name == "LowRankEmbedding":  # a torch module: torch is imported when it is asked for
        from headstart.methods.low_rank_embedding import LowRankEmbedding

        return LowRankEmbedding
    if name in _REMOVED:
        raise _Removed(f"headstart.{name} was removed in version 0.2; use {_REMOVED[name]}")
    raise AttributeError(f"module 'headstart' has no attribute {name!r}")
