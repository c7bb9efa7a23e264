"""The information exponent of data: which degree of Hermite polynomials the labels first depend on.

For x ~ N(0, I_d) the part of y of degree j has the strength |E[y He_j(x)]|^2 / j!, He_j the Hermite tensor. An unbiased
estimate is the mean over pairs a != b of y_a y_b k_j(x_a, x_b), k_j = <He_j(x), He_j(x')> / j!. These kernels are the
coefficients of Mehler's formula,

    sum_j r^j k_j = (1 - r^2)^(-d/2) exp((r s - r^2 q / 2) / (1 - r^2)),   s = <x, x'>, q = |x|^2 + |x'|^2

whose derivative in r gives, without a single tensor,

    (j+1) k_{j+1} = s k_j + (d - q + 2(j-1)) k_{j-1} + s k_{j-2} - (d + j - 3) k_{j-3}
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_positive
from headstart.core.streams import check_seed
from headstart.theory.hermite import Floats

MIN_ROWS = 50
BLOCK_ELEMENTS = 2**22  # of a kernel matrix at once
MAX_MEAN = 0.1  # root mean square over coordinates
MAX_COVARIANCE = 0.02  # |C - I|_F^2 / 2 d: all variances at 1.2, say
MIN_TELLING = 50  # rows that carry the labels, (sum y^2)^2 / sum y^4; fewer make tests reject too often
MAX_SHAPE = 0.05  # the same for the moments of degree 3 and 4: an excess kurtosis of about 1 in each coordinate


@dataclass(frozen=True)
class Strength:
    """How much of the variance of y is of one degree: an estimate, an interval, and two tests against none.

    `share` may fall outside [0, 1] by chance. `low`, `high` hold for all degrees at once. `p_value` is the larger of
    that of permuted labels, exact where y and x are independent, and that of labels with random signs, which keeps how
    y^2 depends on x. `detectable` is the share that would be seen four times in five.
    """

    degree: int
    share: float
    low: float
    high: float
    p_value: float
    detectable: float


@dataclass(frozen=True)
class ExponentEstimate:
    """What data say of their information exponent.

    `exponent` is the least degree that stands out with an interval above 0; where there is none, the least that stands
    out at all; None where none does. `consistent` are the exponents up to the highest degree that the data do not
    contradict; `above`: it may also be higher, or there is no signal at all. It is known where `consistent` has one
    exponent and `above` is False.
    """

    exponent: int | None
    consistent: tuple[int, ...]
    above: bool
    strengths: tuple[Strength, ...]
    words: str


def estimate_exponent(
    x: Floats,
    y: Floats,
    max_degree: int = 4,
    num_permutations: int = 199,
    seed: int = 0,
    level: float = 0.05,
    negligible: float = 0.02,
) -> ExponentEstimate:
    """The exponent of labels y [n] on inputs x [n, d], which must be close to N(0, I): see `whiten`.

    A degree stands out where Holm's procedure over the degrees rejects at `level`. A lower degree is contradicted only
    where its whole interval is below `negligible`, a share of the variance. Costs O(n^2 (d + num_permutations)).

    The level is held for large n. Labels with heavy tails need many rows, because rare ones make their low degrees 0:
    of y = He_3 a test of degree 1 at 5% rejects in 12% of tables with 400 rows and in 6% with 2000 (in 20% with
    permuted labels alone). `words` warns of a few large labels.
    """
    x, y = _checked(x, y)
    check_count("estimate_exponent", "max_degree", max_degree, maximum=8)
    check_count("estimate_exponent", "num_permutations", num_permutations, minimum=19)
    check_fraction("estimate_exponent", "level", level)
    check_positive("estimate_exponent", "negligible", negligible)
    check_seed(seed)
    if (num_permutations + 1) * level < max_degree:
        raise HeadstartError(
            f"estimate_exponent(num_permutations={num_permutations}): too few to reject {max_degree} degrees at level "
            f"{level:g}; use at least {int(np.ceil(max_degree / level))}"
        )
    rng = np.random.Generator(np.random.Philox(key=seed))
    null = np.array([rng.permutation(y) for _ in range(num_permutations)])
    signed = y * (1 - 2.0 * rng.integers(0, 2, (num_permutations, len(y))))
    means, pulls = _pair_means(x, np.concatenate(([y, np.ones_like(y)], null, signed)).T, max_degree)
    strengths = tuple(
        _strength(j + 1, means[j], pulls[j], num_permutations, level / max_degree) for j in range(max_degree)
    )
    rejected = _holm([s.p_value for s in strengths], level)
    caveats = _shape(means[:, 1], x.shape[1]) + _tails(y)
    return _conclude(strengths, rejected, negligible, len(x), caveats)


def whiten(x: Floats) -> Floats:
    """(x - mean) C^(-1/2), float64[n, d]: mean 0 and covariance I on these rows."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise HeadstartError(f"whiten(x={list(x.shape)}): give a table [n, d] of finite numbers")
    centred = x - x.mean(axis=0)
    eigenvalues, basis = np.linalg.eigh(centred.T @ centred / len(x))
    if len(x) <= x.shape[1] or eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
        raise HeadstartError(
            f"whiten(x={list(x.shape)}): the covariance is singular; project on fewer principal directions first"
        )
    return np.asarray(centred @ (basis / np.sqrt(eigenvalues)) @ basis.T)


def hermite_kernels(inner: Floats, squares: Floats, dim: int, max_degree: int) -> Iterator[Floats]:
    """k_1, k_2, ... up to `max_degree` from <x, x'> and |x|^2 + |x'|^2, of one shape."""
    before: list[Floats] = [np.zeros_like(inner)] * 3 + [np.ones_like(inner)]  # k_{j-3} .. k_j at j = 0
    for j in range(max_degree):
        three, two, one, now = before
        following = (inner * (now + two) + (dim - squares + 2 * (j - 1)) * one - (dim + j - 3) * three) / (j + 1)
        before = [two, one, now, following]
        yield following


def _pair_means(x: Floats, labels: Floats, max_degree: int) -> tuple[Floats, Floats]:
    """Means over pairs a != b of l_a l_b k_j for each column l of `labels` [n, m]: [degrees, m].

    The second array has, for the first column, the mean over b for each a: [degrees, n].
    """
    n, dim = x.shape
    squares = (x**2).sum(axis=1)
    totals, pulls = np.zeros((max_degree, labels.shape[1])), np.empty((max_degree, n))
    rows = max(1, BLOCK_ELEMENTS // n)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        inner = x[block] @ x.T
        both = squares[block, None] + squares
        own = np.arange(len(inner))
        for j, kernel in enumerate(hermite_kernels(inner, both, dim, max_degree)):
            off = kernel.copy()
            off[own, start + own] = 0.0
            products = labels[block] * (off @ labels)
            totals[j] += products.sum(axis=0)
            pulls[j, block] = products[:, 0] / (n - 1)
    return totals / (n * (n - 1)), pulls


def _strength(degree: int, means: Floats, pulls: Floats, num_permutations: int, level: float) -> Strength:
    """From the means of one degree: the data's, that of ones, permuted labels', signed labels'."""
    share, permuted, signed = means[0], means[2 : 2 + num_permutations], means[2 + num_permutations :]
    p_value = max((1 + (null >= share).sum()) / (1 + num_permutations) for null in (permuted, signed))
    # The variance of a U-statistic of two is 4 Var(pull) / n and a term of order 1 / n^2, which the estimated pulls
    # hold twice: an error on the safe side. Where there is no signal the null's deviation is the steadier estimate.
    noise = max(permuted.std(), signed.std())
    half = NormalDist().inv_cdf(1 - level / 2) * max(2 * pulls.std(ddof=1) / np.sqrt(len(pulls)), noise)
    detectable = (NormalDist().inv_cdf(1 - level) + NormalDist().inv_cdf(0.8)) * noise
    low, high = (min(max(end, 0.0), 1.0) for end in (share - half, share + half))
    return Strength(degree, float(share), float(low), float(high), float(p_value), float(detectable))


def _holm(p_values: list[float], level: float) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects."""
    rejected = [False] * len(p_values)
    for rank, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] > level / (len(p_values) - rank):
            break
        rejected[i] = True
    return rejected


def _conclude(
    strengths: tuple[Strength, ...], rejected: list[bool], negligible: float, num_rows: int, caveats: str
) -> ExponentEstimate:
    """The estimate with its words."""
    seen = [s for s, stands_out in zip(strengths, rejected, strict=True) if stands_out]
    sure = next((s for s in seen if s.low > 0), None)
    below = strengths if sure is None else strengths[: sure.degree - 1]
    open_ones = [s for s in below if s.high > negligible]
    consistent = tuple(s.degree for s in open_ones)
    if not seen:
        missed = ", ".join(f"{min(s.detectable, 1.0):.2g} of degree {s.degree}" for s in strengths)
        words = (
            f"Cannot tell: no degree up to {len(strengths)} stands out of noise in {num_rows} rows. Shares of the "
            f"variance that would be missed: below {missed}. More rows or fewer columns would tell more."
        )
        return ExponentEstimate(None, consistent, True, strengths, words + caveats)
    first = sure or seen[0]
    found = f"Degree {first.degree} has {first.share:.2g} [{first.low:.2g}, {first.high:.2g}] of the variance"
    rest = ", ".join(f"degree {s.degree} up to {s.high:.2g}" for s in open_ones if s.degree < first.degree)
    if sure is None:
        words = f"Perhaps {first.degree}: it stands out of noise, but its interval reaches 0. {found}; more rows tell."
        return ExponentEstimate(first.degree, consistent, True, strengths, words + caveats)
    if rest:
        words = f"The exponent is at most {first.degree}. {found}; it is lower if {rest} is real, which more rows tell."
    else:
        lower = f", and every lower degree less than {negligible:g}" if below else ""
        words = f"The exponent is {first.degree}. {found}{lower}."
    return ExponentEstimate(first.degree, (*consistent, first.degree), False, strengths, words + caveats)


def _checked(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """x and y as they should be, y with mean 0 and variance 1."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise HeadstartError(f"estimate_exponent(x={list(x.shape)}, y={list(y.shape)}): give x [n, d] and y [n]")
    if len(x) < MIN_ROWS:
        raise HeadstartError(
            f"estimate_exponent(x={list(x.shape)}): {len(x)} rows are too few; give {MIN_ROWS} or more"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise HeadstartError("estimate_exponent: x or y has a NaN or an infinity; drop those rows")
    if np.ptp(y) == 0:
        raise HeadstartError(f"estimate_exponent: y is {y[0]:g} in every row; give labels that vary")
    n, dim = x.shape
    mean = max(float((x.mean(axis=0) ** 2).sum() - x.var(axis=0).sum() / n), 0.0) / dim
    off = np.cov(x.T).reshape(dim, dim) - np.eye(dim)
    covariance = ((off**2).sum() - dim * (dim + 1) / n) / (2 * dim)
    # Fifteen deviations of either under N(0, I) are forgiven: these are squares, with the tails of chi-squares.
    if mean > MAX_MEAN**2 + 15 * (2 / dim) ** 0.5 / n or covariance > MAX_COVARIANCE + 15 * (1 + 1 / dim) ** 0.5 / n:
        raise HeadstartError(
            f"estimate_exponent: x is far from N(0, I): means of {mean**0.5:.2g}, covariance {covariance:.2g} off "
            f"(at most {MAX_MEAN:g}, {MAX_COVARIANCE:g}); pass whiten(x), of principal directions if d is large"
        )
    return x, (y - y.mean()) / y.std()


def _shape(moments: Floats, dim: int) -> str:
    """A warning where the inputs have skew or heavy tails, "" where they do not; moments of degree 1, 2, ..."""
    off = [degree for degree in (3, 4) if degree <= len(moments) and moments[degree - 1] > MAX_SHAPE * dim]
    if not off:
        return ""
    named = " and ".join({3: "skew", 4: "tails"}[degree] for degree in off)
    return f" The inputs are not Gaussian ({named}): exponents promise little there."


def _tails(y: Floats) -> str:
    """A warning where a few rows carry the labels, "" where they do not."""
    telling = (y**2).sum() ** 2 / (y**4).sum()
    return f" A few labels are very large: tests reject too often with {len(y)} rows." if telling < MIN_TELLING else ""
