"""Tables of vectors that inputs become before the first layer: learned ones, whole or as a product of two factors."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from headstart.core.errors import check_count, check_flag, check_positive
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals, uniforms
from headstart.models.model import Weights

# The parameters of an embedding: its table, and what maps the rows of a low-rank table to vectors.
TABLE, MAP = "embedding.weight", "embedding.map"
# Their ids in the init stream, which no layer has: they do not depend on the rest of the network.
_TABLE_ID, _MAP_ID = 2**32, 2**32 + 1


@dataclass(frozen=True)
class Embedding:
    """A table [symbols, dim] with entries N(0, std^2), as torch.nn.Embedding has with std 1.

    With a `rank` the table is a product, A B with A [symbols, rank] and B [rank, dim], and both are trained:

        E_s = A_s B,   A ~ N(0, std^2),   B as torch.nn.Linear(rank, dim) begins

    A `fixed` table is not trained; of a product, A is not. Inputs that are real numbers have no rows to look up: there
    the table is a linear map, z = A^T x or B^T A^T x, without bias or activation, that begins as torch.nn.Linear does;
    `std` plays no part. Reference: Let Me Grok For You, Section 2.2.
    """

    dim: int
    std: float = 1.0
    fixed: bool = False
    rank: int | None = field(default=None, metadata={"since": 2})

    semantics: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_count("Embedding", "dim", self.dim)
        check_positive("Embedding", "std", self.std)
        check_flag("Embedding", "fixed", self.fixed)
        if self.rank is not None:
            check_count("Embedding", "rank", self.rank)

    def vector_dim(self, signature: Signature) -> int:
        """The length of a symbol's vector, or of the vector that real inputs become."""
        return self.dim

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """The table, and with a rank the map [dim, rank] of its rows; a map is applied to every symbol."""
        columns = self.dim if self.rank is None else self.rank
        rows, uses = signature.symbols or signature.num_inputs, signature.num_inputs if signature.symbols else 1
        looked_up = 2 * uses * columns if signature.symbols else None
        table = Parameter(TABLE, Role.EMBEDDING, 0, (rows, columns), rows, looked_up, self.fixed)
        if self.rank is None:
            return (table,)
        shape = (self.dim, self.rank)
        return table, Parameter(MAP, Role.HIDDEN, 0, shape, self.rank, 6 * uses * self.dim * self.rank)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """The table at step 0, and its map."""
        out = {}
        for parameter in self.parameters(signature):
            size = parameter.shape[0] * parameter.shape[1]
            if parameter.name == TABLE and signature.symbols:
                values = np.float32(self.std) * normals(seed, Stream.INIT, [_TABLE_ID], size)[0]
            else:
                id = _TABLE_ID if parameter.name == TABLE else _MAP_ID
                drawn = uniforms(seed, Stream.INIT, [id], size)[0]
                values = (parameter.fan_in**-0.5 * (2.0 * drawn - 1.0)).astype(np.float32)
            out[parameter.name] = values.reshape(parameter.shape)
        return out
