"""What the lemmas on a filter's training speak of, computed exactly for filters on its way.

Reference: Local Signal Adaptivity, Lemmas 3.1 to 3.3 and B.5 to B.9 of the thesis that `LocalSignal` names. There they
hold for k above some k_0 with constants that are not said: here are the quantities that the constants bound.
"""

import numpy as np

from headstart.theory.local_signal.gaussian import mills_ratio
from headstart.theory.local_signal.threshold import Filters, Floats

_MARGIN = 10.0  # of Lemma B.8


def events(filters: Filters) -> dict[str, Floats]:
    """The quantities of the lemmas for filters of a shape, each of that shape.

    signal, rest, bias   c = w . w*, v = |w_perp| and b
    error                P(sign f != y)
    by_signal            Lemma 3.1: the loss' derivative by c, at most -A while |c| <= H / log^4 k
    by_rest              Lemma 3.2: that by v, at least 0
    rest_bound           ... over its bound in the proof, v k sigma^2 (1 + 3/2 alpha / m(alpha)) P(xi > alpha)
    by_bias              Lemma 3.3: that by b, at least C once c >= C_1 / log^4 k, while the error is above 0.01
    threshold            Lemma B.5: alpha / (2 sqrt(log k)), at most 1 while the error is above 0.01
    spread               Corollary B.1: k Var(S_i) / (c + b)^2, at least beta while the error is above 0.01
    bounded              Lemma B.8: P(|sum_i S_i| <= c + b + 10), at least 4/5
    heavy                Lemma B.9: k^(3/8) E|S_i| / sqrt(Var(S_i)) for b < 0, at least C_4
    bias_by_patches      k b, which the text says is bounded while b > 0

    Lemma B.7, c <= C, is about `signal` itself. Lemma B.6 is Corollary B.1 on a truncated S_i.
    """
    k, log_k = filters.patches, np.log(filters.patches)
    mean, variance = filters.moments()
    gradients, alpha = filters.gradients(), filters.alpha
    most = k * filters.sigma**2 * (1 + 1.5 * alpha / mills_ratio(alpha)) * filters.passing / 2
    # For b > 0 the proof's |S_i| <= 2 |Z_i| + |b| counts all patches.
    most = np.where(filters.bias > 0, k * filters.sigma**2 * (1 + alpha), most)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = k * variance / (filters.signal + filters.bias) ** 2
        heavy = k**0.375 * mean / np.sqrt(variance)
        bound = np.where(filters.rest > 0, gradients.rest / (filters.rest * most), 0.0)
    return {
        "signal": filters.signal,
        "rest": filters.rest,
        "bias": filters.bias,
        "error": filters.error(),
        "by_signal": gradients.signal,
        "by_rest": gradients.rest,
        "rest_bound": bound,
        "by_bias": gradients.bias,
        "threshold": alpha / (2 * np.sqrt(log_k)),
        "spread": spread,
        "bounded": filters.stays_within(filters.signal + filters.bias + _MARGIN),
        "heavy": heavy,
        "bias_by_patches": k * filters.bias,
    }
