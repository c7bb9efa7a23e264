"""One attention layer on one-hot tokens and nothing else: scores are V X softmax(X^T W X)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headstart.core.draws import scaled_normals
from headstart.core.errors import HeadstartError, check_nonnegative
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.models.model import Weights

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class AttentionOnly:
    """Scores V X softmax(X^T W X) [labels, n] of a sequence whose tokens are the one-hot columns of X [symbols, n].

    The softmax is over the columns: position j takes the mean of the columns of V that belong to the tokens i of the
    sequence, with weights in proportion to exp W[i, x_j]. It sees no positions. W [symbols, symbols] is the product of
    queries and keys, of Role query; V [labels, symbols] is the value matrix, of Role readout since nothing follows it.

        W_0 ~ N(0, attention_std^2),    V_0 ~ c P + N(0, value_std^2)

    `near` is the permutation of P, P[near[i], i] = 1, and `scale` its factor c. A cross-entropy takes the outer
    softmax. Reference: eq. 4.1 of the thesis that `DecisionList` names, where W_0 = 0, and V_0 has a deviation of 1e-4.
    """

    attention_std: float = 0.0
    value_std: float = 1e-4
    scale: float = 0.0
    near: tuple[int, ...] | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("attention_std", "value_std", "scale"):
            check_nonnegative("AttentionOnly", name, getattr(self, name))
        if self.near is not None:
            object.__setattr__(self, "near", tuple(self.near))
        if (self.near is None) != (not self.scale):
            raise HeadstartError(
                f"AttentionOnly(scale={self.scale}, near=...): give both, the factor and the permutation, or neither"
            )

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """attention.weight, W, and value.weight, V; FLOPs are those of the products and sums over a sequence."""
        symbols, (length, *other) = signature.symbols, signature.inputs
        if symbols is None or other or len(signature.outputs) != 2 or signature.outputs[0] != length:
            raise HeadstartError(
                "AttentionOnly: the task must have sequences of symbols and one row of scores per position, as "
                f"DecisionList has; this one has {signature}"
            )
        labels = signature.outputs[1]
        if self.near is not None and (len(self.near) != symbols or not set(self.near) <= set(range(labels))):
            raise HeadstartError(f"AttentionOnly(near=...): give a label below {labels} for each of {symbols} symbols")
        products = 6 * length * length
        return (
            Parameter("attention.weight", Role.QUERY, 0, (symbols, symbols), symbols, products),
            Parameter("value.weight", Role.READOUT, 1, (labels, symbols), symbols, products * labels),
        )

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """W from id 0 of the init stream, V from id 1."""
        stds = (self.attention_std, self.value_std)
        weights = {
            p.name: scaled_normals(seed, id, 0, int(np.prod(p.shape)), stds[id]).reshape(p.shape)
            for id, p in enumerate(self.parameters(signature))
        }
        if self.near is not None:
            weights["value.weight"][self.near, np.arange(len(self.near))] += np.float32(self.scale)
        return weights

    def module(self, signature: Signature) -> "torch.nn.Module":
        """The network as a torch module."""
        import torch

        from headstart.models.lookup import Table, looked_up

        attention, value = (p.shape for p in self.parameters(signature))
        length, symbols = signature.inputs[0], attention[0]

        class Network(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.attention, self.value = Table(attention), Table(value)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                # Which number of W a pair (query, key) reads; both look-ups keep members apart when stacked.
                pairs = x.unsqueeze(1) * symbols + x.unsqueeze(2)
                logits = looked_up(self.attention.weight.reshape(1, -1, 1), pairs.reshape(-1, 1))
                shares = torch.softmax(logits.reshape(-1, length, length), dim=2)
                columns = looked_up(self.value.weight.T.unsqueeze(0), x.reshape(-1, 1))
                return shares @ columns.reshape(-1, length, value[0])

        return Network()
