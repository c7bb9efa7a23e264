"""Activations: their names, and the torch functions behind them."""

from enum import StrEnum
from typing import Any


class Activation(StrEnum):
    """relu: max(0, z). gelu: z Phi(z), exact. sigmoid: 1 / (1 + exp(-z)). quadratic: z^2."""

    RELU = "relu"
    GELU = "gelu"
    SIGMOID = "sigmoid"
    QUADRATIC = "quadratic"


def torch_function(activation: Activation) -> Any:
    """The activation on tensors."""
    import torch

    return {
        Activation.RELU: torch.relu,
        Activation.GELU: torch.nn.functional.gelu,
        Activation.SIGMOID: torch.sigmoid,
        Activation.QUADRATIC: torch.square,
    }[activation]
