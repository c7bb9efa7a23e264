"""Finite sets without the sampling biases of a random one: moments matched by construction, labels recomputed."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.samples import Samples
from headstart.core.streams import Stream, uniforms
from headstart.methods.method import Method
from headstart.plans import Pool
from headstart.tasks import Parity, Relabelled, Task

Signs = NDArray[np.float32]


@dataclass(frozen=True)
class ZeroMean(Method):
    """Parity sets with mean(x) = 0 exactly: every column is a random arrangement of as many +1 as -1.

    With `by_class` also mean(y) = 0 and mean(x | y) = 0: half of the samples in each class, and every column balanced
    within each class. There the columns outside the support are arranged at random and those inside begin as a uniform
    draw given y, brought to sum zero by flipping pairs of bits of the support, which keep y. Antipodal pairs would do
    more than asked: for even degrees they remove every odd moment.

    A set depends on its size, so sets of different sizes are not nested. Reference: Less Data, Faster Training,
    Section 4.1.3 and Fig. 3a.
    """

    by_class: bool = False

    semantics: ClassVar[int] = 1

    def check(self, task: Task) -> None:
        """Parity alone; a class mean of a single support coordinate is y itself and cannot be removed."""
        if not isinstance(task, Parity):
            raise HeadstartError(f"ZeroMean(): {type(task).__name__} has no +-1 inputs; use Whiten() for Gaussian ones")
        if self.by_class and task.degree < 2:
            raise HeadstartError(f"ZeroMean(by_class=True): {task} has y = x_i, so that mean(x | y) is y; use degree 2")

    def alters(self, leg: int, pool: Pool) -> bool:
        """Finite pools."""
        return pool.size is not None

    def samples(self, task: Task, seed: int, leg: int, pool: Pool, ids: NDArray[np.int64], samples: Samples) -> Samples:
        """A set of the same size."""
        if pool.size is None:
            return samples
        assert isinstance(task, Parity)
        multiple = 2 if not self.by_class else 4 if task.degree % 2 == 0 else 8
        if len(ids) % multiple:
            raise HeadstartError(
                f"ZeroMean(by_class={self.by_class}): a set of {len(ids)} samples cannot be balanced; "
                f"use a multiple of {multiple}"
            )
        u = uniforms(seed, Stream.NOISE, ids, task.dim)
        if not self.by_class:
            x = _balanced(u)
        else:
            half = len(ids) // 2
            x = np.concatenate(
                [
                    _balanced_class(task, u[:half], samples.x[:half], 1),
                    _balanced_class(task, u[half:], samples.x[half:], -1),
                ]
            )
            # The classes take turns, so that every even prefix has as many of each.
            x = np.ascontiguousarray(x.reshape(2, half, -1).transpose(1, 0, 2).reshape(len(ids), -1))
        return Samples(x, task.label(seed, x))


@dataclass(frozen=True)
class Whiten(Method):
    """Finite sets of Gaussian inputs with mean 0 and covariance I exactly (to rounding), then labelled anew.

        x <- Sigma^(-1/2) (x - mu),  mu and Sigma the set's own mean and covariance

    Reference: Less Data, Faster Training, Section 4.1.3.
    """

    semantics: ClassVar[int] = 1

    def check(self, task: Task) -> None:
        """Labels must be a function of the input; +-1 inputs would not stay so."""
        if not isinstance(task, Relabelled) or isinstance(task, Parity):
            raise HeadstartError(f"Whiten(): {type(task).__name__} cannot be whitened; use ZeroMean() for parity")

    def alters(self, leg: int, pool: Pool) -> bool:
        """Finite pools."""
        return pool.size is not None

    def samples(self, task: Task, seed: int, leg: int, pool: Pool, ids: NDArray[np.int64], samples: Samples) -> Samples:
        """The set whitened."""
        if pool.size is None:
            return samples
        assert isinstance(task, Relabelled)
        num, dim = samples.x.shape
        if num <= dim:
            raise HeadstartError(f"Whiten(): {num} samples of dimension {dim} have a singular covariance; use more")
        centred = samples.x.astype(np.float64)
        centred -= centred.mean(axis=0)
        values, vectors = np.linalg.eigh(centred.T @ centred / num)
        x = (centred @ (vectors / np.sqrt(values)) @ vectors.T).astype(np.float32)
        return Samples(x, task.label(seed, x))


def _balanced(u: NDArray[np.float64]) -> Signs:
    """Columns with as many +1 as -1, arranged by the ranks of uniforms u [n, d]."""
    ranks = np.argsort(np.argsort(u, axis=0, kind="stable"), axis=0, kind="stable")
    return np.where(ranks < len(u) // 2, np.float32(1), np.float32(-1))


def _balanced_class(task: Parity, u: NDArray[np.float64], drawn: Signs, y: int) -> Signs:
    """Samples of one class with every column balanced: [n, d]."""
    x, support = _balanced(u), list(task.support or ())
    inside = drawn[:, support].copy()
    inside[:, -1] *= inside.prod(axis=1) * y
    x[:, support] = _balance_by_pairs(inside)
    return x


def _balance_by_pairs(x: Signs) -> Signs:
    """Bring every column sum of +-1 rows to zero by flipping two bits of a row at a time, which keeps row products.

    The number of excess signs over all columns is even, since it is fixed mod 2 by the row products, so pairs of
    columns use it up; what a last column has left, any other column lends and takes back.
    """
    while True:
        excess = x.sum(axis=0, dtype=np.float64) / 2
        order = np.argsort(-np.abs(excess), kind="stable")
        i, j = int(order[0]), int(order[1])
        if excess[i] == 0:
            return x
        rows = x[:, i] == np.sign(excess[i])
        if excess[j] != 0:
            rows &= x[:, j] == np.sign(excess[j])
            num = int(min(abs(excess[i]), abs(excess[j])))
            chosen = np.flatnonzero(rows)[:num]
        else:
            num = int(abs(excess[i])) // 2
            up, down = np.flatnonzero(rows & (x[:, j] > 0)), np.flatnonzero(rows & (x[:, j] < 0))
            num = min(num, len(up), len(down))
            chosen = np.concatenate([up[:num], down[:num]])
        if not len(chosen):
            raise HeadstartError(f"ZeroMean(by_class=True): {2 * len(x)} samples are too few to balance; use more")
        x[chosen, i] *= -1
        x[chosen, j] *= -1
