"""Runs of a reduced process at its best rate, which other runs have chosen: a part of a study."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_fraction, check_positive
from headstart.core.streams import check_seed
from headstart.theory.batch_search import Search
from headstart.theory.learnability import Outlook, learnability
from headstart.theory.reduced_sgd import ReducedSGD, simulate
from headstart.theory.reduced_sgd.paths import LEAST_BATCH

# Runs from here on choose rates, whatever number of others is measured.
FIRST_CHOOSING = 2**22
# Of `seconds`: about how many rates are tried, seconds a sample, and samples that a step on Gaussian sums costs.
_TRIES, _SAMPLE, _GAUSSIAN = 12, 7e-9, 2000


@dataclass(frozen=True)
class TunedRuns:
    """`num_runs` runs of one neuron on one direction until |m| >= level, at the rate with the least mean time.

    The rate of `process` is where the search begins. `num_choosing` other runs choose, by the mean over them of
    min(T, 4 times the least so far), at rates a factor sqrt 2 apart. Runs start on the side that can recover. Those
    that do not get there in `steps` steps, by default 30 times what theory says, are censored there. `exact` is that of
    `simulate`, for the runs that are measured; those that choose draw sums over batches of 10^4 on as Gaussians.

    Runs with one number and `seed` have one start, here, in `RecoveryRuns` and at any rate, batch and loss.
    """

    process: ReducedSGD
    num_runs: int
    level: float = 0.5
    seed: int = 0
    steps: int | None = None
    num_choosing: int = 16
    exact: bool | None = None

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.process, ReducedSGD) or not self.process.single:
            raise HeadstartError(f"TunedRuns(process={self.process!r}): give a ReducedSGD of one neuron and direction")
        check_count("TunedRuns", "num_runs", self.num_runs, maximum=FIRST_CHOOSING)
        check_count("TunedRuns", "num_choosing", self.num_choosing, minimum=2)
        check_positive("TunedRuns", "level", self.level)
        check_fraction("TunedRuns", "level", self.level)
        check_seed(self.seed)
        if self.steps is not None:
            check_count("TunedRuns", "steps", self.steps)
        outlook = learnability(self.process.target_of_one, self.process.student)
        if outlook.verdict is Outlook.NO:
            raise HeadstartError(f"TunedRuns(process=...): this cannot be learned. {outlook.words}")

    @property
    def search(self) -> Search:
        """How its rate is found."""
        outlook = learnability(self.process.target_of_one, self.process.student)
        choosing = range(FIRST_CHOOSING, FIRST_CHOOSING + self.num_choosing)
        return Search(
            replace(self.process, batch=1), outlook, self.level, self.num_runs, self.seed,
            choosing=choosing, most=self.steps,
        )  # fmt: skip

    @property
    def horizon(self) -> int:
        """Where times end, in steps."""
        return self.search.horizon(self.process.batch)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core; constants of links may make it several times that."""
        steps = replace(self.search, most=None).horizon(self.process.batch) / 8
        least = self.process.batch if self.process.batch < LEAST_BATCH else _GAUSSIAN
        measured = least if self.exact is False else self.process.batch
        return 1.0 + _SAMPLE * steps * (self.num_runs * measured + _TRIES * self.num_choosing * least)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """first and samples [n], start m0 [n]; rate, limit, horizon, exact; tried rates and their mean times [r].

        `first` is -1 where a run is censored. `limit` is the least rate tried above the best at which fewer than half
        of those that choose recover, infinite where none was found; their times are infinite there too.
        """
        search = self.search
        best = search.best_rate(self.process)
        found = simulate(
            best.process, self.num_runs, self.horizon, self.seed,
            stop_at=self.level, right_side_only=True, exact=self.exact,
        )  # fmt: skip
        return {
            "first": found.first,
            "samples": found.samples,
            "start": found.start[:, 0, 0],
            "rate": np.array(best.process.rate),
            "limit": np.array(best.limit),
            "horizon": np.array(self.horizon),
            "exact": np.array(found.exact),
            "tried_rates": np.array(list(best.tried)),
            "tried_times": np.array(list(best.tried.values())),
        }
