"""The quadratic neuron of "Less Data, Faster Training" (Section 4.2, Appendix A), thousands of neurons at once.

    f(x) = (a / 2) (w.x)^2,   L = -E[y f(x)],   y = x_1 x_2,   x uniform on {-1, +1}^d

With M = E[y x x^T], over a data set or the population, one step of projected gradient descent is (A.3), (A.4):

    a <- clip(a + (eta / 2) q, -1, 1),   w <- (I + eta a M) w / |(I + eta a M) w|,   q = w^T M w

A step needs M only through its eigenvalues and w only through its coordinates in the eigenbasis, so a neuron is
diagonalised once and then costs O(d) a step. The population's M = e_1 e_2^T + e_2 e_1^T has the eigenvalues 1 (u_+),
-1 (u_-) and 0 (the rest), so there three coordinates are the whole neuron, whatever d is. All numbers are float64.

A neuron is (seed, id): its weights, its samples and its labels are functions of the two, so results do not depend on
which neurons are simulated together.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.streams import Stream, normals, signs
from headstart.tasks import Parity

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

SUPPORT = 2  # the target is the product of two coordinates
# Sums of +-1 in float32 are exact up to here.
MAX_SAMPLES = 2**24
CHUNK_ELEMENTS = 2**22  # of samples drawn in one go


class Labels(StrEnum):
    """What phase 1 is labelled with: the parity, or fair signs drawn once (Corollary 2)."""

    TRUE = "true"
    RANDOM = "random"


class Shift(StrEnum):
    """Where the model has a "-1", which Section 4.2 has and Appendix A.1 has not.

    NONE is f = a s(w.x), s(z) = z^2 / 2. OUTPUT is f = a s(w.x) - 1: the correlation loss is linear in f, so no
    gradient and no step changes. ACTIVATION is f = a (s(w.x) - 1), the reading in which it matters: the gradient of
    the readout gains the mean label, a <- clip(a + eta (q / 2 - E[y])).
    """

    NONE = "none"
    OUTPUT = "output"
    ACTIVATION = "activation"


@dataclass(frozen=True)
class Neurons:
    """n neurons, each in the eigenbasis of its own moment matrix, n x k; k = d on data and 3 on the population.

    `plus` and `minus` are u_+- = (e_1 +- e_2) / sqrt 2 in that basis, `mean_label` is E[y] where the model needs it.
    """

    eigenvalues: Floats
    weights: Floats
    plus: Floats
    minus: Floats
    readout: Floats
    mean_label: Floats

    def __len__(self) -> int:
        return len(self.readout)

    def take(self, rows: NDArray[np.bool_] | Ids) -> "Neurons":
        """Some of them."""
        return Neurons(*(getattr(self, f.name)[rows] for f in fields(self)))

    @property
    def drive(self) -> Floats:
        """q = w^T M w, [n]."""
        return np.einsum("nk,nk,nk->n", self.eigenvalues, self.weights, self.weights)

    @property
    def norm(self) -> Floats:
        """The spectral norm of M, [n]."""
        return np.abs(self.eigenvalues).max(axis=1)

    @property
    def overlaps(self) -> tuple[Floats, Floats]:
        """z_+- = <w, u_+->, [n] each."""
        return np.einsum("nk,nk->n", self.weights, self.plus), np.einsum("nk,nk->n", self.weights, self.minus)

    def alignment(self, sign: Floats) -> Floats:
        """|<w, u_sign>|, [n]: the overlap with the minimiser for a readout of that sign."""
        z_plus, z_minus = self.overlaps
        return np.abs(np.where(sign > 0, z_plus, z_minus))


def initial_weights(dim: int, width: int, seed: int, ids: Ids) -> tuple[Floats, Floats]:
    """w uniform on the unit sphere [n, d] and a ~ N(0, 1 / width) [n], the same for every data set."""
    check_count("initial_weights", "dim", dim, minimum=SUPPORT + 1)
    check_count("initial_weights", "width", width)
    draws = normals(seed, Stream.INIT, ids, dim + 1).astype(np.float64)
    w = draws[:, :dim]
    return w / np.linalg.norm(w, axis=1, keepdims=True), draws[:, dim] / np.sqrt(width)


def labelled_samples(
    task: Parity, samples: int, labels: Labels, seed: int, ids: Ids
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """x [n, N, d] and y [n, N]: N samples of each neuron's own."""
    # 2^32 sample ids for every neuron, so that no two share a sample.
    sample_ids = ((np.asarray(ids, dtype=np.int64)[:, None] << 32) + np.arange(samples)).ravel()
    drawn = task.sample(seed, sample_ids)
    y = drawn.y if labels is Labels.TRUE else signs(seed, Stream.LABELS, sample_ids, 1)[:, 0]
    return drawn.x.reshape(len(ids), samples, task.dim), y.reshape(len(ids), samples)


def moment_matrices(
    task: Parity, samples: int, labels: Labels, seed: int, ids: Ids
) -> tuple[NDArray[np.float64], Floats]:
    """M = (1 / N) sum_s y_s x_s x_s^T of N samples of each neuron's own [n, d, d], and the mean label [n]."""
    check_count("moment_matrices", "samples", samples)
    if samples > MAX_SAMPLES:
        raise HeadstartError(f"moment_matrices(samples={samples}): use at most {MAX_SAMPLES}")
    matrices, means = np.empty((len(ids), task.dim, task.dim)), np.empty(len(ids))
    chunk = max(1, CHUNK_ELEMENTS // (samples * task.dim))
    for start in range(0, len(ids), chunk):
        x, y = labelled_samples(task, samples, labels, seed, ids[start : start + chunk])
        matrices[start : start + chunk] = np.matmul((x * y[:, :, None]).transpose(0, 2, 1), x) / samples
        means[start : start + chunk] = y.mean(axis=1, dtype=np.float64)
    return matrices, means


def on_data(matrices: NDArray[np.float64], mean_label: Floats, w: Floats, a: Floats) -> Neurons:
    """Neurons on data sets with these moment matrices: diagonalises each."""
    eigenvalues, basis = np.linalg.eigh(matrices)
    turned = np.matmul(w[:, None, :], basis)[:, 0, :]
    plus = (basis[:, 0, :] + basis[:, 1, :]) / np.sqrt(2)
    minus = (basis[:, 0, :] - basis[:, 1, :]) / np.sqrt(2)
    return Neurons(eigenvalues, turned, plus, minus, a.copy(), mean_label)


def on_population(z_plus: Floats, z_minus: Floats, a: Floats) -> Neurons:
    """Neurons on the population, from <w, u_+->: coordinates (z_+, z_-, length of the rest), eigenvalues (1, -1, 0)."""
    rest = np.sqrt(np.maximum(1.0 - z_plus**2 - z_minus**2, 0.0))
    weights = np.stack((z_plus, z_minus, rest), axis=1)
    rows = np.ones((len(a), 1))
    return Neurons(
        rows * np.array([1.0, -1.0, 0.0]),
        weights / np.linalg.norm(weights, axis=1, keepdims=True),
        rows * np.array([1.0, 0.0, 0.0]),
        rows * np.array([0.0, 1.0, 0.0]),
        a.copy(),
        np.zeros(len(a)),
    )


def step(neurons: Neurons, eta: float, shift: Shift = Shift.NONE) -> Neurons:
    """One projected step, (A.3) and (A.4); both weights move from the same point."""
    return _step(neurons, neurons.drive, eta, shift)


def _step(neurons: Neurons, drive: Floats, eta: float, shift: Shift) -> Neurons:
    force = drive / 2 - neurons.mean_label if shift is Shift.ACTIVATION else drive / 2
    grown = neurons.weights * (1.0 + (eta * neurons.readout)[:, None] * neurons.eigenvalues)
    grown /= np.sqrt(np.einsum("nk,nk->n", grown, grown))[:, None]
    a = np.clip(neurons.readout + eta * force, -1.0, 1.0)
    return Neurons(neurons.eigenvalues, grown, neurons.plus, neurons.minus, a, neurons.mean_label)


@dataclass(frozen=True)
class Passage:
    """How n neurons went from a start to a stop: what the lemmas of Appendix A bound along the way, [n] each.

    steps            T, the first t at which they stopped; -1 where they did not within the steps allowed
    end              the neurons at T
    least_drive      min over t < T of s q(t), s = sign a(0): positive where the sign of q never changed
    least_readout    min over t <= T of s a(t)
    worst_fall       max over t < T, where eta |a| |M| <= 1/2, of -sign(a(t)) (q(t+1) - q(t)): Lemma 3 says <= 0
    largest_pull     max over t < T of eta |a(t)| |M|: Corollary 4 says <= 1/2
    readout_fall     max over t < T of |a(t)| - |a(t+1)|: Lemma 6 says <= 0
    contraction      max over t < T of (1 + eta |a(t)|) r(t+1) / r(t), r = tan of the angle to u_s: Lemma 6 says <= 1
    """

    steps: NDArray[np.int64]
    end: Neurons
    least_drive: Floats
    least_readout: Floats
    worst_fall: Floats
    largest_pull: Floats
    readout_fall: Floats
    contraction: Floats


def run_until(
    stop: Callable[[Neurons], NDArray[np.bool_]],
    neurons: Neurons,
    eta: float,
    max_steps: int,
    shift: Shift = Shift.NONE,
) -> Passage:
    """Step all neurons until `stop` is true of them, each for itself, or `max_steps` steps are done."""
    check_positive("run_until", "eta", eta)
    check_count("run_until", "max_steps", max_steps, minimum=0)
    n = len(neurons)
    steps = np.full(n, -1, dtype=np.int64)
    end = Neurons(*(getattr(neurons, f.name).copy() for f in fields(Neurons)))
    sign = np.sign(neurons.readout)
    low = {"least_drive": np.full(n, np.inf), "least_readout": sign * neurons.readout}
    high = {name: np.full(n, -np.inf) for name in ("worst_fall", "largest_pull", "readout_fall", "contraction")}

    now, rows, norm = neurons, np.arange(n), neurons.norm
    toward = np.where(sign[:, None] > 0, neurons.plus, neurons.minus)
    drive, angle = now.drive, _tangent(now, toward)
    for t in range(max_steps + 1):
        done = stop(now)
        if done.any() or t == max_steps:
            steps[rows[done]] = t
            leaving = done | (t == max_steps)
            for name in ("weights", "readout"):
                getattr(end, name)[rows[leaving]] = getattr(now, name)[leaving]
            now, rows, norm, sign = now.take(~leaving), rows[~leaving], norm[~leaving], sign[~leaving]
            drive, angle, toward = drive[~leaving], angle[~leaving], toward[~leaving]
        if not len(rows):
            break
        after = _step(now, drive, eta, shift)
        drive_after, angle_after = after.drive, _tangent(after, toward)
        pull = eta * np.abs(now.readout) * norm
        fall = np.where(pull <= 0.5, -np.sign(now.readout) * (drive_after - drive), -np.inf)
        low["least_drive"][rows] = np.minimum(low["least_drive"][rows], sign * drive)
        low["least_readout"][rows] = np.minimum(low["least_readout"][rows], sign * after.readout)
        for name, value in (
            ("worst_fall", fall),
            ("largest_pull", pull),
            ("readout_fall", np.abs(now.readout) - np.abs(after.readout)),
            ("contraction", (1.0 + eta * np.abs(now.readout)) * angle_after / angle),
        ):
            high[name][rows] = np.maximum(high[name][rows], value)
        now, drive, angle = after, drive_after, angle_after
    return Passage(steps, end, **low, **high)


def _tangent(neurons: Neurons, toward: Floats) -> Floats:
    """r = sqrt(1 - alpha^2) / alpha with alpha = |<w, toward>|, [n]."""
    alpha = np.abs(np.einsum("nk,nk->n", neurons.weights, toward))
    return np.sqrt(np.maximum(1.0 - alpha**2, 0.0)) / np.maximum(alpha, np.finfo(np.float64).tiny)


def readout_reaches(target: float) -> Callable[[Neurons], NDArray[np.bool_]]:
    """Phase 1 stops at |a| >= a_*."""
    check_positive("readout_reaches", "target", target)
    return lambda neurons: np.abs(neurons.readout) >= target


def aligned_within(epsilon: float) -> Callable[[Neurons], NDArray[np.bool_]]:
    """Phase 2 stops at <w, u_sign(a)>^2 >= 1 - epsilon."""
    if not 0 < epsilon < 1:
        raise HeadstartError(f"aligned_within(epsilon={epsilon!r}): use a number in (0, 1)")
    return lambda neurons: neurons.alignment(np.sign(neurons.readout)) ** 2 >= 1.0 - epsilon
