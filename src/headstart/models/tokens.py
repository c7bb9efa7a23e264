"""How the coordinates of a real input become a sequence of tokens. Symbols are tokens already."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from headstart.core.errors import HeadstartError, check_count

if TYPE_CHECKING:
    import torch


class Tokens(Protocol):
    """A reading of real inputs [n, ...] as tokens, each a vector of features that the embedding maps linearly."""

    semantics: ClassVar[int]
    discrete: ClassVar[bool]

    @property
    def num_features(self) -> int:
        """The features of a token."""
        ...

    def length(self, dim: int) -> int:
        """The number of tokens of an input."""
        ...

    def features(self, x: "torch.Tensor") -> "torch.Tensor":
        """The features of all tokens, sample by sample: float32[n * length, num_features]."""
        ...


@dataclass(frozen=True)
class Signs:
    """One token per coordinate, which is -1 or +1: one of two features. For parity."""

    semantics: ClassVar[int] = 1
    discrete: ClassVar[bool] = True

    @property
    def num_features(self) -> int:
        """Two: +1 and -1."""
        return 2

    def length(self, dim: int) -> int:
        """The dimension."""
        return dim

    def features(self, x: "torch.Tensor") -> "torch.Tensor":
        """[x = 1, x = -1]."""
        import torch

        flat = x.reshape(-1)
        return torch.stack((0.5 + 0.5 * flat, 0.5 - 0.5 * flat), dim=-1)


@dataclass(frozen=True)
class Vectors:
    """Each token is `size` neighbouring coordinates; size 1 makes every coordinate a token. For real inputs."""

    size: int = 1

    semantics: ClassVar[int] = 1
    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("Vectors", "size", self.size)

    @property
    def num_features(self) -> int:
        """The coordinates of a token."""
        return self.size

    def length(self, dim: int) -> int:
        """dim / size, which must be whole."""
        if dim % self.size:
            raise HeadstartError(f"Vectors(size={self.size}): {dim} coordinates do not split into such tokens")
        return dim // self.size

    def features(self, x: "torch.Tensor") -> "torch.Tensor":
        """The coordinates themselves."""
        return x.reshape(-1, self.size)
