"""The settings of local_signal/images: its tasks, the network's arms, the kernel's arms and parts, and what both say.

A setting is a row of the thesis' tables: a task on backgrounds of some kind. Each is trained at several levels, shares
of the strongest background: a black one first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import Stream
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines.tangent import TangentTraining
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.losses import CrossEntropy
from headstart.measures import ActiveUnits
from headstart.methods import Linearised
from headstart.models import WideResNet
from headstart.optimizers import SGD, AdamW, StepDecay
from headstart.plans import Fixed
from headstart.run import Run
from headstart.tasks import Distractors, GaussianNoise, Images, MadeImages, Pasted, Photographs, Placement

Floats = NDArray[np.float64]

MADE = "made"
NETWORK, KERNEL = "network", "kernel"
SIDES = (NETWORK, KERNEL)
VEHICLES, ANIMALS = (0, 1, 8, 9), (2, 3, 4, 5, 6, 7)
# The four of Fig. 3.4, with their words and Table 3.1: the share of accuracy kept by the network and by the kernel.
SETTINGS = {"ten": "CIFAR-10, photographs", "vehicles": "CIFAR-vehicles, animals",
            "photographs": "CIFAR-2, photographs", "noise": "CIFAR-2, Gaussian noise"}  # fmt: skip
KEPT = {"ten": (98.97, 69.75), "vehicles": (97.25, 76.37), "photographs": (99.79, 92.81), "noise": (96.83, 85.54)}
CLASSES = {"ten": 10, "vehicles": 4, "photographs": 2, "noise": 2}
# The rows of CIFAR-10 that are vehicles and animals, for training and testing.
_ROWS = {VEHICLES: (20_000, 4_000), ANIMALS: (30_000, 6_000)}
# The strongest background, by setting: the standard deviation of noise, else the photograph as it is.
_STRONGEST = {"noise": 2.0}


@dataclass(frozen=True)
class ImageKnobs(lab.Knobs):
    """Images, network and training; what is swept; and the function-space kernel for two classes.

    `levels` are shares of the strongest background. Settings other than CIFAR-2 on noise have the first and the last
    alone, unless `all_levels`. `placements` and `sides` are rows of Table B.1, on CIFAR-2 with noise: the first of each
    is that of all settings. With one rate in `rates` nothing is swept. The thesis' loss is a mean over classes: with
    `mean_over_classes` rates are divided by their number, and the penalty multiplied. `function_space` trains kernels
    of two classes by `TangentTraining`.
    """

    num_seeds: int = 3
    data: str = "cifar10"
    photographs: str = "backgrounds"
    train: int = 50_000
    test: int = 10_000
    widen: int = 10
    levels: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    all_levels: bool = True
    placements: tuple[str, ...] = ("random", "corner", "fixed")
    sides: tuple[int, ...] = (32, 64)
    epochs: int = 200
    batch: int = 128
    decay: tuple[float, ...] = (0.4, 0.5, 0.6)
    rates: tuple[float, ...] = (0.1,)
    mean_over_classes: bool = True
    kernel_epochs: int = 200
    kernel_batch: int = 50
    kernel_rates: tuple[float, ...] = (1e-3,)
    function_space: bool = False
    function_rates: tuple[float, ...] = (0.3,)
    function_steps: int = 1000
    looks: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("train", "test", "widen", "epochs", "kernel_epochs", "looks"):
            check_count("knobs", name, getattr(self, name))
        if list(self.levels) != sorted(set(self.levels)) or self.levels[0] != 0 or self.levels[-1] != 1:
            raise HeadstartError(f"levels={self.levels!r}: give shares in order, from 0 to 1")
        tries = {len(self.rates), len(self.kernel_rates), len(self.function_rates)}
        if len(tries) > 1 or tries == {0}:
            raise HeadstartError("rates, kernel_rates, function_rates: both sides have as many tries; give as many")

    @property
    def rows(self) -> dict[str, tuple[str, str, int]]:
        """Setting, placement and side of every row, by name: those of Fig. 3.4, then the rest of Table B.1."""
        place, side = self.placements[0], self.sides[0]
        found = {name: (name, "corner" if name == "vehicles" else place, side) for name in SETTINGS}
        for side in self.sides:
            for place in self.placements:
                found.setdefault(row_name(self, place, side), ("noise", place, side))
        return found

    def levels_of(self, row: str) -> tuple[float, ...]:
        """The levels of a row."""
        return self.levels if self.all_levels or row == "noise" else (self.levels[0], self.levels[-1])

    @property
    def claim_seeds(self) -> range:
        """The seeds of claims."""
        return range(self.first_seed, self.first_seed + self.num_seeds)


def row_name(k: ImageKnobs, placement: str, side: int) -> str:
    """Of a row of Table B.1."""
    first = (placement, side) == (k.placements[0], k.sides[0])
    return "noise" if first else f"noise_{placement}_{side}"


def task(k: ImageKnobs, row: str, level: float) -> Pasted:
    """The task of a row at a level; black backgrounds are the same whatever they would have been."""
    setting, placement, side = k.rows[row]
    background: Any = GaussianNoise()
    if level and setting == "vehicles":
        background = Distractors(_images(k, 6, side, ANIMALS))
    elif level and setting != "noise":
        background = Distractors(_images(k, 3, side)) if k.data == MADE else Photographs(k.photographs)
    strength = level * _STRONGEST.get(setting, 1.0)
    only = VEHICLES if setting == "vehicles" else ()
    return Pasted(_images(k, CLASSES[setting], side, only), background, strength, side, Placement(placement))


def _images(k: ImageKnobs, classes: int, side: int, only: tuple[int, ...] = ()) -> Any:
    """Images of half the side; of some classes, or of two groups."""
    if k.data == MADE:
        return MadeImages(k.train, k.test, side // 2, 3, classes, rows=k.train + k.test)
    groups: tuple[tuple[int, ...], ...] = (VEHICLES, ANIMALS) if classes == 2 else tuple((n,) for n in only)
    train, test = _ROWS.get(only, (k.train, k.test))
    if only != ANIMALS:  # all animals there are may be distractors
        train, test = min(train, k.train), min(test, k.test)
    return Images(k.data, train, test, flat=False, shrink=64 // side, groups=groups)


def network_run(k: ImageKnobs, row: str, level: float) -> Run:
    """SGD with momentum. Large images have the batch and the rate of the thesis."""
    t, large = task(k, row, level), k.rows[row][2] > 32
    classes = CLASSES[k.rows[row][0]] if k.mean_over_classes else 1
    batch = min(k.batch, 50) if large else k.batch
    steps = max(1, k.epochs * t.num_train // batch)
    rate = k.rates[0] / classes * (0.5 if large else 1.0)
    sgd = SGD(rate, momentum=0.9, weight_decay=2 * 5e-4 * classes, schedule=StepDecay(k.decay, 0.2))
    return _run(k, t, sgd, batch, steps)


def kernel_run(k: ImageKnobs, row: str, level: float) -> Run:
    """Adam on the network linearised at the start."""
    t = task(k, row, level)
    steps = max(1, k.kernel_epochs * t.num_train // k.kernel_batch)
    adam = AdamW(k.kernel_rates[0], weight_decay=0.0, schedule=StepDecay((0.7, 0.85), 0.2))
    return _run(k, t, adam, k.kernel_batch, steps, methods=(Linearised(),))


def _run(k: ImageKnobs, t: Pasted, optimizer: Any, batch: int, steps: int, **how: Any) -> Run:
    budget = Budget(steps, max(1, steps // k.looks))
    plan = Fixed(t.num_train, replacement=False)
    return Run(t, WideResNet(10, k.widen), plan, CrossEntropy(), optimizer, Batch(batch), budget=budget, **how)


def arm_name(side: str, row: str, level: float) -> str:
    """network_noise_0.5."""
    return f"{side}_{row}_{level:g}"


def in_function_space(k: ImageKnobs, row: str) -> bool:
    """Whether the kernel of a row is a computed part."""
    return k.function_space and CLASSES[k.rows[row][0]] == 2


def arms_of(k: ImageKnobs, side: str, row: str, levels: tuple[float, ...] = (0.0, 1.0)) -> tuple[str, ...]:
    """The arms of a row, which computed parts are not."""
    if side == KERNEL and in_function_space(k, row):
        return ()
    return tuple(arm_name(side, row, level) for level in levels)


def image_arms(k: ImageKnobs) -> list[lab.Arm]:
    """All rows at all levels, both sides; each side has its rate chosen on CIFAR-10 without a background."""
    found = []
    for side, rates, run in ((NETWORK, k.rates, network_run), (KERNEL, k.kernel_rates, kernel_run)):
        tuned = arm_name(side, "ten", 0.0)
        for row in k.rows:
            if side == KERNEL and in_function_space(k, row):
                continue
            for level in k.levels_of(row):
                name, sweep = arm_name(side, row, level), None
                if len(rates) > 1:
                    grid = lab.Sweep(
                        (lab.Axis("optimizer.lr", values=rates),), score=lab.Final("test_accuracy"), tries=1
                    )
                    sweep = grid if name == tuned else lab.RateOf(tuned)
                measures = (ActiveUnits(256),) if (side, row) == (NETWORK, "ten") else ()
                label = f"{side}, {row}, {level:g}"
                found.append(lab.Arm(name, label, run(k, row, level), sweep, measures=measures))
    return found


def image_parts(k: ImageKnobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """Kernels of two classes in function space, and examples of what is told apart."""
    found: dict[str, Any] = {"examples": Examples(tuple(task(k, row, 0.75) for row in SETTINGS), k.first_seed)}
    for row in k.rows:
        if in_function_space(k, row):
            for level in k.levels_of(row):
                for seed in (*k.claim_seeds, *_selection_seeds(k, row, level)):
                    found[part_name(row, level, seed)] = _in_function_space(task(k, row, level), k, seed)
    return found


def part_name(row: str, level: float, seed: int) -> str:
    """kernel_noise_0.5_3."""
    return f"{arm_name(KERNEL, row, level)}_{seed}"


def _selection_seeds(k: ImageKnobs, row: str, level: float) -> range:
    """Seeds that choose the rate, on CIFAR-2 without a background."""
    num = k.num_selection_seeds if (row, level) == ("noise", 0.0) and len(k.function_rates) > 1 else 0
    return range(FIRST_SELECTION_SEED, FIRST_SELECTION_SEED + num)


def _in_function_space(t: Pasted, k: ImageKnobs, seed: int) -> TangentTraining:
    steps = k.function_steps
    run = Run(
        t, WideResNet(10, k.widen), Fixed(t.num_train, replacement=False), CrossEntropy(), SGD(1.0, momentum=0.9),
        FullBatch(), methods=(Linearised(),), budget=Budget(steps, steps), seed=seed,
    )  # fmt: skip
    record = sorted({0, *(steps * share // 16 for share in (1, 2, 4, 8, 16))})
    return TangentTraining(run, k.function_rates, tuple(record))


@dataclass(frozen=True)
class Examples:
    """The first test images of some tasks, for Fig. 3.5."""

    tasks: tuple[Any, ...]
    seed: int
    num: int = 3

    semantics: ClassVar[int] = 1
    seconds: ClassVar[float] = 0.1

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """images [tasks, num, channels, side, side]."""
        ids = np.arange(self.num)
        return {"images": np.stack([t.sample(self.seed, ids, Stream.EVALUATION).x for t in self.tasks])}


def chosen_rate(results: lab.Results) -> int:
    """Which of the function-space rates has the best accuracy at the end, on the selection seeds."""
    k = results.knobs
    parts = [results.computed[part_name("noise", 0.0, seed)] for seed in _selection_seeds(k, "noise", 0.0)]
    if not parts:
        return 0
    return int(np.mean([part["test_accuracy"][:, -1] for part in parts], axis=0).argmax())


def accuracies(results: lab.Results, side: str, row: str, level: float) -> Floats:
    """Test accuracy at the end, [seeds]."""
    k = results.knobs
    if side == KERNEL and in_function_space(k, row):
        parts = [results.computed[part_name(row, level, seed)] for seed in k.claim_seeds]
        return np.array([part["test_accuracy"][chosen_rate(results), -1] for part in parts])
    return results.finals(arm_name(side, row, level))


def kept(results: lab.Results, side: str, row: str) -> tuple[Floats, Floats]:
    """Accuracies with the strongest background and without one; their ratio is what is kept."""
    last, first = (accuracies(results, side, row, level) for level in (1.0, 0.0))
    return last, first
