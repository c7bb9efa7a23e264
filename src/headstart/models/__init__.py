"""Level 2: architectures, every parameter with a Role."""

from headstart.models.mlp import MLP, Activation, Init
from headstart.models.model import Model, Weights
from headstart.models.tokens import Signs, Symbols, Tokens, Vectors
from headstart.models.transformer import Readout, Transformer

__all__ = [
    "MLP",
    "Activation",
    "Init",
    "Model",
    "Readout",
    "Signs",
    "Symbols",
    "Tokens",
    "Transformer",
    "Vectors",
    "Weights",
]
