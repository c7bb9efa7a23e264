"""The random numbers of the reduced chain, each a function of (seed, run, step, sample): the specification in NumPy.

A run has 2^40 ids of the data stream. Its samples take them in turn, with the p + k coordinates of the fields, and one
number more where labels have noise, in the first lanes. What the other d - rank O coordinates of the inputs add is one
Wishart matrix a step: its numbers are those of id (run, step), from lane 2^32 on. The start is id `run` of the init
stream. So a run is the same alone or among thousands. Normals are made from pairs of 32-bit uniforms, up to 6.7.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.core.streams import Stream, normals, uniforms
from headstart.theory.reduced_sgd.kernels.codes import DIAGONAL_LANE, OTHER_LANE, RUN_BITS, TRIES

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

MAX_RUNS = 2**23


def ids_of(runs: Ids, first: int, num: int) -> Ids:
    """Ids first .. first + num - 1 of each run, [runs, num]."""
    return (runs[:, None] << RUN_BITS) + np.arange(first, first + num, dtype=np.int64)


def samples_per_id(numbers: int) -> int:
    """How many samples share an id: a lane has four numbers, so two samples of two numbers fill one."""
    return max(1, 4 // numbers)


def coordinates(seed: int, runs: Ids, step: int, batch: int, numbers: int, part: slice) -> Floats:
    """Standard normals of some samples of a step, [runs, samples, numbers]; `part` is a slice of the step's ids."""
    shared = samples_per_id(numbers)
    per_step = -(-batch // shared)
    ids = ids_of(runs, step * per_step + part.start, min(part.stop, per_step) - part.start)
    drawn = normals(seed, Stream.DATA, ids.ravel(), shared * numbers).astype(np.float64)
    drawn = drawn.reshape(len(runs), -1, numbers)
    return drawn[:, : batch - shared * part.start]


def box_muller(u: Floats) -> Floats:
    """Normals from pairs of uniforms along the last axis, in float64."""
    radius, angle = np.sqrt(-2.0 * np.log(u[..., 0::2])), 2.0 * np.pi * u[..., 1::2]
    return np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1).reshape(u.shape)


def chi_squares(seed: int, stream: Stream, ids: Ids, degrees: ArrayLike, lane: int) -> Floats:
    """chi^2 with `degrees` >= 0 degrees of freedom for each id, [ids]; 0 for none.

    Marsaglia and Tsang's "A simple method for generating gamma variables" (2000); a try takes one lane: two words for
    its normal, one to accept it, and one for the power that shapes below 1 need.
    """
    shape = np.broadcast_to(np.asarray(degrees, dtype=np.float64) / 2, ids.shape)
    out = np.zeros(ids.shape)
    pending = np.flatnonzero(shape > 0)
    tried = 0
    while pending.size:
        a = shape[pending]
        d = np.where(a < 1, a + 1, a) - 1 / 3
        u = uniforms(seed, stream, ids[pending], 4, 4 * (lane + tried))
        x = box_muller(u[:, :2])[:, 0]
        v = (1 + x / np.sqrt(9 * d)) ** 3
        positive = v > 0
        fits = np.log(u[:, 2]) < x * x / 2 + d * (1 - v + np.log(np.where(positive, v, 1.0)))
        taken = positive & fits
        power = np.where(a < 1, u[:, 3] ** (1 / a), 1.0)
        out[pending[taken]] = (2 * d * v * power)[taken]
        pending, tried = pending[~taken], tried + 1
    return out


def wishart_roots(seed: int, stream: Stream, ids: Ids, degrees: NDArray[np.int64], size: int) -> Floats:
    """B, [ids, size, size], lower triangular, with B B^T ~ Wishart(degrees, I), by Bartlett's decomposition.

    Row i has chi_{degrees - i} on the diagonal and standard normals before it; with fewer degrees than rows the columns
    from `degrees` on are 0, and B B^T is singular as it must be.
    """
    out = np.zeros((len(ids), size, size))
    others = size * (size - 1) // 2
    if others:
        u = uniforms(seed, stream, ids, others + others % 2, 4 * OTHER_LANE)
        rows, columns = np.tril_indices(size, -1)
        out[:, rows, columns] = box_muller(u)[:, :others] * (columns < degrees[:, None])
    for i in range(size):
        free = np.maximum(degrees - i, 0)
        out[:, i, i] = np.sqrt(chi_squares(seed, stream, ids, free, DIAGONAL_LANE + i * TRIES))
    return out


def cold_start(seed: int, runs: Ids, dim: int, neurons: int, directions: int) -> tuple[Floats, Floats]:
    """Rows uniform on the sphere: M0 [runs, p, k] and R0 = Q0 - M0 M0^T [runs, p, p].

    A Gaussian row has k standard normals on the span of W*, and the Gram matrix of what is left of all rows is
    Wishart(d - k, I); rows are normalised. For p = k = 1, m0^2 ~ Beta(1/2, (d - 1) / 2).
    """
    even = neurons * directions + neurons * directions % 2
    overlaps = box_muller(uniforms(seed, Stream.INIT, runs, even))[:, : neurons * directions]
    roots = wishart_roots(seed, Stream.INIT, runs, np.full(len(runs), dim - directions), neurons)
    return normalised(overlaps.reshape(-1, neurons, directions), roots @ roots.transpose(0, 2, 1))


def normalised(overlaps: Floats, rest: Floats) -> tuple[Floats, Floats]:
    """M and R of rows of norm 1: the squared norm of row j is |M_j|^2 + R_jj."""
    norms = np.sqrt((overlaps**2).sum(axis=2) + np.diagonal(rest, axis1=1, axis2=2))
    return overlaps / norms[:, :, None], rest / (norms[:, :, None] * norms[:, None, :])
