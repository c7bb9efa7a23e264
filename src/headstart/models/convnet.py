"""Convolutional networks with batch norm, which can be stacked: several copies as one network of grouped convolutions.

A module of k copies reads images whose channels are those of k images one after another, and every parameter and
buffer has the rows of k networks one after another: convolutions have k groups, and batch norm has a mean and a
variance of each channel anyway. So copies do not mix, and one module is as good as k.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from headstart.core.draws import scaled_normals, symmetric_uniforms
from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch


class Convolution(NamedTuple):
    """A convolution of 3 x 3, with batch norm: channels in and out, stride, and the side of its output."""

    name: str
    channels: int
    width: int
    stride: int
    positions: int


@dataclass(frozen=True)
class ConvNet:
    """`depth` times a 3 x 3 convolution, batch norm and ReLU; then the mean over positions and a linear readout.

    Convolution i has width 2^i channels and, but for the first, stride 2. Inputs are [channels, height, width], with
    one score per class. Convolutions have no bias and begin as N(0, 2 / fan_in), batch norm as the identity, and the
    readout as PyTorch's.
    """

    width: int = 8
    depth: int = 3

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("ConvNet", "width", self.width)
        check_count("ConvNet", "depth", self.depth, maximum=16)

    def convolutions(self, signature: Signature) -> tuple[Convolution, ...]:
        """The convolutions in their order."""
        channels, *sides = image_shape("ConvNet", signature)
        found = []
        for i in range(self.depth):
            stride, width = 1 if i == 0 else 2, self.width * 2**i
            sides = [(side - 1) // stride + 1 for side in sides]
            found.append(Convolution(f"blocks.{i}", channels, width, stride, prod(sides)))
            channels = width
        return tuple(found)

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """blocks.i.weight [out, in, 3, 3], blocks.i.norm.scale and .shift [out]; readout.weight and readout.bias."""
        return _parameters(self.convolutions(signature), signature)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Parameter number i is drawn from id i of the init stream; batch norm is the identity."""
        return drawn_weights(self.parameters(signature), seed)

    def module(self, signature: Signature, copies: int = 1) -> "torch.nn.Module":
        """The network, or `copies` of it: [n, copies * channels, height, width] to [n, copies, classes]."""
        return _modules().Plain(self.convolutions(signature), signature.num_outputs, copies)


@dataclass(frozen=True)
class ResNet:
    """The residual network of He et al. (2016) for small images: depth 20 is ResNet-20.

    A convolution, then three stages of (depth - 2) / 6 blocks of two convolutions, with width, 2 width and 4 width
    channels; the second and third stage begin with stride 2. A block adds its input, at every second position and with
    zeros as further channels where the shapes differ (their option A). Batch norm after every convolution, before the
    ReLU; then the mean over positions and a linear readout. It begins as `ConvNet` does.
    """

    depth: int = 20
    width: int = 16

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("ResNet", "width", self.width)
        check_count("ResNet", "depth", self.depth, minimum=8, maximum=1202)
        if self.depth % 6 != 2:
            raise HeadstartError(f"ResNet(depth={self.depth}): give 6 n + 2, such as 20 or 56")

    def convolutions(self, signature: Signature) -> tuple[Convolution, ...]:
        """The first one, and two of each block."""
        channels, *sides = image_shape("ResNet", signature)
        found = [Convolution("stem", channels, self.width, 1, prod(sides))]
        channels = self.width
        each = (self.depth - 2) // 6
        for block in range(3 * each):
            width, stride = self.width * 2 ** (block // each), 2 if block in (each, 2 * each) else 1
            sides = [(side - 1) // stride + 1 for side in sides]
            found.append(Convolution(f"blocks.{block}.first", channels, width, stride, prod(sides)))
            found.append(Convolution(f"blocks.{block}.second", width, width, 1, prod(sides)))
            channels = width
        return tuple(found)

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """stem, blocks.i.first and blocks.i.second, each with .weight, .norm.scale and .norm.shift; the readout."""
        return _parameters(self.convolutions(signature), signature)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Parameter number i is drawn from id i of the init stream; batch norm is the identity."""
        return drawn_weights(self.parameters(signature), seed)

    def module(self, signature: Signature, copies: int = 1) -> "torch.nn.Module":
        """The network, or `copies` of it: [n, copies * channels, height, width] to [n, copies, classes]."""
        return _modules().Residual(self.convolutions(signature), signature.num_outputs, copies)


def image_shape(owner: str, signature: Signature) -> tuple[int, ...]:
    """Channels, height and width of the inputs."""
    if len(signature.inputs) != 3 or signature.symbols is not None or len(signature.outputs) != 1:
        raise HeadstartError(
            f"{owner}: it maps images [channels, height, width] to one score per class, and this task has inputs "
            f"{signature.inputs} and outputs {signature.outputs}; use Images(..., flat=False)"
        )
    return signature.inputs


def _parameters(convolutions: tuple[Convolution, ...], signature: Signature) -> tuple[Parameter, ...]:
    def all_of() -> Iterator[Parameter]:
        for layer, c in enumerate(convolutions):
            shape, role = (c.width, c.channels, 3, 3), Role.INPUT if layer == 0 else Role.HIDDEN
            flops = 6 * prod(shape) * c.positions
            yield Parameter(f"{c.name}.weight", role, layer, shape, prod(shape[1:]), flops)
            for name in ("scale", "shift"):
                yield Parameter(f"{c.name}.norm.{name}", Role.NORM, layer, (c.width,), 1, 2 * c.width * c.positions)
        fan_in, last = convolutions[-1].width, len(convolutions)
        yield Parameter("readout.weight", Role.READOUT, last, (signature.num_outputs, fan_in), fan_in)
        yield Parameter("readout.bias", Role.BIAS, last, (signature.num_outputs,), fan_in)

    return tuple(all_of())


def drawn_weights(parameters: tuple[Parameter, ...], seed: int) -> Weights:
    """Convolutions as N(0, 2 / fan_in), batch norm as the identity, the readout as PyTorch's."""
    weights: Weights = {}
    for id, p in enumerate(parameters):
        if p.role is Role.NORM:
            value = np.full(p.shape, float(p.name.endswith("scale")), dtype=np.float32)
        elif p.role in (Role.READOUT, Role.BIAS):
            value = symmetric_uniforms(seed, id, 0, prod(p.shape), p.fan_in**-0.5).reshape(p.shape)
        else:
            value = scaled_normals(seed, id, 0, prod(p.shape), (2 / p.fan_in) ** 0.5).reshape(p.shape)
        weights[p.name] = value
    return weights


@lru_cache(maxsize=1)
def _modules() -> Any:
    """The torch modules; torch is imported when a network is built."""
    from headstart.models import convolutions

    return convolutions
