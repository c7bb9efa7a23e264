"""SGD and AdamW on one flat parameter, torch's conventions."""

from typing import Any

import numpy as np

from headstart.core.kernels.compile import inlined, kernel

SGD, ADAMW = 0, 1
_f = np.float32
_ONE = _f(1)


@inlined
def update(
    kind: Any,
    weights: Any,
    gradient: Any,
    first: Any,
    second: Any,
    start: Any,
    num: Any,
    rate: Any,
    adam: Any,
    time: Any,
) -> None:
    """One optimizer step number `time` (from 1) on weights[start : start + num], whose gradient is gradient[: num].

    SGD: w <- w - rate g. AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019):
    w <- (1 - rate decay) w, m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2,
    w <- w - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps), with adam = (b1, b2, eps, decay) in float64.
    """
    w, g = weights[start : start + num], gradient[:num]
    if kind == SGD:
        step = _f(rate)
        for i in range(num):
            w[i] -= step * g[i]
        return
    b1, b2, eps = _f(1.0 - adam[0]), _f(adam[1]), _f(adam[2])
    rest = _f(1.0 - adam[1])
    shrink = _f(1.0 - rate * adam[3])
    step = _f(rate / (1.0 - adam[0] ** time))
    correction = _f(1.0 / np.sqrt(1.0 - adam[1] ** time))
    m, v = first[start : start + num], second[start : start + num]
    for i in range(num):
        m[i] = m[i] + (g[i] - m[i]) * b1
        v[i] = v[i] * b2 + rest * g[i] * g[i]
        w[i] = w[i] * shrink - step * m[i] / (np.sqrt(v[i]) * correction + eps)


@kernel
def adamw(weights: Any, gradients: Any, first: Any, second: Any, rates: Any, adam: Any, ages: Any) -> None:
    """Step number ages[m] of AdamW on row m of float32[members, num], with rates[m] and adam[m] as in `update`."""
    for m in range(len(weights)):
        num = weights.shape[1]
        update(ADAMW, weights[m], gradients[m], first[m], second[m], 0, num, rates[m], adam[m], ages[m])


@kernel
def squares(weights: Any, active: Any, offsets: Any, out: Any) -> None:
    """out[m, p] = the sum of squares of parameter p, in float64. Padding is zero."""
    for m in active:
        for p in range(len(offsets) - 1):
            acc = 0.0
            for i in range(offsets[p], offsets[p + 1]):
                w = np.float64(weights[m, i])
                acc += w * w
            out[m, p] = acc
