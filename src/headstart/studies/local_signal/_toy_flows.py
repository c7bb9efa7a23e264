"""The estimates of `toy` that need no seed: the flow's way to an error of 0.01, and closed forms."""

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

import numpy as np

import headstart.lab as lab
from headstart.studies.local_signal import number
from headstart.tasks import LocalSignal
from headstart.theory import Filters

TARGET = 0.01


def arrivals(results: lab.Results, reading: str) -> list[tuple[int, float]]:
    """k and the flow's time to an error of 0.01."""
    flows = results.knobs.flows
    return [(n, float(results.computed[f"flow_{reading}_{n}"]["arrived"])) for n in flows]


@dataclass(frozen=True)
class Worst:
    """The extreme over all flows that arrive of an event on the way, where a lemma speaks of it.

    `where` is "early" (|c| < 1 / log^3 k), "late" (b < 0, c > 1 / log^4 k), "rising" (b > 0) or "all".
    """

    event: str
    largest: bool
    where: str = "all"
    sign: float = 1.0

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The extreme; no interval."""
        found: list[float] = []
        for reading in ("natural", "decimal"):
            for n, time in arrivals(results, reading):
                part = results.computed[f"flow_{reading}_{n}"]
                c, b, values = part["signal"], part["bias"], self.sign * part[self.event]
                kept = {
                    "all": np.ones(len(c), dtype=bool),
                    "early": c < log(n) ** -3,
                    "late": (b < 0) & (c > log(n) ** -4),
                    "rising": b > 0,
                }[self.where]
                found += values[kept].tolist() if np.isfinite(time) else []
        return number(max(found) if self.largest else min(found))


def linear_accuracy(results: lab.Results) -> lab.Estimate:
    """Of the filter w* without a threshold: Phi(1 / (sigma sqrt k))."""
    k = results.knobs
    return number(1 - float(Filters.on(LocalSignal(k.patches, k.dim), 1.0).error()))


def literal_accuracy(results: lab.Results) -> lab.Estimate:
    """The best accuracy of an aligned filter over all thresholds at sigma = 1."""
    k = results.knobs
    task = LocalSignal(k.patches, k.dim, noise=sqrt(k.patches) / log(k.patches))
    return number(1 - float(Filters.on(task, 1.0, 0.0, -np.linspace(0, 0.999, 20)).error().min()))


def least_patches(results: lab.Results) -> lab.Estimate:
    """k_0: the least k at which some threshold of an aligned filter has an error of 0.01, natural logarithm."""
    ratios = np.linspace(0.85, 0.99, 5)
    low, high = 100, 3000
    while high - low > 1:
        middle = (low + high) // 2
        reached = Filters.on(LocalSignal(middle, 2), 1.0, 0.0, -ratios).error().min() <= TARGET
        low, high = (low, middle) if reached else (middle, high)
    return number(high)
