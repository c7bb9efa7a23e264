"""Multi-layer perceptrons with one output."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter, Role
from headstart.core.streams import Stream, normals, uniforms
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch


class Activation(StrEnum):
    """relu: max(0, z). gelu: z Phi(z), exact. sigmoid: 1 / (1 + exp(-z)). quadratic: z^2."""

    RELU = "relu"
    GELU = "gelu"
    SIGMOID = "sigmoid"
    QUADRATIC = "quadratic"


class Init(StrEnum):
    """torch_default: U(-1/sqrt(fan_in), 1/sqrt(fan_in)). gaussian: N(0, 1/fan_in), sqrt(3) times as wide."""

    TORCH_DEFAULT = "torch_default"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class MLP:
    """f(x) = a . s(W_{L-1} ... s(W_1 x + b_1) ... + b_{L-1}) + c with `depth` = L weight layers of equal width.

    Depth 1 is a linear model and ignores the width. There are no residual connections. With `bias=False` all biases
    are absent. Biases are drawn like the weights of their layer, as PyTorch does.
    """

    width: int = 64
    depth: int = 2
    activation: Activation = Activation.RELU
    bias: bool = True
    init: Init = Init.TORCH_DEFAULT

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("MLP", "width", self.width)
        check_count("MLP", "depth", self.depth)
        for name, kind in (("activation", Activation), ("init", Init)):
            value = getattr(self, name)
            if value not in list(kind):
                raise HeadstartError(f"MLP({name}={value!r}): choose one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))

    def parameters(self, dim: int) -> tuple[Parameter, ...]:
        """Weights [fan_out, fan_in] named layers.i.weight, biases [fan_out] named layers.i.bias."""
        out = []
        for layer in range(self.depth):
            fan_in = dim if layer == 0 else self.width
            fan_out = 1 if layer == self.depth - 1 else self.width
            role = Role.READOUT if layer == self.depth - 1 else Role.INPUT if layer == 0 else Role.HIDDEN
            out.append(Parameter(f"layers.{layer}.weight", role, layer, (fan_out, fan_in), fan_in))
            if self.bias:
                out.append(Parameter(f"layers.{layer}.bias", Role.BIAS, layer, (fan_out,), fan_in))
        return tuple(out)

    def initial_weights(self, dim: int, seed: int) -> Weights:
        """Parameter number i (weights even, biases odd) is drawn from id i of the init stream."""
        weights: Weights = {}
        for parameter in self.parameters(dim):
            id, size = 2 * parameter.layer + (parameter.role is Role.BIAS), int(np.prod(parameter.shape))
            scale = parameter.fan_in**-0.5
            if self.init is Init.GAUSSIAN:
                values = scale * normals(seed, Stream.INIT, [id], size)[0].astype(np.float64)
            else:
                values = scale * (2.0 * uniforms(seed, Stream.INIT, [id], size)[0] - 1.0)
            weights[parameter.name] = values.astype(np.float32).reshape(parameter.shape)
        return weights

    def module(self, dim: int) -> "torch.nn.Module":
        """The network as a torch module."""
        import torch

        activation: Any = {
            Activation.RELU: torch.relu,
            Activation.GELU: torch.nn.functional.gelu,
            Activation.SIGMOID: torch.sigmoid,
            Activation.QUADRATIC: torch.square,
        }[self.activation]

        class Network(torch.nn.Module):
            def __init__(self, sizes: list[tuple[int, int]], bias: bool) -> None:
                super().__init__()
                # Built on "meta" first, so that no generator is touched; the caller loads the values.
                self.layers = torch.nn.ModuleList(
                    torch.nn.Linear(fan_in, fan_out, bias=bias, device="meta") for fan_out, fan_in in sizes
                ).to_empty(device="cpu")

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for layer in self.layers[:-1]:
                    x = activation(layer(x))
                return self.layers[-1](x).squeeze(-1)

        return Network([(p.shape[0], p.shape[1]) for p in self.parameters(dim) if p.role is not Role.BIAS], self.bias)
