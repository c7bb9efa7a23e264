"""Arithmetic modulo a prime on numbers written as digits."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import check_count
from headstart.core.metric import Metric
from headstart.core.streams import Stream, integers
from headstart.tasks.task import Samples

_LARGEST_POPULATION = 2**24


def _is_largest(prediction: Any, target: Any) -> Any:
    return prediction.argmax(-1) == target


@dataclass(frozen=True)
class ModularAddition:
    """y = (x + z) mod p for x, z uniform on {0, ..., N - 1}, each written in ceil(log_b N) digits of base b.

    `max_value` is N, `modulus` p and `base` b. Digits stand in the input as numbers 0 .. b - 1, the most significant
    first, x before z; targets are classes 0 .. p - 1. Reference: Less Data, Faster Training, Section 2.
    """

    max_value: int
    modulus: int
    base: int = 10

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)
    num_test: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        _check(type(self).__name__, self.max_value, self.modulus, self.base)

    @property
    def num_outputs(self) -> int:
        """One logit a residue."""
        return self.modulus

    @property
    def num_digits(self) -> int:
        """The digits of one number: the least m with b^m >= N."""
        return _num_digits(self.max_value, self.base)

    @property
    def dim(self) -> int:
        """The digits of both numbers."""
        return 2 * self.num_digits

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of samples whose largest logit is that of y."""
        return (Metric("accuracy", _is_largest, higher_is_better=True, chance=1 / self.modulus),)

    @property
    def population_size(self) -> int | None:
        """N^2, up to 2^24."""
        return self.max_value**2 if self.max_value**2 <= _LARGEST_POPULATION else None

    def residue(self, x: NDArray[np.int64], z: NDArray[np.int64]) -> NDArray[np.int64]:
        """(x + z) mod p."""
        return (x + z) % self.modulus

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Uniform pairs, one a sample id."""
        pairs = integers(seed, stream, ids, 2, self.max_value)
        return self._written(pairs[:, 0], pairs[:, 1])

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """All pairs; pair number x N + z is (x, z)."""
        index = np.arange(self.max_value**2) if ids is None else np.asarray(ids, dtype=np.int64)
        return self._written(index // self.max_value, index % self.max_value)

    def _written(self, x: NDArray[np.int64], z: NDArray[np.int64]) -> Samples:
        digits = [_digits(number, self.num_digits, self.base) for number in (x, z)]
        return Samples(np.concatenate(digits, axis=1), self.residue(x, z).astype(np.float32))


@dataclass(frozen=True)
class ModularMultiplication:
    """y = (x z) mod p, otherwise as `ModularAddition`."""

    max_value: int
    modulus: int
    base: int = 10

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)
    num_test: ClassVar[int] = 4096

    def __post_init__(self) -> None:
        _check(type(self).__name__, self.max_value, self.modulus, self.base)

    @property
    def _addition(self) -> ModularAddition:
        return ModularAddition(self.max_value, self.modulus, self.base)

    @property
    def num_outputs(self) -> int:
        """One logit a residue."""
        return self.modulus

    @property
    def dim(self) -> int:
        """The digits of both numbers."""
        return self._addition.dim

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy. Zero is a more frequent product than the others, so the best constant is above 1 / p."""
        return self._addition.metrics

    @property
    def population_size(self) -> int | None:
        """N^2, up to 2^24."""
        return self._addition.population_size

    def residue(self, x: NDArray[np.int64], z: NDArray[np.int64]) -> NDArray[np.int64]:
        """(x z) mod p; both factors are reduced first, so that the product does not overflow."""
        return (x % self.modulus) * (z % self.modulus) % self.modulus

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Uniform pairs, one a sample id: the inputs of `ModularAddition`."""
        return self._relabelled(self._addition.sample(seed, ids, stream))

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """All pairs; pair number x N + z is (x, z)."""
        return self._relabelled(self._addition.population(seed, ids))

    def _relabelled(self, samples: Samples) -> Samples:
        num = self.dim // 2
        powers = self.base ** np.arange(num - 1, -1, -1, dtype=np.int64)
        digits = samples.x.astype(np.int64)
        return Samples(samples.x, self.residue(digits[:, :num] @ powers, digits[:, num:] @ powers).astype(np.float32))


def _check(owner: str, max_value: int, modulus: int, base: int) -> None:
    check_count(owner, "max_value", max_value)
    check_count(owner, "modulus", modulus, minimum=2)
    check_count(owner, "base", base, minimum=2)


def _num_digits(max_value: int, base: int) -> int:
    digits, reach = 1, base
    while reach < max_value:
        digits, reach = digits + 1, reach * base
    return digits


def _digits(numbers: NDArray[np.int64], num: int, base: int) -> NDArray[np.float32]:
    """The digits of each number, the most significant first: float32[n, num]."""
    powers = base ** np.arange(num - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % base).astype(np.float32)
