"""Processes as plain arrays and numbers, which kernels take; None where a link is a function of the user's own."""

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import hermite_e
from numpy.typing import NDArray

from headstart.tasks import Committee, Erf, Hermite, HermiteSum, ProductOf, Relu, Series, Sign, Tanh
from headstart.theory.overlaps import Objective
from headstart.theory.reduced_sgd.kernels.codes import COMMITTEE, ERF, ONE, PRODUCT, RELU, SERIES, SIGN, TANH, TERMS
from headstart.theory.reduced_sgd.process import ReducedSGD

_KINDS: dict[type, int] = {Erf: ERF, Tanh: TANH, Relu: RELU, Sign: SIGN}


class LinkCode(NamedTuple):
    """A link: its kind, Hermite coefficients of a series, and those of its slope."""

    kind: int
    coefficients: NDArray[np.float64]
    slope: NDArray[np.float64]


class TargetCode(NamedTuple):
    """A target: what is made of the fields, with which link of one number, and the terms of a sum."""

    kind: int
    link: LinkCode
    factors: NDArray[np.float64]
    degrees: NDArray[np.int64]


class Setting(NamedTuple):
    """A process. `below` is 0 without a switch, `mse` says on which loss it begins."""

    target: TargetCode
    student: LinkCode
    weights: NDArray[np.float64]
    dim: int
    batch: int
    rate: float
    mse: bool
    noise: float
    spherical: bool
    below: float
    after: float
    decay: float


def link_code(link: object) -> LinkCode | None:
    """The code of a named link of one number."""
    if isinstance(link, Hermite):
        coefficients = np.eye(link.degree + 1)[link.degree]
    elif isinstance(link, Series):
        coefficients = np.array(link.coefficients)
    elif type(link) in _KINDS:
        return LinkCode(_KINDS[type(link)], np.zeros(1), np.zeros(1))
    else:
        return None
    return LinkCode(SERIES, coefficients, np.asarray(hermite_e.hermeder(coefficients), dtype=np.float64))


def _of_one_number(link: object) -> object:
    """A link that takes one direction as the link of one number that it is."""
    if getattr(link, "directions", 0) != 1:
        return link
    if isinstance(link, HermiteSum):
        factors = {degree: factor for factor, (degree,) in link.terms}
        return Series(tuple(factors.get(n, 0.0) for n in range(max(factors) + 1)))
    return link.outer if isinstance(link, ProductOf) else link.link if isinstance(link, Committee) else link


def target_code(link: object) -> TargetCode | None:
    """The code of a target: a named link of one number, or what tasks make of several."""
    link = _of_one_number(link)
    kind, inner = ONE, link_code(link)
    terms: tuple[tuple[float, tuple[int, ...]], ...] = ((0.0, (0,)),)
    if isinstance(link, HermiteSum):
        kind, inner, terms = TERMS, link_code(Hermite(1)), link.terms
    elif isinstance(link, ProductOf):
        kind, inner = PRODUCT, link_code(link.outer)
    elif isinstance(link, Committee):
        kind, inner = COMMITTEE, link_code(link.link)
    factors, degrees = np.array([factor for factor, _ in terms]), np.array([each for _, each in terms], dtype=np.int64)
    return None if inner is None else TargetCode(kind, inner, factors, degrees)


def setting(process: ReducedSGD) -> Setting | None:
    """The code of a process."""
    target, student = target_code(process.link), link_code(process.student)
    if target is None or student is None:
        return None
    switch: Any = process.switch
    return Setting(
        target,
        student,
        process.weights,
        process.dim,
        process.batch,
        float(process.rate),
        process.loss is Objective.MSE,
        float(np.sqrt(process.noise)),
        process.spherical,
        *((float(switch.below), float(switch.rate), float(switch.decay)) if switch else (0.0, 1.0, 1.0)),
    )
