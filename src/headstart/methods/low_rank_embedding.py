"""A lookup table as the product of a small table and a map, and the head that reads with it: torch modules."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import embedding, linear

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import Stream, normals


class LowRankEmbedding(nn.Module):
    """An `nn.Embedding` whose table is A B: A [num_embeddings, rank] times B [rank, embedding_dim].

        e(s) = A_s B

    `table` is A; `map` is B as a linear layer holds it, [embedding_dim, rank]. `weight` is A B, with gradients to both,
    so code that reads the table (a head written as `hidden @ embedding.weight.T`) goes on working. With `padding_idx`
    that row of A is zero at first and no lookup changes it. Entries of A are standard normal and those of B have the
    variance 1 / rank, so those of A B have the variance 1, as in an `nn.Embedding`; `seed` names them. A lookup costs
    2 rank embedding_dim FLOPs more than one in a full table.
    Reference: Let Me Grok For You, Section 2.1 (the target's embedding as the product of A and B).
    """

    # What an nn.Embedding may do besides, and this does not; libraries read these.
    max_norm = None
    norm_type = 2.0
    scale_grad_by_freq = False
    sparse = False

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        rank: int,
        padding_idx: int | None = None,
        *,
        seed: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim), ("rank", rank)):
            check_count("LowRankEmbedding", name, value)
        if padding_idx is not None and (
            type(padding_idx) is not int or not -num_embeddings <= padding_idx < num_embeddings
        ):
            raise HeadstartError(
                f"LowRankEmbedding(padding_idx={padding_idx!r}): there are {num_embeddings} rows, give one of them"
            )
        if dtype is not None and not dtype.is_floating_point:
            raise HeadstartError(
                f"LowRankEmbedding(dtype={dtype}): both factors are trained; give a floating-point one"
            )
        self.num_embeddings, self.embedding_dim, self.rank = num_embeddings, embedding_dim, rank
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        drawn = normals(seed, Stream.INIT, np.arange(num_embeddings + embedding_dim), rank)
        options: Any = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        self.table = nn.Parameter(torch.from_numpy(drawn[:num_embeddings]).to(**options))
        self.map = nn.Parameter(torch.from_numpy(drawn[num_embeddings:]).to(**options) / rank**0.5)
        if self.padding_idx is not None:
            with torch.no_grad():
                self.table[self.padding_idx] = 0

    @property
    def weight(self) -> torch.Tensor:
        """A B: float[num_embeddings, embedding_dim], computed when it is read."""
        return linear(self.table, self.map)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The vectors of symbols int64[...]: float[..., embedding_dim]."""
        return linear(embedding(ids, self.table, self.padding_idx), self.map)

    def merge(self) -> nn.Embedding:
        """An `nn.Embedding` with the table A B: the same function up to rounding. It has parameters of its own.

        In a model, `merge_embedding(model)` puts it where this is, tied heads included.
        """
        return nn.Embedding(
            self.num_embeddings, self.embedding_dim, self.padding_idx, _weight=self.weight.detach().clone()
        ).train(self.training)

    def extra_repr(self) -> str:
        """The sizes, as `print(model)` shows them."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, rank={self.rank}{padding}"


class LowRankHead(nn.Module):
    """A head tied to a `LowRankEmbedding`: the scores h (A B)^T + bias, float[..., num_embeddings], as (h B^T) A^T.

    It holds no weights but its bias: A and B are the embedding's, so their gradients are the sum of both uses, and a
    checkpoint has them once.
    """

    def __init__(self, tied_to: LowRankEmbedding, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        self._tied_to = (tied_to,)  # in a tuple, so that its parameters are not registered a second time
        self.bias = bias
        self.in_features, self.out_features = tied_to.embedding_dim, tied_to.num_embeddings

    @property
    def tied_to(self) -> LowRankEmbedding:
        """The embedding whose factors it reads with."""
        return self._tied_to[0]

    @property
    def weight(self) -> torch.Tensor:
        """A B, as that of an `nn.Linear`."""
        return self.tied_to.weight

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The scores of hidden states float[..., embedding_dim]."""
        return linear(hidden @ self.tied_to.map, self.tied_to.table, self.bias)

    def with_weight_of(self, merged: nn.Embedding) -> nn.Linear:
        """An `nn.Linear` that shares the table of an embedding and has the same bias."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight = merged.weight
        layer.register_parameter("bias", self.bias)
        return layer.train(self.training)

    def extra_repr(self) -> str:
        """The sizes, as `print(model)` shows them."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
