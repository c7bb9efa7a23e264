"""Between a network and the one that had one image swapped: is there a barrier, or are they in one basin?

Paper     On the Algorithmic Stability of SGD, Section 2.4.2, Fig. 2.4, A.14, A.15
Claim     On the line between the weights of A(S) and A(S') accuracy does not fall for SVHN, falls slightly for CIFAR-10
          without momentum, and much with momentum. So networks that are not stable enough to explain how they
          generalise can lie in one basin, where convex analyses may say more.
Setting   The pairs of `stability/networks`, ten of them at the smallest and at the largest number of rows.
Measured  Training accuracy on S and test accuracy at alpha S + (1 - alpha) S', 76 places alpha in [-1, 2]; means and
          variances of batch norm are interpolated too, which the thesis does not state, and variances are at least 0.
          The barrier is the largest fall of accuracy below the line of its end points for alpha in [0, 1]; two networks
          are connected where it is at most 2%, as Frankle et al. (2020) have it. Means over pairs and trials with
          bootstrap intervals over pairs, at the largest size. Slightly is between 0 and 10%, and much is more than 10%,
          declared beforehand.
Expected  As the thesis. How far apart two networks are in units of their norm should decide it.
Found     No barrier of note in any setting, momentum or not, at the size of the laptop preset.
Open      Whether statistics of batch norm were interpolated or found anew. With those of the ends in between, a barrier
          can be one of statistics alone.
Shrunk    As `stability/networks`; 31 places, all of its dozen pairs.
Data      As `stability/networks`, whose stored pairs are taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.measures import CONNECTED_WITHIN, barrier, bootstrap
from headstart.studies.stability import PAPER_TITLE, groups
from headstart.studies.stability._settings import LAPTOP, NAMES, SMOKE, NetworkKnobs, parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SLIGHT = 0.1
FINDING = (
    "At the largest number of rows the barrier of training accuracy between A(S) and A(S') is {barrier_1a} (1a), "
    "{barrier_2a} (2a, no momentum) and {barrier_2b} (2b, momentum). No barrier for 1a {barrier_1a.says}, a slight one "
    "for 2a {barrier_2a.says}, a large one for 2b {barrier_2b.says}; that momentum makes it larger {momentum.says}."
)


@dataclass(frozen=True)
class Knobs(NetworkKnobs):
    """Those of pairs of networks."""

    num_pairs: int = 10


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """Pairs of all settings at the smallest and the largest size."""
    return parts(k, sizes=(k.sizes[0], k.sizes[-1]))


def barriers(results: lab.Results, name: str, size: int, split: str = "train") -> NDArray[np.float64]:
    """Of the pairs of a setting and size: [trials, pairs]."""
    k, found = results.knobs, []
    for group, its_size, _, _, _ in groups(k, name):
        if its_size == size:
            arrays = results.computed[group]
            found.append(barrier(arrays[f"{split}_accuracy"][0], arrays["alpha"]))
    return np.array(found).reshape(k.num_seeds, k.num_pairs)


@dataclass(frozen=True)
class Barrier:
    """The mean over pairs and trials of the barrier at the largest size, or of being connected; or less another's.

    Beside it: the same of test accuracy, at the smallest size, and the share of pairs that are connected.
    """

    name: str
    less: str | None = None
    split: str = "train"
    smallest: bool = False

    arms: ClassVar[tuple[str, ...]] = ()

    def _values(self, results: lab.Results, split: str, place: int) -> NDArray[np.float64]:
        size = results.knobs.sizes[place]
        mine = barriers(results, self.name, size, split)
        return mine if self.less is None else mine - barriers(results, self.less, size, split)

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean with its interval."""
        return _mean(self._values(results, self.split, 0 if self.smallest else -1), results.knobs.resamples)

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """The other readings."""
        resamples = results.knobs.resamples
        found = {
            "test accuracy": _mean(self._values(results, "test", -1), resamples),
            "smallest size": _mean(self._values(results, "train", 0), resamples),
        }
        if self.less is None:
            shares = self._values(results, "train", -1) <= CONNECTED_WITHIN
            found["share connected"] = _mean(shares.astype(np.float64), resamples)
        return found


def _mean(values: NDArray[np.float64], resamples: int) -> lab.Estimate:
    """Over trials and pairs, pairs resampled in all trials at once."""
    return bootstrap(lambda rows: float(values[:, rows].mean()), values.shape[1], resamples=resamples)


def claims(k: Knobs) -> list[lab.Claim]:
    """Barriers by setting, what momentum does, and that sizes do not matter much."""
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY
    words = {name: k.settings[name].words for name in NAMES}
    at = "mean barrier of training accuracy at the largest size"
    return [
        lab.Claim("barrier_1a", f"{words['1a']}: {at}: below 2%", "accuracy does not fall",
                  lab.below(CONNECTED_WITHIN), Barrier("1a"), primary),
        lab.Claim("barrier_2a", f"{words['2a']}: {at}: between 0 and 10%", "slightly falling accuracy",
                  lab.Within(0.0, SLIGHT), Barrier("2a"), primary),
        lab.Claim("barrier_2b", f"{words['2b']}: {at}: above 10%", "significantly falling accuracy",
                  lab.above(SLIGHT), Barrier("2b"), primary),
        lab.Claim("momentum", f"{at} with momentum less without: above 0", "slightly and significantly",
                  lab.above(0.0), Barrier("2b", "2a"), secondary),
        lab.Claim("digits", f"{at}, {words['2a']} less {words['1a']}: above 0", "slightly and not",
                  lab.above(0.0), Barrier("2a", "1a"), secondary),
        *(
            lab.Claim(f"test_{name}", f"{words[name]}: mean barrier of test accuracy at the largest size: below 2%",
                      "as that of training accuracy", lab.below(CONNECTED_WITHIN), Barrier(name, split="test"),
                      secondary)
            for name in NAMES
        ),
    ]  # fmt: skip


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 2.4: training and test accuracy against alpha, one line a pair of the first trial; a row for each size."""
    picture.set_size_inches(14.0, 6.0)
    k = results.knobs
    grid = np.asarray(picture.subplots(2, 2 * len(NAMES), sharex=True, sharey="col"))
    for row, size in zip(grid, (k.sizes[0], k.sizes[-1]), strict=True):
        for column, (name, split) in enumerate((name, split) for name in NAMES for split in ("train", "test")):
            ax = row[column]
            for group, its_size, trial, _, _ in groups(k, name):
                if its_size == size and trial == k.first_seed:
                    arrays = results.computed[group]
                    ax.plot(arrays["alpha"], arrays[f"{split}_accuracy"][0], linewidth=0.8, alpha=0.7)
            for end in (0, 1):
                ax.axvline(end, color="#777777", linestyle=":", linewidth=0.8)
            ax.set(title=f"{name}, {split}, m = {size:,}", xlabel=r"$\alpha$")
    for ax in grid[0]:  # so that one row of S is not drawn as a cliff
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, high - 0.05), high)
    grid[0, 0].set_ylabel("accuracy")


STUDY = lab.Study(
    name="stability/connectivity",
    title="Linear connectivity of networks that differ in one image",
    paper=PAPER_TITLE,
    figures="Fig. 2.4, A.14, A.15",
    presets={"smoke": Knobs(**SMOKE), "laptop": Knobs(**LAPTOP), "paper": Knobs()},
    minutes={"smoke": 0.1, "laptop": 7.0, "paper": 2.5e5},
    computed=computed,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("network", "real data"),
)
