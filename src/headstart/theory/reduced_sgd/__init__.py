"""One-pass SGD on Gaussian inputs, exact in law in any dimension: a Markov chain on the overlaps (M, Q).

Importing this package does not import numba; kernels are compiled, or read from the cache, on first use.
Reference: Online Learning and Information Exponents.
"""

from headstart.theory.reduced_sgd.process import ReducedSGD, Switch
from headstart.theory.reduced_sgd.recovery_runs import RecoveryRuns
from headstart.theory.reduced_sgd.simulate import Recovery, simulate

__all__ = ["Recovery", "RecoveryRuns", "ReducedSGD", "Switch", "simulate"]
