"""Level 4: what changes training, one idea per file; and what a run that starts from another goes through."""

from headstart.methods.balance import balance_layers
from headstart.methods.debias import Whiten, ZeroMean
from headstart.methods.embedding_transfer import MergeEmbedding, TransferEmbedding, TransferFirstLayer
from headstart.methods.find_roles import roles
from headstart.methods.gradient_filter import AttachedFilter, GradientFilter
from headstart.methods.growth import Grow, Layer, NewCount, NewLayers, NewMoments, design_space
from headstart.methods.labels import RandomLabels
from headstart.methods.layer_scale import InitScale, LayerScale
from headstart.methods.linearised import Linearised, fix_statistics
from headstart.methods.loss_schedule import LossSchedule
from headstart.methods.method import Hook, Method, Tensors
from headstart.methods.module_roles import Found, Roles
from headstart.methods.mup import MuP
from headstart.methods.mup_groups import mup_groups
from headstart.methods.on_sphere import InBall, OnSphere
from headstart.methods.own_embedding import TransferredEmbedding, merge_embedding, transfer_embedding
from headstart.methods.own_growth import Grown, Preservation, grow
from headstart.methods.param_groups import Scale, param_groups
from headstart.methods.phase_loss import PhaseLoss
from headstart.methods.sampled_bias import SampledBias
from headstart.methods.site import Same, Site, Transformation

__all__ = [
    "AttachedFilter",
    "Found",
    "GradientFilter",
    "Grow",
    "Grown",
    "Hook",
    "InBall",
    "InitScale",
    "Layer",
    "LayerScale",
    "Linearised",
    "LossSchedule",
    "MergeEmbedding",
    "Method",
    "MuP",
    "NewCount",
    "NewLayers",
    "NewMoments",
    "OnSphere",
    "PhaseLoss",
    "Preservation",
    "RandomLabels",
    "Roles",
    "Same",
    "SampledBias",
    "Scale",
    "Site",
    "Tensors",
    "TransferEmbedding",
    "TransferFirstLayer",
    "TransferredEmbedding",
    "Transformation",
    "Whiten",
    "ZeroMean",
    "balance_layers",
    "design_space",
    "fix_statistics",
    "grow",
    "merge_embedding",
    "mup_groups",
    "param_groups",
    "roles",
    "transfer_embedding",
]
