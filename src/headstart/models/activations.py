"""Activations: their names, and the torch functions behind them."""

from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class Activation(StrEnum):
    """relu: max(0, z). gelu: z Phi(z), exact. sigmoid: 1 / (1 + exp(-z)). quadratic: z^2. erf: erf(z / sqrt 2). tanh.

    he2, he3, he4: the Hermite polynomials z^2 - 1, z^3 - 3z and z^4 - 6z^2 + 3.
    """

    RELU = "relu"
    GELU = "gelu"
    SIGMOID = "sigmoid"
    QUADRATIC = "quadratic"
    ERF = "erf"
    TANH = "tanh"
    HE2 = "he2"
    HE3 = "he3"
    HE4 = "he4"


def torch_function(activation: Activation) -> Any:
    """The activation on tensors."""
    import torch

    return {
        Activation.RELU: torch.relu,
        Activation.GELU: torch.nn.functional.gelu,
        Activation.SIGMOID: torch.sigmoid,
        Activation.QUADRATIC: torch.square,
        Activation.ERF: _erf,
        Activation.TANH: torch.tanh,
        Activation.HE2: _he2,
        Activation.HE3: _he3,
        Activation.HE4: _he4,
    }[activation]


def _erf(z: "torch.Tensor") -> "torch.Tensor":
    return (z * 0.5**0.5).erf()


def _he2(z: "torch.Tensor") -> "torch.Tensor":
    return z * z - 1


def _he3(z: "torch.Tensor") -> "torch.Tensor":
    return z * (z * z - 3)


def _he4(z: "torch.Tensor") -> "torch.Tensor":
    square = z * z
    return square * (square - 6) + 3
