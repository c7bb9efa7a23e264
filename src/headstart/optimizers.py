"""Optimizers: a learning rate, its schedule, and how weights decay. Rates by role are `LayerScale`'s."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import (
    HeadstartError,
    check_count,
    check_flag,
    check_fraction,
    check_nonnegative,
    check_positive,
)

if TYPE_CHECKING:
    import torch


@runtime_checkable
class Schedule(Protocol):
    """How the learning rate changes over a run: a factor for every step, by which all rates are multiplied."""

    semantics: ClassVar[int]

    def factors(self, steps: int) -> NDArray[np.float64]:
        """The factor of each of `steps` steps, float64[steps]."""
        ...


@dataclass(frozen=True)
class Constant:
    """The rate stays."""

    semantics: ClassVar[int] = 1

    def factors(self, steps: int) -> NDArray[np.float64]:
        """Ones."""
        return np.ones(steps)


@dataclass(frozen=True)
class WarmUp:
    """The rate rises linearly over the first `steps` steps, then follows another schedule over the rest of the run.

        factor(t) = (t + 1) / steps for t < steps, then = after.factor(t - steps)

    No steps is `after` itself.
    """

    steps: int
    after: Schedule = Constant()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("WarmUp", "steps", self.steps, minimum=0)
        _check_schedule("WarmUp", "after", self.after)

    def factors(self, steps: int) -> NDArray[np.float64]:
        """A ramp, then the other schedule."""
        rising = min(self.steps, steps)
        ramp = (np.arange(rising) + 1) / max(self.steps, 1)
        return np.concatenate([ramp, self.after.factors(steps - rising)])


@dataclass(frozen=True)
class StepDecay:
    """The rate is multiplied by `factor` at each of the fractions `at` of the run: factor^(number passed)."""

    at: tuple[float, ...]
    factor: float = 0.1

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        at = tuple(self.at) if isinstance(self.at, tuple | list) else ()
        if not at or not all(isinstance(x, int | float) and 0 < x < 1 for x in at) or list(at) != sorted(set(at)):
            raise HeadstartError(f"StepDecay(at={self.at!r}): give rising fractions of the run, such as (0.4, 0.6)")
        object.__setattr__(self, "at", tuple(float(x) for x in at))
        check_positive("StepDecay", "factor", self.factor)

    def factors(self, steps: int) -> NDArray[np.float64]:
        """Powers of the factor."""
        passed = np.searchsorted([round(x * steps) for x in self.at], np.arange(steps), side="right")
        return np.asarray(self.factor**passed, dtype=np.float64)


@dataclass(frozen=True)
class Cosine:
    """The rate falls to the fraction `end` along half a cosine.

        factor(t) = end + (1 - end) (1 + cos(pi t / T)) / 2,  T the number of steps

    Reference: Loshchilov and Hutter, SGDR (2017), without restarts.
    """

    end: float = 0.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_fraction("Cosine", "end", self.end)

    def factors(self, steps: int) -> NDArray[np.float64]:
        """Half a cosine."""
        return self.end + (1 - self.end) * (1 + np.cos(np.pi * np.arange(steps) / max(steps, 1))) / 2


@dataclass(frozen=True)
class WarmUpStableDecay:
    """The rate rises over `warm_up` of the run, stays, and falls linearly to `end` over the last `decay` of it.

    Reference: Hu et al., MiniCPM (2024), Section 4. All three are fractions.
    """

    warm_up: float = 0.05
    decay: float = 0.2
    end: float = 0.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("warm_up", "decay", "end"):
            check_fraction("WarmUpStableDecay", name, getattr(self, name))
        if self.warm_up + self.decay > 1:
            raise HeadstartError(
                f"WarmUpStableDecay(warm_up={self.warm_up!r}, decay={self.decay!r}): together they are at most 1"
            )

    def factors(self, steps: int) -> NDArray[np.float64]:
        """A ramp, ones, a ramp."""
        rising, falling = round(self.warm_up * steps), round(self.decay * steps)
        t = np.arange(steps)
        up = np.minimum(1.0, (t + 1) / max(rising, 1))
        left = np.minimum(1.0, (steps - t) / max(falling, 1)) if falling else np.ones(steps)
        return np.minimum(up, self.end + (1 - self.end) * left)


@dataclass(frozen=True)
class PartOf:
    """A part of the schedule of a run of `total` steps, from step `first` on: for a run that goes on from another.

    Two runs of 300 and 100 steps have the rates of one of 400 by PartOf(Cosine(), 400) and PartOf(Cosine(), 400, 300).
    """

    schedule: Schedule
    total: int
    first: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_schedule("PartOf", "schedule", self.schedule)
        check_count("PartOf", "total", self.total)
        check_count("PartOf", "first", self.first, minimum=0)

    def factors(self, steps: int) -> NDArray[np.float64]:
        """The factors of the part."""
        if self.first + steps > self.total:
            raise HeadstartError(
                f"PartOf(total={self.total}, first={self.first}): a run of {steps} steps goes beyond its end; give a "
                f"total of at least {self.first + steps}"
            )
        return self.schedule.factors(self.total)[self.first : self.first + steps]


def _check_schedule(owner: str, name: str, value: object) -> None:
    if isinstance(value, type) or not isinstance(value, Schedule):
        raise HeadstartError(f"{owner}({name}={value!r}): give a schedule, such as Constant() or Cosine()")


class Decay(StrEnum):
    """How weight decay acts, with strength d. coupled: as a penalty, d w is added to the gradient.

    decoupled: w <- (1 - rate d) w beside the step. Without momentum or moments the two are the same.
    """

    COUPLED = "coupled"
    DECOUPLED = "decoupled"


@runtime_checkable
class Optimizer(Protocol):
    """A frozen description that builds the torch optimizer.

    `adaptive` says whether steps are free of the scale of the gradient, which decides the rates of `MuP`. `shrink` is
    the strength of a decoupled decay that the torch optimizer does not do itself.
    """

    semantics: ClassVar[int]
    adaptive: ClassVar[bool]

    @property
    def lr(self) -> float:
        """The learning rate."""
        ...

    @property
    def schedule(self) -> Schedule:
        """How the rate changes."""
        ...

    @property
    def shrink(self) -> float:
        """w <- (1 - rate shrink) w before each step."""
        ...

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """The torch optimizer over parameter groups, each with its `params` and `lr`."""
        ...


@dataclass(frozen=True)
class SGD:
    """w <- w - rate * v with v <- momentum v + gradient. With a full batch this is gradient descent.

    With `nesterov` the step is gradient + momentum v, as in torch.
    """

    lr: float
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    decay: Decay = Decay.COUPLED
    schedule: Schedule = Constant()

    semantics: ClassVar[int] = 1
    adaptive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("SGD", "lr", self.lr)
        _check_below_one("SGD", "momentum", self.momentum)
        check_flag("SGD", "nesterov", self.nesterov)
        if self.nesterov and not self.momentum:
            raise HeadstartError("SGD(nesterov=True, momentum=0): Nesterov's step needs momentum, such as 0.9")
        _check_decay(self)
        _check_schedule("SGD", "schedule", self.schedule)

    @property
    def plain(self) -> bool:
        """Whether a step is w - rate * gradient and nothing else."""
        return not self.momentum and not self.weight_decay

    @property
    def shrink(self) -> float:
        """A decoupled decay, which torch.optim.SGD lacks."""
        return self.weight_decay if self.decay is Decay.DECOUPLED else 0.0

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """torch.optim.SGD."""
        import torch

        coupled = self.weight_decay if self.decay is Decay.COUPLED else 0.0
        return torch.optim.SGD(
            list(groups), lr=self.lr, momentum=self.momentum, nesterov=self.nesterov, weight_decay=coupled
        )


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019), PyTorch's conventions.

    `decay="coupled"` is torch.optim.Adam with its penalty.
    """

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    decay: Decay = Decay.DECOUPLED
    schedule: Schedule = Constant()

    semantics: ClassVar[int] = 1
    adaptive: ClassVar[bool] = True
    shrink: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_positive("AdamW", "lr", self.lr)
        check_positive("AdamW", "eps", self.eps)
        for name in ("beta1", "beta2"):
            _check_below_one("AdamW", name, getattr(self, name))
        _check_decay(self)
        _check_schedule("AdamW", "schedule", self.schedule)

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """torch.optim.AdamW, or Adam for a coupled decay."""
        import torch

        kind = torch.optim.AdamW if self.decay is Decay.DECOUPLED else torch.optim.Adam
        betas = (self.beta1, self.beta2)
        return kind(list(groups), lr=self.lr, betas=betas, eps=self.eps, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Adafactor:
    """Adafactor (Shazeer and Stern, 2018) as torch has it: factored second moments, updates clipped at `clip`.

    The step is relative to a parameter's size: rate min(lr, 1/sqrt(t)) max(eps, rms(w)). Decay is decoupled.
    """

    lr: float = 0.01
    beta2_decay: float = -0.8
    eps: float = 1e-3
    clip: float = 1.0
    weight_decay: float = 0.0
    schedule: Schedule = Constant()

    semantics: ClassVar[int] = 1
    adaptive: ClassVar[bool] = True
    shrink: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        for name in ("lr", "eps", "clip"):
            check_positive("Adafactor", name, getattr(self, name))
        if not isinstance(self.beta2_decay, int | float) or not -1 <= self.beta2_decay < 0:
            raise HeadstartError(f"Adafactor(beta2_decay={self.beta2_decay!r}): the exponent lies in [-1, 0)")
        check_nonnegative("Adafactor", "weight_decay", self.weight_decay)
        _check_schedule("Adafactor", "schedule", self.schedule)

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """torch.optim.Adafactor."""
        import torch

        return torch.optim.Adafactor(
            list(groups),
            lr=self.lr,
            beta2_decay=self.beta2_decay,
            eps=(None, self.eps),
            d=self.clip,
            weight_decay=self.weight_decay,
        )


def _check_below_one(owner: str, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise HeadstartError(f"{owner}({name}={value!r}): {name} lies in [0, 1)")


def _check_decay(optimizer: SGD | AdamW) -> None:
    owner = type(optimizer).__name__
    check_nonnegative(owner, "weight_decay", optimizer.weight_decay)
    if optimizer.decay not in list(Decay):
        raise HeadstartError(f"{owner}(decay={optimizer.decay!r}): choose {' or '.join(Decay)}")
    object.__setattr__(optimizer, "decay", Decay(optimizer.decay))
