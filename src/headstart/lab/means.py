"""Estimates of one arm by itself, and of several in a row: shares, means and correlations."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.trace import Trace
from headstart.lab.estimates import check_paired
from headstart.lab.results import Results
from headstart.measures import Estimate, bootstrap, share

# Called with results and the name of an arm: a number per seed.
PerSeed = Callable[[Results, str], NDArray[np.float64]]


@dataclass(frozen=True)
class Share:
    """The share of an arm's runs of which `condition(trace)` is true, with Clopper and Pearson's exact interval."""

    arm: str
    condition: Callable[[Trace], bool]

    def __post_init__(self) -> None:
        if not callable(self.condition):
            raise HeadstartError(f"Share(condition={self.condition!r}): give a function of a trace")

    @property
    def arms(self) -> tuple[str]:
        """The arm it looks at."""
        return (self.arm,)

    def __call__(self, results: Results) -> Estimate:
        """The share with its interval."""
        happened = [bool(self.condition(trace)) for trace in results.traces[self.arm]]
        return share(sum(happened), len(happened))


@dataclass(frozen=True)
class FinalMean:
    """The mean over seeds of the last leading test metric of an arm; diverged runs are at chance."""

    arm: str

    @property
    def arms(self) -> tuple[str]:
        """The arm it looks at."""
        return (self.arm,)

    def __call__(self, results: Results) -> Estimate:
        """The mean with its interval."""
        finals = results.finals(self.arm)
        return bootstrap(lambda rows: float(finals[rows].mean()), len(finals))


@dataclass(frozen=True)
class FinalDifference:
    """The mean over seeds of the last leading test metric of arm `one` less that of arm `other`; see `FinalMean`."""

    one: str
    other: str

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.one, self.other

    def __call__(self, results: Results) -> Estimate:
        """The difference with its interval, paired by seed."""
        check_paired(results, self.arms)
        differences = results.finals(self.one) - results.finals(self.other)
        return bootstrap(lambda rows: float(differences[rows].mean()), len(differences))


@dataclass(frozen=True)
class ArmCorrelation:
    """Pearson's correlation, over several arms, of the seed-means of two numbers, such as accuracy and 1 / gap.

    `one` and `other` are called with the results and the name of an arm, and return a number per seed. Seeds are
    resampled, the same for all arms; the arms are the points and stay. It is not a number where one of the two is the
    same for every arm.
    """

    names: tuple[str, ...]
    one: PerSeed
    other: PerSeed

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", (self.names,) if isinstance(self.names, str) else tuple(self.names))
        if len(self.names) < 3:
            raise HeadstartError(f"ArmCorrelation(names={self.names!r}): give at least 3 arms, which are its points")

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are its points."""
        return self.names

    def _values(self, results: Results) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Both numbers, [arms, seeds]."""
        check_paired(results, self.arms)
        one, other = (np.array([each(results, arm) for arm in self.names]) for each in (self.one, self.other))
        return one, other

    def __call__(self, results: Results) -> Estimate:
        """The correlation of means with its interval."""
        x, y = self._values(results)
        return _correlated(lambda rows: (x[:, rows].mean(axis=1), y[:, rows].mean(axis=1)), x.shape[1])

    def beside(self, results: Results) -> dict[str, Estimate]:
        """The correlation over all runs, each a point of its own."""
        x, y = self._values(results)
        return {"run by run": _correlated(lambda rows: (x[:, rows].ravel(), y[:, rows].ravel()), x.shape[1])}


def _correlated(
    pair: Callable[[NDArray[np.int64]], tuple[NDArray[np.float64], NDArray[np.float64]]], num: int
) -> Estimate:
    """Pearson's correlation of the pair with its interval, not a number where all seeds have none.

    A resample that has none, such as one without a run that arrives, shows no relation: it counts as 0.
    """
    whole = _pearson(*pair(np.arange(num)))
    if np.isnan(whole):
        return Estimate(whole, whole, whole)
    return bootstrap(lambda rows: float(np.nan_to_num(_pearson(*pair(rows)))), num)


def _pearson(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = np.sqrt((x * x).sum() * (y * y).sum())
    return float((x * y).sum() / scale) if scale > 1e-12 else float("nan")
