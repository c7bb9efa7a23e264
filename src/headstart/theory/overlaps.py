"""The overlap process of one-pass SGD: the deterministic path of M = W W*^T and Q = W W^T.

Reference: Online Learning and Information Exponents.
"""

from enum import StrEnum


class Objective(StrEnum):
    """What a step descends on: the squared error, or the correlation of label and output.

    MSE is (1 / 2 n_b) sum (y - f)^2, with the residual y - f. CORRELATION is (1 / n_b) sum (1 - y f): the residual
    becomes y, so neurons do not feel each other.
    """

    MSE = "mse"
    CORRELATION = "correlation"


class Form(StrEnum):
    """Which second-order term dQ has: exact at any d and n_b, or the paper's for large d, with or without phiBC."""

    EXACT = "exact"
    PAPER = "paper"
    PAPER_WITHOUT_BATCH = "paper_without_batch"
