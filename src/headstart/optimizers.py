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


def by_role(owner: str, name: str, values: Mapping[Role, float] | Rates) -> Rates:
    """Numbers by role, given as a mapping or as pairs, as a sorted, hashable tuple."""
    if not isinstance(values, Mapping | tuple | list):
        raise HeadstartError(f"{owner}({name}={values!r}): give a mapping from Role to number")
    pairs = list(values.items() if isinstance(values, Mapping) else values)
    for role, value in pairs:
        if role not in list(Role):
            raise HeadstartError(f"{owner}({name}={{{role!r}: ...}}): roles are {', '.join(Role)}")
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise HeadstartError(f"{owner}({name}={{{str(role)!r}: {value!r}}}): give a finite number of at least 0")
    if len({role for role, _ in pairs}) < len(pairs):
        raise HeadstartError(f"{owner}({name}={values!r}): each role may appear once")
    return tuple(sorted((Role(role), float(value)) for role, value in pairs))


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
        object.__setattr__(self, "rates", by_role("SGD", "rates", self.rates))

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
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < 1:
                raise HeadstartError(f"AdamW({name}={value!r}): {name} lies in [0, 1)")
        if not isinstance(self.weight_decay, int | float) or not 0 <= self.weight_decay < float("inf"):
            raise HeadstartError(f"AdamW(weight_decay={self.weight_decay!r}): the decay is finite and at least 0")
        object.__setattr__(self, "rates", by_role("AdamW", "rates", self.rates))

    def rate(self, role: Role) -> float:
        """The learning rate of parameters with this role."""
        return dict(self.rates).get(role, self.lr)

    def build(self, groups: Sequence[dict[str, Any]]) -> "torch.optim.Optimizer":
        """torch.optim.AdamW."""
        import torch

        return torch.optim.AdamW(
            list(groups), lr=self.lr, betas=(self.beta1, self.beta2), eps=self.eps, weight_decay=self.weight_decay
        )
