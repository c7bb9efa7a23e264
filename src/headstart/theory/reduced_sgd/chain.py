"""The chain on (M, R), R = Q - M M^T, for any links: the specification in NumPy, all runs of a chunk at once.

In coordinates where W* is the first k axes and the p after them hold what is left of the rows, w_j = (M_j, T_j, 0) with
T T^T = R. A sample is lam* = g*, lam = M g* + T g', with g = (g*, g') standard normal. With the residual e of each
sample, C_j = (a_j / p) e s'(lam_j) and A = C^T g / n_b, the gradient is -A on these axes, and on the d - k - rank R
others a Gaussian matrix with the covariance C^T C / n_b^2 between rows. So

    M' = M + g A_*,   R' = (T + g A')(T + g A')^T + g^2 Wishart(d - k - rank R, C^T C / n_b^2),   rows normalised.

That is M' = M + g B_* and Q' = Q + g (B_w + B_w^T) + g^2 (B O^+ B^T + Wishart) without an inverse, and without
the difference Q - M M^T, which would lose all digits near recovery.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headstart.core.streams import Stream
from headstart.theory.overlaps import Objective
from headstart.theory.reduced_sgd.draws import coordinates, ids_of, normalised, samples_per_id, wishart_roots
from headstart.theory.reduced_sgd.kernels.codes import RANK_TOLERANCE
from headstart.theory.reduced_sgd.process import ReducedSGD

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# The same for any number of runs, so that sums do not depend on who is simulated together.
IDS_AT_ONCE = 2**15


class State(NamedTuple):
    """Runs on their way, arrays that are changed in place. -1 is a step that has not come.

    overlaps M [n, p, k], rest R = Q - M M^T [n, p, p], step: updates done [n], first: the step at which the level was
    reached [n], switched: the last step on the first loss [n], start_loss: of the first batch [n].
    """

    runs: Ids
    overlaps: Floats
    rest: Floats
    step: Ids
    first: Ids
    switched: Ids
    start_loss: Floats

    @classmethod
    def at(cls, runs: Ids, overlaps: Floats, rest: Floats) -> "State":
        """Runs at their start."""
        step, first, switched = (np.full(len(runs), value, dtype=np.int64) for value in (0, -1, -1))
        return cls(runs, np.array(overlaps), np.array(rest), step, first, switched, np.full(len(runs), np.nan))

    def rows(self, rows: slice | Ids) -> "State":
        """Some runs: views for a slice, else copies."""
        return State._make(array[rows] for array in self)


@dataclass(frozen=True)
class Sums:
    """What a step takes from its batch: A [n, p, k + p], C^T C / n_b^2 [n, p, p], the loss mean (y - f)^2 / 2 [n]."""

    drift: Floats
    spread: Floats
    loss: Floats


def roots(matrices: Floats, most: int) -> tuple[Floats, Ids]:
    """T [n, p, p] with T T^T = R for positive semi-definite R [n, p, p] of rank `most` at most, and their ranks [n].

    Cholesky's with pivots: the next row is the one of which most is left, relative to its own size. Columns from the
    rank on are 0.
    """
    left, out, rank = matrices.copy(), np.zeros_like(matrices), np.zeros(len(matrices), dtype=np.int64)
    diagonal = np.diagonal(matrices, axis1=1, axis2=2)
    whole = np.where(diagonal > 0, diagonal, np.inf)
    every = np.arange(len(matrices))
    for j in range(min(most, matrices.shape[1])):
        share = np.diagonal(left, axis1=1, axis2=2) / whole
        chosen = share.argmax(axis=1)
        kept = share[every, chosen] > RANK_TOLERANCE
        pivot = np.where(kept, left[every, chosen, chosen], np.inf)
        column = left[every, :, chosen] / np.sqrt(pivot)[:, None]
        out[:, :, j] = column
        left -= column[:, :, None] * column[:, None, :]
        left[every, chosen, :] = 0
        left[every, :, chosen] = 0
        rank += kept
    return out, rank


def batch_sums(process: ReducedSGD, seed: int, state: State, turns: Floats, on_mse: NDArray[np.bool_]) -> Sums:
    """The sums over the next batch of each run; all runs are at the same step. `turns` is T, `on_mse` which loss."""
    n, p, k, batch = len(state.runs), process.num_neurons, process.num_directions, process.batch
    shared, step = samples_per_id(process.numbers), int(state.step[0])
    drift, spread, loss = np.zeros((n, p, k + p)), np.zeros((n, p, p)), np.zeros(n)
    for first in range(0, -(-batch // shared), IDS_AT_ONCE):
        g = coordinates(seed, state.runs, step, batch, process.numbers, slice(first, first + IDS_AT_ONCE))
        axes = g[..., : k + p]
        lam = axes @ np.concatenate((state.overlaps, turns), axis=2).transpose(0, 2, 1)
        y = process.target(axes[..., :k])
        if process.noise:
            y = y + np.sqrt(process.noise) * g[..., -1]
        error = y - np.asarray(process.student(lam)) @ process.weights
        residual = np.where(on_mse[:, None], error, y)
        c = residual[..., None] * process.weights * np.asarray(process.student.slope(lam))
        drift += c.transpose(0, 2, 1) @ axes
        spread += c.transpose(0, 2, 1) @ c
        loss += (error**2).sum(axis=1)
    return Sums(drift / batch, spread / batch**2, loss / (2 * batch))


def moved(
    process: ReducedSGD, seed: int, state: State, turns: Floats, rank: Ids, sums: Sums, rate: Floats
) -> tuple[Floats, Floats]:
    """M and R after a step with these sums, rows not normalised yet; `turns` is T, of this `rank` [n]; `rate` [n]."""
    k, p = process.num_directions, process.num_neurons
    here = np.concatenate((state.overlaps, turns), axis=2)
    drift = sums.drift.copy()
    drift[:, :, k:] *= (np.arange(p) < rank[:, None])[:, None, :]
    if process.spherical:
        drift -= (drift * here).sum(axis=2, keepdims=True) * here
    degrees = process.dim - k - rank
    ids = ids_of(state.runs, int(state.step[0]), 1)[:, 0]
    beyond = rate[:, None, None] * (roots(sums.spread, p)[0] @ wishart_roots(seed, Stream.DATA, ids, degrees, p))
    there = here + rate[:, None, None] * drift
    inside = there[:, :, k:]
    return there[:, :, :k], inside @ inside.transpose(0, 2, 1) + beyond @ beyond.transpose(0, 2, 1)


# The sums over the next batch of each run, given T and which are on the squared error.
Batch = Callable[[State, Floats, NDArray[np.bool_]], Sums]


def advance(
    process: ReducedSGD, seed: int, state: State, first: int, until: int, level: float, go_on: bool, batch: Batch
) -> None:
    """Runs that are at step `first` to step `until`, in place; one with |M|_F >= level stays, unless they `go_on`."""
    for step in range(first, until):
        rows = np.flatnonzero((state.step == step) & ((state.first < 0) | go_on))
        if not rows.size:
            return
        for array, changed in zip(state, _stepped(process, seed, state.rows(rows), level, batch), strict=True):
            array[rows] = changed


def _stepped(process: ReducedSGD, seed: int, now: State, level: float, batch: Batch) -> State:
    """Runs that are all at the same step, one step later."""
    turns, rank = roots(now.rest, process.dim - process.num_directions)
    sums = batch(now, turns, (now.switched >= 0) | (process.loss is Objective.MSE))
    overlaps, rest = normalised(*moved(process, seed, now, turns, rank, sums, rates(process, now)))
    start_loss = sums.loss if now.step[0] == 0 else now.start_loss
    below = 0.0 if process.switch is None else process.switch.below * start_loss
    falls = (now.switched < 0) & (now.step > 0) & (sums.loss < below)
    arrives = (now.first < 0) & (norms(overlaps) >= level)
    first, switched = np.where(arrives, now.step + 1, now.first), np.where(falls, now.step, now.switched)
    return State(now.runs, overlaps, rest, now.step + 1, first, switched, start_loss)


def rates(process: ReducedSGD, state: State) -> Floats:
    """The rate of each run's next step, [n]."""
    if process.switch is None:
        return np.full(len(state.runs), process.rate)
    later = state.step - state.switched - 1
    after = process.switch.rate * process.switch.decay ** np.maximum(later, 0)
    return process.rate * np.where(state.switched >= 0, after, 1.0)


def norms(overlaps: Floats) -> Floats:
    """|M|_F, [n]."""
    return np.sqrt((overlaps**2).sum(axis=(1, 2)))
