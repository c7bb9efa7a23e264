"""One-pass SGD of one neuron in all its dimensions, for inputs of any distribution: what the reduced chain cannot do.

y = h*(<w*, x> / s) with w* uniform on the sphere and s the deviation of <w*, x>; w on the unit sphere, begun cold on
the side that can recover. Reference: Online Learning and Information Exponents, Section 2.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction
from headstart.theory.inputs import Gaussian, Inputs
from headstart.theory.learnability import learnability
from headstart.theory.overlaps import Objective
from headstart.theory.reduced_sgd import ReducedSGD

_CHOOSING = 10**6  # the first number of the runs that choose a rate
_PROBE_ROWS = 4096
_SECONDS_A_NUMBER = 8e-9
_SECONDS_A_STEP = 6e-5


@dataclass(frozen=True)
class DirectRuns:
    """Runs of a process on other inputs, a computed part of a study: the step at which each has overlap `level`.

    The rate is that of the process times the best of `factors`, which `num_choosing` other runs choose by the
    restricted mean time. A step that does not come within `steps` is -1. A run has the same w*, w and samples whatever
    the rate and the loss.
    """

    process: ReducedSGD
    inputs: Inputs = Gaussian()
    factors: tuple[float, ...] = (1.0,)
    num_runs: int = 32
    num_choosing: int = 8
    steps: int = 1000
    level: float = 0.5
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.process, ReducedSGD) or not self.process.single or self.process.noise:
            raise HeadstartError(
                f"DirectRuns(process={self.process!r}): give one neuron on one direction without noise"
            )
        for name in ("num_runs", "num_choosing", "steps"):
            check_count("DirectRuns", name, getattr(self, name))
        check_fraction("DirectRuns", "level", self.level)
        factors = tuple(float(factor) for factor in self.factors)
        if not factors or not all(0 < factor < np.inf for factor in factors):
            raise HeadstartError(f"DirectRuns(factors={self.factors!r}): give at least one factor above 0")
        object.__setattr__(self, "factors", factors)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core, if no run stops early."""
        runs = self.num_runs + (len(self.factors) > 1) * len(self.factors) * self.num_choosing
        return runs * self.steps * (_SECONDS_A_STEP + _SECONDS_A_NUMBER * self.process.batch * self.process.dim)

    def compute(self) -> dict[str, NDArray[Any]]:
        """first [n]; rate; the restricted mean time of each factor on the runs that choose, [factors]; horizon."""
        means = np.zeros(len(self.factors))
        if len(self.factors) > 1:
            for place, factor in enumerate(self.factors):
                chosen = range(_CHOOSING, _CHOOSING + self.num_choosing)
                found = np.array([self.first_step(factor, run) for run in chosen])
                means[place] = np.where(found >= 0, found, self.steps).mean()
        factor = self.factors[int(means.argmin())]
        first = np.array([self.first_step(factor, run) for run in range(self.num_runs)])
        rate, horizon = np.array(factor * self.process.rate), np.array(self.steps)
        return {"first": first, "rate": rate, "means": means, "horizon": horizon}

    def first_step(self, factor: float, run: int) -> int:
        """The step at which one run has the overlap; -1 if it does not come."""
        process, rng = self.process, np.random.Generator(np.random.Philox(key=(self.seed, run)))
        teacher, w = (v / np.linalg.norm(v) for v in rng.standard_normal((2, process.dim)))
        scale = float((self.inputs.draw(rng, _PROBE_ROWS, process.dim) @ teacher.astype(np.float32)).std())
        found = learnability(process.target_of_one, process.student)
        if (found.shared or 0) % 2 and found.product * (w @ teacher) < 0:
            w = -w
        step_size = factor * process.rate / process.batch
        for step in range(self.steps + 1):
            if abs(w @ teacher) >= self.level:
                return step
            x = self.inputs.draw(rng, process.batch, process.dim)
            field, truth = ((x @ v.astype(np.float32)).astype(np.float64) for v in (w, teacher / scale))
            y = process.target_of_one(truth)
            residual = y - process.student(field) if process.loss is Objective.MSE else y
            w = w + step_size * ((residual * process.student.slope(field)).astype(np.float32) @ x)
            w = w / np.linalg.norm(w)
        return -1
