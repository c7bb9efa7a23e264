"""Theorem 3.2 as a simulation: a target on the three numbers z = U^T x that a weak model passes on, step by step.

    f(x) = sum_j a_j relu(<v_j, z>),   a_j = +-1/sqrt m,   v_j uniform on {+-v_init}^k
    V <- V - alpha grad of (1/n) sum_i exp(-y_i f(x_i))

U = [u_1, u_2, u_3], u_l = (feature_l, delta_l): features are corners (+-1, +-1), and delta is what the weak model has
learned of the noise. In the theorem a and U stay as they are; both can be trained here (footnote 2).

Reference: Let Me Grok For You, Section 3.3, Theorem 3.2, Appendix A.1.2, Fig. 9.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.streams import Stream, signs

Floats = NDArray[np.float64]
# mu_2, -mu_2 and -mu_1: what the weak model of the theorem has learned.
FEATURES = ((-1, 1), (1, -1), (-1, -1))
CORNERS = ((1, 1), (-1, -1), (-1, 1), (1, -1))  # mu_1, -mu_1, mu_2, -mu_2
_LARGEST_EXPONENT = 100.0  # a loss of e^100 is past mending, and the next step still within float64


@dataclass(frozen=True)
class Rows:
    """Samples as a target sees them: z [n, k], labels [n], corners of the signal [n, 2].

    To train U too, `gram` has the inner products of these rows with the training rows, [n, num_train].
    """

    z: Floats
    corner: Floats
    gram: Floats | None = None

    @property
    def labels(self) -> Floats:
        """y = x_1 x_2."""
        return self.corner[:, 0] * self.corner[:, 1]


def embedded(weights: NDArray[np.floating], x: NDArray[np.floating], train: NDArray[np.floating] | None = None) -> Rows:
    """Rows x [n, p] through a weak model's first layer [k, p]; with `train`, ready for an embedding that is trained."""
    if weights.ndim != 2 or x.ndim != 2 or weights.shape[1] != x.shape[1]:
        raise HeadstartError(f"embedded(weights {weights.shape}, x {x.shape}): both have the inputs as their columns")
    gram = None if train is None else (x @ train.T).astype(np.float64)
    return Rows((x @ weights.T).astype(np.float64), x[:, :2].astype(np.float64), gram)


def unit_features(weights: NDArray[np.floating]) -> NDArray[np.floating]:
    """A weak model's first layer [k, p], each neuron rescaled so that its two signal weights have mean square 1."""
    size = np.sqrt(np.square(weights[:, :2], dtype=np.float64).mean(axis=1, keepdims=True))
    if not size.all():
        raise HeadstartError("unit_features(weights): a neuron has no weight on the first two coordinates")
    return np.asarray(weights / size, dtype=weights.dtype)


def learned_features(signal: NDArray[np.floating]) -> set[tuple[int, int]]:
    """The corners that neurons [k, 2] stand for, each once: coordinates within a factor 2, and not next to nothing.

    Nothing is below a tenth of the largest neuron.
    """
    sizes = np.abs(signal)
    clear = (sizes.min(axis=1) >= 0.5 * sizes.max(axis=1)) & (sizes.max(axis=1) >= 0.1 * sizes.max())
    return {(int(one), int(other)) for one, other in np.sign(signal[clear])}


@dataclass(frozen=True)
class Target:
    """A target's weights: readout a [m], V [m, k]."""

    readout: Floats
    hidden: Floats


def initial_target(width: int, num_inputs: int, init: float, seed: int, id: int = 0) -> Target:
    """a_j uniform on +-1/sqrt m, v_j on {+-init}^k; neuron j is drawn from id (id 2^32 + j) of the init stream."""
    drawn = signs(seed, Stream.INIT, (id << 32) + np.arange(width, dtype=np.int64), 1 + num_inputs).astype(np.float64)
    return Target(drawn[:, 0] / sqrt(width), init * drawn[:, 1:])


def outputs(target: Target, z: Floats) -> Floats:
    """f of each row, [n]."""
    return np.asarray(np.maximum(z @ target.hidden.T, 0.0) @ target.readout)


def descend(
    target: Target,
    train: Rows,
    test: Rows,
    rate: float,
    steps: int,
    train_readout: bool = False,
    train_embedding: bool = False,
) -> tuple[Target, Floats]:
    """Gradient descent on the exponential loss: the target after `steps`, and errors [steps + 1, (train, test)].

    f = 0 is an error. A target whose loss passes e^100 counts as wrong everywhere from then on. Training U moves z by
    -alpha K G, K the Gram matrix and G [n, k] the gradient of the loss with respect to the training rows' z.
    """
    if train_embedding and (train.gram is None or test.gram is None):
        raise HeadstartError("descend(train_embedding=True): give Rows with their gram, by embedded(..., train=x)")
    check_positive("descend", "rate", rate)
    check_count("descend", "steps", steps)
    a, v, z, seen = target.readout, target.hidden, train.z, test.z
    errors = np.ones((steps + 1, 2))
    for step in range(steps + 1):
        fields = z @ v.T
        active = np.maximum(fields, 0.0)
        margins = train.labels * (active @ a)
        if not np.isfinite(margins).all() or -margins.min() > _LARGEST_EXPONENT:
            break
        errors[step] = (margins <= 0).mean(), (test.labels * outputs(Target(a, v), seen) <= 0).mean()
        if step == steps:
            break
        slope = -train.labels * np.exp(-margins) / len(margins)  # of the loss with respect to f
        through = (slope[:, None] * (fields > 0)) * a  # with respect to the fields, [n, m]
        pull, push = through @ v, through.T @ z
        if train_embedding:
            assert train.gram is not None
            assert test.gram is not None
            z, seen = z - rate * train.gram @ pull, seen - rate * test.gram @ pull
        if train_readout:
            a = a - rate * active.T @ slope
        v = v - rate * push
    return Target(a, v), errors
