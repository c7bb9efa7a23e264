"""SGD of a filter with a soft threshold on fresh samples, exact in law: a Markov chain of (w . w*, |w_perp|, b).

With w = c w* + v u a patch of noise is x_i = sigma (xi_i w / |w| + e_i), xi_i ~ N(0, 1), and e_i ~ N(0, I) across w is
independent of all else. The network sees xi_i alone, so that a step on n samples,

    w <- w + eta / n sum_s p_s (ind(c) w* + sum_i ind_si x_si),    p_s = sigmoid(-f_s)

needs one normal per patch, and the e_si enter by one normal vector across w, of variance sigma^2 sum_s p_s^2 sum_i
ind_si^2. In the plane of w* and u that is one normal, and beyond it a chi-square of d - 2. ind is 1 where |s xi| > |b|,
s = sigma |w|, else 2 for b > 0 and 0 for b < 0: then only the patches that pass the threshold are drawn, once they are
few. By symmetry y = 1. Reference: Local Signal Adaptivity, Algorithm 3.1 and Appendix B.1.1.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.kernels.compile import kernels
from headstart.core.streams import Stream, check_seed, normals
from headstart.tasks import LocalSignal
from headstart.theory.local_signal.events import events
from headstart.theory.local_signal.threshold import Filters, Floats

# Seconds on one core: of a normal, of a patch that is drawn alone, of a step besides.
_NORMAL, _SURVIVOR, _STEP = 2.5e-9, 5e-8, 5e-6
_BLOCK = 8 * 4 * 64


@dataclass(frozen=True)
class FilterSGD:
    """SGD with rate `rate` for w and `bias_rate` for b on batches of fresh samples, from w ~ N(0, std^2) and b = 0.

    A run takes `steps` steps, or fewer if its error comes to `stop_at`, which is looked at where it is recorded: at
    every step of `record`, or at steps that grow by `ratio`. One run per seed; a computed part of a study.
    """

    task: LocalSignal
    rate: float = 0.1
    bias_rate: float = 1e-4
    batch: int = 500
    std: float = 1e-6
    steps: int = 10_000
    ratio: float = 1.1
    stop_at: float | None = None
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.task, LocalSignal) or self.task.dim < 2:
            raise HeadstartError(f"FilterSGD(task={self.task!r}): give a LocalSignal of at least 2 dimensions")
        for name in ("rate", "bias_rate", "std"):
            check_positive("FilterSGD", name, getattr(self, name))
        for name in ("batch", "steps"):
            check_count("FilterSGD", name, getattr(self, name), maximum=2**31)
        if self.ratio <= 1:
            raise HeadstartError(f"FilterSGD(ratio={self.ratio!r}): recorded steps grow by a factor above 1")
        check_seed(self.seed)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core, if a third of the steps has few patches that pass."""
        patches = self.batch * self.task.patches
        return 0.1 + self.steps * (_STEP + patches * (_NORMAL * 2 / 3 + _SURVIVOR * 0.01 / 3))

    def recorded(self) -> list[int]:
        """Step 0, and steps up to the last that grow by the ratio."""
        found, step = [0], 1
        while step < self.steps:
            found.append(step)
            step = max(step + 1, int(step * self.ratio))
        return [*found, self.steps]

    def start(self) -> Floats:
        """(c, v, b) of the seed: w is that of ThresholdFilter(std) in a frame whose first axis is w*."""
        w = self.std * normals(self.seed, Stream.INIT, [0], self.task.dim)[0].astype(np.float64)
        return np.array([w[0], sqrt(float(w[1:] @ w[1:])), 0.0])

    def path(self) -> tuple[NDArray[np.int64], Floats]:
        """Recorded steps [t] and (c, v, b) there [t, 3]."""
        advance: Any = kernels("theory.local_signal.kernels").advance
        task, state = self.task, self.start()
        ids, drawn = np.zeros(8, dtype=np.int64), np.empty(_BLOCK, dtype=np.float32)
        sums, rates = np.empty((self.batch, 3)), np.array([self.rate, self.bias_rate])
        steps, states, now = [], [], 0
        for step in self.recorded():
            advance(np.uint64(self.seed), np.int64(0), now, step, task.patches, task.dim, task.sigma, self.batch, rates,
                    state, ids, drawn, sums)  # fmt: skip
            now = step
            steps.append(step)
            states.append(state.copy())
            if not np.isfinite(state).all():
                raise HeadstartError(f"FilterSGD(rate={self.rate}, ...): it diverged by step {step}; use lower rates")
            if self.stop_at is not None and step and _error(task, state) <= self.stop_at:
                break
        return np.array(steps), np.array(states)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """step [t], signal c, rest v and bias b [t], and all of `events` there [t]."""
        step, states = self.path()
        return {"step": step, **events(Filters.on(self.task, *states.T))}


def _error(task: LocalSignal, state: Floats) -> float:
    return float(Filters.on(task, *state).error())
