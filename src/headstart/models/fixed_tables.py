"""Tables of symbols that are given and not learned: what they say of a number decides how soon a network generalises.

Every row has length 1, but for one that is 0. Reference: Let Me Grok For You, Section 2.1 and Appendix A.3.1.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.data import numerals
from headstart.models.embedding import TABLE
from headstart.models.model import Weights


@dataclass(frozen=True)
class OneHot:
    """Symbol s is unit vector number s: nothing is said of it."""

    semantics: ClassVar[int] = 1

    def vector_dim(self, signature: Signature) -> int:
        """The number of symbols."""
        return _symbols(self, signature)

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """The table, fixed."""
        return _parameters(self, signature)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """The identity."""
        return {TABLE: np.eye(_symbols(self, signature), dtype=np.float32)}


@dataclass(frozen=True)
class Binary:
    """The binary digits of s, the most significant first, in ceil(log2(p - 1)) + 1 places for p symbols."""

    semantics: ClassVar[int] = 1

    def vector_dim(self, signature: Signature) -> int:
        """The number of places."""
        return int(np.ceil(np.log2(max(_symbols(self, signature) - 1, 1)))) + 1

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """The table, fixed."""
        return _parameters(self, signature)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """The digits, each row of length 1."""
        places = np.arange(self.vector_dim(signature))[::-1]
        return _normalised(np.arange(_symbols(self, signature))[:, None] >> places & 1)


@dataclass(frozen=True)
class Fourier:
    """cos and sin of 2 pi i s / p for the first `num_frequencies` primes i: 2, 3, 5, 7, ..."""

    num_frequencies: int = 7

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Fourier", "num_frequencies", self.num_frequencies, maximum=1000)

    def vector_dim(self, signature: Signature) -> int:
        """Two per frequency."""
        return 2 * self.num_frequencies

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """The table, fixed."""
        return _parameters(self, signature)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Waves along the symbols, each row of length 1."""
        p = _symbols(self, signature)
        angles = 2 * np.pi / p * np.outer(np.arange(p), _primes(self.num_frequencies))
        return _normalised(np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(p, -1))


@dataclass(frozen=True)
class Text:
    """What a language model knows of the numeral "s": its sentence vector, along the `dim` widest axes of all of them.

    The vectors are those of MiniLM (`headstart data get numerals`), where the paper has OpenAI's.
    """

    dim: int = 128

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Text", "dim", self.dim)

    def vector_dim(self, signature: Signature) -> int:
        """`dim`."""
        return self.dim

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """The table, fixed."""
        return _parameters(self, signature)

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """The vectors, each of length 1."""
        return _normalised(numerals(_symbols(self, signature), self.dim))


FixedTable = OneHot | Binary | Fourier | Text


def _symbols(table: FixedTable, signature: Signature) -> int:
    if signature.symbols is None:
        raise HeadstartError(f"{table}: it is a table of symbols, and the inputs of this task are real numbers")
    return signature.symbols


def _parameters(table: FixedTable, signature: Signature) -> tuple[Parameter, ...]:
    rows, dim = _symbols(table, signature), table.vector_dim(signature)
    return (Parameter(TABLE, Role.EMBEDDING, 0, (rows, dim), rows, 2 * signature.num_inputs * dim, fixed=True),)


def _normalised(rows: NDArray[np.generic]) -> Weights:
    values = rows.astype(np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return {TABLE: (values / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)}


def _primes(num: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < num:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found
