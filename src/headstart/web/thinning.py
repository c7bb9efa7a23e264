"""Curves as a screen can show them: the least and the greatest value per pixel, means and bands over seeds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.trace import Status, Traces
from headstart.measures import mean_band, monotone

Floats = NDArray[np.float64]
# Of a speed-up: so many targets between chance and the best, at each of which half the runs of both sides arrive.
_NUM_TARGETS = 40
_LEAST_ARRIVALS = 0.5
_KEY = 20261117  # any fixed number: a band must be the same whenever it is looked at
_RESAMPLES = 200  # half as many as for a figure: a page should open at once


def thinned(x: Floats, y: Floats, width: int, log: bool = False, low: float = -np.inf, high: float = np.inf) -> Any:
    """The indices of the records to draw between `low` and `high` on `width` pixels: int64[at most 2 * width + 4].

    Per pixel the least and the greatest value of `y` stay, so that no spike is lost; the neighbours just outside the
    range stay too, so that lines run to the edge. `x` ascends; with `log` the pixels are equal in its logarithm.
    """
    first = max(int(np.searchsorted(x, low, "left")) - 1, 0)
    last = min(int(np.searchsorted(x, high, "right")) + 1, len(x))
    inside = np.arange(first, last)
    if len(inside) <= 2 * width:
        return inside
    place = np.log(np.maximum(x[inside], _least_positive(x))) if log else x[inside]
    span = place[-1] - place[0]
    pixel = np.minimum((place - place[0]) / (span or 1.0) * width, width - 1).astype(np.int64)
    order = np.lexsort((y[inside], pixel))
    starts = np.flatnonzero(np.diff(pixel[order], prepend=-1))
    ends = np.append(starts[1:], len(order)) - 1
    kept = np.concatenate([order[starts], order[ends], [0, len(inside) - 1]])
    return inside[np.unique(kept)]


def _least_positive(x: Floats) -> float:
    positive = x[x > 0]
    return float(positive[0]) if len(positive) else 1.0


def warm_up() -> None:
    """Import what bands and fits need, half a second that the first who looks at a study should not wait."""
    mean_band(np.zeros((2, 2)))
    monotone(np.zeros(2), True)


def stacked(traces: Traces, metric: str, chance: float | None) -> Floats:
    """The curves of the traces that have records, [members, records]; after a divergence chance, or what was last."""
    curves = traces.stack(metric, np.nan if chance is None else chance)
    if chance is None:
        for row, trace in zip(curves, traces, strict=True):
            row[len(trace.steps) :] = trace[metric][-1]
    return curves


def mean_curve(
    traces: Traces, metric: str, chance: float | None, axis: str, width: int, log: bool, low: float, high: float
) -> dict[str, Any]:
    """The mean over seeds with its 95% band, thinned: steps, samples, flops, mean, low and high, [records] each."""
    members = Traces(tuple(trace for trace in traces if len(trace.steps)))
    diverged = sum(trace.status is not Status.FINISHED for trace in traces)
    out: dict[str, Any] = {"seeds": len(traces), "diverged": diverged, "records": 0}
    if not len(members):
        return out | {name: [] for name in ("steps", "samples", "flops", "mean", "low", "high")}
    grid, curves = members.grid(), stacked(members, metric, chance)
    mean = curves.mean(axis=0)
    kept = thinned(grid.axis(axis), mean, width, log, low, high)
    out |= {name: grid.axis(name)[kept] for name in ("steps", "samples", "flops")}
    band = mean_band(curves[:, kept], _RESAMPLES) if len(curves) > 1 else (mean[kept], mean[kept])
    return out | {"records": len(mean), "mean": mean[kept], "low": band[0], "high": band[1]}


def paired(one: Traces, other: Traces) -> tuple[Traces, Traces]:
    """The members of both at the seeds that both have, in one order."""
    kept: list[Traces] = []
    seeds = sorted({t.seed for t in one if len(t.steps)} & {t.seed for t in other if len(t.steps)})
    for traces in (one, other):
        by_seed = {trace.seed: trace for trace in traces}
        kept.append(Traces(tuple(by_seed[seed] for seed in seeds)))
    return kept[0], kept[1]


def difference(
    one: Traces, other: Traces, metric: str, chance: float | None, axis: str, width: int, log: bool
) -> dict[str, Any]:
    """The mean over common seeds of the first curve less the second, with its band, against the axis: x, mean, ..."""
    one, other = paired(one, other)
    if not len(one):
        return {"seeds": 0, "x": [], "mean": [], "low": [], "high": []}
    axes = [traces.grid().axis(axis) for traces in (one, other)]
    curves = [stacked(traces, metric, chance) for traces in (one, other)]
    x = np.unique(np.concatenate(axes))
    x = x[x <= min(a[-1] for a in axes)]
    gaps = np.stack([np.interp(x, axes[0], a) - np.interp(x, axes[1], b) for a, b in zip(*curves, strict=True)])
    mean = gaps.mean(axis=0)
    kept = thinned(x, mean, width, log)
    low, high = mean_band(gaps[:, kept], _RESAMPLES) if len(gaps) > 1 else (mean[kept], mean[kept])
    return {"seeds": len(one), "x": x[kept], "mean": mean[kept], "low": low, "high": high}


def speed_up(
    one: Traces, other: Traces, metric: str, chance: float | None, higher_is_better: bool, axis: str
) -> dict[str, Any]:
    """How much sooner the first arrives: mean time of the second over that of the first, at many targets.

    Times are restricted means over common seeds, min(T, horizon), of monotone fits, as in claims; targets lie between
    the start and the best, where at least half of the runs of both arrive. The band is a bootstrap in pairs.
    """
    one, other = paired(one, other)
    empty = {"seeds": len(one), "target": [], "ratio": [], "low": [], "high": []}
    if len(one) < 2:
        return empty
    axes = [traces.grid().axis(axis) for traces in (one, other)]
    sign = 1.0 if higher_is_better else -1.0
    fits = [
        np.stack([sign * monotone(curve, higher_is_better) for curve in stacked(traces, metric, chance)])
        for traces in (one, other)
    ]
    begin = max(float(fit[:, 0].mean()) for fit in fits)
    end = min(float(np.quantile(fit[:, -1], 1 - _LEAST_ARRIVALS)) for fit in fits)
    if not end > begin:
        return empty
    targets = np.linspace(begin, end, _NUM_TARGETS + 2)[1:-1]
    horizon = min(float(x[-1]) for x in axes)
    times = [_times(x, fit, targets, horizon) for x, fit in zip(axes, fits, strict=True)]
    arrive = np.all([(t < horizon).mean(axis=0) >= _LEAST_ARRIVALS for t in times], axis=0)
    first, second = (t[:, arrive] for t in times)
    rng = np.random.Generator(np.random.Philox(key=_KEY))
    counts = rng.multinomial(len(one), np.full(len(one), 1 / len(one)), size=_RESAMPLES)
    low, high = np.quantile((counts @ second) / (counts @ first), [0.025, 0.975], axis=0)
    ratio = second.mean(axis=0) / first.mean(axis=0)
    return {"seeds": len(one), "target": sign * targets[arrive], "ratio": ratio, "low": low, "high": high}


def _times(x: Floats, fits: Floats, targets: Floats, horizon: float) -> Floats:
    """min(T, horizon) of each row [seeds, records], which ascends, to each target: float64[seeds, targets]."""
    out = np.empty((len(fits), len(targets)))
    for row, fit in zip(out, fits, strict=True):
        at = np.searchsorted(fit, targets, "left")
        there = np.minimum(np.maximum(at, 1), len(fit) - 1)
        rise = fit[there] - fit[there - 1]
        share = np.divide(targets - fit[there - 1], rise, out=np.ones_like(targets), where=rise > 0)
        time = x[there - 1] + np.clip(share, 0.0, 1.0) * (x[there] - x[there - 1])
        row[:] = np.where(at == len(fit), horizon, np.minimum(np.maximum(time, x[1]), horizon))
    return out
