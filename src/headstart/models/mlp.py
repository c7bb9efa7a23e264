"""Multi-layer perceptrons."""

from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.draws import scaled_normals, symmetric_uniforms
from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.models.activations import Activation, torch_function
from headstart.models.embedding import MAP, TABLE, Embedding
from headstart.models.fixed_tables import FixedTable
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch

# Up to so many symbols the first layer is applied to the whole table, and its rows are looked up.
_MOST_SYMBOLS = 1024


class Init(StrEnum):
    """torch_default: U(-1/sqrt(fan_in), 1/sqrt(fan_in)). gaussian: N(0, 1/fan_in), sqrt(3) times as wide.

    committee: gaussian but for the readout, whose weights are 1/fan_in and whose bias is 0, so that the output is the
    mean of the last neurons.
    """

    TORCH_DEFAULT = "torch_default"
    GAUSSIAN = "gaussian"
    COMMITTEE = "committee"


@dataclass(frozen=True)
class MLP:
    """f(x) = a . s(W_{L-1} ... s(W_1 x + b_1) ... + b_{L-1}) + c with `depth` = L weight layers of equal width.

    Inputs of any shape are read as one vector; there are as many outputs as the task's signature says. Symbols are
    looked up in a table, `embedding`, learned or given, and their vectors stand one after another; an `Embedding` of
    real inputs is a linear map before the first layer. Depth 1 is a linear model and ignores the width. There are no
    residual connections. With `bias=False` all biases are absent. Biases are drawn like the weights of their layer, as
    PyTorch does.

    A committee machine, f(x) = (1/p) sum_j a_j s(<w_j, x>) with |w_j| = 1, is

        MLP(p, activation="erf", bias=False, init="committee") with methods (OnSphere(),)

    with all a_j = 1 at the start; LayerScale(rate={"readout": 0}) keeps them, and LayerScale(init={"readout": 0.1})
    begins with a_j = 0.1. What is trained is a_j / p, so that a rate of eta on a_j is a factor of 1 / p^2.
    """

    width: int = 64
    depth: int = 2
    activation: Activation = Activation.RELU
    bias: bool = True
    init: Init = Init.TORCH_DEFAULT
    embedding: Embedding | FixedTable | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("MLP", "width", self.width)
        check_count("MLP", "depth", self.depth, maximum=10_000)
        for name, kind in (("activation", Activation), ("init", Init)):
            value = getattr(self, name)
            if value not in list(kind):
                raise HeadstartError(f"MLP({name}={value!r}): choose one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))
        if self.embedding is not None and not isinstance(self.embedding, Embedding | FixedTable):
            raise HeadstartError(f"MLP(embedding={self.embedding!r}): give Embedding(dim=...), or a table as OneHot()")

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """Weights [fan_out, fan_in] named layers.i.weight, biases [fan_out] named layers.i.bias, after the table."""
        if signature.symbols is not None and self.embedding is None:
            fix = f"{signature.symbols} symbols; look them up by MLP(embedding=Embedding(dim=...))"
            raise HeadstartError(f"MLP(embedding=None): the inputs of this task are {fix}")
        table, vectors = self.embedding, signature.num_inputs if signature.symbols else 1
        out = [] if table is None else list(table.parameters(signature))
        first = signature.num_inputs if table is None else vectors * table.vector_dim(signature)
        below = 0 if table is None else 1
        for i in range(self.depth):
            last = i == self.depth - 1
            fan_in, fan_out = first if i == 0 else self.width, signature.num_outputs if last else self.width
            role = Role.READOUT if last else Role.INPUT if i + below == 0 else Role.HIDDEN
            out.append(Parameter(f"layers.{i}.weight", role, i + below, (fan_out, fan_in), fan_in))
            if self.bias:
                out.append(Parameter(f"layers.{i}.bias", Role.BIAS, i + below, (fan_out,), fan_in))
        return tuple(out)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Parameter number i of the layers (weights even, biases odd) is drawn from id i of the init stream."""
        weights: Weights = {} if self.embedding is None else self.embedding.initial_weights(signature, seed)
        for parameter in self.parameters(signature):
            if parameter.name not in weights:
                weights[parameter.name] = self.initial_rows(parameter, seed, 0, parameter.shape[0])
        return weights

    def initial_rows(self, parameter: Parameter, seed: int, first: int, after: int) -> NDArray[np.float32]:
        """Rows first .. after - 1 of a layer's weight or bias at step 0, drawn without the others."""
        layer = int(parameter.name.split(".")[1])
        if self.init is Init.COMMITTEE and layer == self.depth - 1:
            value = 0.0 if parameter.role is Role.BIAS else 1 / parameter.fan_in
            return np.full((after - first, *parameter.shape[1:]), value, dtype=np.float32)
        id, row = 2 * layer + (parameter.role is Role.BIAS), prod(parameter.shape[1:])
        draw = symmetric_uniforms if self.init is Init.TORCH_DEFAULT else scaled_normals
        values = draw(seed, id, first * row, (after - first) * row, parameter.fan_in**-0.5)
        return values.reshape(after - first, *parameter.shape[1:])

    def module(self, signature: Signature) -> "torch.nn.Module":
        """The network as a torch module."""
        import torch

        from headstart.models.lookup import Table, looked_up

        activation, bias = torch_function(self.activation), self.bias
        symbols, outputs = signature.symbols, signature.outputs
        shapes = {p.name: p.shape for p in self.parameters(signature) if p.role is not Role.BIAS}
        tables = [shapes.pop(name) for name in (TABLE, MAP) if name in shapes]

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                if tables:
                    self.embedding = Table(*tables)
                # Built on "meta" first, so that no generator is touched; the caller loads the values.
                self.layers = torch.nn.ModuleList(
                    torch.nn.Linear(fan_in, fan_out, bias=bias, device="meta") for fan_out, fan_in in shapes.values()
                ).to_empty(device="cpu")

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = self._first(x.flatten(1) if x.dim() > 2 else x)
                for layer in self.layers[1:]:
                    x = layer(activation(x))
                return x.reshape(-1, *outputs) if len(outputs) > 1 else x if outputs else x.squeeze(-1)

            def _first(self, x: torch.Tensor) -> Any:
                """The first layer on inputs, on their map, or on the vectors of their symbols."""
                first: Any = self.layers[0]
                if not tables:
                    return first(x)
                if symbols is None:
                    return first(self.embedding(x))
                table = self.embedding()
                if symbols > _MOST_SYMBOLS:
                    return first(torch.nn.functional.embedding(x, table).flatten(1))
                # W (E_s, E_t) = (W_1 E)_s + (W_2 E)_t: one row per symbol and place instead of one per sample.
                weights = first.weight.unflatten(1, (-1, table.shape[1]))
                h = looked_up(torch.einsum("wjd,sd->jsw", weights, table), x)
                return h if first.bias is None else h + first.bias

        return Network()
