"""Query-key scales: how sharp attention begins, and how fast it learns."""

from dataclasses import dataclass
from typing import ClassVar

from headstart.core.errors import check_positive
from headstart.core.roles import Parameter, Role
from headstart.methods.method import Method
from headstart.optimizers import Optimizer


@dataclass(frozen=True)
class QueryKey(Method):
    """Multiply the learning rate of W_q and W_k by `rate`, and their initial values by `init`, in all layers.

    Without biases the logits q . k begin init^2 times as large. Factors of 1 are the untouched run. Normalising q and k
    is a part of the model: `Transformer(qk_norm=True)`. Reference: Less Data, Faster Training, Section 5.2.2.
    """

    rate: float = 1.0
    init: float = 1.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("QueryKey", "rate", self.rate)
        check_positive("QueryKey", "init", self.init)

    def init_scale(self, parameter: Parameter) -> float:
        """`init` for the query and key weights."""
        return self.init if parameter.role in (Role.QUERY, Role.KEY) else 1.0

    def rate_scale(self, parameter: Parameter, optimizer: Optimizer) -> float:
        """`rate` for the query and key weights."""
        return self.rate if parameter.role in (Role.QUERY, Role.KEY) else 1.0
