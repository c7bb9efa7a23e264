"""Level 3: what changes training, one idea a file."""

from headstart.methods.debias import (
    Whiten,
    ZeroMean,
)
from headstart.methods.gradient_filter import (
    GradientFilter,
)
from headstart.methods.labels import (
    RandomLabels,
)
from headstart.methods.layer_scale import (
    LayerScale,
)
from headstart.methods.method import (
    Method,
)
from headstart.methods.mup import (
    MuP,
)
from headstart.methods.param_groups import (
    Scale,
    balance_layers,
    mup_groups,
    param_groups,
)
from headstart.methods.query_key import (
    QueryKey,
)
from headstart.methods.sampled_bias import (
    SampledBias,
)

__all__ = [
    "GradientFilter",
    "LayerScale",
    "Method",
    "MuP",
    "QueryKey",
    "RandomLabels",
    "SampledBias",
    "Scale",
    "Whiten",
    "ZeroMean",
    "balance_layers",
    "mup_groups",
    "param_groups",
]
