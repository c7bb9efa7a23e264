"""The wide residual network of pre-activation blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.models.convnet import drawn_weights, image_shape
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch

# Channels of the first convolution, and of the three stages per unit of widening.
_STEM, _STAGES = 16, (16, 32, 64)


class WideBlock(NamedTuple):
    """A block: channels in and out, stride, and the positions of its input and of its output."""

    channels: int
    width: int
    stride: int
    positions_in: int
    positions: int


@dataclass(frozen=True)
class WideResNet:
    """WRN-depth-widen of Zagoruyko and Komodakis (2016) for small images; WideResNet(10, 10) is WRN-10-10.

    A convolution to 16 channels, then three stages of (depth - 4) / 6 blocks with 16, 32 and 64 times `widen` channels;
    the second and third begin with stride 2. A block is twice batch norm, ReLU and a 3 x 3 convolution, and its input
    added, by a 1 x 1 convolution in the first block of a stage. Then batch norm, ReLU, the mean over positions and a
    linear readout. Convolutions have no bias; it begins as `ConvNet` does.
    """

    depth: int = 10
    widen: int = 1

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("WideResNet", "widen", self.widen)
        check_count("WideResNet", "depth", self.depth, minimum=10, maximum=1204)
        if self.depth % 6 != 4:
            raise HeadstartError(f"WideResNet(depth={self.depth}): give 6 n + 4, such as 10 or 28")

    def blocks(self, signature: Signature) -> tuple[WideBlock, ...]:
        """The blocks in their order."""
        channels, (_, *sides) = _STEM, image_shape("WideResNet", signature)
        found, each = [], (self.depth - 4) // 6
        for number in range(3 * each):
            width, stride = self.widen * _STAGES[number // each], 2 if number in (each, 2 * each) else 1
            before, sides = prod(sides), [(side - 1) // stride + 1 for side in sides]
            found.append(WideBlock(channels, width, stride, before, prod(sides)))
            channels = width
        return tuple(found)

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """stem.weight; of blocks.i, first and second with .weight, .norm.scale and .norm.shift, and shortcut.weight.

        A block that changes neither shape nor stage has no shortcut. Then norm.scale and norm.shift; the readout.
        """
        return tuple(self._parameters(signature))

    def _parameters(self, signature: Signature) -> Iterator[Parameter]:
        blocks, layer = self.blocks(signature), 0

        def convolution(name: str, shape: tuple[int, ...], positions: int) -> Parameter:
            role = Role.INPUT if layer == 0 else Role.HIDDEN
            return Parameter(f"{name}.weight", role, layer, shape, prod(shape[1:]), 6 * prod(shape) * positions)

        def norm(name: str, width: int, positions: int) -> Iterator[Parameter]:
            for part in ("scale", "shift"):
                yield Parameter(f"{name}norm.{part}", Role.NORM, layer, (width,), 1, 2 * width * positions)

        channels = image_shape("WideResNet", signature)[0]
        yield convolution("stem", (_STEM, channels, 3, 3), blocks[0].positions_in)
        for number, b in enumerate(blocks):
            for part, width, positions in (("first", b.channels, b.positions_in), ("second", b.width, b.positions)):
                layer += 1
                yield convolution(f"blocks.{number}.{part}", (b.width, width, 3, 3), b.positions)
                yield from norm(f"blocks.{number}.{part}.", width, positions)
            if self.has_shortcut(number):
                yield convolution(f"blocks.{number}.shortcut", (b.width, b.channels, 1, 1), b.positions)
        layer += 1
        fan_in = blocks[-1].width
        yield from norm("", fan_in, blocks[-1].positions)
        yield Parameter("readout.weight", Role.READOUT, layer, (signature.num_outputs, fan_in), fan_in)
        yield Parameter("readout.bias", Role.BIAS, layer, (signature.num_outputs,), fan_in)

    def has_shortcut(self, number: int) -> bool:
        """Whether the input of a block goes through a convolution: in the first of each stage."""
        return number % ((self.depth - 4) // 6) == 0

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Parameter number i is drawn from id i of the init stream; batch norm is the identity."""
        return drawn_weights(self.parameters(signature), seed)

    def module(self, signature: Signature) -> "torch.nn.Module":
        """The network: [n, channels, height, width] to [n, classes]."""
        from headstart.models.convolutions import Wide

        channels = image_shape("WideResNet", signature)[0]
        blocks = self.blocks(signature)
        shortcuts = [self.has_shortcut(number) for number in range(len(blocks))]
        return Wide(channels, _STEM, blocks, shortcuts, signature.num_outputs)
