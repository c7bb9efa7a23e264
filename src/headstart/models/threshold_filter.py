"""One convolutional filter with a soft threshold: the smallest network that finds a signal among patches of noise."""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headstart.core.draws import scaled_normals
from headstart.core.errors import HeadstartError, check_flag, check_nonnegative
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ThresholdFilter:
    """f(x) = sum_i relu(<w, x_i> + b) - relu(-<w, x_i> + b) over the rows x_i of x: a soft threshold for b < 0.

    A filter of stride d on patches of d numbers, and a readout of ones that is not trained. w [1, d] is of Role input,
    b [1] of Role bias, so that LayerScale(rate={"bias": 1 / k}) gives b its own rate. w_0 ~ N(0, std^2), b_0 = 0.
    With threshold=False there is no b, and f = sum_i <w, x_i> is linear.

    Reference: Local Signal Adaptivity, Section 3.3 of the thesis that `LocalSignal` names; there both ReLUs are one
    filter and its negative, and a linear filter is what the network is compared with.
    """

    std: float = 1e-6
    threshold: bool = True

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_nonnegative("ThresholdFilter", "std", self.std)
        check_flag("ThresholdFilter", "threshold", self.threshold)

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """filter.weight, w, threshold.bias, b, and readout.weight, ones that stay; the filter goes over every row."""
        if len(signature.inputs) != 2 or signature.symbols is not None or signature.outputs:
            raise HeadstartError(
                "ThresholdFilter: it maps rows [patches, dim] to one number, as LocalSignal has them; this task has "
                f"inputs {signature.inputs} and outputs {signature.outputs}"
            )
        rows, dim = signature.inputs
        weight = Parameter("filter.weight", Role.INPUT, 0, (1, dim), dim, 4 * rows * dim)
        bias = Parameter("threshold.bias", Role.BIAS, 0, (1,), dim, 6 * rows)
        ones = Parameter("readout.weight", Role.READOUT, 1, (1, rows), rows, fixed=True)
        return (weight, bias, ones) if self.threshold else (weight, ones)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """w from id 0 of the init stream; b is 0."""
        weight, *others = self.parameters(signature)
        weights = {weight.name: scaled_normals(seed, 0, 0, prod(weight.shape), self.std).reshape(weight.shape)}
        return weights | {p.name: np.full(p.shape, float(p.fixed), dtype=np.float32) for p in others}

    def module(self, signature: Signature) -> "torch.nn.Module":
        """The network as a torch module."""
        import torch

        (rows, dim), threshold = signature.inputs, self.threshold
        self.parameters(signature)

        class Filter(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.filter = torch.nn.Linear(dim, 1, bias=False, device="meta").to_empty(device="cpu")
                if threshold:
                    self.threshold = torch.nn.Module()
                    self.threshold.register_parameter("bias", torch.nn.Parameter(torch.zeros(1)))
                self.readout = torch.nn.Linear(rows, 1, bias=False, device="meta").to_empty(device="cpu")

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                z = self.filter(x).squeeze(-1)
                if threshold:
                    z = torch.relu(z + self.threshold.bias) - torch.relu(self.threshold.bias - z)
                return (z * self.readout.weight[0]).sum(dim=-1)

        return Filter()
