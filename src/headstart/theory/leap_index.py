"""The leap of a multi-index target: how many new coordinates a monomial must bring at once, at worst.

    h(z) = sum_alpha c_alpha prod_i He_alpha_i(z_i)

With a set S already found, a monomial costs its degree in coordinates outside S, and then all its coordinates are
found. The leap is the least, over orders, of the dearest step (Online Learning and Information Exponents). Costs only
fall as S grows, so taking the cheapest monomial each time is best.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import factorial, prod, sqrt

import numpy as np
from numpy.polynomial import hermite_e

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.theory.hermite import Floats, Function, gaussian_rule, unit_polynomials
from headstart.theory.information_exponent import TOLERANCE

MAX_DIRECTIONS = 6
MAX_POINTS = 300_000
MAX_NODES = 24  # of each half line


@dataclass(frozen=True)
class Step:
    """One step: its degree in what was not found before, the monomial (exponents alpha), the directions it finds.

    In any basis a step takes all directions of its degree at once, and has no monomial: ().
    """

    degree: int
    monomial: tuple[int, ...]
    directions: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Leap:
    """The leap index, and the steps of an order that has it."""

    index: int
    steps: tuple[Step, ...]


def leap_index(
    target: Function,
    num_directions: int,
    degree: int = 6,
    in_any_basis: bool = False,
    tolerance: float = TOLERANCE,
) -> Leap:
    """The leap of y = target(z), a callable from [n, k] to [n], z ~ N(0, I_k), from monomials up to a total `degree`.

    It is taken in the coordinates of z. `in_any_basis` takes it by subspaces, which is what isotropic inputs see:
    z_1 + z_2 + z_1 z_2 has leap 1 in its coordinates, but E[y z] is one direction, and the other has leap 2. For k = 1
    both are the information exponent. A coefficient c_alpha sqrt(alpha!) is nonzero above `tolerance` times the
    deviation of y and above the error of quadrature, which is judged by a second rule.
    """
    check_count("leap_index", "num_directions", num_directions, maximum=MAX_DIRECTIONS)
    check_count("leap_index", "degree", degree)
    check_positive("leap_index", "tolerance", tolerance)
    coefficients, error = tensor_coefficients(target, num_directions, degree, tolerance)
    # A turned coefficient is a sum of many, with all their errors.
    floor = max(tolerance, 10 * error * sqrt(np.count_nonzero(coefficients)))
    steps = tuple(_in_any_basis(coefficients, floor) if in_any_basis else _in_coordinates(coefficients))
    return Leap(max(step.degree for step in steps), steps)


def tensor_coefficients(
    target: Function, num_directions: int, degree: int, tolerance: float = TOLERANCE
) -> tuple[Floats, float]:
    """c_alpha sqrt(alpha!) / sd(y) in an array of k axes of degree + 1, and the error of quadrature.

    Coefficients above the total degree, and those that may be error, are 0.
    """
    nodes = min(MAX_NODES, int(MAX_POINTS ** (1 / num_directions) / 2))
    fine, deviation = _project(target, num_directions, degree, nodes)
    coarse, _ = _project(target, num_directions, degree, nodes - 1)
    total = np.indices(fine.shape).sum(axis=0)
    deviation = max(deviation, np.finfo(np.float64).tiny)
    error = float(np.abs(fine - coarse)[total <= degree].max()) / deviation
    kept = (total >= 1) & (total <= degree) & (np.abs(fine) / deviation > max(tolerance, 10 * error))
    if not kept.any():
        raise HeadstartError(
            f"leap_index: the target has no monomial of degree 1 to {degree} above {tolerance:g} of its deviation and "
            f"above the error of quadrature, {10 * error:.1e}; raise degree or give another target"
        )
    return np.where(kept, fine, 0.0) / deviation, error


def _project(target: Function, num_directions: int, degree: int, nodes: int) -> tuple[Floats, float]:
    """c_alpha sqrt(alpha!) for every alpha_i <= degree, and the deviation of y, by a product rule."""
    half, weights = _half_line_rule(nodes)
    x, w = np.concatenate((-half[::-1], half)), np.concatenate((weights[::-1], weights))
    points = np.stack(np.meshgrid(*[x] * num_directions, indexing="ij"), axis=-1).reshape(-1, num_directions)
    y = np.asarray(target(points), dtype=np.float64)
    if y.shape not in ((len(points),), (len(points), 1)) or not np.isfinite(y).all():
        raise HeadstartError(
            f"leap_index: the target gives {list(y.shape)} for [{len(points)}, {num_directions}] or is not finite; "
            "give a callable from [n, k] to n finite numbers"
        )
    table = y.reshape([len(x)] * num_directions)
    density, project = w, unit_polynomials(x, degree) * w
    mean, square = table, table**2
    for _ in range(num_directions):
        # The first axis is used up, its coefficients become the last one.
        table = np.moveaxis(np.tensordot(project, table, axes=(1, 0)), 0, -1)
        mean, square = np.tensordot(density, mean, axes=(0, 0)), np.tensordot(density, square, axes=(0, 0))
    return table, sqrt(max(float(square - mean**2), 0.0))


@cache
def _half_line_rule(nodes: int) -> tuple[Floats, Floats]:
    """The Gauss rule of the density of N(0, 1) on x > 0: exact for polynomials of each sign of x on its own."""
    x, w = gaussian_rule(np.ones_like, 2 * MAX_NODES)
    x, w = x[x > 0], w[x > 0]
    rows = [np.zeros_like(x), np.sqrt(1 / w.sum()) * np.ones_like(x)]
    diagonal: list[float] = []
    off: list[float] = []
    for _ in range(nodes):
        diagonal.append(float(w @ (x * rows[-1] ** 2)))
        following = (x - diagonal[-1]) * rows[-1] - (off[-1] if off else 0.0) * rows[-2]
        off.append(sqrt(w @ following**2))
        rows.append(following / off[-1])
    eigenvalues, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off[:-1], 1) + np.diag(off[:-1], -1))
    return eigenvalues, w.sum() * vectors[0] ** 2


def _in_coordinates(coefficients: Floats) -> Iterator[Step]:
    """The cheapest monomial, again and again, until every coordinate is found."""
    monomials = [tuple(int(a) for a in alpha) for alpha in np.argwhere(coefficients)]
    found: set[int] = set()
    while len(found) < coefficients.ndim:
        costs = {alpha: sum(a for i, a in enumerate(alpha) if i not in found) for alpha in monomials}
        open_ones = [alpha for alpha, cost in costs.items() if cost]
        if not open_ones:
            missing = sorted(set(range(coefficients.ndim)) - found)
            raise HeadstartError(
                f"leap_index: no monomial up to degree {len(coefficients) - 1} has coordinate {missing[0]}; raise "
                "degree or leave that direction out"
            )
        chosen = min(open_ones, key=lambda alpha: (costs[alpha], sum(alpha), [-a for a in alpha]))
        new = [i for i, a in enumerate(chosen) if a and i not in found]
        yield Step(costs[chosen], chosen, tuple(tuple(np.eye(coefficients.ndim)[i].tolist()) for i in new))
        found |= set(new)


def _in_any_basis(coefficients: Floats, tolerance: float) -> Iterator[Step]:
    """All directions of the least degree outside the space found, again and again.

    With U found, the part of degree j outside U is a set of symmetric tensors; the vectors that they contain span what
    is found next. A rotation maps polynomials of one degree on themselves, so the series stays exact.
    """
    k = coefficients.ndim
    basis, found, turned = np.eye(k), 0, coefficients
    while found < k:
        outside = np.indices(turned.shape)[found:].sum(axis=0)
        seen = np.where(np.abs(turned) > tolerance, outside, 0)
        if not seen.any():
            raise HeadstartError(
                f"leap_index: {k - found} of {k} directions are in no term up to degree {len(coefficients) - 1}; raise "
                "degree or leave them out"
            )
        degree = int(seen[seen > 0].min())
        slopes = _slopes(np.where(outside == degree, turned, 0.0), found)
        _, sizes, vectors = np.linalg.svd(slopes, full_matrices=True)
        rank = int((sizes > 10 * tolerance * sizes[0]).sum())
        basis = basis.copy()
        basis[:, found:] = basis[:, found:] @ vectors.T
        yield Step(degree, (), tuple(tuple(column) for column in basis[:, found : found + rank].T.tolist()))
        found += rank
        turned = _turn(coefficients, basis)


def _slopes(part: Floats, found: int) -> Floats:
    """E of the derivatives along each open coordinate, a row for each lower monomial: they span what is new."""
    k, rows = part.ndim, []
    for alpha in product(*(range(n) for n in part.shape)):
        row = np.zeros(k - found)
        for i in range(found, k):
            up = (*alpha[:i], alpha[i] + 1, *alpha[i + 1 :])
            if up[i] < part.shape[i]:
                row[i - found] = part[up] * sqrt(prod(map(factorial, up)))
        if row.any():
            rows.append(row)
    return np.array(rows)


def _turn(coefficients: Floats, basis: Floats) -> Floats:
    """The coefficients of the same polynomial in another orthonormal basis, its columns."""
    k, degree = coefficients.ndim, len(coefficients) - 1
    x, w = hermite_e.hermegauss(degree + 1)
    points = np.stack(np.meshgrid(*[x] * k, indexing="ij"), axis=-1).reshape(-1, k) @ basis.T
    y = np.zeros(len(points))
    rows = [unit_polynomials(points[:, i], degree) for i in range(k)]
    for alpha in np.argwhere(coefficients):
        y += coefficients[tuple(alpha)] * np.prod([rows[i][a] for i, a in enumerate(alpha)], axis=0)
    table, project = y.reshape([len(x)] * k), unit_polynomials(x, degree) * (w / w.sum())
    for _ in range(k):
        table = np.moveaxis(np.tensordot(project, table, axes=(1, 0)), 0, -1)
    return table
