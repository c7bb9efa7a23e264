"""Decision lists and one attention layer: what the proofs assume, what they bound, and exact gradients.

The sequences of `DecisionList` are uniform and the layer sees no positions, so that the population is every set of n
tokens once, and many probabilities are ratios of binomials. Losses are means over positions, the convention in which
the constants below hold.

Reference: Karp, Awasthi and Kale, Provable Gradient-Descent-Based Learning of Decision Lists by Transformers, 2023;
Chapter 4 of the first author's thesis, whose numbers of assumptions and theorems are used.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import comb, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_fraction, check_nonnegative, check_positive
from headstart.core.samples import Samples
from headstart.tasks import DecisionList

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def every_set(task: DecisionList) -> Samples:
    """The population as a model without positions sees it: every set once, x and y int[L over n, n]."""
    return replace(task, ordered=False).population(0)


@cache
def _ratio(vocabulary: int, length: int, there: int, missing: int) -> float:
    free, left = vocabulary - there - missing, length - there
    return comb(free, left) / comb(vocabulary, length) if 0 <= left <= free else 0.0


def _chance(task: DecisionList, there: int, missing: int) -> float:
    """P(`there` given tokens are in s and `missing` given others are not)."""
    return _ratio(task.vocabulary, task.length, there, missing)


def triple_delta(task: DecisionList) -> float:
    """delta of Assumption 4.3: the least P(a, b, c in s, b determines the label of a) that is above 0.

    c is after b in L_a or not in it. Given that b determines the label, these are all tokens of s but b.
    """
    found = []
    for a, its in enumerate(task.lists):
        for place, b in enumerate(its):
            found.append(_chance(task, len({a, b}) + 1, place))
            if b != a:  # c may be a itself
                found.append(_chance(task, 2, place))
    return min((p for p in found if p > 0), default=0.0)


def triple_delta_by_enumeration(task: DecisionList) -> float:
    """The same from every set, for small vocabularies: the definition."""
    x, determining = every_set(task).x, task.determining(every_set(task).x)
    counts: dict[tuple[int, int, int], int] = {}
    for tokens, first in zip(x.tolist(), determining.tolist(), strict=True):
        for a, b in zip(tokens, first, strict=True):
            for c in tokens:
                if c != b:
                    counts[a, b, c] = counts.get((a, b, c), 0) + 1
    return min(counts.values(), default=0) / len(x)


def set_delta(task: DecisionList) -> float:
    """delta of Assumption 4.4: the least probability of a set of n tokens."""
    return 1 / comb(task.vocabulary, task.length)


@dataclass(frozen=True)
class Bound:
    """A theorem's conditions and promise: V = `scale` P, and perfect classification within `time` = rate x steps.

    `smoothness` bounds the largest eigenvalue of the Hessian, so that `steps` of rate 1 / smoothness suffice.
    """

    scale: float
    time: float
    smoothness: float

    @property
    def steps(self) -> float:
        """T."""
        return self.time * self.smoothness


def w_only_bound(task: DecisionList, delta: float | None = None) -> Bound:
    """Theorem 4.3: c = 4 n^2 log L / delta and T = 32 M lambda_max / log L, so that rate x T = 32 M / log L.

    lambda_max <= (c^2 / 8 + c) / L: the softmax of the attention has a covariance of at most 1/2, that of the scores
    too, and a column of W is used by one position of a share n / L of the sequences.
    """
    delta, logs = _checked(task, delta), log(task.vocabulary)
    scale = 4 * task.length**2 * logs / delta
    return Bound(scale, 32 * task.longest / logs, (scale**2 / 8 + scale) / task.vocabulary)


def joint_bound(task: DecisionList, epsilon: float, delta: float | None = None) -> Bound:
    """Theorem 4.4: c = (4 Lbar sqrt(M / eps) + 6 eps / n) 10 n^2 / delta + 4 eps and T = lambda_max eps / 2.

    For |V_0 - c P| <= eps / 2 in every entry and eps <= 16 M; Lbar = max(1, L_0), and L_0 <= log L + eps at W_0 = 0.
    """
    check_positive("joint_bound", "epsilon", epsilon)
    if epsilon > 16 * task.longest:
        raise HeadstartError(f"joint_bound(epsilon={epsilon}): it is at most 16 M = {16 * task.longest}")
    n, first = task.length, max(1.0, log(task.vocabulary) + epsilon)
    slope = 4 * first * sqrt(task.longest / epsilon) + 6 * epsilon / n
    scale = slope * 10 * n**2 / _checked(task, delta) + 4 * epsilon
    return Bound(scale, epsilon / 2, joint_smoothness(task.vocabulary, scale + epsilon * task.vocabulary))


def joint_smoothness(vocabulary: int, norm: float) -> float:
    """A bound of the Hessian's largest eigenvalue in (W, V) where V has at most this spectral norm.

    The top eigenvalue of [[1/2, b / sqrt L], [b / sqrt L, (norm^2 / 8 + norm) / L]], b = norm / 4 + 1 / sqrt 2.
    """
    check_nonnegative("joint_smoothness", "norm", norm)
    cross, attention = (norm / 4 + 0.5**0.5) / sqrt(vocabulary), (norm**2 / 8 + norm) / vocabulary
    return float(np.linalg.eigvalsh([[0.5, cross], [cross, attention]])[-1])


def _checked(task: DecisionList, delta: float | None) -> float:
    delta = triple_delta(task) if delta is None else delta
    check_fraction("bound", "delta", delta)
    check_positive("bound", "delta", delta)
    return delta


@dataclass(frozen=True)
class Gradients:
    """Of a mean over sequences and positions: loss, dW [L, L], dV [L, L], and the margin of every position [k, n].

    A margin is the score of the label less the largest other one; a position is right where it is above 0.
    """

    loss: float
    attention: Floats
    value: Floats
    margin: Floats


def gradients(samples: Samples, attention: Floats, value: Floats) -> Gradients:
    """Those of scores V X softmax(X^T W X), written out, in float64; W [key, query] and V [label, token]."""
    x, y = samples.x, samples.y
    (num, n), size = x.shape, len(attention)
    pairs = x[:, :, None] * size + x[:, None, :]  # [k, key, query]
    logits = attention.ravel()[pairs]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    columns = value.T[x]  # [k, key, labels]
    scores = shares.transpose(0, 2, 1) @ columns  # [k, query, labels]
    top = scores.max(axis=2, keepdims=True)
    slopes = np.exp(scores - top)
    sums = slopes.sum(axis=2, keepdims=True)
    slopes /= sums
    right = np.take_along_axis(scores, y[:, :, None], axis=2)
    loss = float((np.log(sums) + top - right).mean())
    np.put_along_axis(scores, y[:, :, None], -np.inf, axis=2)
    margin = right[:, :, 0] - scores.max(axis=2)
    np.put_along_axis(slopes, y[:, :, None], np.take_along_axis(slopes, y[:, :, None], axis=2) - 1, axis=2)
    slopes /= num * n
    back = columns @ slopes.transpose(0, 2, 1)  # [k, key, query]
    back = shares * (back - (shares * back).sum(axis=1, keepdims=True))
    sums_by_pair = np.bincount(pairs.ravel(), back.ravel(), size * size).astype(np.float64)
    one_hot = np.eye(size)[x.ravel()]
    d_value = (one_hot.T @ (shares @ slopes).reshape(num * n, -1)).T
    return Gradients(loss, sums_by_pair.reshape(size, size), d_value, margin)


def misclassified_delta(task: DecisionList, samples: Samples, margin: Floats) -> float:
    """P(s in S) of Assumption 4.2 for margins of every set: the least over tokens a that are wrong somewhere.

    S are the sets in which a is wrong and k*, the first of L_a with such a set, determines its label. 1 where all are
    right.
    """
    determining, wrong = task.determining(samples.x), margin <= 0
    least = 1.0
    for a in np.unique(samples.x[wrong]).tolist():
        theirs = determining[wrong & (samples.x == a)]
        first = min(theirs.tolist(), key=task.lists[a].index)
        least = min(least, float((theirs == first).sum()) / len(samples.x))
    return least


def first_value_gradient(task: DecisionList, value: Floats | None = None) -> tuple[Floats, float]:
    """dV of the population at W = 0 in closed form, for any L and n, with a bound of its largest error.

        dV[l, i] = (E[sigma_l(s) 1(i in s)] - sum_a P(y_a = l, i in s) / n) / n

    The probabilities are ratios of binomials. At V = 0, sigma = 1 / L and there is no error; at a small V sigma is
    taken to first order in the scores, the mean over s of the columns of V, with a remainder of 2 h^2 exp(2 h) / L for
    scores of at most h.
    """
    size, n = task.vocabulary, task.length
    counts = np.zeros((size, size))
    for a, its in enumerate(task.lists):
        for place, b in enumerate(its):
            there, row = list({a, b}), counts[task.mapping[b]]
            elsewhere = _chance(task, len(there) + 1, place)
            row += elsewhere
            row[there] += _chance(task, len(there), place) - elsewhere
            row[list(its[:place])] -= elsewhere
    one, two = n / size, n * (n - 1) / (size * (size - 1))
    softmax, error = np.full((size, size), one / size), 0.0
    if value is not None:
        scores = (value * (one - two) + value.sum(axis=1, keepdims=True) * two) / n  # E[z_l 1(i in s)]
        softmax = softmax + (scores - scores.mean(axis=0)) / size
        h = float(np.sort(np.abs(value), axis=1)[:, -n:].mean(axis=1).max())
        error = one / n * 2 * h**2 * exp(2 * h) / size
    return (softmax - counts / n) / n, error
