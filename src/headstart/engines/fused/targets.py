"""Targets of Gaussian inputs as a few numbers that kernels read: y = outer(sum_t c_t prod_r He_{n_tr}(inner(z_r)))."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.tasks import (
    Committee,
    Erf,
    Hermite,
    HermiteSum,
    MultiIndex,
    ProductOf,
    Relu,
    Series,
    Sign,
    SingleIndex,
    Tanh,
)

IDENTITY, ERF, TANH, RELU, SIGN, HERMITE = range(6)
_NAMED = {Erf: ERF, Tanh: TANH, Relu: RELU, Sign: SIGN}
Terms = list[tuple[float, list[int]]]


@dataclass(frozen=True, eq=False)
class Target:
    """Degrees int64[terms, directions] with coefficients float64[terms], and what comes before and after the sum.

    `degree` is that of the outer link, where it is a Hermite polynomial.
    """

    degrees: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    inner: int = IDENTITY
    outer: int = IDENTITY
    degree: int = 0
    noise: float = 0.0


def target_of(task: SingleIndex | MultiIndex) -> Target | None:
    """The target of a task, or None where its link is none that kernels know."""
    link, num = task.link, task.num_directions if isinstance(task, MultiIndex) else 1
    noise = task.noise if isinstance(task, MultiIndex) else 0.0
    if type(link) is HermiteSum:
        return _target([(c, list(degrees)) for c, degrees in link.terms], noise)
    if type(link) is ProductOf:
        outer = link.outer
        kind = HERMITE if type(outer) is Hermite else _NAMED.get(type(outer))
        degree = outer.degree if isinstance(outer, Hermite) else 0
        return None if kind is None else _target([(1.0, [1] * num)], noise, outer=kind, degree=degree)
    each = link.link if type(link) is Committee else link
    share, unit = 1 / num, np.eye(num, dtype=np.int64)
    if type(each) is Hermite:
        return _target([(share, list(each.degree * row)) for row in unit], noise)
    if type(each) is Series:
        terms = [(share * c, list(n * row)) for n, c in enumerate(each.coefficients) if c for row in unit]
        return _target(terms, noise)
    kind = _NAMED.get(type(each))
    return None if kind is None else _target([(share, list(row)) for row in unit], noise, inner=kind)


def _target(terms: Terms, noise: float, inner: int = IDENTITY, outer: int = IDENTITY, degree: int = 0) -> Target:
    degrees = np.array([row for _, row in terms], dtype=np.int64)
    return Target(degrees, np.array([c for c, _ in terms]), inner, outer, degree, noise)
