"""Whether a neuron can find the direction of a target from a cold start, said in words before anything runs.

Reference: Online Learning and Information Exponents. Near m = 0 the overlap moves by g l l! c_l c*_l m^(l-1), with c_l
of the student, c*_l of the target and l the information exponent.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from headstart.core.errors import check_count, check_positive
from headstart.theory.hermite import Function
from headstart.theory.information_exponent import TOLERANCE, information_exponent, shares


class Outlook(StrEnum):
    """What a cold start comes to."""

    LEARNS = "learns"
    HALF = "half of the runs"
    SLOWER = "slower than the exponent says"
    NO = "does not learn"


@dataclass(frozen=True)
class Learnability:
    """The outlook, why in words, and the numbers behind it.

    `exponent` is that of the target. `shared` is the least degree that target and student both have, the one that moves
    the overlap; None where they share none. `product` is c_j c*_j j! there, over both deviations, in [-1, 1].
    """

    verdict: Outlook
    words: str
    exponent: int
    shared: int | None
    product: float


def learnability(link: Function, student: Function, max_degree: int = 20, tolerance: float = TOLERANCE) -> Learnability:
    """Can a neuron with activation `student` and readout +1 find the direction of y = link(<w*, x>)?

    It needs c_l != 0 in the student, c_l c*_l > 0 for even l, and c_l c*_l m0 > 0 for odd l > 1.
    """
    check_count("learnability", "max_degree", max_degree)
    check_positive("learnability", "tolerance", tolerance)
    exponent = information_exponent(link, max_degree, tolerance)
    target, neuron = shares(link, max_degree), shares(student, max_degree)
    both = np.flatnonzero((np.abs(target) > tolerance) & (np.abs(neuron) > tolerance)) + 1
    if not len(both):
        return Learnability(Outlook.NO, _nothing_shared(exponent, neuron, tolerance), exponent, None, 0.0)
    shared = int(both[0])
    product = float(target[shared - 1] * neuron[shared - 1])
    outlook, words = _by_sign(shared, product)
    if shared > exponent:
        why = f"{_missing(exponent, neuron, tolerance)} The least degree that both have is {shared}"
        if outlook is Outlook.NO:
            words = f"{why}. {words}"
        else:
            outlook = Outlook.SLOWER
            words = f"{why}, so expect the times of exponent {shared} instead of {exponent}. {words}"
    return Learnability(outlook, words, exponent, shared, product)


def _by_sign(degree: int, product: float) -> tuple[Outlook, str]:
    """What the sign of c_j c*_j means for an even and for an odd degree."""
    if degree == 1:
        return Outlook.LEARNS, "Both have He_1: every start is drawn to the direction."
    if degree % 2 == 0 and product > 0:
        return Outlook.LEARNS, f"Both have He_{degree} with one sign: every start grows on its own side."
    if degree % 2 == 0:
        return Outlook.NO, (
            f"The coefficients of He_{degree} have opposite signs, so the overlap shrinks to 0: turn the sign of the "
            "readout or of the target."
        )
    return Outlook.HALF, (
        f"He_{degree} is odd: a start with overlap m0 {'>' if product > 0 else '<'} 0 grows, one on the other side is "
        "drawn to 0 and waits for noise. Half of the cold starts are on the wrong side; count runs by the sign of m0."
    )


def _missing(exponent: int, neuron: np.ndarray, tolerance: float) -> str:
    """Why the student does not see the exponent's degree."""
    has = np.flatnonzero(np.abs(neuron) > tolerance) + 1
    if exponent % 2 == 0 and (has % 2 == 1).all():
        return f"The student is odd and has no even coefficients, so it does not see He_{exponent}."
    if exponent % 2 == 1 and (has % 2 == 0).all():
        return f"The student is even and has no odd coefficients, so it does not see He_{exponent}."
    if exponent % 2 == 1 and exponent > 1 and (has[has > 1] % 2 == 0).all():
        return f"The student is linear plus even, as ReLU is: it has no He_{exponent} (c_{exponent} = 0)."
    return f"The student has no He_{exponent} (c_{exponent} = 0)."


def _nothing_shared(exponent: int, neuron: np.ndarray, tolerance: float) -> str:
    return (
        f"{_missing(exponent, neuron, tolerance)} They share no degree at all: choose a student with He_{exponent}, "
        f"such as Hermite({exponent}) or a Series."
    )
