"""What can be said of XOR clusters before any training: who can represent them, and what Theorem 3.2 assumes.

x = (x_1, x_2, noise), y = x_1 x_2 (`XorClusters`). With x' = (x_1, -x_2, noise), the points x, -x, x', -x' are equally
likely and labelled y, y, -y, -y, so an accuracy is a mean over such quadruples. A network without biases sees of each
neuron the signs of <w_j, x> and <w_j, x'>: finitely many patterns, all of which are tried here.

Reference: Let Me Grok For You, Section 3, Lemma 3.1, Theorem 3.2, Appendices A.1.1 and A.4.2.
"""

from dataclasses import dataclass
from itertools import product
from math import exp, inf, log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_nonnegative, check_positive
from headstart.core.streams import Stream, check_seed, normals

Floats = NDArray[np.float64]
_MOST_WIDTH = 5  # 18^5 patterns are two million
_MOST_DIM = 12


def _check_zero(owner: str, sign_of_zero: int) -> None:
    if sign_of_zero not in (-1, 0, 1) or isinstance(sign_of_zero, bool):
        raise HeadstartError(f"{owner}(sign_of_zero={sign_of_zero!r}): sgn(0) is -1, 0 or 1; 0 is never right")


def width_ceiling(width: int, sign_of_zero: int = 0, generic: bool = False) -> float:
    """The most that a network sum_j a_j relu(<w_j, x>) of this width can have right of any quadruple, as a share.

    A point with label y can be right only where a neuron with sgn(a_j) = y is active, or, where none is active, by
    sgn(0). Every pattern (sgn a_j, sgn <w_j, x>, sgn <w_j, x'>) is tried. Lemma 3.1 is width 3: 3/4. It takes sgn(0) to
    be wrong; with sgn(0) = 1 three neurons have all of it right. `generic` leaves out that some <w_j, x> is exactly 0.
    """
    check_count("width_ceiling", "width", width, maximum=_MOST_WIDTH)
    _check_zero("width_ceiling", sign_of_zero)
    sides = (-1, 1) if generic else (-1, 0, 1)
    each = np.array(list(product((-1, 1), sides, sides)), dtype=np.int8)  # [18 or 8, (a, s, s')]
    place = np.indices((len(each),) * width, dtype=np.int8).reshape(width, -1)
    readout, side, other = (each[place, column] for column in range(3))  # [width, patterns]
    most = 0
    for y in (-1, 1):
        right = np.zeros(place.shape[1], dtype=np.int8)
        for label, active in ((y, side > 0), (y, side < 0), (-y, other > 0), (-y, other < 0)):
            helped, silent = (active & (readout == label)).any(axis=0), ~active.any(axis=0)
            right += helped | (silent & (sign_of_zero == label))
        most = max(most, int(right.max()))
    return most / 4


def one_number_ceiling() -> float:
    """The most that any network without biases on one number z = <u, x> can have right of a quadruple: 1/2.

    f(z) = c_+ relu(z) + c_- relu(-z) has the sign of c_+ on one side of 0 and that of c_- on the other, and x and -x
    lie on different sides, as x' and -x' do. All signs of (z, z', c_+, c_-) are tried, zeros too. (Figs. 10, 11, A.4.2)
    """
    most = 0
    for z, other, positive, negative in product((-1, 0, 1), repeat=4):
        sign = {1: positive, 0: 0, -1: negative}
        most = max(most, sum(sign[s] == y for s, y in ((z, 1), (-z, 1), (other, -1), (-other, -1))))
    return most / 4


@dataclass(frozen=True)
class NetworkSearch:
    """Hill climbing for the best accuracy of a network of few neurons, on all 2^dim points of XOR clusters.

    Each of `num_starts` networks has standard normal weights and takes `num_moves` normal steps, of sizes that fall
    from 1 to 1/100; a step that does not lose accuracy is kept. f = 0 is wrong.
    """

    width: int
    dim: int = 2
    noise: float = 0.5
    num_starts: int = 512
    num_moves: int = 200
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("width", "num_starts", "num_moves"):
            check_count("NetworkSearch", name, getattr(self, name))
        check_count("NetworkSearch", "dim", self.dim, minimum=2, maximum=_MOST_DIM)
        check_nonnegative("NetworkSearch", "noise", self.noise)
        check_seed(self.seed)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 0.1 + 2e-8 * self.num_moves * self.num_starts * self.width * (2**self.dim + 20 * self.dim)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """accuracy: the best of each start, [num_starts]."""
        points = np.array(list(product((-1.0, 1.0), repeat=self.dim)))
        labels = points[:, 0] * points[:, 1]
        points[:, 2:] *= self.noise
        best = self._draw(0)
        accuracy = self._accuracy(best, points, labels)
        for move in range(1, self.num_moves + 1):
            size = 0.01 ** (move / self.num_moves)
            tried = best + size * self._draw(move)
            found = self._accuracy(tried, points, labels)
            kept = found >= accuracy
            best[kept], accuracy[kept] = tried[kept], found[kept]
        return {"accuracy": accuracy}

    def _draw(self, move: int) -> Floats:
        """[starts, width, dim + 1]: w_j and a_j."""
        ids = (move << 32) + np.arange(self.num_starts, dtype=np.int64)
        drawn = normals(self.seed, Stream.INIT, ids, self.width * (self.dim + 1)).astype(np.float64)
        return drawn.reshape(self.num_starts, self.width, self.dim + 1)

    def _accuracy(self, networks: Floats, points: Floats, labels: Floats) -> Floats:
        hidden = np.maximum(networks[:, :, :-1] @ points.T, 0.0)
        outputs = (networks[:, :, -1:] * hidden).sum(axis=1)
        return np.asarray((outputs * labels > 0).mean(axis=1))


@dataclass(frozen=True)
class Assumption:
    """One of (A1) to (A5), `left` <= `right`, and the least constant C with which it holds: 0 where it needs none.

    An assumption without C that does not hold has no such constant: it is infinite.
    """

    says: str
    left: float
    right: float
    least_constant: float

    @property
    def holds(self) -> bool:
        """Whether left <= right, C as it was given."""
        return self.left <= self.right


def assumptions(
    samples: int,
    dim: int,
    noise: float,
    complement: float,
    init: float,
    rate: float,
    width: int,
    constant: float = 1.0,
) -> dict[str, Assumption]:
    """(A1) to (A5) of Theorem 3.2 for given numbers, C = `constant`; (A4) is two, "A4_low" and "A4_high".

    n samples, p = dim, epsilon = noise, |delta|_F = complement (where the features have entries +-1), v_init = init,
    alpha = rate, m = width.
    """
    check_count("assumptions", "samples", samples, minimum=2)
    check_count("assumptions", "dim", dim, minimum=3)
    check_count("assumptions", "width", width)
    check_nonnegative("assumptions", "complement", complement)
    for name, value in (("noise", noise), ("init", init), ("rate", rate), ("constant", constant)):
        check_positive("assumptions", name, value)
    logs = log(samples)
    scale, step = noise * sqrt(dim / samples), sqrt(width) * init
    most_noise = (samples / (dim * logs**3)) ** 0.25

    def without(left: float, right: float) -> float:
        return 0.0 if left <= right else inf

    return {
        "A1": Assumption("eps <= (n / (p log^3 n))^(1/4)", noise, most_noise, without(noise, most_noise)),
        "A2": Assumption("|delta|_F <= C eps sqrt(p/n)", complement, constant * scale, complement / scale),
        "A3": Assumption("v_init <= C log^(-3/2) n", init, constant * logs**-1.5, init * logs**1.5),
        "A4_low": Assumption("sqrt(m) v_init / C <= alpha", step / constant, rate, step / rate),
        "A4_high": Assumption("alpha <= sqrt(m) v_init", rate, step, without(rate, step)),
        "A5": Assumption("2 log^3 n <= m", 2 * logs**3, width, without(2 * logs**3, width)),
    }


def least_constant(checked: dict[str, Assumption]) -> float:
    """The least C with which all of them hold: at least 1; infinite where there is none."""
    return max(1.0, *(assumption.least_constant for assumption in checked.values()))


def least_log_samples(constant: float = 1.0) -> float:
    """log n from which the last lines of the proof hold, "for sufficiently large n" in (24) and (26).

    (24): 1/40 > 4 (C + 1) / log n.   (26): 1/8 > 10 (C + 1) / log n + C / sqrt(log n), a quadratic in sqrt(log n).
    There is none for an infinite C.
    """
    if constant == inf:
        return inf
    check_positive("least_log_samples", "constant", constant)
    root = 4 * (constant + sqrt(constant**2 + 5 * (constant + 1)))
    return max(160 * (constant + 1), root**2)


def cluster_mean_ratio(noise: float, samples: int) -> float:
    """r_W where every neuron is a multiple of the mean of its cluster's n/4 rows: eps / sqrt(n/4) = 2 eps / sqrt n."""
    check_nonnegative("cluster_mean_ratio", "noise", noise)
    check_count("cluster_mean_ratio", "samples", samples)
    return 2 * noise / sqrt(samples)


def noise_bound(samples: int, dim: int, noise: float, complement: float) -> float:
    """Lemma A.3: P(|U^T x - nu|_max > eps^2 sqrt(p/n) log n) <= 6 exp(-t^2 / (2 |delta|_F^2 eps^2)), (31), as stated.

    Above 1 it says nothing. Lemma A.2 is n times it.
    """
    if not complement or not noise:
        return 0.0
    t = noise**2 * sqrt(dim / samples) * log(samples)
    return 6 * exp(-(t**2) / (2 * complement**2 * noise**2))
