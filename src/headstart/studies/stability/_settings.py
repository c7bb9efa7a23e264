"""The settings of networks that the studies of stability share: Table 2.1 of the thesis, small ones, and made images.

All studies take their pairs from `parts`, so that a store that has them for one has them for all.
"""

from dataclasses import dataclass
from typing import Any

import headstart.lab as lab
from headstart.core.errors import HeadstartError, check_count
from headstart.core.units import Batch, Budget
from headstart.engines.pairs import NetworkPair
from headstart.losses import CrossEntropy
from headstart.models import ConvNet, ResNet
from headstart.optimizers import SGD, Constant, StepDecay
from headstart.plans import Fixed
from headstart.run import Run
from headstart.studies.stability import PairKnobs, groups
from headstart.tasks import Images, MadeImages

MADE = "made"
# Table 2.1: SVHN, CIFAR-10 without momentum, CIFAR-10 with momentum.
NAMES = ("1a", "2a", "2b")


@dataclass(frozen=True)
class Setting:
    """A row of Table 2.1: images, network and SGD; the rate falls by 10 at each of `decay`, fractions of a run."""

    data: str
    model: ConvNet | ResNet
    lr: float
    momentum: float
    batch: int
    decay: tuple[float, ...] = ()
    shrink: int = 1

    @property
    def words(self) -> str:
        """What it is called on axes."""
        names = {"mnist": "MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN"}
        return f"{names.get(self.data, self.data)}, {f'momentum {self.momentum}' if self.momentum else 'no momentum'}"


_HE = (0.32, 0.48)
_SMALL, _MADE = ConvNet(8, depth=4), ConvNet(4, depth=2)
SETTINGS = {
    "paper": {
        "1a": Setting("svhn", ResNet(), 0.01, 0.0, 32),
        "2a": Setting("cifar10", ResNet(), 0.1, 0.0, 128, _HE),
        "2b": Setting("cifar10", ResNet(), 0.1, 0.9, 128, _HE),
    },
    "small": {
        "1a": Setting("mnist", _SMALL, 0.1, 0.0, 32, shrink=2),
        "2a": Setting("cifar10", _SMALL, 0.3, 0.0, 32, (0.6, 0.8), shrink=2),
        "2b": Setting("cifar10", _SMALL, 0.03, 0.9, 32, (0.6, 0.8), shrink=2),
    },
    MADE: {
        "1a": Setting(MADE, _MADE, 0.1, 0.0, 16),
        "2a": Setting(MADE, _MADE, 0.3, 0.0, 16, (0.6, 0.8)),
        "2b": Setting(MADE, _MADE, 0.03, 0.9, 16, (0.6, 0.8)),
    },
}


@dataclass(frozen=True)
class NetworkKnobs(PairKnobs):
    """Which `scale` of the settings, how many test rows and steps, and points between two networks.

    Pairs are looked at after `iterations` steps, and before. At the smallest and largest size accuracies are found at
    `points` places between the two.
    """

    num_seeds: int = 3
    sizes: tuple[int, ...] = (15_000, 20_000, 25_000, 30_000, 35_000, 40_000, 45_000, 50_000)
    num_pairs: int = 40
    group: int = 1
    scale: str = "paper"
    test: int = 10_000
    iterations: int = 100_000
    points: int = 76

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("knobs", "iterations", self.iterations, minimum=20)
        check_count("knobs", "group", self.group, maximum=1)  # a part of networks is one pair
        if self.scale not in SETTINGS:
            raise HeadstartError(f"scale={self.scale!r}: choose one of {', '.join(SETTINGS)}")

    @property
    def settings(self) -> dict[str, Setting]:
        """The rows of Table 2.1 by name."""
        return SETTINGS[self.scale]

    @property
    def looks(self) -> tuple[int, ...]:
        """When pairs are looked at: some way on, after half, after so many epochs at every size, and at the end."""
        by_epochs = (self.iterations * size // self.sizes[-1] for size in self.sizes)
        some = (self.iterations * tenths // 10 for tenths in (1, 5, 8))
        return tuple(sorted({*by_epochs, *some, self.iterations}))


# Trials and pairs that no pilot has seen. Sizes that a network of this width learns by heart in so many steps.
LAPTOP: dict[str, Any] = {
    "num_seeds": 3,
    "first_seed": 40,
    "sizes": (250, 400, 640, 1000),
    "num_pairs": 12,
    "scale": "small",
    "test": 1000,
    "iterations": 1000,
    "points": 31,
}
SMOKE: dict[str, Any] = {
    "num_seeds": 2,
    "sizes": (40, 60, 90),
    "num_pairs": 2,
    "scale": MADE,
    "test": 60,
    "iterations": 24,
    "points": 7,
    "resamples": 20,
}


def pair(
    k: NetworkKnobs, name: str, size: int, trial: int, number: int, longer: float = 1.0, **how: Any
) -> NetworkPair:
    """A pair of a setting, looked at as `k` says; of a run that is `longer`, at its last step alone."""
    s, steps = k.settings[name], round(k.iterations * longer)
    task: Any = MadeImages(size, k.test) if s.data == MADE else Images(s.data, size, k.test, False, shrink=s.shrink)
    schedule = StepDecay(tuple(at / longer for at in s.decay)) if s.decay else Constant()
    run = Run(
        task,
        s.model,
        Fixed(size, replacement=False),
        CrossEntropy(),
        SGD(s.lr, s.momentum, schedule=schedule),
        Batch(s.batch),
        budget=Budget(steps, steps),
        seed=trial,
    )
    return NetworkPair(run, number, k.looks if longer == 1.0 else (steps,), **how)


def parts(k: NetworkKnobs, names: tuple[str, ...] = NAMES, sizes: tuple[int, ...] = ()) -> dict[str, lab.Computed]:
    """The pairs of these settings at every size, or at some, and every trial, by the names of `groups`."""
    found: dict[str, Any] = {}
    for name in names:
        for group, size, trial, number, _ in groups(k, name):
            between = k.points if size in (k.sizes[0], k.sizes[-1]) else 0
            if not sizes or size in sizes:
                found[group] = pair(k, name, size, trial, number, interpolate=between)
    return found
