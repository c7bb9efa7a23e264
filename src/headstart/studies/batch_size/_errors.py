"""Population errors of the runs of a computed part, from their overlaps: estimates for claims, and curves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.studies.batch_size import Floats
from headstart.theory import population_error, target_variance

FLOOR = 1e-12  # an error is a difference of numbers of order 1: what is below is rounding

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def error_curves(results: lab.Results, name: str) -> tuple[Floats, Floats]:
    """Recorded steps [t], and E[(h* - f)^2] / Var(h*) of each run at these, [n, t]; runs have to go on to the end."""
    arrays, process = results.computed[name], results.parts[name].process
    found = population_error(process, arrays["overlaps"], arrays["gram"]) / target_variance(process)
    return np.asarray(arrays["step"], dtype=np.float64), np.maximum(found, FLOOR)


def last_errors(results: lab.Results, name: str) -> Floats:
    """The error at the last recorded step, [n]."""
    return error_curves(results, name)[1][:, -1]


@dataclass(frozen=True)
class ErrorRatio:
    """The mean error at the end of part `one` over that of part `other`; runs are paired, as they share starts."""

    one: str
    other: str

    arms: ClassVar[tuple[str, ...]] = ()

    def _bootstrap(self, results: lab.Results, middle: Callable[[Floats], float]) -> lab.Estimate:
        a, b = (last_errors(results, name) for name in (self.one, self.other))
        return lab.bootstrap(lambda rows: middle(a[rows]) / middle(b[rows]), len(a))

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        return self._bootstrap(results, lambda errors: float(errors.mean()))

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The median run."""
        return {"median run": self._bootstrap(results, lambda errors: float(np.median(errors)))}


@dataclass(frozen=True)
class ErrorMean:
    """The mean error at the end of a part."""

    name: str

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean with its interval."""
        errors = last_errors(results, self.name)
        return lab.bootstrap(lambda rows: float(errors[rows].mean()), len(errors))


@dataclass(frozen=True)
class ErrorBelow:
    """The share of the runs of a part that end with an error below `bound`, with the exact interval."""

    name: str
    bound: float

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share."""
        errors = last_errors(results, self.name)
        return lab.share(int((errors < self.bound).sum()), len(errors))


def draw_errors(
    ax: "Axes", results: lab.Results, name: str, colour: str, label: str, linestyle: str = "-", share: float = 0.8
) -> None:
    """The median error over runs against steps on a logarithmic axis, and a band that holds a `share` of the runs."""
    steps, curves = error_curves(results, name)
    low, middle, high = np.quantile(curves, ((1 - share) / 2, 0.5, (1 + share) / 2), axis=0)
    ax.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    ax.plot(steps, middle, linestyle, color=colour, label=label)
    ax.set(xlabel="steps", ylabel="test loss / Var(y)", yscale="log")
