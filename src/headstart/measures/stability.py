"""What the swap of one training row does to a network: losses, gaps and distances of a pair."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.state import Arrays
from headstart.measures.distance import distance

Values = NDArray[np.floating]


@dataclass(frozen=True)
class Behaviour:
    """What a network A(S) does: the loss and the 0-1 error of each of its own training rows and of each test row.

    `train_loss` and `train_error` are [m], `test_loss` and `test_error` [n]; `weights` are those of all layers.
    """

    train_loss: Values
    train_error: Values
    test_loss: Values
    test_error: Values
    weights: Arrays


def norm(weights: Arrays) -> float:
    """|w|_2 over all weights."""
    return float(np.sqrt(sum(np.square(value.astype(np.float64)).sum() for value in weights.values())))


def compare_pair(one: Behaviour, other: Behaviour, z: int | None = None) -> dict[str, float]:
    """What differs between A(S), `one`, and A(S'), `other`, all numbers:

    train_loss, test_loss, train_error, test_error: means of A(S); loss_gap and error_gap: test less training.
    stability: max over test rows of |l(A(S), row) - l(A(S'), row)|, at the test row `worst`; mean_stability: its mean.
    distance: |A(S) - A(S')|; norm and other_norm; normalised_distance: over the mean of both norms.

    Where the test row `z` is the one that S' was given, also stability_without_z and mean_stability_without_z, over all
    test rows but this one, which A(S') was trained on. Reference: Karp, Neyshabur and Mohri, On the Algorithmic
    Stability of SGD in Deep Learning, 2020.
    """
    apart = np.abs(np.asarray(one.test_loss, dtype=np.float64) - np.asarray(other.test_loss, dtype=np.float64))
    if z is not None and not (0 <= z < len(apart) and len(apart) > 1):
        raise HeadstartError(f"compare_pair(z={z!r}): give one of the {len(apart)} test rows; two are needed")
    means = {
        name: float(np.mean(getattr(one, name), dtype=np.float64))
        for name in ("train_loss", "test_loss", "train_error", "test_error")
    }
    norms = norm(one.weights), norm(other.weights)
    far = distance(one.weights, other.weights)
    found = means | {
        "loss_gap": means["test_loss"] - means["train_loss"],
        "error_gap": means["test_error"] - means["train_error"],
        "stability": float(apart.max()),
        "mean_stability": float(apart.mean()),
        "worst": float(apart.argmax()),
        "distance": far,
        "norm": norms[0],
        "other_norm": norms[1],
        "normalised_distance": 2 * far / sum(norms) if far else 0.0,
    }
    if z is None:
        return found
    left = np.delete(apart, z)
    return found | {"stability_without_z": float(left.max()), "mean_stability_without_z": float(left.mean())}
