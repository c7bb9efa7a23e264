"""The ways to take a step: NumPy or kernels, with the same numbers; every sample, or sums from their moments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.kernels.compile import kernels
from headstart.theory.reduced_sgd.chain import IDS_AT_ONCE, State, advance, batch_sums
from headstart.theory.reduced_sgd.encode import setting
from headstart.theory.reduced_sgd.moments import gaussian_sums, grid_of, least_batch
from headstart.theory.reduced_sgd.process import ReducedSGD

# Takes all runs of a state from one step to another, in place.
Advance = Callable[[State, int, int], None]

# Of fewer terms sums are not taken for Gaussian; by itself `simulate` asks for `least_batch`.
LEAST_BATCH = 10_000
# More than this in all, and sums over a batch are drawn from their moments: ten minutes of one core.
MAX_DRAWS = 10**11
_NUMBERS_AT_ONCE = 2**20
_RUNS_OF_A_KERNEL = 4096
_NODES = 2**13  # of a quadrature, at most


def has_moments(process: ReducedSGD) -> bool:
    """Whether sums over its batches are near enough to Gaussian."""
    return process.single and process.batch >= least_batch(process)


@dataclass(frozen=True)
class Way:
    """Whether every sample is drawn, and whether by kernels."""

    exact: bool
    compiled: bool

    @classmethod
    def of(cls, process: ReducedSGD, exact: bool, compiled: bool | None) -> "Way":
        """The way that a user asked for, or the best there is."""
        named = setting(process) is not None
        if compiled and not named:
            raise HeadstartError(
                f"simulate(compiled=True): there are no kernels for {process.link!r} and {process.student!r}; use "
                "compiled=None"
            )
        if not exact and not process.single:
            raise HeadstartError(
                "simulate(exact=False): sums are drawn from their moments for one neuron on one direction; use fewer "
                "runs, steps or samples and exact=True"
            )
        if not exact and process.batch < min(LEAST_BATCH, least_batch(process)):
            raise HeadstartError(
                f"simulate(exact=False): sums over a batch of {process.batch} are not Gaussian; use exact=True, or a "
                f"batch of at least {min(LEAST_BATCH, least_batch(process))}"
            )
        return cls(exact, named if compiled is None else compiled)

    def rows_at_once(self, process: ReducedSGD) -> int:
        """How many runs a chunk has at most: NumPy holds a batch, or a quadrature, of each."""
        if self.compiled:
            return _RUNS_OF_A_KERNEL
        held = process.numbers * min(process.batch, 2 * IDS_AT_ONCE) if self.exact else _NODES
        return max(1, _NUMBERS_AT_ONCE // held)

    def step_draws(self, process: ReducedSGD) -> int:
        """What a step costs, in draws of a sample."""
        return process.batch + 16 if self.exact else _NODES


def way_of(process: ReducedSGD, steps: int, exact: bool | None = None, compiled: bool | None = None) -> Way:
    """The way to take so many steps of all runs: exact up to 10^11 draws, and where there is no other."""
    if exact is None:
        exact = steps * process.batch <= MAX_DRAWS or not has_moments(process)
    return Way.of(process, exact, compiled)


def advance_by(way: Way, process: ReducedSGD, seed: int, level: float, go_on: bool) -> Advance:
    """The function that advances chunks."""
    if way.compiled:
        return _kernel(way, process, seed, level, go_on)
    if way.exact:

        def batch(state: State, turns: Any, on_mse: Any) -> Any:
            return batch_sums(process, seed, state, turns, on_mse)

    else:
        grid = grid_of(process)

        def batch(state: State, turns: Any, on_mse: Any) -> Any:
            return gaussian_sums(process, grid, seed, state, on_mse)

    return lambda state, first, until: advance(process, seed, state, first, until, level, go_on, batch)


def _kernel(way: Way, process: ReducedSGD, seed: int, level: float, go_on: bool) -> Advance:
    """By kernels: for one neuron on one direction, which hold m and b = sqrt R, or for several."""
    key, code = np.uint64(seed), setting(process)
    if not process.single:
        wide: Any = kernels("theory.reduced_sgd.kernels.several").advance
        return lambda state, first, until: wide(code, key, state, first, until, level, go_on)
    name = "single" if way.exact else "moments"
    kernel: Any = kernels(f"theory.reduced_sgd.kernels.{name}").advance
    before = (code,) if way.exact else (code, grid_of(process))

    def advance_single(state: State, first: int, until: int) -> None:
        m, b = state.overlaps[:, 0, 0].copy(), np.sqrt(state.rest[:, 0, 0])
        kernel(*before, key, state._replace(overlaps=m, rest=b), first, until, level, go_on)
        state.overlaps[:, 0, 0], state.rest[:, 0, 0] = m, b * b

    return advance_single
