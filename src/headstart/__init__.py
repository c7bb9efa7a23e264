"""Headstart: train neural networks in less compute by shaping the first part of training.

import headstart as hs
traces = hs.train(run, seeds=range(64))
"""

from headstart.core.errors import (
    HeadstartError,
)
from headstart.core.metric import (
    Metric,
)
from headstart.core.roles import (
    Parameter,
    Role,
)
from headstart.core.streams import (
    Stream,
)
from headstart.core.trace import (
    Status,
    Trace,
    Traces,
)
from headstart.core.units import (
    Batch,
    Budget,
    FullBatch,
)
from headstart.lab import (
    Arm,
    Claim,
    FinalRatio,
    Keep,
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
    open_store,
    train,
)
from headstart.lab.figures import (
    draw_curve,
    house_style,
)
from headstart.lab.probe import (
    probe,
)
from headstart.lab.probe_problem import (
    Problem,
)
from headstart.lab.probe_verdict import (
    Probe,
    ProbeVerdict,
)
from headstart.losses import (
    MSE,
    Correlation,
    CorrelationLoss,
    CrossEntropy,
    Hinge,
    Logistic,
)
from headstart.measures import (
    Estimate,
    bootstrap,
)
from headstart.methods import (
    GradientFilter,
    LayerScale,
    Method,
    MuP,
    QueryKey,
    RandomLabels,
    SampledBias,
    Scale,
    Whiten,
    ZeroMean,
    balance_layers,
    mup_groups,
    param_groups,
)
from headstart.models import (
    MLP,
    Activation,
    Init,
    Model,
    Readout,
    Signs,
    Symbols,
    Transformer,
    Vectors,
)
from headstart.optimizers import (
    SGD,
    AdamW,
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
from headstart.run import (
    Fresh,
    From,
    Reaches,
    Run,
    Same,
    Step,
)
from headstart.tasks import (
    Hermite,
    InContextRegression,
    ModularAddition,
    ModularMultiplication,
    Parity,
    Samples,
    SingleIndex,
    Task,
)

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "MSE",
    "SGD",
    "Activation",
    "AdamW",
    "Arm",
    "AutoPhases",
    "Batch",
    "Budget",
    "ByRole",
    "Claim",
    "Correlation",
    "CorrelationLoss",
    "CrossEntropy",
    "Estimate",
    "FinalRatio",
    "Fixed",
    "Fresh",
    "From",
    "FullBatch",
    "GradientFilter",
    "HeadstartError",
    "Hermite",
    "Hinge",
    "InContextRegression",
    "Init",
    "Keep",
    "Knobs",
    "LayerScale",
    "Logistic",
    "Method",
    "Metric",
    "Model",
    "ModularAddition",
    "ModularMultiplication",
    "MuP",
    "Online",
    "Parameter",
    "Parity",
    "Phase",
    "PhaseSchedule",
    "PhasedBatchSampler",
    "PhasedLoader",
    "Phases",
    "Plan",
    "Probe",
    "ProbeVerdict",
    "Problem",
    "QueryKey",
    "RandomLabels",
    "RateOf",
    "Reaches",
    "Readout",
    "Relabel",
    "Results",
    "Role",
    "Run",
    "Same",
    "SampledBias",
    "Samples",
    "Scale",
    "Side",
    "Signs",
    "Simulated",
    "Simulation",
    "SingleIndex",
    "Status",
    "Step",
    "Store",
    "Stream",
    "Study",
    "Sweep",
    "Symbols",
    "Task",
    "TimeRatio",
    "Trace",
    "Traces",
    "Transformer",
    "TwoSet",
    "Typical",
    "Vectors",
    "Verdict",
    "Whiten",
    "Within",
    "ZeroMean",
    "above",
    "balance_layers",
    "below",
    "bootstrap",
    "draw_curve",
    "house_style",
    "mup_groups",
    "open_store",
    "param_groups",
    "probe",
    "repeat_first",
    "train",
]
