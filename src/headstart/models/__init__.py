"""Level 3: architectures, every parameter with a Role."""

from headstart.models.activations import Activation
from headstart.models.attention_only import AttentionOnly
from headstart.models.convnet import ConvNet, ResNet
from headstart.models.embedding import Embedding
from headstart.models.fixed_tables import Binary, FixedTable, Fourier, OneHot, Text
from headstart.models.mlp import MLP, Init
from headstart.models.model import Model, Weights
from headstart.models.threshold_filter import ThresholdFilter
from headstart.models.tokens import Signs, Tokens, Vectors
from headstart.models.transformer import Norm, Positions, Readout, Transformer
from headstart.models.wide_resnet import WideResNet

__all__ = [
    "MLP",
    "Activation",
    "AttentionOnly",
    "Binary",
    "ConvNet",
    "Embedding",
    "FixedTable",
    "Fourier",
    "Init",
    "Model",
    "Norm",
    "OneHot",
    "Positions",
    "Readout",
    "ResNet",
    "Signs",
    "Text",
    "ThresholdFilter",
    "Tokens",
    "Transformer",
    "Vectors",
    "Weights",
    "WideResNet",
]
