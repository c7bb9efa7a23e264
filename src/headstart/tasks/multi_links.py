"""Links of several numbers: y as a function of the hidden coordinates z = W* x of an input."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import factorial, prod
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.tasks.gaussian_moments import gaussian_variance
from headstart.tasks.single_index import Link, check_link

# A coefficient, and the degree of the Hermite polynomial of each coordinate.
Term = tuple[float, tuple[int, ...]]


@runtime_checkable
class MultiLink(Protocol):
    """A function of the `directions` hidden coordinates of each sample."""

    semantics: ClassVar[int]

    @property
    def directions(self) -> int:
        """How many numbers it takes."""
        ...

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """h(z), float64[n], for z float64[n, directions]."""
        ...


@dataclass(frozen=True)
class ProductOf:
    """outer(z_1 z_2 ... z_k): `ProductOf(Tanh(), 3)` is tanh(z_1 z_2 z_3), whose leap is 3."""

    outer: Link
    directions: int

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_link("ProductOf", self.outer)
        check_count("ProductOf", "directions", self.directions)

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The outer link of the product of each row."""
        return self.outer(np.asarray(z, dtype=np.float64).prod(axis=-1))

    @property
    def variance(self) -> float:
        """Var h(z) for z ~ N(0, I), by quadrature."""
        return gaussian_variance(self if self.directions > 1 else self.outer, self.directions)


@dataclass(frozen=True)
class Committee:
    """(1/k) sum_r link(z_r): a committee machine as a target."""

    link: Link
    directions: int

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_link("Committee", self.link)
        check_count("Committee", "directions", self.directions)

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean of the link over each row."""
        return np.asarray(self.link(np.asarray(z, dtype=np.float64)).mean(axis=-1))

    @property
    def variance(self) -> float:
        """Var h(z) for z ~ N(0, I): a k-th of that of the link."""
        return gaussian_variance(self.link, 1) / self.directions


@dataclass(frozen=True)
class HermiteSum:
    """sum_t c_t prod_r He_{n_tr}(z_r), from terms (c_t, (n_t1, n_t2, ...)); degrees that are left out are 0.

        HermiteSum(((1, (1,)), (1, (1, 1)), (0.5, (0, 0, 3))))  # z_1 + z_1 z_2 + He_3(z_3) / 2

    Any target that is square integrable is such a sum, and products of different degrees are orthogonal.
    """

    terms: tuple[Term, ...]

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        try:
            given = [(float(c), tuple(degrees)) for c, degrees in self.terms]
        except (TypeError, ValueError):
            raise HeadstartError(
                f"HermiteSum(terms={self.terms!r}): give pairs of a coefficient and degrees, (1.0, (1, 0, 2))"
            ) from None
        for coefficient, degrees in given:
            if not degrees or any(type(n) is not int or n < 0 for n in degrees):
                raise HeadstartError(f"HermiteSum(terms={self.terms!r}): degrees are whole numbers of at least 0")
            if not np.isfinite(coefficient) or not coefficient:
                raise HeadstartError(f"HermiteSum(terms={self.terms!r}): coefficients are finite numbers but 0")
        longest = max((len(degrees) for _, degrees in given), default=0)
        terms = sorted((degrees + (0,) * (longest - len(degrees)), c) for c, degrees in given)
        if not terms or len({degrees for degrees, _ in terms}) < len(terms):
            raise HeadstartError(f"HermiteSum(terms={self.terms!r}): give one term or more, each with other degrees")
        object.__setattr__(self, "terms", tuple((c, degrees) for degrees, c in terms))

    @classmethod
    def staircase(cls, directions: int) -> "HermiteSum":
        """z_1 + z_1 z_2 + ... + z_1 z_2 ... z_k: of leap 1, since each direction is learned after the one before."""
        check_count("HermiteSum.staircase", "directions", directions)
        return cls(tuple((1.0, (1,) * length) for length in range(1, directions + 1)))

    @property
    def directions(self) -> int:
        """How many numbers it takes."""
        return len(self.terms[0][1])

    @property
    def variance(self) -> float:
        """Var h(z) for z ~ N(0, I): the sum of c_t^2 prod_r n_tr! over terms that are not constant."""
        return sum(c**2 * prod(map(factorial, degrees)) for c, degrees in self.terms if any(degrees))

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum at each row."""
        z = np.asarray(z, dtype=np.float64)
        needed = {(r, n) for _, degrees in self.terms for r, n in enumerate(degrees) if n}
        powers = {(r, n): hermite_e.hermeval(z[..., r], [0.0] * n + [1.0]) for r, n in sorted(needed)}
        total = np.zeros(z.shape[:-1])
        for coefficient, degrees in self.terms:
            total += _product(coefficient, degrees, powers)
        return total


def _product(coefficient: float, degrees: tuple[int, ...], powers: Mapping[tuple[int, int], Any]) -> Any:
    """A term of the sum, from the values of its Hermite polynomials."""
    out: Any = coefficient
    for r, n in enumerate(degrees):
        if n:
            out = out * powers[r, n]
    return out
