"""The torch modules of `convnet`: copies of a network side by side, as groups of channels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

# Share of a batch's mean and variance in the running ones, and what is added to a variance; those of PyTorch.
_MOMENTUM, _EPS = 0.1, 1e-5


class Norm(torch.nn.Module):
    """Batch norm: by the batch in training, by running means and variances else."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = (torch.nn.Parameter(torch.empty(width)) for _ in range(2))
        self.momentum = _MOMENTUM
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of each channel of [n, channels, height, width]."""
        mean: Any = self.running_mean
        var: Any = self.running_var
        return functional.batch_norm(x, mean, var, self.scale, self.shift, self.training, self.momentum, _EPS)


class Block(torch.nn.Module):
    """A convolution of 3 x 3 and batch norm, of each copy by itself."""

    def __init__(self, channels: int, width: int, stride: int, copies: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(copies * width, channels, 3, 3))
        self.norm = Norm(copies * width)
        self.stride, self.copies = stride, copies

    def forward(self, x: torch.Tensor) -> Any:
        """Zeros around the image; the stride skips positions."""
        return self.norm(functional.conv2d(x, self.weight, None, self.stride, 1, 1, self.copies))


class Readout(torch.nn.Module):
    """The mean over positions, then a linear map of each copy."""

    def __init__(self, width: int, num_outputs: int, copies: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(copies * num_outputs, width))
        self.bias = torch.nn.Parameter(torch.empty(copies * num_outputs))
        self.copies = copies

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, copies * width, height, width] to [n, outputs], or [n, copies, outputs] of several copies."""
        h = x.mean(dim=(2, 3))
        if self.copies == 1:
            return functional.linear(h, self.weight, self.bias)
        h = h.unflatten(1, (self.copies, -1)).transpose(0, 1)
        weight = self.weight.unflatten(0, (self.copies, -1)).transpose(1, 2)
        return torch.baddbmm(self.bias.unflatten(0, (self.copies, 1, -1)), h, weight).transpose(0, 1)


class Plain(torch.nn.Module):
    """Blocks with ReLU, one after another."""

    def __init__(self, convolutions: Sequence[Any], num_outputs: int, copies: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(c.channels, c.width, c.stride, copies) for c in convolutions)
        self.readout = Readout(convolutions[-1].width, num_outputs, copies)

    def forward(self, x: torch.Tensor) -> Any:
        """Scores."""
        for block in self.blocks:
            x = torch.relu(block(x))
        return self.readout(x)


class ResidualBlock(torch.nn.Module):
    """Two blocks, and the input added."""

    def __init__(self, first: Any, second: Any, copies: int) -> None:
        super().__init__()
        self.first = Block(first.channels, first.width, first.stride, copies)
        self.second = Block(second.channels, second.width, second.stride, copies)
        self.stride, self.copies, self.more = first.stride, copies, first.width - first.channels

    def forward(self, x: torch.Tensor) -> Any:
        """ReLU of the sum."""
        h = self.second(torch.relu(self.first(x)))
        x = x[:, :, :: self.stride, :: self.stride]
        if self.more:  # zeros as further channels, half before and half after those of each copy
            before = self.more // 2
            apart = x.unflatten(1, (self.copies, -1))
            x = functional.pad(apart, (0, 0, 0, 0, before, self.more - before)).flatten(1, 2)
        return torch.relu(h + x)


class Residual(torch.nn.Module):
    """A block with ReLU, then residual ones."""

    def __init__(self, convolutions: Sequence[Any], num_outputs: int, copies: int) -> None:
        super().__init__()
        stem, *others = convolutions
        self.stem = Block(stem.channels, stem.width, stem.stride, copies)
        pairs = zip(others[::2], others[1::2], strict=True)
        self.blocks = torch.nn.ModuleList(ResidualBlock(first, second, copies) for first, second in pairs)
        self.readout = Readout(others[-1].width, num_outputs, copies)

    def forward(self, x: torch.Tensor) -> Any:
        """Scores."""
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.readout(x)


class PreActivationBlock(torch.nn.Module):
    """Twice batch norm, ReLU and a convolution of 3 x 3; the input is added, by a convolution of 1 x 1 if asked for."""

    def __init__(self, channels: int, width: int, stride: int, shortcut: bool) -> None:
        super().__init__()
        self.first, self.second = Activated(channels, width, stride), Activated(width, width, 1)
        self.shortcut = Convolved(channels, width, stride) if shortcut else torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> Any:
        """The sum; no ReLU follows."""
        return self.second(self.first(x)) + self.shortcut(x)


class Activated(torch.nn.Module):
    """Batch norm, ReLU, and a convolution of 3 x 3."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.norm = Norm(channels)
        self.weight = torch.nn.Parameter(torch.empty(width, channels, 3, 3))
        self.stride = stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Zeros around the image; the stride skips positions."""
        return functional.conv2d(torch.relu(self.norm(x)), self.weight, None, self.stride, 1)


class Convolved(torch.nn.Module):
    """A convolution, of 1 x 1 unless another size is given."""

    def __init__(self, channels: int, width: int, stride: int, size: int = 1) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(width, channels, size, size))
        self.stride, self.padding = stride, size // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Every `stride`-th position."""
        return functional.conv2d(x, self.weight, None, self.stride, self.padding)


class Wide(torch.nn.Module):
    """A convolution, pre-activation blocks, batch norm and ReLU, the mean over positions, a linear map."""

    def __init__(
        self, channels: int, stem: int, blocks: Sequence[Any], shortcuts: Sequence[bool], num_outputs: int
    ) -> None:
        super().__init__()
        self.stem = Convolved(channels, stem, 1, size=3)
        each = zip(blocks, shortcuts, strict=True)
        self.blocks = torch.nn.ModuleList(PreActivationBlock(b.channels, b.width, b.stride, s) for b, s in each)
        self.norm = Norm(blocks[-1].width)
        self.readout = Readout(blocks[-1].width, num_outputs, 1)

    def forward(self, x: torch.Tensor) -> Any:
        """Scores."""
        # Channels last in memory: convolutions are a third faster so. By permutations, which vmap knows.
        x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.readout(torch.relu(self.norm(x)))
