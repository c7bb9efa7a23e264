"""The step of Theorem 3.2 on the embedding of a weak model that was trained, in the theorem's setting and in others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.streams import Stream
from headstart.engines import choose
from headstart.measures import norm_ratio
from headstart.run import Run, Step
from headstart.theory import FEATURES, Rows, descend, embedded, initial_target, learned_features, unit_features

_TOGETHER = 4  # attempts that share their rows
# name: in words. U and a stay as they are unless they are said to be trained.
VARIANTS = {
    "theorem": "features of size 1",
    "as_learned": "U as learned",
    "fresh": "fresh rows for the target",
    "small_init": "(A3), (A4) with C = 1",
    "readout": "a trained too",
    "embedding": "U trained too",
}


@dataclass(frozen=True)
class TransferredStep:
    """A weak model, trained here, and targets on what it passes on.

    The theorem assumes three features: attempts are made, four at a time, until one has learned them.

    theorem     U rescaled to features of size 1, V uniform on +-init, rate `rate`, the weak model's own rows
    as_learned  U as it was learned
    fresh       as theorem, on rows that the weak model has not seen, as the proof has it
    small_init  as theorem, with the largest init and rate that (A3) and (A4) allow with C = 1
    readout, embedding   as theorem, with a or U trained too (footnote 2)
    """

    weak: Run
    width: int = 2048
    init: float = 0.4
    rate: float = 2.0
    steps: int = 10
    num_test: int = 1000
    attempts: int = 12

    semantics: ClassVar[int] = 1

    @property
    def samples(self) -> int:
        """n."""
        return int(self.weak.plan.course(self.weak.batch, 1).legs[0].pool.size or 0)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        rows, dim = 2 * self.samples + self.num_test, self.weak.task.signature.num_inputs
        once = rows * dim * (6e-9 + 2.4e-11 * self.samples)
        stepping = len(VARIANTS) * (self.steps + 1) * (self.samples + self.num_test) * self.width * 2e-8
        return 2 * choose(self.weak).engine.seconds(self.weak) + once + stepping

    def learned(self) -> tuple[NDArray[Any], int]:
        """The first layer of the first attempt with three features, or of the last, and which it was, from 1 on."""
        last, number = Step(self.weak.budget.steps), 0
        for first in range(0, self.attempts, _TOGETHER):
            tried = range(first, min(first + _TOGETHER, self.attempts))
            for outcome in lab.trained([replace(self.weak, attempt=attempt) for attempt in tried], keep=(last,)):
                state, number = outcome.states[last], number + 1
                assert state is not None, "a run gets to the end of its budget"
                weights = state.weights["layers.0.weight"]
                if len(learned_features(weights[:, :2])) == len(FEATURES):
                    return weights, number
        return weights, number

    def compute(self) -> dict[str, NDArray[Any]]:
        """Errors [steps + 1, (train, test)] by variant; norm_ratio, num_attempts, num_features and |delta|_F as [1]."""
        task, seed, n = self.weak.task, self.weak.seed, self.samples
        weights, attempts = self.learned()
        unit = unit_features(weights)
        x, fresh = (task.sample(seed, np.arange(first, first + n)).x for first in (0, n))
        test = task.sample(seed, np.arange(self.num_test), Stream.EVALUATION).x
        out = {name: descend(*run)[1] for name, run in self._runs(weights, unit, x, fresh, test)}
        numbers = {
            "norm_ratio": norm_ratio(weights),
            "num_attempts": attempts,
            "num_features": len(learned_features(weights[:, :2])),
            "complement": float(np.linalg.norm(unit[:, 2:].astype(np.float64))),
        }
        return out | {name: np.array([value]) for name, value in numbers.items()}

    def _runs(self, weights: Any, unit: Any, x: Any, fresh: Any, test: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The arguments of `descend` by variant."""
        small = log(self.samples) ** -1.5
        start, other = (initial_target(self.width, len(unit), init, self.weak.seed) for init in (self.init, small))
        rows, seen = embedded(unit, x, x), embedded(unit, test, x)
        learned: tuple[Rows, Rows] = embedded(weights, x), embedded(weights, test)
        yield "theorem", (start, rows, seen, self.rate, self.steps)
        yield "as_learned", (start, *learned, self.rate, self.steps)
        yield "fresh", (start, embedded(unit, fresh), seen, self.rate, self.steps)
        yield "small_init", (other, rows, seen, sqrt(self.width) * small, self.steps)
        yield "readout", (start, rows, seen, self.rate, self.steps, True)
        yield "embedding", (start, rows, seen, self.rate, self.steps, False, True)
