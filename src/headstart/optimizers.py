"""Optimizers: a learning rate, and a rate of its own for any Role."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.roles import Role

if TYPE_CHECKING:
    import torch

Rates = tuple[tuple[Role, float], ...]


class Optimizer(Protocol):
    """A frozen description that builds the torch optimizer."""

    semantics: ClassVar[int]

    @property
    def lr(self) -> float:
        """The learning rate of every role without one of its own."""
        ...

    def rate(self, role: Role) -> float:
        """The learning rate of parameters with this role."""
        ...

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """The torch optimizer over parameter groups, each with its `params` and `lr`."""
        ...


def as_rates(owner: str, rates: Mapping[Role, float] | Rates) -> Rates:
    """Rates by role as a sorted, hashable tuple."""
    pairs = rates.items() if isinstance(rates, Mapping) else rates
    out = []
    for role, value in pairs:
        if role not in list(Role):
            raise HeadstartError(f"{owner}(rates={{{role!r}: ...}}): roles are {', '.join(Role)}")
        if not 0 <= value < float("inf"):
            raise HeadstartError(f"{owner}(rates={{{str(role)!r}: {value!r}}}): a rate is finite and at least 0")
        out.append((Role(role), float(value)))
    return tuple(sorted(out))


@dataclass(frozen=True)
class SGD:
    """w <- w - rate(role) * gradient. With a full batch this is gradient descent.

    `rates` gives some roles a learning rate of their own (0 freezes them); the others use `lr`.
    """

    lr: float
    rates: Rates | Mapping[Role, float] = ()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("SGD", "lr", self.lr)
        object.__setattr__(self, "rates", as_rates("SGD", self.rates))

    def rate(self, role: Role) -> float:
        """The learning rate of parameters with this role."""
        return dict(self.rates).get(role, self.lr)

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """torch.optim.SGD without momentum."""
        import torch

        return torch.optim.SGD(list(groups), lr=self.lr)


@dataclass(frozen=True)
class AdamW:
    """AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), PyTorch's conventions."""

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    rates: Rates | Mapping[Role, float] = ()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("AdamW", "lr", self.lr)
        check_positive("AdamW", "eps", self.eps)
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise HeadstartError(f"AdamW({name}={getattr(self, name)!r}): {name} lies in [0, 1)")
        if not 0 <= self.weight_decay < float("inf"):
            raise HeadstartError(f"AdamW(weight_decay={self.weight_decay!r}): the decay is finite and at least 0")
        object.__setattr__(self, "rates", as_rates("AdamW", self.rates))

    def rate(self, role: Role) -> float:
        """The learning rate of parameters with this role."""
        return dict(self.rates).get(role, self.lr)

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """torch.optim.AdamW."""
        import torch

        return torch.optim.AdamW(
            list(groups), lr=self.lr, betas=(self.beta1, self.beta2), eps=self.eps, weight_decay=self.weight_decay
        )
