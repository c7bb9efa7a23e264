"""Inputs that are not standard normal: what the theory of one-pass SGD is asked to survive.

Each part draws [num, dim] with mean 0 and a covariance of trace dim.
"""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_nonnegative, check_positive
from headstart.data import open_dataset

Floats = NDArray[np.float32]


@runtime_checkable
class Inputs(Protocol):
    """A distribution of inputs."""

    semantics: ClassVar[int]

    def draw(self, rng: np.random.Generator, num: int, dim: int) -> Floats:
        """Samples, float32[num, dim]."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """N(0, I)."""

    semantics: ClassVar[int] = 1

    def draw(self, rng: np.random.Generator, num: int, dim: int) -> Floats:
        """Standard normals."""
        return rng.standard_normal((num, dim), dtype=np.float32)


@dataclass(frozen=True)
class RandomSigns:
    """Independent signs: far from normal in each coordinate, nearly normal along a dense direction."""

    semantics: ClassVar[int] = 1

    def draw(self, rng: np.random.Generator, num: int, dim: int) -> Floats:
        """+1 or -1."""
        return (2 * rng.integers(0, 2, (num, dim), dtype=np.int8) - 1).astype(np.float32)


@dataclass(frozen=True)
class StudentT:
    """Student's t with `degrees` > 2, scaled to variance 1.

    Each coordinate by itself, or, with `elliptical`, normal vectors that share one random length per sample, which no
    direction averages out.
    """

    degrees: float = 5.0
    elliptical: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("StudentT", "degrees", self.degrees)
        if self.degrees <= 2:
            raise HeadstartError(f"StudentT(degrees={self.degrees}): its variance is infinite; use more than 2")

    def draw(self, rng: np.random.Generator, num: int, dim: int) -> Floats:
        """Heavy tails."""
        scale = np.sqrt((self.degrees - 2) / self.degrees)
        if not self.elliptical:
            return (scale * rng.standard_t(self.degrees, (num, dim))).astype(np.float32)
        lengths = scale / np.sqrt(rng.chisquare(self.degrees, num) / self.degrees)
        return rng.standard_normal((num, dim), dtype=np.float32) * lengths[:, None].astype(np.float32)


@dataclass(frozen=True)
class Correlated:
    """Normal with a covariance whose eigenvalues fall as j^-power, j = 1 .. dim, on the coordinates."""

    power: float = 0.5

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_nonnegative("Correlated", "power", self.power)

    def draw(self, rng: np.random.Generator, num: int, dim: int) -> Floats:
        """Scaled normals."""
        values = np.arange(1, dim + 1, dtype=np.float64) ** -self.power
        scales = np.sqrt(values * dim / values.sum()).astype(np.float32)
        return rng.standard_normal((num, dim), dtype=np.float32) * scales


@dataclass(frozen=True)
class PrincipalRows:
    """Training images of a set on their leading principal directions, each with variance 1, drawn again and again."""

    name: str = "mnist"

    semantics: ClassVar[int] = 1

    def draw(self, rng: np.random.Generator, num: int, dim: int) -> Floats:
        """Rows with replacement."""
        rows = principal_rows(self.name, dim)
        return np.asarray(rows[rng.integers(0, len(rows), num)])


@cache
def principal_rows(name: str, dim: int) -> Floats:
    """All training images of a set as [rows, dim] whitened principal components; deterministic up to rounding."""
    images = open_dataset(name)["train_x"]
    flat = np.asarray(images).reshape(len(images), -1).astype(np.float32) / 255
    if not 1 <= dim <= flat.shape[1]:
        raise HeadstartError(f"principal_rows(dim={dim}): {name} has {flat.shape[1]} pixels; use at most as many")
    flat -= flat.mean(axis=0)
    eigenvalues, basis = np.linalg.eigh((flat.T @ flat).astype(np.float64) / len(flat))
    leading = basis[:, ::-1][:, :dim] / np.sqrt(eigenvalues[::-1][:dim])
    return np.asarray(flat @ leading.astype(np.float32))
