"""Lemmas A.1 to A.4 and inequality (1) of the proof of Theorem 3.2 as events that a draw has or has not.

Each is said to hold with a probability that tends to 1; `EVENTS` has the words, the event and the stated bound with the
constants that the proof has. A bound of 0 says nothing at these numbers.

Reference: Let Me Grok For You, Appendix A.1.2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from headstart.theory.xor_statements import noise_bound
from headstart.theory.xor_transfer import CORNERS, Floats, Rows, Target, outputs


@dataclass(frozen=True)
class Draw:
    """Training rows, test rows and a target before training; features [k, 2], p and epsilon."""

    train: Rows
    test: Rows
    start: Target
    features: Floats
    dim: int
    noise: float

    @property
    def samples(self) -> int:
        """n."""
        return len(self.train.z)

    @property
    def most_noise(self) -> float:
        """eps^2 sqrt(p/n) log n."""
        return self.noise**2 * sqrt(self.dim / self.samples) * log(self.samples)

    def noise_of(self, rows: Rows) -> Floats:
        """z - zbar, [n, k]."""
        return rows.z - rows.corner @ self.features.T

    @property
    def directions(self) -> list[Floats]:
        """Every e of {+-1}^k."""
        return [np.array(e, dtype=np.float64) for e in product((-1, 1), repeat=len(self.features))]


def _in_cluster(rows: Rows, corner: tuple[int, int]) -> NDArray[np.bool_]:
    return np.asarray((rows.corner == corner).all(axis=1))


def _sides(draw: Draw) -> float:
    """(27) and the first lines of (28): a row has the side of every e that its corner has."""
    for e in draw.directions:
        clean = draw.train.corner @ draw.features.T @ e
        if (np.sign(clean) != np.sign(draw.train.z @ e))[clean != 0].any():
            return 0.0
    return 1.0


def _halves(draw: Draw) -> float:
    """The last line of (28): where the corner says nothing, half of the rows lie on either side."""
    allowed = sqrt(draw.samples * log(draw.samples))
    for e, corner in product(draw.directions, CORNERS):
        if e @ draw.features @ np.array(corner) == 0:
            rows = _in_cluster(draw.train, corner)
            if abs((draw.train.z[rows] @ e > 0).sum() - rows.sum() / 2) > allowed:
                return 0.0
    return 1.0


def _small_noise(draw: Draw) -> float:
    return float((np.linalg.norm(draw.noise_of(draw.train), axis=1) <= draw.most_noise).all())


def _small_test_noise(draw: Draw) -> float:
    return float((np.abs(draw.noise_of(draw.test)).max(axis=1) <= draw.most_noise).mean())


def _small_outputs(draw: Draw) -> float:
    init = np.abs(draw.start.hidden).max()
    return float(np.abs(outputs(draw.start, draw.train.z)).max() <= init * log(draw.samples))


def _balanced(draw: Draw, by_sign: bool, by_direction: bool) -> float:
    """Whether every kind of neuron is within m / log n of its share of m."""
    positive, sides = draw.start.readout > 0, draw.start.hidden > 0
    kinds = [positive] if by_sign else []
    kinds += list(sides.T) if by_direction else []
    codes = np.stack(kinds, axis=1) @ (1 << np.arange(len(kinds)))
    counts = np.bincount(codes, minlength=2 ** len(kinds))
    width = len(positive)
    return float((np.abs(counts - width / 2 ** len(kinds)) <= width / log(draw.samples)).all())


def _clusters(draw: Draw) -> float:
    counts = np.array([_in_cluster(draw.train, corner).sum() for corner in CORNERS])
    return float((np.abs(counts - draw.samples / 4) <= draw.samples / log(draw.samples)).all())


@dataclass(frozen=True)
class Event:
    """An event of the proof: the paper's words, the share of it that a draw has, and the least probability stated.

    `bound(n, m, p, eps, |delta|_F)` keeps the proof's constants. A share is 0 or 1; that of Lemma A.3 is over
    test points.
    """

    says: str
    share: Callable[[Draw], float]
    bound: Callable[[int, int, int, float, float], float]

    def least(self, samples: int, width: int, dim: int, noise: float, complement: float) -> float:
        """The stated probability, at least 0."""
        return max(0.0, self.bound(samples, width, dim, noise, complement))


def _halves_bound(n: int, m: int, p: int, eps: float, delta: float) -> float:
    return 1 - 16 / n**2 - n * noise_bound(n, p, eps, delta)


def _balance_bound(kinds: int) -> Callable[[int, int, int, float, float], float]:
    """Hoeffding for each kind: P(off by m / log n) <= 2 exp(-2 m / log^2 n)."""
    return lambda n, m, p, eps, delta: 1 - 2 * kinds * exp(-2 * m / log(n) ** 2)


EVENTS: dict[str, Event] = {
    "A1_sides": Event(
        "every training row lies on its corner's side of every e",
        _sides,
        lambda n, m, p, eps, delta: 1 - n * noise_bound(n, p, eps, delta),
    ),
    "A1_halves": Event("where the corner does not say, half do, within sqrt(n log n)", _halves, _halves_bound),
    "A2": Event(
        "|z_i - zbar_i| <= eps^2 sqrt(p/n) log n for all training rows",
        _small_noise,
        lambda n, m, p, eps, delta: 1 - n * noise_bound(n, p, eps, delta),
    ),
    "A3": Event(
        "|z - nu|_max <= eps^2 sqrt(p/n) log n for a test point",
        _small_test_noise,
        lambda n, m, p, eps, delta: 1 - noise_bound(n, p, eps, delta),
    ),
    "inequality_1": Event(
        "|f(x_i)| <= v_init log n for all training rows before training",
        _small_outputs,
        lambda n, m, p, eps, delta: 1 - 2 * n * exp(-2 * log(n) ** 2 / 25) - n * noise_bound(n, p, eps, delta),
    ),
    "A4_B1": Event("|J_Pos| is m/2 within m / log n", lambda d: _balanced(d, True, False), _balance_bound(2)),
    "A4_B2": Event("|J_e| is m/8 within m / log n for every e", lambda d: _balanced(d, False, True), _balance_bound(8)),
    "A4_B3": Event("|J_k,e| is m/16 within m / log n", lambda d: _balanced(d, True, True), _balance_bound(16)),
    "A4_B4": Event(
        "n_mu is n/4 within n / log n for every corner",
        _clusters,
        lambda n, m, p, eps, delta: 1 - 8 * exp(-2 * n / log(n) ** 2),
    ),
}
