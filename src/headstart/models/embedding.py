"""Tables of vectors that symbols are looked up in."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headstart.core.errors import check_count, check_flag, check_positive
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals
from headstart.models.model import Weights

# The table's id in the init stream, which no layer has: it does not depend on the rest of the network.
_ID = 2**32


@dataclass(frozen=True)
class Embedding:
    """A table [symbols, dim] with entries N(0, std^2), as torch.nn.Embedding has with std 1.

    A `fixed` table is not trained.
    """

    dim: int
    std: float = 1.0
    fixed: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Embedding", "dim", self.dim)
        check_positive("Embedding", "std", self.std)
        check_flag("Embedding", "fixed", self.fixed)

    def parameter(self, signature: Signature) -> Parameter:
        """The table as a parameter, named embedding.weight."""
        assert signature.symbols is not None
        shape = (signature.symbols, self.dim)
        flops = 2 * signature.num_inputs * self.dim
        return Parameter("embedding.weight", Role.EMBEDDING, 0, shape, signature.symbols, flops, self.fixed)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """The table at step 0."""
        shape = self.parameter(signature).shape
        drawn = normals(seed, Stream.INIT, [_ID], shape[0] * shape[1])[0]
        return {"embedding.weight": np.float32(self.std) * drawn.reshape(shape)}
