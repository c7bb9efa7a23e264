"""Multi-layer perceptrons."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals, uniforms
from headstart.models.activations import Activation, torch_function
from headstart.models.embedding import Embedding
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch


class Init(StrEnum):
    """torch_default: U(-1/sqrt(fan_in), 1/sqrt(fan_in)). gaussian: N(0, 1/fan_in), sqrt(3) times as wide."""

    TORCH_DEFAULT = "torch_default"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class MLP:
    """f(x) = a . s(W_{L-1} ... s(W_1 x + b_1) ... + b_{L-1}) + c with `depth` = L weight layers of equal width.

    Inputs of any shape are read as one vector; there are as many outputs as the task's signature says. Symbols are
    looked up in a table, `embedding`, and their vectors stand one after another. Depth 1 is a linear model and ignores
    the width. There are no residual connections. With `bias=False` all biases are absent. Biases are drawn like the
    weights of their layer, as PyTorch does.
    """

    width: int = 64
    depth: int = 2
    activation: Activation = Activation.RELU
    bias: bool = True
    init: Init = Init.TORCH_DEFAULT
    embedding: Embedding | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("MLP", "width", self.width)
        check_count("MLP", "depth", self.depth, maximum=10_000)
        for name, kind in (("activation", Activation), ("init", Init)):
            value = getattr(self, name)
            if value not in list(kind):
                raise HeadstartError(f"MLP({name}={value!r}): choose one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))
        if self.embedding is not None and not isinstance(self.embedding, Embedding):
            raise HeadstartError(f"MLP(embedding={self.embedding!r}): give Embedding(dim=...)")

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """Weights [fan_out, fan_in] named layers.i.weight, biases [fan_out] named layers.i.bias, after the table."""
        if (signature.symbols is None) != (self.embedding is None):
            fix = "real numbers, not symbols; leave the embedding out"
            if signature.symbols is not None:
                fix = f"{signature.symbols} symbols; look them up by MLP(embedding=Embedding(dim=...))"
            raise HeadstartError(f"MLP(embedding={self.embedding}): the inputs of this task are {fix}")
        out = [] if self.embedding is None else [self.embedding.parameter(signature)]
        first, tables = signature.num_inputs * (self.embedding.dim if self.embedding else 1), len(out)
        for i in range(self.depth):
            last = i == self.depth - 1
            fan_in, fan_out = first if i == 0 else self.width, signature.num_outputs if last else self.width
            role = Role.READOUT if last else Role.INPUT if i + tables == 0 else Role.HIDDEN
            out.append(Parameter(f"layers.{i}.weight", role, i + tables, (fan_out, fan_in), fan_in))
            if self.bias:
                out.append(Parameter(f"layers.{i}.bias", Role.BIAS, i + tables, (fan_out,), fan_in))
        return tuple(out)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Parameter number i of the layers (weights even, biases odd) is drawn from id i of the init stream."""
        weights: Weights = {}
        for parameter in self.parameters(signature):
            if parameter.role is Role.EMBEDDING:
                assert self.embedding is not None
                weights |= self.embedding.initial_weights(signature, seed)
                continue
            layer = int(parameter.name.split(".")[1])
            id, size = 2 * layer + (parameter.role is Role.BIAS), int(np.prod(parameter.shape))
            scale = parameter.fan_in**-0.5
            if self.init is Init.GAUSSIAN:
                values = scale * normals(seed, Stream.INIT, [id], size)[0].astype(np.float64)
            else:
                values = scale * (2.0 * uniforms(seed, Stream.INIT, [id], size)[0] - 1.0)
            weights[parameter.name] = values.astype(np.float32).reshape(parameter.shape)
        return weights

    def module(self, signature: Signature) -> "torch.nn.Module":
        """The network as a torch module."""
        import torch

        activation = torch_function(self.activation)
        symbolic, outputs = signature.symbols is not None, signature.outputs

        class Network(torch.nn.Module):
            def __init__(self, shapes: dict[str, tuple[int, ...]], bias: bool) -> None:
                super().__init__()
                # Built on "meta" first, so that no generator is touched; the caller loads the values.
                if symbolic:
                    num, dim = shapes.pop("embedding.weight")
                    self.embedding = torch.nn.Embedding(num, dim, device="meta")
                    self.embedding.to_empty(device="cpu")
                self.layers = torch.nn.ModuleList(
                    torch.nn.Linear(fan_in, fan_out, bias=bias, device="meta") for fan_out, fan_in in shapes.values()
                ).to_empty(device="cpu")

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if symbolic:
                    x = self.embedding(x)
                x = x.flatten(1) if x.dim() > 2 else x
                for layer in self.layers[:-1]:
                    x = activation(layer(x))
                x = self.layers[-1](x)
                return x.reshape(-1, *outputs) if len(outputs) > 1 else x if outputs else x.squeeze(-1)

        shapes = {p.name: p.shape for p in self.parameters(signature) if p.role is not Role.BIAS}
        return Network(shapes, self.bias)
