"""Level 2: architectures, every parameter with a Role."""

from headstart.models.mlp import MLP, Activation, Init
from headstart.models.model import Model, Weights

__all__ = ["MLP", "Activation", "Init", "Model", "Weights"]
