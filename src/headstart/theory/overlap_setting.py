"""What a student and a teacher see of a Gaussian input, and the expectations that move their overlaps.

The fields lbar = (lam, lam*) = (W z, W* z) are Gaussian with covariance O = [[Q, M], [M^T, P]]. The residual is
E = h*(lam*) - sum_j b_j s(lam_j) for the squared error and h*(lam*) for the correlation loss, b_j = a_j / p.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.theory.hermite import Floats


@runtime_checkable
class Activation(Protocol):
    """A function of one number with its derivative, elementwise."""

    def __call__(self, z: Floats) -> Floats:
        """s(z)."""
        ...

    def slope(self, z: Floats) -> Floats:
        """s'(z)."""
        ...


@dataclass(frozen=True)
class Setting:
    """The target h* of k directions, the activation s, the readouts b = a / p, the variance D of label noise.

    `feedback`: the residual has the student's own output, as with the squared error.
    """

    link: Callable[[Floats], Floats]
    student: Activation
    readout: tuple[float, ...]
    num_directions: int
    noise: float
    feedback: bool

    @property
    def num_neurons(self) -> int:
        """p."""
        return len(self.readout)

    @property
    def num_fields(self) -> int:
        """p + k."""
        return self.num_neurons + self.num_directions

    def target(self, fields: Floats) -> Floats:
        """h* of the teacher's fields [n, k], float64[n]: a link of one number takes [n]."""
        one = self.num_directions == 1 and not hasattr(self.link, "directions")
        return np.asarray(self.link(fields[:, 0] if one else fields), dtype=np.float64)


@dataclass(frozen=True)
class Expectations:
    """Over the fields, with F_jl = s'(lam_j) s'(lam_l) (E^2 + D).

    psi [p, k]     E[s'(lam_j) lam*_r E]
    gf [p, p]      E[s'(lam_j) lam_l E]
    hd [p, p]      E[F_jl]
    radial [p, p]  E[F_jl (lbar^T O^-1 lbar - rank O)], so that E[F_jl |z|^2] = d hd + radial in d dimensions
    own [p, p]     E[F_jl lam_j^2]
    cross [p, p]   E[F_jl lam_j lam_l]

    The last three are None where they were not asked for: only exact steps need radial, only spherical ones the others.
    """

    psi: Floats
    gf: Floats
    hd: Floats
    radial: Floats | None = None
    own: Floats | None = None
    cross: Floats | None = None


@dataclass(frozen=True)
class Wanted:
    """Which of the expectations that cost more are needed."""

    radial: bool = True
    spherical: bool = True


def joint_covariance(m: Floats, q: Floats, p: Floats) -> Floats:
    """O = [[Q, M], [M^T, P]], checked to be a covariance."""
    m, q, p = (np.asarray(part, dtype=np.float64) for part in (m, q, p))
    if m.ndim != 2 or q.shape != (len(m),) * 2 or p.shape != (m.shape[1],) * 2:
        raise HeadstartError(
            f"overlaps of shapes M {list(m.shape)}, Q {list(q.shape)}, P {list(p.shape)}: give [p, k], [p, p], [k, k]"
        )
    whole = np.block([[q, m], [m.T, p]])
    if not np.isfinite(whole).all() or np.abs(whole - whole.T).max() > 1e-9:
        raise HeadstartError("overlaps: M, Q, P must be finite, and Q and P symmetric")
    least = np.linalg.eigvalsh(whole)[0]
    if least < -1e-7 * np.abs(whole).max():
        raise HeadstartError(
            f"overlaps: [[Q, M], [M^T, P]] has the eigenvalue {least:.3g}, so no vectors have these overlaps; check M"
        )
    return np.asarray((whole + whole.T) / 2)
