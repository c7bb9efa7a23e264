"""What is simulated: one-pass SGD of a committee machine on a target of a few directions of Gaussian inputs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import (
    HeadstartError,
    check_count,
    check_flag,
    check_fraction,
    check_nonnegative,
    check_positive,
)
from headstart.theory.learnability import learnability
from headstart.theory.overlaps import Objective

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Switch:
    """From the correlation loss to the squared error, on the way.

    Once the loss of a batch, mean (y - f)^2 / 2 before its step, is below `below` times that of the first batch, later
    steps descend on the squared error, with the rate times `rate decay^i` at the i-th of them, i = 0, 1, ... It is the
    batch that decides, not the population: a training loop sees no more. Reference: experiment on adaptive SGD.
    """

    below: float = 0.6
    rate: float = 0.1
    decay: float = 0.995

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("Switch", "below", self.below)
        check_positive("Switch", "rate", self.rate)
        check_fraction("Switch", "decay", self.decay)


@dataclass(frozen=True)
class ReducedSGD:
    """One-pass SGD on y = h*(W* z) + sqrt(noise) xi, z ~ N(0, I_dim), with k orthonormal rows in W*.

    The student is f(z) = (1/p) sum_j a_j s(<w_j, z>) with p = `num_neurons` rows on the unit sphere and a fixed
    `readout` a, all 1 unless given. A step takes `batch` fresh samples, descends on `loss` with `rate` and normalises
    the rows; with `spherical` each row's gradient first loses its part along the row. `link` is h*, `student` is s; a
    link of several numbers says itself how many `directions` it takes, and a plain function takes [n, k].

    Reference: Online Learning and Information Exponents, Section 2.
    """

    link: Any
    student: Any
    dim: int
    batch: int
    rate: float
    loss: Objective = Objective.MSE
    num_neurons: int = 1
    directions: int | None = None
    readout: tuple[float, ...] | None = None
    noise: float = 0.0
    spherical: bool = False
    switch: Switch | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("dim", "batch", "num_neurons"):
            check_count("ReducedSGD", name, getattr(self, name))
        check_positive("ReducedSGD", "rate", self.rate)
        check_nonnegative("ReducedSGD", "noise", self.noise)
        check_flag("ReducedSGD", "spherical", self.spherical)
        self._check_links()
        if self.loss not in list(Objective):
            raise HeadstartError(f"ReducedSGD(loss={self.loss!r}): give Objective.MSE or Objective.CORRELATION")
        object.__setattr__(self, "loss", Objective(self.loss))
        if self.switch is not None and (not isinstance(self.switch, Switch) or self.loss is Objective.MSE):
            raise HeadstartError(
                f"ReducedSGD(switch={self.switch!r}, loss={self.loss!r}): give Switch() with Objective.CORRELATION"
            )
        if self.readout is not None:
            readout = tuple(float(a) for a in self.readout)
            if len(readout) != self.num_neurons or not np.isfinite(readout).all():
                raise HeadstartError(
                    f"ReducedSGD(readout={self.readout!r}): give {self.num_neurons} finite numbers, one a neuron"
                )
            object.__setattr__(self, "readout", readout)

    def _check_links(self) -> None:
        if isinstance(self.link, type) or not callable(self.link):
            raise HeadstartError(f"ReducedSGD(link={self.link!r}): give a link, such as Hermite(3), or a function")
        if isinstance(self.student, type) or not callable(self.student) or not hasattr(self.student, "slope"):
            raise HeadstartError(
                f"ReducedSGD(student={self.student!r}): give an activation with its slope, such as Hermite(3) or Erf()"
            )
        own = getattr(self.link, "directions", None)
        if own is not None and self.directions not in (None, own):
            raise HeadstartError(f"ReducedSGD(directions={self.directions!r}): {self.link} takes {own}")
        if self.directions is not None:
            check_count("ReducedSGD", "directions", self.directions)
        if self.num_directions > self.dim:
            raise HeadstartError(
                f"ReducedSGD(dim={self.dim}): {self.num_directions} directions need a dim of at least as many"
            )

    @property
    def num_directions(self) -> int:
        """k: what the link says, else what was given, else 1."""
        return int(getattr(self.link, "directions", self.directions or 1))

    @property
    def weights(self) -> Floats:
        """a_j / p, [p]: what a neuron counts in the output."""
        return np.array(self.readout or (1.0,) * self.num_neurons) / self.num_neurons

    @property
    def numbers(self) -> int:
        """How many random numbers a sample takes."""
        return self.num_neurons + self.num_directions + (self.noise > 0)

    @property
    def single(self) -> bool:
        """Whether p = k = 1, where m = <w, w*> is all there is."""
        return self.num_neurons == 1 and self.num_directions == 1

    def target(self, fields: Floats) -> Floats:
        """h* of fields [..., k]: [...]."""
        takes_one = self.num_directions == 1 and not hasattr(self.link, "directions")
        return np.asarray(self.link(fields[..., 0] if takes_one else fields), dtype=np.float64)

    def right_side(self, overlaps: Floats) -> NDArray[np.bool_]:
        """Of starts m0 [n] of one neuron on one direction, which are driven to recovery near m = 0, [n].

        With l the least degree that target and student share: all for l = 1; for an even l all or none, by the sign of
        c_l c*_l a; for an odd l those with c_l c*_l a m0 > 0. The others wait for noise to take them over 0.
        """
        if not self.single:
            raise HeadstartError("right_side: sides are those of one neuron and one direction; use num_neurons=1")
        found = learnability(self.target_of_one, self.student)
        if found.shared == 1:
            return np.full(np.shape(overlaps), True)
        drive = found.product * float(self.weights[0])
        return np.asarray(drive * np.asarray(overlaps) ** (found.shared or 0) > 0)

    def target_of_one(self, z: Floats) -> Floats:
        """h* of numbers [n], for one direction."""
        return self.target(z[..., None])
