"""Claims on areas under test curves, which say more than a time to a target where few seeds reach it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.lab.claims import Claim, above
from headstart.lab.estimates import check_paired
from headstart.lab.panels import Panel
from headstart.lab.results import Results
from headstart.measures import Estimate, bootstrap

# Areas this near to chance are noise.
SKILL = 0.02


def goodness(results: Results, arms: list[str]) -> NDArray[np.float64]:
    """The areas under the test curves, [arms, seeds], with the sign that makes more better."""
    check_paired(results, arms)
    sign = 1 if results.metric(arms[0]).higher_is_better else -1
    return np.array([[sign * summary.area for summary in results.summaries[arm]] for arm in arms])


def no_skill(results: Results, arm: str, areas: NDArray[np.float64]) -> bool:
    """Whether all of these arms, [arms, seeds], stay at chance in the mean; `arm` is one of them."""
    return bool(np.abs(np.abs(areas.mean(axis=1)) - results.metric(arm).chance).max() < SKILL)


@dataclass(frozen=True)
class Gain:
    """How much better the area of arm `one` is than that of arm `other`; undecided where neither learns anything."""

    one: str
    other: str

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.one, self.other

    def __call__(self, results: Results) -> Estimate:
        """The mean difference with its interval."""
        areas = one, other = goodness(results, [self.one, self.other])
        if no_skill(results, self.other, areas):
            return Estimate(float("nan"), -SKILL, SKILL)
        return bootstrap(lambda rows: float((one - other)[rows].mean()), len(one))


def better(panel: Panel, one: str, other: str, paper: str) -> Claim:
    """The claim that line `one` is better over the whole run than line `other`."""
    what = panel.metric.name.removeprefix("relative_").replace("_", " ")
    gain = "gain" if panel.metric.higher_is_better else "reduction"
    who = f"{panel.label(one)} against {panel.label(other)}".replace("$", "")
    return Claim(
        id=f"{panel.arm(one)}_better_than_{other}",
        statement=f"{panel.title}: mean {what} over the run, {who}; {gain} above 0",
        paper=paper,
        rule=above(0.0),
        estimate=Gain(panel.arm(one), panel.arm(other)),
    )


@dataclass(frozen=True)
class GapDifference:
    """The gap in area of line `small` against line `large` in panel `one` less that in panel `other`."""

    one: Panel
    other: Panel
    small: str
    large: str = "online"

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms it compares."""
        return tuple(panel.arm(line) for panel in (self.one, self.other) for line in (self.small, self.large))

    def __call__(self, results: Results) -> Estimate:
        """The mean difference with its interval."""
        a, b, c, d = goodness(results, list(self.arms))
        gaps = (a - b) - (c - d)
        return bootstrap(lambda rows: float(gaps[rows].mean()), len(gaps))
