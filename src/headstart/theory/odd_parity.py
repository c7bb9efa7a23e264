"""How well a network of two layers without biases can know a parity of odd degree: not perfectly.

    f(x) = sum_j a_j relu(w_j . x) = l(x) + e(x),   l(x) = sum_j a_j w_j . x / 2,   e(x) = sum_j a_j |w_j . x| / 2

l is linear and e even, while y(-x) = -y(x) for a parity y of odd degree k. Take x and -x together. Where |l| > |e| the
signs of f are those of l, so both answers are right or both wrong; elsewhere one of the two is right. Hence

    accuracy <= 1/2 + P(sign l = y) / 2

and l with the other coordinates held is a threshold function of the k in the support, thus monotone in each up to its
sign. The mean of a monotone function over the points with j ones does not fall with j, so its correlation with parity
is at most that of a step in j, the largest alternating sum of binomials: C(k - 1, (k - 1) / 2) / 2^(k - 1).

Let Me Grok For You (Section 4.1) has "empirical evidence" that such a network does not generalise on (40, 3)-parity.
"""

from math import comb

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError


def threshold_correlation(degree: int) -> float:
    """The largest correlation E[s y] of a threshold function s of real inputs with the parity y of `degree` signs."""
    if not isinstance(degree, int) or degree < 1 or degree % 2 == 0:
        raise HeadstartError(f"threshold_correlation(degree={degree!r}): give an odd degree, such as 3")
    return comb(degree - 1, (degree - 1) // 2) / 2 ** (degree - 1)


def two_layer_ceiling(degree: int) -> float:
    """The accuracy that no two-layer ReLU network without biases passes on a parity of odd `degree`: 7/8 for 3."""
    return 0.75 + threshold_correlation(degree) / 4


def best_on_three() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights w [6, 3] and a [6] of a network that is right on 7 of the 8 points of 3-parity.

    f = -s + 2 (|s| - 1) with s = x_1 + x_2 + x_3 and 1 = |x_1|, each |z| as relu(z) + relu(-z).
    """
    s, one = np.ones(3), np.array([1.0, 0.0, 0.0])
    return np.array([s, -s, s, -s, one, -one]), np.array([-1.0, 1.0, 2.0, 2.0, -2.0, -2.0])
