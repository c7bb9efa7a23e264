"""How early the losses of several candidates tell which will be best: correlations, recall, regret and their change.

Curves are float64[candidates, records], better when lower; `final` float64[candidates] is what each ends with.
Reference: Karp et al., Landscape-Aware Growing (2024), Section 5.3 of the thesis it is a chapter of.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.measures.intervals import Estimate

Floats = NDArray[np.float64]

_KEY = 20260519  # any fixed number: intervals must be the same whenever they are computed


def trailing_mean(curves: Floats, window: int) -> Floats:
    """The mean of the last `window` records at each record, of fewer at the beginning; the first is itself."""
    check_count("trailing_mean", "window", window)
    sums = np.cumsum(curves, axis=-1)
    ends = np.arange(curves.shape[-1])
    begins = np.maximum(ends - window, -1)
    before = np.where(begins < 0, 0.0, sums[..., begins])
    return np.asarray((sums - before) / (ends - begins))


def correlations(curves: Floats, final: Floats, ranks: bool = True) -> Floats:
    """The correlation of every record with the final values: Spearman's, of ranks, or Pearson's. [records]."""
    if curves.shape[:1] != final.shape or len(final) < 2:
        raise HeadstartError(
            f"correlations(curves of shape {curves.shape}, final of shape {final.shape}): give [candidates, records] "
            "and [candidates], at least two candidates"
        )
    one, other = (_ranked(curves), _ranked(final[:, None])) if ranks else (curves, final[:, None])
    return _correlated(one, other)[:, 0]


def self_correlation(curves: Floats) -> Floats:
    """Spearman's correlation of every record with every other: [records, records]."""
    ranked = _ranked(curves)
    return _correlated(ranked, ranked)


def _ranked(curves: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(curves, axis=0), dtype=np.float64)


def _correlated(one: Floats, other: Floats) -> Floats:
    """Pearson's correlations of columns [n, a] with columns [n, b]: [a, b]; 0 where a column is constant."""
    one, other = one - one.mean(axis=0), other - other.mean(axis=0)
    norms = np.linalg.norm(one, axis=0)[:, None] * np.linalg.norm(other, axis=0)
    return np.divide(one.T @ other, norms, out=np.zeros_like(norms), where=norms > 0)


def recall(curves: Floats, final: Floats, k: int = 1) -> NDArray[np.bool_]:
    """Whether the candidate that ends best is among the `k` best, at each record: bool[records]."""
    best = curves[int(np.argmin(final))]
    return np.asarray((curves < best).sum(axis=0) < k)


def regrets(curves: Floats, final: Floats, relative: bool = True) -> Floats:
    """What the best candidate at each record ends with, above the best end; relative: over the range of ends.

    Eq. 5.1 and 5.2: l(G') - l_min, and divided by l_max - l_min.
    """
    loss = final[np.argmin(curves, axis=0)] - final.min()
    return np.asarray(loss / np.ptp(final) if relative else loss)


@dataclass(frozen=True)
class Halved:
    """What successive halving chooses, and the steps that all candidates took together until then."""

    choice: int
    steps: int


def successive_halving(curves: Floats, steps: NDArray[np.int64], rungs: tuple[int, ...]) -> Halved:
    """At each step of `rungs` the better half of the candidates stays, at the last the best one.

    Reference: Jamieson and Talwalkar, Non-stochastic Best Arm Identification (2016).
    """
    if not rungs or list(rungs) != sorted(set(rungs)) or not set(rungs) <= set(steps.tolist()):
        raise HeadstartError(f"successive_halving(rungs={rungs!r}): give rising steps that were recorded")
    alive, spent, before = np.arange(len(curves)), 0, 0
    for rung in rungs:
        spent, before = spent + len(alive) * (rung - before), rung
        losses = curves[alive, int(np.searchsorted(steps, rung))]
        stay = 1 if rung == rungs[-1] else -(-len(alive) // 2)
        alive = alive[np.argsort(losses, kind="stable")[:stay]]
    return Halved(int(alive[0]), int(spent))


def change_point(heatmap: Floats) -> int:
    """The record from which on records are alike: where two blocks of constant correlation fit a heatmap best.

    Least squares over c of R_ij by three means: both before c, one before it, both from c on. 1 <= c < records.
    """
    records = len(heatmap)
    if records < 3:
        raise HeadstartError(f"change_point(heatmap of {records} records): give at least three")

    def misfit(c: int) -> float:
        blocks = (heatmap[:c, :c], heatmap[c:, :c], heatmap[c:, :c], heatmap[c:, c:])
        return float(sum(block.size * block.var() for block in blocks))

    return min(range(1, records), key=misfit)


def transition(curves: Floats, steps: NDArray[np.int64], resamples: int = 400, level: float = 0.95) -> Estimate:
    """The step of the phase transition, the `change_point` of the self-correlation, its interval over candidates."""
    rng = np.random.Generator(np.random.Philox(key=_KEY))
    drawn = rng.integers(len(curves), size=(resamples, len(curves)))
    found = [steps[change_point(self_correlation(curves[rows]))] for rows in drawn]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return Estimate(float(steps[change_point(self_correlation(curves))]), float(low), float(high))
