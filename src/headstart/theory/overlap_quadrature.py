"""Expectations over the fields of any student and teacher, by points: Gauss-Hermite in few fields, Sobol in many."""

from functools import lru_cache

import numpy as np
from numpy.polynomial import hermite_e

from headstart.theory.hermite import Floats
from headstart.theory.overlap_setting import Expectations, Setting, Wanted

MAX_PRODUCT_FIELDS = 3
NODES = {1: 128, 2: 96, 3: 44}  # of each axis
LOG2_SOBOL = 16
SOBOL_SEED = 17
NEGLIGIBLE = 1e-5  # a product rule that is so close to a smaller one is taken


def point_expectations(setting: Setting, covariance: Floats, wanted: Wanted) -> Expectations:
    """All expectations at the covariance O of the fields, by the rule that suits their number and smoothness."""
    factor = covariance_factor(covariance)
    points, weights = _points(factor.shape[1], use_sobol(setting))
    return _average(setting, points @ factor.T, weights, (points**2).sum(axis=1) - factor.shape[1], wanted)


def covariance_factor(covariance: Floats) -> Floats:
    """L with L L^T = O: Cholesky's, or where O is singular the eigenvectors of its range, [p + k, rank]."""
    try:
        factor = np.linalg.cholesky(covariance)
        if np.diag(factor).min() > 1e-6:
            return np.asarray(factor, dtype=np.float64)
    except np.linalg.LinAlgError:
        pass
    eigenvalues, basis = np.linalg.eigh(covariance)
    kept = eigenvalues > 1e-12 * eigenvalues[-1]
    return np.asarray(basis[:, kept] * np.sqrt(eigenvalues[kept]))


@lru_cache(maxsize=64)
def use_sobol(setting: Setting) -> bool:
    """Whether Sobol points are the better rule: above three fields, or where a kink hurts the product rule more.

    Each rule is judged by how far it is from a smaller one of its kind.
    """
    num = setting.num_fields
    if num > MAX_PRODUCT_FIELDS:
        return True
    product = _distance(setting, _product_rule(num, NODES[num]), _product_rule(num, NODES[num] - 1))
    if product <= NEGLIGIBLE:
        return False
    points, weights = _sobol_points(num)
    half = len(points) // 2
    return product > _distance(setting, (points, weights), (points[:half], 2 * weights[:half]))


def _distance(setting: Setting, one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> float:
    """The largest difference between two rules at a generic covariance, over the size of what is averaged."""
    num = setting.num_fields
    factor = np.linalg.cholesky(np.eye(num) + 0.3 * (1 - np.eye(num)))
    first, second = (
        _average(setting, points @ factor.T, weights, np.zeros(len(points)), Wanted(False, False))
        for points, weights in (one, other)
    )
    # hd has the squares of what is averaged in psi and gf, which may themselves be 0.
    size = max(float(np.abs(first.hd).max()), 1e-300)
    gaps = {name: float(np.abs(getattr(first, name) - getattr(second, name)).max()) for name in ("psi", "gf", "hd")}
    return max(gaps["psi"] / size**0.5, gaps["gf"] / size**0.5, gaps["hd"] / size)


def _points(num: int, sobol: bool) -> tuple[Floats, Floats]:
    return _sobol_points(num) if sobol else _product_rule(num, NODES[num])


@lru_cache(maxsize=8)
def _product_rule(num: int, nodes: int) -> tuple[Floats, Floats]:
    """A Gauss-Hermite rule in every axis: points [nodes^num, num] and weights."""
    x, w = hermite_e.hermegauss(nodes)
    points = np.stack(np.meshgrid(*[x] * num, indexing="ij"), axis=-1).reshape(-1, num)
    weights = np.ones(1)
    for _ in range(num):
        weights = np.multiply.outer(weights, w / w.sum()).ravel()
    kept = weights > 1e-22
    return points[kept], weights[kept]


@lru_cache(maxsize=2)
def _sobol_points(num: int) -> tuple[Floats, Floats]:
    """2^16 scrambled Sobol points of N(0, I) [2^16, num], and their common weight."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    uniform = qmc.Sobol(num, scramble=True, seed=SOBOL_SEED).random_base2(LOG2_SOBOL)
    return ndtri(np.clip(uniform, 1e-12, 1 - 1e-12)), np.full(len(uniform), 1 / len(uniform))


def _average(setting: Setting, fields: Floats, weights: Floats, radii: Floats, wanted: Wanted) -> Expectations:
    """Weighted sums over points; `radii` is lbar^T O^-1 lbar - rank."""
    own, others = fields[:, : setting.num_neurons], fields[:, setting.num_neurons :]
    slopes = setting.student.slope(own)
    residual = setting.target(others)
    if setting.feedback:
        residual = residual - setting.student(own) @ np.array(setting.readout)
    pull = slopes * (weights * residual)[:, None]
    square = weights * (residual**2 + setting.noise)
    push = slopes * square[:, None]
    moved = slopes * own
    return Expectations(
        pull.T @ others,
        pull.T @ own,
        push.T @ slopes,
        (push * radii[:, None]).T @ slopes if wanted.radial else None,
        (push * own**2).T @ slopes if wanted.spherical else None,
        (push * own).T @ moved if wanted.spherical else None,
    )
