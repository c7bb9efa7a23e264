"""Arithmetic modulo a number, on numbers written as digits."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.metric import Metric, class_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, integers

_LARGEST_POPULATION = 2**24


class Operation(StrEnum):
    """addition: (x + z) mod p. multiplication: (x z) mod p."""

    ADDITION = "addition"
    MULTIPLICATION = "multiplication"


@dataclass(frozen=True)
class ModularArithmetic:
    """y = (x + z) mod p, or (x z) mod p, for x, z uniform on {0, ..., N - 1}.

    `max_value` is N and `modulus` p, which defaults to N. Each number is written in ceil(log_b N) digits of `base` b,
    the most significant first, x before z; digits are symbols 0 .. b - 1 and targets classes 0 .. p - 1. With
    base N every number is one symbol. Zero is a more frequent product than the others, so that the best constant is
    above 1 / p there. A run is evaluated on `num_test` fresh pairs. Reference: Less Data, Faster Training, Section 2.
    """

    max_value: int
    modulus: int | None = None
    base: int = 10
    operation: Operation = Operation.ADDITION
    num_test: int = field(default=4096, metadata={"since": 3})

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)

    def __post_init__(self) -> None:
        check_count("ModularArithmetic", "max_value", self.max_value)
        if self.modulus is None:
            object.__setattr__(self, "modulus", self.max_value)
        check_count("ModularArithmetic", "modulus", self.modulus, minimum=2)
        check_count("ModularArithmetic", "base", self.base, minimum=2)
        check_count("ModularArithmetic", "num_test", self.num_test)
        if self.operation not in list(Operation):
            raise HeadstartError(f"ModularArithmetic(operation={self.operation!r}): choose {' or '.join(Operation)}")
        object.__setattr__(self, "operation", Operation(self.operation))

    @property
    def signature(self) -> Signature:
        """The digits of both numbers to one score per residue."""
        return Signature((2 * self.num_digits,), symbols=self.base, outputs=(self.modulus or 0,))

    @property
    def num_digits(self) -> int:
        """The digits of one number: the least m with b^m >= N."""
        digits, reach = 1, self.base
        while reach < self.max_value:
            digits, reach = digits + 1, reach * self.base
        return digits

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of samples whose largest score is that of y."""
        return (class_accuracy(self.modulus or 0),)

    @property
    def population_size(self) -> int | None:
        """N^2, up to 2^24."""
        return self.max_value**2 if self.max_value**2 <= _LARGEST_POPULATION else None

    def residue(self, x: NDArray[np.int64], z: NDArray[np.int64]) -> NDArray[np.int64]:
        """The result modulo p; factors are reduced first, so that their product does not overflow."""
        p = self.modulus or 0
        return (x + z) % p if self.operation is Operation.ADDITION else (x % p) * (z % p) % p

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Uniform pairs, one per sample id; the same for both operations."""
        pairs = integers(seed, stream, ids, 2, self.max_value)
        return self._written(pairs[:, 0], pairs[:, 1])

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """All pairs; pair number x N + z is (x, z)."""
        index = np.arange(self.max_value**2) if ids is None else np.asarray(ids, dtype=np.int64)
        return self._written(index // self.max_value, index % self.max_value)

    def _written(self, x: NDArray[np.int64], z: NDArray[np.int64]) -> Samples:
        powers = self.base ** np.arange(self.num_digits - 1, -1, -1, dtype=np.int64)
        digits = [number[:, None] // powers % self.base for number in (x, z)]
        return Samples(np.concatenate(digits, axis=1), self.residue(x, z))
