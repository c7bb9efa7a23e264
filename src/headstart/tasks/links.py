"""Links: functions of one number, h*(<w*, x>) of a target or s(<w, x>) of a neuron, each with its slope."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.tasks.single_index import Hermite, Link

__all__ = ["Erf", "Link", "Relu", "Series", "Sign", "Tanh", "named_link"]


@dataclass(frozen=True)
class Series:
    """A sum of Hermite polynomials, sum_k coefficients[k] He_k(z): `Series((0, 1, 0, 0.5))` is z + He_3(z) / 2."""

    coefficients: tuple[float, ...]

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", tuple(float(c) for c in self.coefficients))
        if not any(self.coefficients) or not np.isfinite(self.coefficients).all():
            raise HeadstartError(f"Series(coefficients={self.coefficients!r}): give finite numbers, not all of them 0")

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sum at z."""
        return np.asarray(hermite_e.hermeval(z, self.coefficients), dtype=np.float64)

    def slope(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The derivative at z, by He_k' = k He_{k-1}."""
        return np.asarray(hermite_e.hermeval(z, hermite_e.hermeder(self.coefficients)), dtype=np.float64)


@dataclass(frozen=True)
class Erf:
    """erf(z / sqrt 2): odd, with all odd Hermite coefficients."""

    semantics: ClassVar[int] = 1

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The error function at z / sqrt 2."""
        from scipy.special import erf

        return np.asarray(erf(np.asarray(z) / np.sqrt(2)), dtype=np.float64)

    def slope(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """sqrt(2 / pi) exp(-z^2 / 2)."""
        return np.asarray(np.sqrt(2 / np.pi) * np.exp(-np.square(z) / 2), dtype=np.float64)


@dataclass(frozen=True)
class Tanh:
    """tanh z: odd."""

    semantics: ClassVar[int] = 1

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """tanh z."""
        return np.tanh(np.asarray(z, dtype=np.float64))

    def slope(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 - tanh^2 z."""
        return 1 - np.square(self(z))


@dataclass(frozen=True)
class Relu:
    """max(0, z): He_1, He_0 and all even Hermite polynomials; no He_3, He_5, ..."""

    semantics: ClassVar[int] = 1

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """max(0, z)."""
        return np.maximum(np.asarray(z, dtype=np.float64), 0.0)

    def slope(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 where z > 0, else 0."""
        return np.asarray(np.asarray(z) > 0, dtype=np.float64)


@dataclass(frozen=True)
class Sign:
    """sgn z, with sgn 0 = 0: a target, not an activation, since its slope is 0."""

    semantics: ClassVar[int] = 1

    def __call__(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """sgn z."""
        return np.sign(np.asarray(z, dtype=np.float64))


_NAMED: dict[str, Link] = {"erf": Erf(), "tanh": Tanh(), "relu": Relu(), "sign": Sign()}


def named_link(name: str) -> Link:
    """A link by its name: He1, He2, ... for Hermite polynomials, erf, tanh, relu, sign; sums as He1+0.5*He3."""
    text = name.replace(" ", "")
    if text.lower() in _NAMED:
        return _NAMED[text.lower()]
    coefficients: dict[int, float] = {}
    try:
        for term in text.replace("-", "+-").lower().removeprefix("+").split("+"):
            factor, _, degree = term.rpartition("he")
            factor = factor.removesuffix("*")
            coefficients[int(degree)] = {"": 1.0, "-": -1.0}.get(factor) or float(factor)
    except ValueError:
        raise HeadstartError(
            f"link {name!r} is not known; choose He1, He2, He3, ..., a sum such as He1+0.5*He3, {', '.join(_NAMED)}"
        ) from None
    if list(coefficients.values()) == [1.0] and 0 not in coefficients:
        return Hermite(next(iter(coefficients)))
    return Series(tuple(coefficients.get(k, 0.0) for k in range(max(coefficients) + 1)))
