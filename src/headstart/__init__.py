"""Headstart: train neural networks in less compute by shaping the first part of training.

import headstart as hs
traces = hs.train(run, seeds=range(64))
"""

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.core.roles import Parameter, Role
from headstart.core.streams import Stream
from headstart.core.trace import Status, Trace, Traces
from headstart.core.units import Batch, Budget, FullBatch
from headstart.lab import (
    Arm,
    Claim,
    Knobs,
    Results,
    Side,
    Store,
    Study,
    Sweep,
    Verdict,
    Within,
    above,
    below,
    final_ratio,
    open_store,
    time_ratio,
    train,
)
from headstart.losses import MSE, Correlation, Hinge, Logistic
from headstart.methods import LayerScale, Method
from headstart.models import MLP, Activation, Init
from headstart.optimizers import SGD, AdamW
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Fresh, From, Reaches, Run, Same, Step
from headstart.tasks import Hermite, Parity, Samples, SingleIndex

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "MSE",
    "SGD",
    "Activation",
    "AdamW",
    "Arm",
    "Batch",
    "Budget",
    "Claim",
    "Correlation",
    "Fixed",
    "Fresh",
    "From",
    "FullBatch",
    "HeadstartError",
    "Hermite",
    "Hinge",
    "Init",
    "Knobs",
    "LayerScale",
    "Logistic",
    "Method",
    "Metric",
    "Online",
    "Parameter",
    "Parity",
    "Phase",
    "Phases",
    "Reaches",
    "Results",
    "Role",
    "Run",
    "Same",
    "Samples",
    "Side",
    "SingleIndex",
    "Status",
    "Step",
    "Store",
    "Stream",
    "Study",
    "Sweep",
    "Trace",
    "Traces",
    "Verdict",
    "Within",
    "above",
    "below",
    "final_ratio",
    "open_store",
    "time_ratio",
    "train",
]
