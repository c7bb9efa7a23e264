"""What a model must offer. Joining the contract tests (tests/contracts) takes one row."""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from numpy.typing import NDArray

from headstart.core.roles import Parameter
from headstart.core.signature import Signature

if TYPE_CHECKING:
    import torch

Weights = dict[str, NDArray[Any]]


@runtime_checkable
class Model(Protocol):
    """An architecture, built from the signature of a task. Every parameter has a Role.

    A signature that does not fit raises a HeadstartError, in `parameters` already.
    """

    semantics: ClassVar[int]

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """The parameters, in the order of the forward pass."""
        ...

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """The weights at step 0, float32, drawn from the init stream, by parameter name."""
        ...

    def module(self, signature: Signature) -> "torch.nn.Module":
        """A module with these parameters that maps inputs [n, *inputs] to predictions [n, *outputs].

        The values of its parameters are not set; its buffers, if it has any, hold their first values.
        """
        ...
