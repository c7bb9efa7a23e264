"""The population error of a student from its overlaps: a power series in each of them.

    E[(h*(lam*) - f)^2] = E[h*^2] - 2 sum_j b_j A(M_j) + sum_jl b_j b_l B(Q_jl),   b_j = a_j / p

with A(m) = sum_k u_k(s) u_k(h*) m^k and B(q) = sum_k u_k(s)^2 q^k, u_k the unit Hermite coefficients of activation and
link, for rows on the unit sphere. A committee (1/k) sum_r link(lam*_r) has the mean of A over its directions.

Reference: Online Learning and Information Exponents, Section 2; O'Donnell, Analysis of Boolean Functions, 11.2.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.tasks import Committee
from headstart.theory.hermite import Floats, unit_coefficients
from headstart.theory.overlaps import Process
from headstart.theory.reduced_sgd.process import ReducedSGD

_DEGREE = 200
_NOTHING = 1e-14


def population_error(process: Process | ReducedSGD, overlaps: NDArray[Any], gram: NDArray[Any]) -> Floats:
    """E[(h*(W* z) - f(z))^2] at M [..., p, k] and Q [..., p, p], without label noise: [...].

    The link is one of one number, or a committee of it.
    """
    scaled = np.array(process.readout or (1.0,) * process.num_neurons) / process.num_neurons
    mean, square, across, own = _series(*_links(process))
    target = mean**2 + (square - mean**2) / process.num_directions
    toward = np.polynomial.polynomial.polyval(np.asarray(overlaps), across).mean(axis=-1) @ scaled
    between = np.einsum("...jl,j,l->...", np.polynomial.polynomial.polyval(np.asarray(gram), own), scaled, scaled)
    return np.asarray(target - 2 * toward + between)


def target_variance(process: Process | ReducedSGD) -> float:
    """Var h*(W* z): the error of the best constant."""
    mean, square, _, _ = _series(*_links(process))
    return (square - mean**2) / process.num_directions


def _links(process: Process | ReducedSGD) -> tuple[Any, Any]:
    """The link of one number that the target is made of, and the activation."""
    if isinstance(process.link, Committee):
        return process.link.link, process.student
    if process.num_directions > 1:
        raise HeadstartError(
            f"population_error(link={process.link!r}): give a link of one number, or a Committee of one"
        )
    return process.link, process.student


@lru_cache(maxsize=32)
def _series(link: Any, student: Any) -> tuple[float, float, Floats, Floats]:
    """E[h*], E[h*^2], and the terms of A and B."""
    h, s = unit_coefficients(link, _DEGREE), unit_coefficients(student, _DEGREE)
    square = unit_coefficients(lambda z: np.square(link(z)), 0)[0]
    return float(h[0]), float(square), _trim(s * h), _trim(s * s)


def _trim(terms: Floats) -> Floats:
    """Without the terms at the end that are rounding."""
    seen = np.flatnonzero(np.abs(terms) > _NOTHING * max(float(np.abs(terms).max()), 1e-300))
    return terms[: seen[-1] + 1] if len(seen) else terms[:1]
