"""Stopped earlier, later, after as many epochs, or at as low a loss: does stability ever keep up with the gap?

Paper     On the Algorithmic Stability of SGD, Appendix A.1 and A.2, Fig. A.1, A.5-A.10
Claim     After 50,000 and 150,000 steps, as after 100,000, stability's dependence on m is not comparable to the gap's.
          To stop after as many steps at every m gives stability its best chance: after as many epochs, or at the same
          training loss, larger sets take more steps, and stability falls even more slowly. The gap falls at another
          rate in other ranges of m.
Setting   The pairs of `stability/networks`. Half the steps, and as many epochs, from the same runs; one and a half
          times the steps in longer runs whose rate falls at the same steps.
Measured  The exponent of the maximum over pairs of stability less that of the loss gap, in logarithms, beside it by
          curve_fit. By epochs: at the largest size after the last step, at smaller ones after as many epochs. By loss:
          at each size and trial the first look at which the mean training loss over pairs is at most 0.1, or the last.
          Not comparable is 0.25 or more, as in `stability/networks`; the best chance is that the difference by epochs
          or by loss is above that by steps. Ranges: the exponent of the gap over the larger half of the sizes less
          that over the smaller half; another rate is a difference beyond 0.1 on either side, declared beforehand.
Expected  As the thesis for other stopping points. Networks that fit their rows move little afterwards where the rate
          falls, so half and one and a half should be alike; and early, where large sets are not fitted, all fall.
Tried     Differences of two stops first had the intervals of both added up, -2.03 to 2.58 for 1a by epochs. The runs
          are the same, so now both are found on the same resamples of pairs: changed after that was seen.
Open      Training losses and numbers of epochs at which the thesis stopped in its preliminary analyses.
Shrunk    As `stability/networks`; longer runs are those of 1a alone, whose rate stays.
Data      As `stability/networks`, whose stored pairs are taken; those of longer runs are its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import headstart.lab as lab
from headstart.core.errors import HeadstartError, check_positive
from headstart.measures import Maxima, exponent_of_maxima
from headstart.studies.stability import PAPER_TITLE, Floats, MaximumExponent, groups, of_pairs, recorded_steps
from headstart.studies.stability._settings import LAPTOP, NAMES, SMOKE, NetworkKnobs, pair, parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGER = 1.5
SLOWER = lab.above(0.25)
STOPS = ("steps", "epochs", "loss")
FINDING = (
    "After half of the steps stability's exponent is above the gap's by {half_1a} (1a), {half_2a} (2a) and {half_2b} "
    "(2b); that it falls more slowly by 0.25 or more {half_1a.says}, {half_2a.says} and {half_2b.says}. Stopped after "
    "as many epochs the difference is higher by {epochs_1a}, {epochs_2a} and {epochs_2b} than after as many steps."
)


@dataclass(frozen=True)
class Knobs(NetworkKnobs):
    """Those of pairs of networks, the settings whose runs go on, and the training loss at which to stop."""

    longer: tuple[str, ...] = NAMES
    loss: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("knobs", "loss", self.loss)
        if not set(self.longer) <= set(NAMES):
            raise HeadstartError(f"longer={self.longer!r}: settings are {', '.join(NAMES)}")


def computed(k: Knobs, arms: Mapping[str, lab.Arm]) -> dict[str, lab.Computed]:
    """The pairs of `networks`, and those of longer runs."""
    found: dict[str, Any] = dict(parts(k))
    for name in k.longer:
        for group, size, trial, number, _ in groups(k, f"longer_{name}"):
            found[group] = pair(k, name, size, trial, number, LONGER)
    return found


def stopped(results: lab.Results, name: str, quantity: str, stop: str, among: slice = slice(None)) -> Floats:
    """What the pairs of a setting say when stopped by "half", "steps", "epochs" or "loss": [trials, sizes, pairs]."""
    k, steps = results.knobs, recorded_steps(results, name)

    def at(step: int) -> int:
        return int(np.searchsorted(steps, step))

    if stop == "loss":
        losses = np.array([of_pairs(results, "train_loss", r, name).mean(axis=2) for r in range(len(steps))])
        low = losses <= k.loss
        low[-1] = True
        first = low.argmax(axis=0)  # [trials, sizes]
        every = np.array([of_pairs(results, quantity, r, name) for r in range(len(steps))])
        values = np.take_along_axis(every, first[None, :, :, None], axis=0)[0]
    elif stop == "epochs":
        record = {size: at(k.iterations * size // k.sizes[-1]) for size in k.sizes}
        values = of_pairs(results, quantity, record, name)
    else:
        values = of_pairs(results, quantity, at(k.iterations // 2) if stop == "half" else -1, name)
    return values[:, among]


@dataclass(frozen=True)
class Stopped:
    """Exponent of stability less that of the loss gap where pairs stop so, less the same by steps if `over_steps`.

    95% by the k-out-of-n bootstrap over pairs, the same resamples for both stops.
    """

    name: str
    stop: str
    over_steps: bool = False
    logs: bool = True

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The difference with its interval."""

        def both(stop: str) -> tuple[Floats, Floats]:
            return stopped(results, self.name, "stability", stop), stopped(results, self.name, "loss_gap", stop)

        how = Maxima(logs=self.logs, resamples=results.knobs.resamples)
        over = both("steps") if self.over_steps else None
        return exponent_of_maxima(results.knobs.sizes, *both(self.stop), how, over=over).estimate

    def beside(self, results: lab.Results) -> dict[str, lab.Estimate]:
        """By curve_fit."""
        return {"curve_fit": replace(self, logs=False)(results)} if self.logs else {}


@dataclass(frozen=True)
class OtherRange:
    """The exponent of the loss gap over the larger half of the sizes less that over the smaller half."""

    name: str

    arms: ClassVar[tuple[str, ...]] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The difference with its interval, halves share the size between them."""
        sizes, how = results.knobs.sizes, Maxima(logs=True, resamples=results.knobs.resamples)
        middle = len(sizes) // 2
        small, large = slice(0, max(middle, 1) + 1), slice(min(middle, len(sizes) - 2), None)
        found = [
            exponent_of_maxima(sizes[among], stopped(results, self.name, "loss_gap", "steps", among), how=how).estimate
            for among in (large, small)
        ]
        return _less(*found)


def _less(one: lab.Estimate, other: lab.Estimate) -> lab.Estimate:
    """The difference, with the interval of both as if they had the least favourable correlation."""
    return lab.Estimate(one.value - other.value, one.low - other.high, one.high - other.low)


def claims(k: Knobs) -> list[lab.Claim]:
    """Other stopping points, other criteria, other ranges."""
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY
    over = "exponent of stability less that of the loss gap"
    found = []
    for name in NAMES:
        words = k.settings[name].words
        found += [
            lab.Claim(f"half_{name}", f"{words}, after half of the steps: {over}: above 0.25",
                      "not comparable after 50,000 steps", SLOWER, Stopped(name, "half"), primary),
            *(
                lab.Claim(f"{stop}_{name}", f"{words}: {over}, stopped {said}, less the same after as many steps: "
                          "above 0", "even easier for stability to fail", lab.above(0.0),
                          Stopped(name, stop, over_steps=True), secondary)
                for stop, said in (("epochs", "after as many epochs"), ("loss", "at the same training loss"))
            ),
            lab.Claim(f"range_{name}", f"{words}: exponent of the loss gap over the larger half of the sizes less that "
                      "over the smaller half: within 0.1", "a roughly constant rate from 15,000 to 50,000 rows",
                      lab.Within(-0.1, 0.1), OtherRange(name), secondary),
        ]  # fmt: skip
        if name in k.longer:
            later = MaximumExponent("stability", "loss_gap", kind=f"longer_{name}", logs=True)
            found.append(lab.Claim(f"longer_{name}", f"{words}, after one and a half times the steps: {over}: above "
                                   "0.25", "not comparable after 150,000 steps", SLOWER, later, primary))  # fmt: skip
    return found


def figure(results: lab.Results, picture: "Figure") -> None:
    """Maxima of stability and of the loss gap against rows, a colour for each way to stop, and where it stopped."""
    picture.set_size_inches(12.5, 6.4)
    k = results.knobs
    grid = np.asarray(picture.subplots(2, len(NAMES), sharex=True))
    for column, name in enumerate(NAMES):
        for ax, quantity in zip(grid[:, column], ("loss_gap", "stability"), strict=True):
            for number, stop in enumerate(("half", *STOPS)):
                tops = stopped(results, name, quantity, stop).max(axis=2)[0]
                colour = lab.cold(number) if number < 2 else lab.warm(number - 2)
                ax.plot(k.sizes, tops, ".-", color=colour, label=f"by {stop}" if stop in STOPS else "half the steps")
            if name in k.longer:
                tops = of_pairs(results, quantity, kind=f"longer_{name}").max(axis=2)[0]
                ax.plot(k.sizes, tops, ".--", color="#777777", label="1.5 times the steps")
            ax.set(xscale="log", yscale="log", xlabel="rows m", title=f"{name}: {quantity.replace('_', ' ')}")
            ax.set_xticks(k.sizes, [f"{size:,}" for size in k.sizes])
            ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    grid[0, 0].legend()


STUDY = lab.Study(
    name="stability/iterations",
    title="Stability at other stopping points",
    paper=PAPER_TITLE,
    figures="Fig. A.1, A.5-A.10",
    presets={"smoke": Knobs(**SMOKE, longer=("1a",)), "laptop": Knobs(**LAPTOP, longer=("1a",)), "paper": Knobs()},
    minutes={"smoke": 0.1, "laptop": 7.0, "paper": 1e7},
    computed=computed,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("network", "real data"),
)
