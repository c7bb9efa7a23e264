"""Many runs of a reduced process at once: starts, recorded steps, first passages, threads over chunks of runs."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag, check_positive
from headstart.core.streams import check_seed
from headstart.theory.reduced_sgd.chain import State, norms
from headstart.theory.reduced_sgd.draws import MAX_RUNS, cold_start, samples_per_id
from headstart.theory.reduced_sgd.kernels.codes import RUN_BITS
from headstart.theory.reduced_sgd.paths import Advance, advance_by, way_of
from headstart.theory.reduced_sgd.process import ReducedSGD

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

# A call of a kernel is about this many draws, a tenth of a second, so that an interruption is soon heard.
_DRAWS_A_CALL = 2 * 10**7


@dataclass(frozen=True)
class Recovery:
    """How n runs went. A step that has not come is -1.

    steps      recorded steps [t]
    overlaps   M at these [n, t, p, k]; not a number once a run has stopped
    gram       Q at these [n, t, p, p]
    start      M at the start [n, p, k]
    first      the first step with |M|_F >= stop_at [n]; -1 where it was not within `horizon` steps: censored there
    switched   the step at which the loss fell low enough, the last one on the first loss [n]
    samples    that a run took [n]
    exact      False where sums over a batch were drawn as Gaussians with exact moments
    """

    process: ReducedSGD
    steps: Ids
    overlaps: Floats
    gram: Floats
    start: Floats
    first: Ids
    switched: Ids
    samples: Ids
    horizon: int
    exact: bool

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Which runs came to the level, [n]."""
        return self.first >= 0

    @property
    def overlap(self) -> Floats:
        """m of one neuron on one direction, [n, t]."""
        if not self.process.single:
            raise HeadstartError("overlap: there are several neurons or directions; use overlaps, [runs, steps, p, k]")
        return self.overlaps[:, :, 0, 0]

    @property
    def right_side(self) -> NDArray[np.bool_]:
        """Of one neuron on one direction: which runs started where recovery is downhill, [n]."""
        return self.process.right_side(self.start[:, 0, 0])


def simulate(
    process: ReducedSGD,
    runs: int | Sequence[int],
    steps: int,
    seed: int = 0,
    *,
    record: Sequence[int] | None = None,
    stop_at: float | None = None,
    go_on: bool = False,
    start: tuple[object, object] | float | None = None,
    right_side_only: bool = False,
    exact: bool | None = None,
    compiled: bool | None = None,
    threads: int = 1,
) -> Recovery:
    """Runs of a process, each a function of (seed, its number), whoever it shares the call with.

    `runs` is how many, or their numbers. `record` are the steps to keep, the last by default. A run ends when
    |M|_F >= `stop_at`, unless they `go_on`. It starts cold, or at `start`: (M, Q), or m where p = k = 1.
    `right_side_only` turns cold starts, for p = k = 1, to the side that can recover, if there is one. `exact=None`
    draws every sample up to 10^11 of them in all; beyond that, for p = k = 1 and large batches, the sums over a batch
    as Gaussians with exact moments.
    `compiled=None` takes kernels where all links have names and NumPy for functions of your own; both draw the same
    numbers. More `threads` take chunks of runs, and change nothing else.
    """
    check_seed(seed)
    numbers = _numbers(runs)
    check_count("simulate", "steps", steps, minimum=0)
    check_count("simulate", "threads", threads)
    check_flag("simulate", "go_on", go_on)
    if stop_at is not None:
        check_positive("simulate", "stop_at", stop_at)
    kept = _recorded(record, steps)
    way = way_of(process, len(numbers) * steps, exact, compiled)
    if way.exact and -(-process.batch // samples_per_id(process.numbers)) * steps >= 2**RUN_BITS:
        raise HeadstartError(f"simulate(steps={steps}): a run draws at most 2^{RUN_BITS} samples; use exact=False")
    state = started(process, numbers, seed, start, right_side_only)
    level = float("inf") if stop_at is None else float(stop_at)
    state.first[norms(state.overlaps) >= level] = 0
    begun = state.overlaps.copy()
    shape = (len(numbers), len(kept), process.num_neurons)
    overlaps, gram = np.full((*shape, process.num_directions), np.nan), np.full((*shape, process.num_neurons), np.nan)

    def follow(rows: slice, stop: threading.Event) -> None:
        now, advance = state.rows(rows), advance_by(way, process, seed, level, go_on)
        _follow(way.step_draws(process), now, kept, steps, advance, overlaps[rows], gram[rows], go_on, stop)

    _over_chunks(len(numbers), threads, way.rows_at_once(process), follow)
    return Recovery(
        process, kept, overlaps, gram, begun, state.first, state.switched, state.step * process.batch, steps, way.exact
    )


def _follow(
    step_draws: int,
    state: State,
    kept: Ids,
    steps: int,
    advance: Advance,
    overlaps: Floats,
    gram: Floats,
    go_on: bool,
    stop: threading.Event,
) -> None:
    """Take the runs of a chunk to the end, a stretch of steps at a time, and write down what is recorded."""
    stretch = max(1, _DRAWS_A_CALL // (len(state.runs) * step_draws))
    now = 0
    for index, until in enumerate([*kept.tolist(), steps]):
        while now < until and not stop.is_set():
            if not ((state.step == now) & ((state.first < 0) | go_on)).any():
                return
            then = min(until, now + stretch)
            advance(state, now, then)
            now = then
        if index < len(kept):
            here = state.step == until
            m = state.overlaps[here]
            overlaps[here, index], gram[here, index] = m, state.rest[here] + m @ m.transpose(0, 2, 1)


def _over_chunks(num: int, threads: int, most: int, follow: Callable[[slice, threading.Event], None]) -> None:
    """Call `follow` on chunks of rows, in threads where there are several; an interruption ends them soon."""
    size = max(1, min(most, -(-num // (4 * threads)) if threads > 1 else num))
    chunks = [slice(first, min(first + size, num)) for first in range(0, num, size)]
    stop = threading.Event()
    if threads == 1:
        for chunk in chunks:
            follow(chunk, stop)
        return
    with ThreadPoolExecutor(threads, "reduced") as pool:
        futures = [pool.submit(follow, chunk, stop) for chunk in chunks]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise


def _numbers(runs: int | Sequence[int]) -> Ids:
    if isinstance(runs, int | np.integer) and not isinstance(runs, bool):
        check_count("simulate", "runs", int(runs), maximum=MAX_RUNS)
        return np.arange(runs, dtype=np.int64)
    numbers = np.asarray(runs)
    whole = numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.min() < 0 or numbers.max() >= MAX_RUNS:
        raise HeadstartError(f"simulate(runs={runs!r}): give a count, or whole numbers in [0, 2^23)")
    return numbers.astype(np.int64)


def _recorded(record: Sequence[int] | None, steps: int) -> Ids:
    kept = np.unique(np.asarray([steps] if record is None else record, dtype=np.int64))
    if kept.size and (kept[0] < 0 or kept[-1] > steps):
        raise HeadstartError(f"simulate(record={record!r}): steps to record lie in 0 .. {steps}")
    return kept


def started(
    process: ReducedSGD,
    runs: Ids,
    seed: int,
    start: tuple[object, object] | float | None,
    right_side_only: bool = False,
) -> State:
    """Runs at their start."""
    check_flag("simulate", "right_side_only", right_side_only)
    n, p, k = len(runs), process.num_neurons, process.num_directions
    if start is not None:
        if right_side_only:
            raise HeadstartError("simulate(right_side_only=True): sides are turned at a cold start; leave start out")
        overlaps, rest = _given(start, n, p, k, process.dim)
        return State.at(runs, overlaps, rest)
    overlaps, rest = cold_start(seed, runs, process.dim, p, k)
    if right_side_only:
        wrong = ~process.right_side(overlaps[:, 0, 0])
        overlaps[wrong] *= -1
        if not process.right_side(overlaps[:, 0, 0]).all():
            raise HeadstartError(
                f"simulate(right_side_only=True): {process.student!r} cannot recover {process.link!r} from either "
                "side, since their leading coefficients have other signs or one is 0; change the student"
            )
    return State.at(runs, overlaps, rest)


def _given(start: tuple[object, object] | float, n: int, p: int, k: int, dim: int) -> tuple[Floats, Floats]:
    """M and R of a start that the user gave, [n, p, k] and [n, p, p]."""
    try:
        m, q = start if isinstance(start, tuple) else (start, 1.0)
        overlaps, gram = np.asarray(m, dtype=np.float64), np.asarray(q, dtype=np.float64)
        if p == k == 1 and overlaps.ndim < 2 and gram.ndim < 2:
            overlaps, gram = overlaps.reshape(-1, 1, 1), gram.reshape(-1, 1, 1)
        overlaps, gram = np.broadcast_to(overlaps, (n, p, k)), np.broadcast_to(gram, (n, p, p))
    except (TypeError, ValueError):
        raise HeadstartError(f"simulate(start={start!r}): give (M, Q) of shapes [{p}, {k}] and [{p}, {p}]") from None
    rest = gram - overlaps @ overlaps.transpose(0, 2, 1)
    values = np.linalg.eigvalsh(rest) if np.isfinite(rest).all() else np.full((n, p), -1.0)
    unit = np.abs(np.diagonal(gram, axis1=1, axis2=2) - 1).max() < 1e-9
    if not unit or not np.allclose(gram, gram.transpose(0, 2, 1)) or values.min() < -1e-9:
        raise HeadstartError(
            f"simulate(start={start!r}): rows have norm 1, so Q is symmetric with diagonal 1 and Q - M M^T has no "
            "eigenvalue below 0"
        )
    if (values > 1e-9).sum(axis=1).max() > dim - k:
        raise HeadstartError(f"simulate(start={start!r}): {dim} dimensions do not hold rows like these")
    # What is 0 to rounding is 0: the rank of R counts.
    diagonal = np.diagonal(rest, axis1=1, axis2=2)
    keep = (diagonal[:, :, None] > 1e-15) & (diagonal[:, None, :] > 1e-15)
    return overlaps, np.where(keep, rest, 0.0)
