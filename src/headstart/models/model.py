"""What a model must offer. Joining the contract tests (tests/contracts) takes one row."""

from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.roles import Parameter

if TYPE_CHECKING:
    import torch

Weights = dict[str, NDArray[np.float32]]


@runtime_checkable
class Model(Protocol):
    """An architecture for inputs of `dim` coordinates. Every parameter has a Role.

    It has one output, or says in an attribute `num_outputs` how many.
    """

    semantics: ClassVar[int]

    def parameters(self, dim: int) -> tuple[Parameter, ...]:
        """The parameters, in the order of the forward pass."""
        ...

    def initial_weights(self, dim: int, seed: int) -> Weights:
        """The weights at step 0, drawn from the init stream, by parameter name."""
        ...

    def module(self, dim: int) -> "torch.nn.Module":
        """A module with these parameters whose call maps float32[n, dim] to float32[n], or to
        float32[n, num_outputs] if that is above 1; its values are not set."""
        ...
