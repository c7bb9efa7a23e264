"""No swap at all, and a nudge of a millionth instead of a swap: how much of what a swap does is the swap's?

Paper     On the Algorithmic Stability of SGD, Section 2.2: all else equal, only z differs. Not in the thesis: this
          study asks what its numbers are measured against
Claim     None of the thesis. Ours: without a swap S and S' give the same network, bit for bit; and where training is
          chaotic, 1e-6 added to one of the first weights moves a network about as far as a swapped image does, so
          that there stability measures how training enlarges any difference, not what one image taught.
Setting   The pairs of `stability/networks` at the largest number of rows, with their swap; the same S twice; the same S
          twice with 1e-6 added to one weight of the first layer of the second network before training.
Measured  Distance of weights and mean and largest difference of losses after the last step: the mean over pairs of the
          logarithm of each, nudge over swap, as a ratio with a bootstrap interval over pairs, the same pairs for both.
          About as far is at least one half, declared beforehand. Beside it the ratio half way.
Expected  A first look with momentum had distances of 8.7 (nudge) and 10.4 (swap). One pilot pair of each setting was
          looked at before, on other trials and pairs.
Meaning   Uniform stability compares A(S) and A(S') at one and the same randomness. Where a nudge does what a swap does,
          the pair is two draws of one distribution over networks: its distance is a floor that no number of rows
          lowers, and says nothing of how much that distribution depends on one image. A bound by the stability of the
          distribution, or of the mean over initial weights and orders, is not touched by this.
Shrunk    As `stability/networks`.
Data      As `stability/networks`, whose stored pairs at the largest size are taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.errors import check_count, check_positive
from headstart.measures import bootstrap
from headstart.studies.stability import PAPER_TITLE, groups
from headstart.studies.stability._settings import LAPTOP, NAMES, SMOKE, NetworkKnobs, pair, parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACTLY_ZERO = lab.Within(-1e-300, 1e-300)
ABOUT_AS_FAR = lab.above(0.5)
QUANTITIES = {"distance": "distance of weights", "mean_stability": "mean difference of losses",
              "stability": "largest difference of losses"}  # fmt: skip
FINDING = (
    "Without a swap nothing differs: {no_swap.says}. A nudge of one weight by a millionth moves the weights by "
    "{distance_1a} (1a), {distance_2a} (2a, no momentum) and {distance_2b} (2b, momentum) of what a swapped image "
    "does; that it is at least half {distance_1a.says} for 1a, {distance_2a.says} for 2a and {distance_2b.says} for 2b."
)


@dataclass(frozen=True)
class Knobs(NetworkKnobs):
    """Those of pairs of networks, the size of the nudge, and the number of pairs of each setting without a swap."""

    nudge: float = 1e-6
    num_controls: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("knobs", "nudge", self.nudge)
        check_count("knobs", "num_controls", self.num_controls)


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """Swapped and nudged pairs at the largest size, and some without either."""
    largest = k.sizes[-1]
    found: dict[str, Any] = dict(parts(k, sizes=(largest,)))
    for name in NAMES:
        for group, size, trial, number, _ in groups(k, name):
            if size == largest:
                found[f"nudged_{group}"] = pair(k, name, size, trial, number, swapped=False, nudge=k.nudge)
        for number in range(k.num_controls):
            found[f"same_{name}_{number}"] = pair(k, name, largest, k.first_seed, number, swapped=False)
    return found


@dataclass(frozen=True)
class WithoutSwap:
    """The largest distance or difference of losses of a pair without a swap, at any step."""

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """One number: nothing is drawn."""
        found = [
            results.computed[f"same_{name}_{number}"][quantity].max()
            for name in NAMES
            for number in range(results.knobs.num_controls)
            for quantity in ("distance", "stability")
        ]
        return lab.Estimate(*(float(max(found)),) * 3)


def seen(results: lab.Results, name: str, quantity: str, nudged: bool) -> NDArray[np.float64]:
    """Of swapped or nudged pairs at the largest size: [trials, pairs, steps]."""
    k = results.knobs
    found = [
        results.computed[f"nudged_{group}" if nudged else group][quantity][0]
        for group, size, _, _, _ in groups(k, name)
        if size == k.sizes[-1]
    ]
    return np.array(found).reshape(k.num_seeds, k.num_pairs, -1)


@dataclass(frozen=True)
class NudgeOverSwap:
    """exp(mean over pairs and trials of log(nudged / swapped)) of a quantity after the last step."""

    name: str
    quantity: str

    arms: ClassVar[tuple[str, ...]] = ()

    def _at(self, results: lab.Results, record: int) -> lab.Estimate:
        nudged, swapped = (seen(results, self.name, self.quantity, nudged)[:, :, record] for nudged in (True, False))
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(nudged) - np.log(swapped)
        if not np.isfinite(logs).all():
            return lab.Estimate(*(float("nan"),) * 3)
        return bootstrap(
            lambda rows: float(np.exp(logs[:, rows].mean())), logs.shape[1], resamples=results.knobs.resamples
        )

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        return self._at(results, -1)

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The ratio half way."""
        steps = recorded_steps_of(results, self.name)
        half = int(np.searchsorted(steps, steps[-1] // 2))
        return {f"after {steps[half]:,} steps": self._at(results, half)}


def recorded_steps_of(results: lab.Results, name: str) -> NDArray[np.int64]:
    """The steps at which the pairs of the largest size were looked at."""
    group = next(group for group, size, _, _, _ in groups(results.knobs, name) if size == results.knobs.sizes[-1])
    return np.asarray(results.computed[group]["step"])


def claims(k: Knobs) -> list[lab.Claim]:
    """Exactly nothing without a swap; ratios by setting."""
    ratios = [
        lab.Claim(f"{quantity}_{name}", f"{k.settings[name].words}: {words} of nudged over swapped pairs: above 0.5",
                  "not measured", ABOUT_AS_FAR, NudgeOverSwap(name, quantity), lab.Kind.SECONDARY)
        for quantity, words in QUANTITIES.items()
        for name in NAMES
    ]  # fmt: skip
    said = "largest distance and difference of losses of pairs without a swap: exactly 0"
    nothing = "all nondeterminism disabled, to isolate the effect of swapping in z"
    return [lab.Claim("no_swap", said, nothing, EXACTLY_ZERO, WithoutSwap(), lab.Kind.PRIMARY), *ratios]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Distances against steps, swapped and nudged, one panel a setting; their ratios in the last."""
    picture.set_size_inches(13.5, 3.6)
    *panels, last = picture.subplots(1, len(NAMES) + 1)
    for ax, name in zip(panels, NAMES, strict=True):
        steps = recorded_steps_of(results, name)
        for nudged, label, colour in ((False, "swap", lab.cold(1)), (True, "nudge", lab.warm())):
            values = seen(results, name, "distance", nudged)[0].T
            ax.plot(steps, values, color=colour, linewidth=0.6, alpha=0.5)
            ax.plot(steps, np.median(values, axis=1), ".-", color=colour, label=label)
        ax.set(yscale="log", xlabel="steps", title=f"{name}: {results.knobs.settings[name].words}")
        ax.legend()
    panels[0].set_ylabel("distance of weights")
    for place, name in enumerate(NAMES):
        moved, swapped = (seen(results, name, "distance", nudged)[:, :, -1].ravel() for nudged in (True, False))
        last.plot(np.full(len(moved), place), moved / swapped, ".", color=lab.cold(1), alpha=0.6)
    last.axhline(1, color="#777777", linestyle=":", linewidth=0.9)
    last.set(yscale="log", title="Nudge over swap", ylabel="ratio of distances")
    last.set_xticks(range(len(NAMES)), NAMES)


STUDY = lab.Study(
    name="stability/controls",
    title="No swap, and a nudge instead of one",
    paper=PAPER_TITLE,
    figures="none: controls of Fig. 2.2 and 2.3",
    presets={"smoke": Knobs(**SMOKE), "laptop": Knobs(**LAPTOP), "paper": Knobs()},
    minutes={"smoke": 0.1, "laptop": 4.0, "paper": 1e6},
    computed=computed,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("network", "real data"),
)
