"""The activations as torch functions."""

from typing import Any

import torch

from headstart.models.mlp import Activation

ACTIVATIONS: dict[Activation, Any] = {
    Activation.RELU: torch.relu,
    Activation.GELU: torch.nn.functional.gelu,
    Activation.SIGMOID: torch.sigmoid,
    Activation.QUADRATIC: torch.square,
}
