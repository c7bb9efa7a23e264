"""The best linear rule on the features of m random channels: what the tangent kernel of a filter can do.

A channel is a unit vector u_j and a threshold; its features are sum_i x_i 1(|<u_j, x_i>| >= sigma tau_j), in R^d. A
rule is a vector W_j for every channel. With y = 1, f = mu . W + noise, where mu_j = w* if |<u_j, w*>| >= sigma tau_j,
else 0, and noise is a sum over k patches that are independent and symmetric. Reference: Local Signal Adaptivity,
Section 3.5 and Appendix B.2, where channel j has the bias b_j = -sigma tau_j |w_j(0)|.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import check_seed
from headstart.tasks import LocalSignal
from headstart.theory.local_signal.gaussian import Floats, density, small_ball, tail

_NODES, _REACH = 24, 8.0
_RIDGE = 1e-5
_GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
_BLOCK = 2**21  # patches times channels at once


def channel_covariance(u: Floats, tau: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
    """E[x x^T 1_j 1_l], x ~ N(0, I), [rows, m, d, d], by a quadrature along u_j; across it normals are truncated.

    With u_l = rho u_j + r e, the other coordinate y along e passes above (tau_l - rho x) / r and below
    -(tau_l + rho x) / r, so that its moments are closed forms.
    """
    rows = np.arange(len(u)) if rows is None else rows
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    x = tau[rows, None, None] + _REACH * (nodes + 1) / 2  # [rows, 1, nodes]
    mass = _REACH * weights * density(x)  # both signs of x: twice the half line
    rho = np.clip(u[rows] @ u.T, -1 + 1e-12, 1 - 1e-12)
    across = np.sqrt(1 - rho**2)
    high = (tau[None, :, None] - rho[:, :, None] * x) / across[:, :, None]
    low = -(tau[None, :, None] + rho[:, :, None] * x) / across[:, :, None]
    zero = tail(high) + tail(-low)
    one = density(high) - density(low)
    two = zero + high * density(high) - low * density(low)
    p, xx, xy, yy = ((mass * value).sum(axis=2) for value in (zero, x**2 * zero, x * one, two))
    own = np.arange(len(rows)), rows
    q, bell = 2 * tail(tau[rows]), 2 * tau[rows] * density(tau[rows])
    p[own], xx[own], xy[own], yy[own] = q, q + bell, 0.0, q
    along = u[rows][:, None, :]
    other = (u[None] - rho[:, :, None] * along) / across[:, :, None]
    other[own] = 0.0
    out = np.einsum(
        "jl,jla,jlb->jlab", xx - p, np.broadcast_to(along, other.shape), np.broadcast_to(along, other.shape)
    )
    mixed = np.einsum("jl,jla,jlb->jlab", xy, np.broadcast_to(along, other.shape), other)
    out += mixed + mixed.swapaxes(2, 3) + np.einsum("jl,jla,jlb->jlab", yy - p, other, other)
    out += p[:, :, None, None] * np.eye(u.shape[1])
    return out


@dataclass(frozen=True)
class ChannelRule:
    """The best rule found on m random channels, a computed part of a study.

    Thresholds are raised and lowered one by one, over a grid and around |<u_j, w*>|, while Fisher's ratio
    J = mu^T Sigma^-1 mu grows, Sigma exact, from several starts (one above 16 channels). For Gaussian noise that is
    the best rule, with an error of Phi(-sqrt J). Noise with few patches is not, so a logistic regression on samples
    refines it, `num_train` of them; others choose between both, and others again, `num_test`, give the error. A best
    found: the best may be better.
    """

    task: LocalSignal
    channels: int
    sweeps: int = 2
    num_train: int = 2000
    num_test: int = 4000
    refine_up_to: int = 400
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("channels", "sweeps", "num_train", "num_test"):
            check_count("ChannelRule", name, getattr(self, name))
        if not isinstance(self.task, LocalSignal) or self.task.dim < 2:
            raise HeadstartError(f"ChannelRule(task={self.task!r}): give LocalSignal.matched(patches), of 2 dimensions")
        check_seed(self.seed)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        n = self.channels * min(self.task.dim, self.channels + 1)
        patches = (2 * self.num_test + self.num_train) * self.task.patches
        return 0.1 + 4e-9 * patches * (n + 10) + 3e-8 * self.sweeps * self.channels * 24 * (n + 30) ** 2

    def rng(self, purpose: int) -> np.random.Generator:
        """A generator of the seed, one for each purpose."""
        return np.random.Generator(np.random.Philox(key=[self.seed, 1000 * self.channels + purpose]))

    def directions(self) -> Floats:
        """u_j in coordinates of the span of w* and all u_j, w* the first axis, [m, r]: what is across is only noise."""
        drawn = self.rng(0).standard_normal((self.channels, self.task.dim))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        if self.channels + 1 >= self.task.dim:
            return drawn
        signal = np.eye(self.task.dim)[:1]
        basis = np.linalg.qr(np.concatenate([signal, drawn]).T)[0]
        return np.asarray(drawn @ (basis * np.sign(basis[0, 0])))

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """error, of fresh samples; gaussian, Phi(-sqrt J); tau and overlap |<u_j, w*>| / sigma [m]; and of the proof:

        `large` P(|g(x)| >= sigma |g(w*)|) of a patch of noise, Event A with C = 1; `same` P(M(x) = M(w*)), that a patch
        passes the same channels as the signal; `bound` the error that Lemma B.10 proves for this rule. `refined` says
        whether the logistic regression was better.
        """
        from scipy.special import ndtr

        u = self.directions()
        overlap = np.abs(u[:, 0]) / self.task.sigma
        tau = self._search(u, overlap)
        rules = [_fisher(u, tau, overlap)]
        ratio = float(rules[0][:, 0] @ (overlap >= tau))
        if rules[0].size <= self.refine_up_to:
            rules.append(self._refined(u, tau, overlap, rules[0]))
        tried = [self._error(u, tau, rule, overlap, 2)[0] for rule in rules] if len(rules) > 1 else [0.0]
        rule = rules[int(np.argmin(tried))]
        error, large, same = self._error(u, tau, rule, overlap, 3)
        return {
            "error": np.array(error),
            "gaussian": np.array(ndtr(-np.sqrt(max(ratio, 0.0) / self.task.patches) / self.task.sigma)),
            "tau": tau,
            "overlap": overlap,
            "large": np.array(large),
            "same": np.array(same),
            "bound": np.array(proven_error(self.task, large)),
            "refined": np.array(int(np.argmin(tried))),
        }

    def _search(self, u: Floats, overlap: Floats) -> Floats:
        """Thresholds by coordinate ascent on J (of one patch, unit noise) from three starts; the best."""
        best_one = np.zeros(len(u))
        best_one[overlap.argmax()] = overlap.max()
        starts = (overlap.copy(), best_one, self.rng(1).uniform(0, 2.5, len(u)))
        found = [_ascend(u, start, overlap, self.sweeps) for start in (starts if len(u) <= 16 else starts[:1])]
        return max(found, key=lambda pair: pair[1])[0]

    def _samples(self, purpose: int, num: int, m: int, r: int) -> Any:
        """Blocks of patches of noise of unit variance, [n, k, r]."""
        rng, k = self.rng(purpose), self.task.patches
        size = max(1, _BLOCK // (k * m))
        for first in range(0, num, size):
            yield rng.standard_normal((min(size, num - first), k, r), dtype=np.float32)

    def _refined(self, u: Floats, tau: Floats, overlap: Floats, rule: Floats) -> Floats:
        """Logistic regression on features of samples, from Fisher's rule."""
        from scipy.optimize import minimize

        blocks = []
        for x in self._samples(4, self.num_train, *u.shape):
            passed = (np.abs(x @ u.T.astype(np.float32)) >= tau.astype(np.float32)).astype(np.float32)
            blocks.append(np.swapaxes(passed, 1, 2) @ x)
        signal = np.outer(overlap >= tau, np.eye(u.shape[1])[0]).ravel()
        features = self.task.sigma * np.concatenate(blocks).reshape(self.num_train, -1).astype(np.float64) + signal

        def loss(w: Floats) -> tuple[float, Floats]:
            f = features @ w
            slope = 1 / (1 + np.exp(np.clip(f, -50, 50)))
            penalty = 1e-4 * float(w @ w)
            return float(np.logaddexp(0, -f).mean()) + penalty, -features.T @ slope / len(f) + 2e-4 * w

        start = rule.ravel() / max(float(rule.ravel() @ signal), 1e-12)
        return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x).reshape(
            u.shape
        )

    def _error(self, u: Floats, tau: Floats, rule: Floats, overlap: Floats, purpose: int) -> tuple[float, float, float]:
        """The error on samples, ties wrong; how often a patch is large, and passes what the signal passes."""
        on_signal = float(rule[:, 0] @ (overlap >= tau))
        wrong, large, same = 0, 0, 0
        for x in self._samples(purpose, self.num_test, *u.shape):
            passed = np.abs(x @ u.T.astype(np.float32)) >= tau.astype(np.float32)
            each = self.task.sigma * ((x @ rule.T.astype(np.float32)) * passed).sum(axis=2, dtype=np.float64)
            wrong += int((each.sum(axis=1) + on_signal <= 0).sum())
            large += int((np.abs(each) >= self.task.sigma * abs(on_signal)).sum())
            same += int((passed == (overlap >= tau)).all(axis=2).sum())
        patches = self.num_test * self.task.patches
        return wrong / self.num_test, large / patches, same / patches


def proven_error(task: LocalSignal, large: float) -> float:
    """(1 - P(|sum over large patches| < |g(w*)|)) / 4, at least: how Theorem B.1 bounds the error of a rule from below.

    `large` is P(|g(x)| >= sigma |g(w*)|). Given n large patches the chance is at most `small_ball(n, 1 / sigma)`, and
    n is binomial.
    """
    from scipy.stats import binom

    n = np.arange(task.patches + 1)
    return float((1 - binom.pmf(n, task.patches, large) @ small_ball(n, 1 / task.sigma)) / 4)


def _signal(u: Floats, passes: NDArray[np.bool_]) -> Floats:
    """mu, [m r]."""
    out = np.zeros(u.shape)
    out[passes, 0] = 1.0
    return out.ravel()


def _whole(u: Floats, tau: Floats) -> Floats:
    """Sigma over k sigma^2, [m r, m r], with a trace of a ridge: thresholds of 0 make channels equal."""
    m, r = u.shape
    out = channel_covariance(u, tau).transpose(0, 2, 1, 3).reshape(m * r, m * r)
    return (out + out.T) / 2 + _RIDGE * np.eye(m * r)


def _fisher(u: Floats, tau: Floats, overlap: Floats) -> Floats:
    """Sigma^-1 mu, [m, r]."""
    return np.asarray(np.linalg.solve(_whole(u, tau), _signal(u, overlap >= tau))).reshape(u.shape)


def _ascend(u: Floats, tau: Floats, overlap: Floats, sweeps: int) -> tuple[Floats, float]:
    """One threshold after the other takes the best of its candidates; block inverses make each cheap."""
    m, r = u.shape
    tau, best = tau.copy(), 0.0
    for _ in range(sweeps):
        before, inverse = best, np.linalg.inv(_whole(u, tau))
        for j in range(m):
            own = np.arange(j * r, (j + 1) * r)
            rest = np.delete(np.arange(m * r), own)
            cut = inverse[np.ix_(rest, own)]
            without = inverse[np.ix_(rest, rest)] - cut @ np.linalg.solve(inverse[np.ix_(own, own)], cut.T)
            mu = _signal(u, overlap >= tau)[rest]
            base = without @ mu
            floor, chosen = float(mu @ base), None
            z = overlap[j]
            for value in {*_GRID, z, 0.9 * z, z + 0.2, float(tau[j])}:
                trial = tau.copy()
                trial[j] = value
                row = channel_covariance(u, trial, np.array([j]))[0]  # [m, r, r]
                cross = row.transpose(0, 2, 1).reshape(m * r, r)[rest]
                turned = without @ cross
                schur = row[j] + _RIDGE * np.eye(r) - cross.T @ turned
                left = np.eye(r)[0] * (z >= value) - turned.T @ mu
                gained = floor + float(left @ np.linalg.solve(schur, left))
                if chosen is None or gained > chosen[0] * (1 + 1e-9):
                    chosen = gained, value, turned, schur
            assert chosen is not None
            best, tau[j], turned, schur = chosen
            corner = np.linalg.inv(schur)
            inverse[np.ix_(rest, rest)] = without + turned @ corner @ turned.T
            inverse[np.ix_(rest, own)] = -turned @ corner
            inverse[np.ix_(own, rest)] = (-turned @ corner).T
            inverse[np.ix_(own, own)] = corner
        if best <= before * (1 + 1e-6):
            break
    return tau, best
