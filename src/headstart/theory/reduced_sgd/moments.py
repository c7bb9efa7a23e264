"""Sums over a batch from their moments, for one neuron on one direction: an approximation for very large batches.

The means of c g*, c g' and c^2 over n_b samples are drawn with their exact means and covariances, as a quadrature over
(g*, g') has them: the first two as Gaussians, the third as a log-normal number, since it is positive. By the central
limit theorem that is their law for large n_b. What the other d - 2 coordinates add is exact, as in `chain`. The loss
that a switch looks at is that of the population.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial import hermite_e, legendre
from numpy.typing import NDArray

from headstart.core.streams import Stream, uniforms
from headstart.tasks import Hermite, Series
from headstart.theory.overlaps import Objective
from headstart.theory.reduced_sgd.chain import State, Sums
from headstart.theory.reduced_sgd.draws import box_muller, ids_of
from headstart.theory.reduced_sgd.process import ReducedSGD

Floats = NDArray[np.float64]

_MOST_POLYNOMIAL = 40
_LEAST_BATCH = 1000
_RADIUS, _RADII, _ANGLES = 12.0, 64, 32


class Grid(NamedTuple):
    """A quadrature over the plane. In `polar` form it is turned to the kinks of both links, else it is fixed.

    Fixed: x, y and weights of the nodes. Polar: radii and their weights in x and weight, and in y and turn the nodes
    on [0, 1] of an arc between two kinks, with their weights.
    """

    polar: bool
    x: Floats
    y: Floats
    weight: Floats
    turn: Floats


def grid_of(process: ReducedSGD) -> Grid:
    """Gauss-Hermite that is exact for all moments of polynomials; else polar, for links smooth on both sides of 0."""
    link, student = _degree(process.link), _degree(process.student)
    if link is not None and student is not None:
        degree = max(student - 1, 0) + max(link, student)
        if degree <= _MOST_POLYNOMIAL:
            nodes, weights = hermite_e.hermegauss(2 * degree + 1)
            weights = weights / weights.sum()
            x, y = (each.ravel() for each in np.meshgrid(nodes, nodes, indexing="ij"))
            return Grid(False, x, y, np.outer(weights, weights).ravel(), np.zeros(1))
    (r, r_weights), (u, u_weights) = legendre.leggauss(_RADII), legendre.leggauss(_ANGLES)
    r, u = _RADIUS * (1 + r) / 2, (1 + u) / 2
    radial = _RADIUS / 2 * r_weights * r * np.exp(-(r**2) / 2) / (2 * np.pi)
    return Grid(True, r, u, radial, u_weights / 2)


def _degree(link: object) -> int | None:
    if isinstance(link, Hermite):
        return link.degree
    return len(link.coefficients) - 1 if isinstance(link, Series) else None


def nodes(grid: Grid, m: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """x = g*, y = g' and weights for overlaps m = cos t, b = sin t [n]: [n, nodes] each.

    The links may have kinks where x = 0 and where m x + b y = 0; arcs lie between these lines.
    """
    if not grid.polar:
        return tuple(np.broadcast_to(each, (len(m), len(each))) for each in grid[1:4])  # type: ignore[return-value]
    other = np.mod(np.arctan2(b, m) + np.pi / 2, np.pi)
    low, high = np.minimum(other, np.pi / 2), np.maximum(other, np.pi / 2)
    begins, lengths = np.stack((low, high), axis=1), np.stack((high - low, np.pi - high + low), axis=1)
    begins, lengths = np.concatenate((begins, begins + np.pi), axis=1), np.tile(lengths, 2)
    angle = (begins[:, :, None] + lengths[:, :, None] * grid.y).reshape(len(m), -1)
    part = (lengths[:, :, None] * grid.turn).reshape(len(m), -1)
    x, y = (np.multiply.outer(f(angle), grid.x).reshape(len(m), -1) for f in (np.cos, np.sin))
    return x, y, (part[:, :, None] * grid.weight).reshape(len(m), -1)


def moments(process: ReducedSGD, grid: Grid, m: Floats, b: Floats, on_mse: NDArray[np.bool_]) -> tuple[Floats, ...]:
    """Means [n, 3] and covariances [n, 3, 3] of (c g*, c g', c^2) of a sample, and the loss E (y - f)^2 / 2, [n]."""
    x, y, weight = nodes(grid, m, b)
    a, noise, lam = float(process.weights[0]), process.noise, m[:, None] * x + b[:, None] * y
    h, slope = process.target(x[..., None]), a * np.asarray(process.student.slope(lam))
    error = h - a * np.asarray(process.student(lam))
    e = np.where(on_mse[:, None], error, h)
    # Powers of c = slope (e + sqrt(noise) xi), averaged over xi.
    c1, c2 = slope * e, slope**2 * (e**2 + noise)
    c3 = slope**3 * (e**3 + 3 * e * noise)
    c4 = slope**4 * (e**4 + 6 * e**2 * noise + 3 * noise**2)
    means = np.stack([(weight * each).sum(axis=1) for each in (c1 * x, c1 * y, c2)], axis=1)
    squares = np.empty((len(m), 3, 3))
    for (i, j), each in {
        (0, 0): c2 * x * x,
        (0, 1): c2 * x * y,
        (0, 2): c3 * x,
        (1, 1): c2 * y * y,
        (1, 2): c3 * y,
        (2, 2): c4,
    }.items():
        squares[:, i, j] = squares[:, j, i] = (weight * each).sum(axis=1)
    loss = ((weight * error**2).sum(axis=1) + noise) / 2
    return means, squares - means[:, :, None] * means[:, None, :], loss


def least_batch(process: ReducedSGD) -> int:
    """The batch from which on sums are near enough to Gaussian: the mean of c^2 varies by a third at m = 0."""
    zero, on_mse = np.zeros(1), np.array([process.loss is Objective.MSE])
    means, covariance, _ = moments(process, grid_of(process), zero, zero + 1, on_mse)
    return max(_LEAST_BATCH, int(np.ceil(9 * covariance[0, 2, 2] / means[0, 2] ** 2)))


def gaussian_sums(process: ReducedSGD, grid: Grid, seed: int, state: State, on_mse: NDArray[np.bool_]) -> Sums:
    """The sums over the next batch of each run, drawn from their moments; all runs are at the same step."""
    m, b = state.overlaps[:, 0, 0], np.sqrt(state.rest[:, 0, 0])
    means, covariance, loss = moments(process, grid, m, b, on_mse)
    ids = ids_of(state.runs, int(state.step[0]), 1)[:, 0]
    z = box_muller(uniforms(seed, Stream.DATA, ids, 4))
    drift, square = drawn_means(means, covariance / process.batch, z)
    return Sums(drift[:, None, :], (square / process.batch)[:, None, None], loss)


def drawn_means(means: Floats, covariance: Floats, z: Floats) -> tuple[Floats, Floats]:
    """(c g*, c g') [n, 2] and c^2 [n] with these moments, from normals z.

    With S = mean exp(s Z - s^2 / 2), s^2 = log(1 + Var S / mean^2), the covariance of u and S is that of u and Z times
    mean s, so that of u and Z follows.
    """
    mean = np.where(means[:, 2] > 0, means[:, 2], 1.0)
    spread = np.sqrt(np.log1p(np.maximum(covariance[:, 2, 2], 0.0) / mean**2))
    scale = np.where(spread > 0, mean * np.where(spread > 0, spread, 1.0), np.inf)
    with_z = covariance[:, :2, 2] / scale[:, None]
    first = np.sqrt(np.maximum(covariance[:, 0, 0], 0.0))
    safe = np.where(first > 0, first, np.inf)
    below = covariance[:, 0, 1] / safe
    second = np.sqrt(np.maximum(covariance[:, 1, 1] - below**2, 0.0))
    on_one = with_z[:, 0] / safe
    on_two = (with_z[:, 1] - below * on_one) / np.where(second > 0, second, np.inf)
    own = np.sqrt(np.maximum(1 - on_one**2 - on_two**2, 0.0))
    drift = means[:, :2] + np.stack((first * z[:, 0], below * z[:, 0] + second * z[:, 1]), axis=1)
    exponent = on_one * z[:, 0] + on_two * z[:, 1] + own * z[:, 2]
    return drift, means[:, 2] * np.exp(spread * exponent - spread**2 / 2)
