"""The optimizers of torch on stacked weights, with a rate and hyperparameters of its own for every member.

torch.optim takes one rate per parameter group, so a member's own rate means writing the updates out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.kernels.compile import kernels
from headstart.engines.ensemble.network import Stack
from headstart.engines.lower import Lowered
from headstart.optimizers import SGD, AdamW, Decay


class Update(Protocol):
    """One optimizer step of every member, in place.

    `moments` are the running averages by their names in torch, stacked like the weights; `ages` the optimizer's own
    steps so far, int64[members, parameters].
    """

    moments: dict[str, Stack]
    ages: NDArray[np.int64]

    def __call__(self, weights: Stack, gradients: Stack, step: int) -> None:
        """Take step number `step` of the run, the first being 0."""
        ...


class StackedSGD:
    """g <- g + decay w, v <- momentum v + g, w <- w - rate v, in the order of operations of torch.optim.SGD."""

    def __init__(
        self, lowered: Sequence[Lowered], weights: Stack, moments: Mapping[str, Stack], ages: NDArray[np.int64]
    ) -> None:
        optimizers = [o for each in lowered if isinstance(o := each.run.optimizer, SGD)]
        self.ages, self.factors = ages, lowered[0].factors
        self.rates = np.array([each.rates for each in lowered])
        self.minus_rates = _columns(-self.rates, weights)
        self.plain = all(o.plain for o in optimizers)
        self.scheduled = bool((self.factors != 1).any())
        coupled = np.array([o.weight_decay * (o.decay is Decay.COUPLED) for o in optimizers])
        self.shrink, momentum = np.array([o.shrink for o in optimizers]), np.array([o.momentum for o in optimizers])
        self.penalty = _shaped(coupled, weights) if coupled.any() else None
        self.momentum = _shaped(momentum, weights)
        self.ahead = _shaped(np.array([o.momentum * o.nesterov for o in optimizers]), weights)
        self.nesterov = _shaped(np.array([float(o.nesterov) for o in optimizers]), weights)
        self.moments: dict[str, Stack] = dict(moments)
        if momentum.any() and not self.moments:
            self.moments = {"momentum_buffer": {name: torch.zeros_like(w) for name, w in weights.items()}}

    def __call__(self, weights: Stack, gradients: Stack, step: int) -> None:
        """In place."""
        self.ages += 1
        factor = self.factors[step]
        minus_rates = _columns(-self.rates * factor, weights) if self.scheduled else self.minus_rates
        shrink = None if not self.shrink.any() else _columns(1 - self.rates * factor * self.shrink[:, None], weights)
        for name, weight in weights.items():
            g = gradients[name]
            if not self.plain:
                if shrink is not None:
                    weight.mul_(shrink[name])
                if self.penalty is not None:
                    g = g + self.penalty[name] * weight
                if self.moments:
                    v = self.moments["momentum_buffer"][name]
                    v.mul_(self.momentum[name]).add_(g)
                    # Of Nesterov's step, g + momentum v; else v itself.
                    g = torch.where(self.nesterov[name] > 0, g + self.ahead[name] * v, v)
            weight.addcmul_(g, minus_rates[name])


class StackedAdamW:
    """m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, and, with m' = m / (1 - b1^t) and v' = v / (1 - b2^t),

        w <- w (1 - rate * decay) - rate * m' / (sqrt(v') + eps)

    as torch.optim.AdamW has it; what depends on members and steps alone is computed in float64. A coupled decay adds
    decay w to g instead. In float32 on the CPU a kernel does it in one pass over the numbers.
    """

    def __init__(
        self, lowered: Sequence[Lowered], weights: Stack, moments: Mapping[str, Stack], ages: NDArray[np.int64]
    ) -> None:
        optimizers = [o for each in lowered if isinstance(o := each.run.optimizer, AdamW)]
        self.ages, self.factors = ages, lowered[0].factors
        self.rates = np.array([each.rates for each in lowered])
        decay = [o.weight_decay * (o.decay is Decay.DECOUPLED) for o in optimizers]
        betas_and_eps = [(o.beta1, o.beta2, o.eps) for o in optimizers]
        self.adam = np.column_stack((betas_and_eps, decay)).astype(np.float64)
        coupled = np.array([o.weight_decay * (o.decay is Decay.COUPLED) for o in optimizers])
        self.penalty = _shaped(coupled, weights) if coupled.any() else None
        names = ("exp_avg", "exp_avg_sq")
        zeros = {kind: {name: torch.zeros_like(weight) for name, weight in weights.items()} for kind in names}
        self.moments: dict[str, Stack] = {kind: moments[kind] for kind in names} if moments else zeros

    def __call__(self, weights: Stack, gradients: Stack, step: int) -> None:
        """In place."""
        self.ages += 1
        rates = self.rates * self.factors[step]
        for i, (name, weight) in enumerate(weights.items()):
            gradient, m, v = gradients[name], self.moments["exp_avg"][name], self.moments["exp_avg_sq"][name]
            if self.penalty is not None:
                gradient = gradient + self.penalty[name] * weight
            plain = weight.dtype == torch.float32 and weight.device.type == "cpu"
            take = _in_one_pass if plain and all(t.is_contiguous() for t in (weight, m, v)) else _in_steps
            take(weight, gradient, m, v, rates[:, i], self.adam, self.ages[:, i])


def _in_one_pass(
    weight: torch.Tensor, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor, rates: Any, adam: Any, ages: Any
) -> None:
    """AdamW on the stack of one parameter: rates [members], adam [members, 4] and ages int64[members]."""
    kernels("engines.fused.optim").adamw(
        *(t.detach().reshape(len(t), -1).numpy() for t in (weight, gradient, m, v)), rates.copy(), adam, ages.copy()
    )


def _in_steps(
    weight: torch.Tensor, gradient: torch.Tensor, m: torch.Tensor, v: torch.Tensor, rates: Any, adam: Any, ages: Any
) -> None:
    """The same by operations of torch, in the order of torch.optim.AdamW."""
    beta1, beta2, eps, decay = adam.T

    def column(values: NDArray[np.float64]) -> torch.Tensor:
        return torch.from_numpy(np.array(values)).to(weight).view(-1, *[1] * (weight.ndim - 1))

    weight.mul_(column(1 - rates * decay))
    m.lerp_(gradient, column(1 - beta1))
    v.mul_(column(beta2)).add_(column(1 - beta2) * gradient * gradient)
    root = v.sqrt().div_(column(np.sqrt(1 - beta2**ages))).add_(column(eps))
    weight.addcmul_(m / root, column(-rates / (1 - beta1**ages)))


def build(
    lowered: Sequence[Lowered], weights: Stack, moments: Mapping[str, Stack], ages: NDArray[np.int64]
) -> StackedSGD | StackedAdamW:
    """The update of these members, which share the type of their optimizer; without moments, from their beginning."""
    kind = StackedAdamW if isinstance(lowered[0].run.optimizer, AdamW) else StackedSGD
    return kind(lowered, weights, moments, ages)


def _columns(values: NDArray[Any], weights: Stack) -> Stack:
    """Column i of [members, parameters] in the weights' precision, shaped to multiply the stack of parameter i."""
    like = next(iter(weights.values()))
    columns = torch.from_numpy(np.ascontiguousarray(values.T)).to(like.device, like.dtype)
    return {
        name: column.view(-1, *[1] * (weight.ndim - 1))
        for column, (name, weight) in zip(columns, weights.items(), strict=True)
    }


def _shaped(values: NDArray[Any], weights: Stack) -> Stack:
    """The numbers [members] in the weights' precision, shaped to multiply the stack of each parameter."""
    like = next(iter(weights.values()))
    column = torch.from_numpy(np.ascontiguousarray(values)).to(like.device, like.dtype)
    return {name: column.view(-1, *[1] * (weight.ndim - 1)) for name, weight in weights.items()}
