"""The optimizers of torch on stacked weights, with a rate and hyperparameters of its own for every member.

torch.optim takes one rate a parameter group, so a member's own rate means writing the two updates out.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.engines.ensemble.network import Stack
from headstart.engines.lower import Lowered
from headstart.optimizers import AdamW
from headstart.run import Run


class Update(Protocol):
    """One optimizer step of every member, in place."""

    @property
    def moments(self) -> tuple[Stack, ...]:
        """The running averages, stacked like the weights: the state beyond the number of steps."""
        ...

    def __call__(self, weights: Stack, gradients: Stack, step: int) -> None:
        """Take step number `step`, the first being 1."""
        ...


class StackedSGD:
    """w <- w - rate * gradient."""

    moments: tuple[Stack, ...] = ()

    def __init__(self, runs: Sequence[Run], lowered: Sequence[Lowered], weights: Stack) -> None:
        rates = np.array([member.rates for member in lowered])
        self.minus_rates = _columns(-rates, weights)

    def __call__(self, weights: Stack, gradients: Stack, step: int) -> None:
        """In place."""
        for name, weight in weights.items():
            weight.addcmul_(gradients[name], self.minus_rates[name])


class StackedAdamW:
    """m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, and, with m' = m / (1 - b1^t) and v' = v / (1 - b2^t),

        w <- w (1 - rate * decay) - rate * m' / (sqrt(v') + eps)

    in the order of operations of torch.optim.AdamW; what depends on members and steps alone is computed in float64.
    """

    def __init__(
        self, runs: Sequence[Run], lowered: Sequence[Lowered], weights: Stack, moments: Sequence[Stack]
    ) -> None:
        optimizers = [run.optimizer for run in runs]
        self.rates = np.array([member.rates for member in lowered])
        self.betas = np.array([(o.beta1, o.beta2) for o in optimizers if isinstance(o, AdamW)])
        self.eps = _shaped(np.array([o.eps for o in optimizers if isinstance(o, AdamW)]), weights)
        decay = np.array([o.weight_decay for o in optimizers if isinstance(o, AdamW)])
        self.shrink = _columns(1 - self.rates * decay[:, None], weights)
        self.fresh1, self.keep2, self.fresh2 = (
            _shaped(values, weights) for values in (1 - self.betas[:, 0], self.betas[:, 1], 1 - self.betas[:, 1])
        )
        zeros = [{name: torch.zeros_like(weight) for name, weight in weights.items()} for _ in range(2)]
        self.moments: tuple[Stack, ...] = tuple(moments or zeros)
        self.scratch = {name: torch.empty_like(weight) for name, weight in weights.items()}

    def __call__(self, weights: Stack, gradients: Stack, step: int) -> None:
        """In place."""
        left1, left2 = 1 - self.betas[:, 0] ** step, np.sqrt(1 - self.betas[:, 1] ** step)
        minus_sizes, roots = _columns(-self.rates / left1[:, None], weights), _shaped(left2, weights)
        first, second = self.moments
        for name, weight in weights.items():
            gradient, m, v, scratch = gradients[name], first[name], second[name], self.scratch[name]
            weight.mul_(self.shrink[name])
            m.lerp_(gradient, self.fresh1[name])
            torch.mul(gradient, gradient, out=scratch).mul_(self.fresh2[name])
            v.mul_(self.keep2[name]).add_(scratch)
            torch.sqrt(v, out=scratch).div_(roots[name]).add_(self.eps[name])
            torch.div(m, scratch, out=scratch)
            weight.addcmul_(scratch, minus_sizes[name])


def build(runs: Sequence[Run], lowered: Sequence[Lowered], weights: Stack, moments: Sequence[Stack] = ()) -> Update:
    """The update of these members, which share the type of their optimizer; without moments, from their beginning."""
    if isinstance(runs[0].optimizer, AdamW):
        return StackedAdamW(runs, lowered, weights, moments)
    return StackedSGD(runs, lowered, weights)


def _columns(values: NDArray[Any], weights: Stack) -> Stack:
    """Column i of [members, parameters] as float32, shaped to multiply the stack of parameter i."""
    device = next(iter(weights.values())).device
    columns = torch.from_numpy(values.T.astype(np.float32)).to(device)
    return {
        name: column.view(-1, *[1] * (weight.ndim - 1))
        for column, (name, weight) in zip(columns, weights.items(), strict=True)
    }


def _shaped(values: NDArray[Any], weights: Stack) -> Stack:
    """The numbers [members] as float32, shaped to multiply the stack of each parameter."""
    column = torch.from_numpy(values.astype(np.float32)).to(next(iter(weights.values())).device)
    return {name: column.view(-1, *[1] * (weight.ndim - 1)) for name, weight in weights.items()}
