"""Small images on backgrounds: a network keeps its accuracy as these grow stronger, and its linearisation less so.

Paper     Local Signal Adaptivity: Provable Feature Learning in Neural Networks Beyond Kernels, Section 6 and Appendix;
          in the thesis Section 3.6, Appendix B.3 and B.4, Fig. 3.2, 3.4, 3.5, Tables 3.1 and B.1
Claim     With backgrounds of photographs, of other images or of noise a wide residual network keeps over 96% of its
          accuracy without any, and the same network linearised at the start, a kernel, 70% to 93%. On CIFAR-2 without
          noise the kernel is nearly as good. A fixed corner is easier than any corner, and this than any place; larger
          images hurt the network less. Activations grow sparser in training.
Setting   CIFAR images of 16 x 16 on 32 x 32, or 32 x 32 on 64 x 64, pixels / 255, no augmentation. CIFAR-10, and
          CIFAR-2 (animals or vehicles), on plants of ImageNet times 0 to 1; CIFAR-2 on N(0, sigma^2), sigma from 0 to
          2; and four kinds of vehicles in a random corner with animals times 0 to 1 in the others. WRN-10-10: momentum
          0.9, batch 128, 200 epochs, rate 0.1 by 5 less at 80, 100 and 120 (batch 50, rate 0.05 for large images),
          penalty 5e-4 |w|^2; cross-entropy is a mean over classes. Kernel: Adam, rate 0.001 by 5 less at 140 and 170,
          batch 50.
Measured  Test accuracy at the end, the endpoint fixed beforehand. Kept is its mean over seeds with the strongest
          background over that without one; 95% by the bootstrap, sides and levels paired by seed. Active units: the
          share of ReLUs above 0 on 256 test images. "Nearly" is 92% of the network's accuracy or more, declared
          beforehand; Table B.1 has 89.9 of 94.7.
Expected  As the thesis, with a smaller gap: a first look had 95-99% kept by small networks and 89-94% by kernels.
Open      Batch norm of the linearised network is fixed at the means and variances of the training rows at the start,
          so that it is a kernel; the released code takes each batch's own, in testing too, and expands through them.
          That code multiplies Gaussian noise by sigma twice, so that its sigma 2 is a standard deviation of 4; ours is
          2, as written. Its script for vehicles tells animals from vehicles; ours, as the text, four kinds of vehicles.
          Ours has distractors of test images from the test rows, convolutions without biases, and the mean over all
          positions for large images too.
Shrunk    Laptop: WRN-10-1, 2,000 and 1,000 rows, seven photographs of scikit-image for ImageNet's plants, twelve epochs
          of batch 32, first and last level; any place, and any corner. Nothing is swept. The rate
          of the network is 0.1 and its penalty 5e-4 |w|^2 with the cross-entropy as it is, since in so few steps its
          mean over classes, ten times less, is too little: pilots on seed 500 ended at 38% on CIFAR-10 without a
          background, and with the thesis' penalty at 25%. The kernel of two classes is trained in function space by
          1,000 full batches with momentum, the others by six epochs of Adam at 0.004: after eight epochs a pilot had
          28%, and 26% at the thesis' 0.001.
Tried     Before, the network had the thesis' rate over ten epochs of batch 64 and ended at 24% on CIFAR-10 without a
          background (seeds 0 and 1, so that claims begin at 100).
          Tuning was by hand and not equal: on seed 500 the network had several rates, penalties and epochs, the kernel
          two rates of Adam on CIFAR-10 without a background and three in function space. After the results were seen,
          seed 100 with noise was tried again in function space: 66% as reported, 64% to 67% at rates 0.1 to 1 after
          1,000 or 3,000 steps, but for one that had not settled. The kernel of ten and four classes had no such check.
Data      `headstart data get cifar10 backgrounds`; ImageNet from a folder of your own, `headstart data get plants
          --from FOLDER` and `--set photographs=plants`. The smoke preset has made images.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import headstart.lab as lab
from headstart.measures import ActiveUnits
from headstart.studies.local_signal import GREY, PAPER_TITLE, number
from headstart.studies.local_signal._images import (
    KEPT,
    KERNEL,
    MADE,
    NETWORK,
    SETTINGS,
    SIDES,
    ImageKnobs,
    accuracies,
    arm_name,
    arms_of,
    image_arms,
    image_parts,
    kept,
    row_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FINDING = (
    "Of its accuracy without a background the network keeps {network_ten} on CIFAR-10 with photographs, "
    "{network_vehicles} on vehicles among animals, and {network_photographs} and {network_noise} on CIFAR-2 with "
    "photographs and noise; its linearisation keeps {kernel_ten}, {kernel_vehicles}, {kernel_photographs} and "
    "{kernel_noise}. That the network keeps more {more_ten.says}, {more_vehicles.says}, {more_photographs.says} and "
    "{more_noise.says}."
)
COLOURS = {NETWORK: lab.cold(), KERNEL: lab.warm()}
# The least share of the network's accuracy that is nearly as good.
NEARLY = lab.above(0.92)


@dataclass(frozen=True)
class Knobs(ImageKnobs):
    """Those of images on backgrounds."""


@dataclass(frozen=True)
class Kept:
    """The share of accuracy that a side keeps with the strongest background; or less what another keeps."""

    side: str
    row: str
    less: tuple[str, str] | None = None
    arms: tuple[str, ...] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The share with its interval."""
        pairs = [kept(results, *each) for each in ((self.side, self.row), *([self.less] if self.less else []))]

        def share(rows: Any) -> float:
            own, *others = (float(last[rows].mean() / first[rows].mean()) for last, first in pairs)
            return own - sum(others)

        return lab.bootstrap(share, len(pairs[0][0]))


@dataclass(frozen=True)
class Better:
    """The accuracy of one (side, row) over, or less, that of another, without a background or over all of `levels`."""

    one: tuple[str, str]
    other: tuple[str, str]
    levels: tuple[float, ...] = (0.0,)
    ratio: bool = False
    arms: tuple[str, ...] = ()

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """With its interval."""
        a, b = (
            np.mean([accuracies(results, *which, level) for level in self.levels], axis=0)
            for which in (self.one, self.other)
        )
        return lab.bootstrap(
            lambda rows: float(a[rows].mean() / b[rows].mean() if self.ratio else (a - b)[rows].mean()), len(a)
        )


@dataclass(frozen=True)
class ActiveChange:
    """The share of active units at the end over that at the start, on CIFAR-10 at a level."""

    level: float

    @property
    def arms(self) -> tuple[str, ...]:
        """The arm it reads."""
        return (arm_name(NETWORK, "ten", self.level),)

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The ratio with its interval."""
        active = results.traces[self.arms[0]].measured(ActiveUnits(256))["active"]
        return lab.bootstrap(lambda rows: float(active[rows, -1].mean() / active[rows, 0].mean()), len(active))


def fitted(results: lab.Results) -> lab.Estimate:
    """The least accuracy at the end on a training batch of an arm of the network, on average over seeds."""
    least = min(results.curves(arm, "train")[:, -1].mean() for arm in results.arms if arm.startswith(f"{NETWORK}_"))
    return number(least)


def share_kept(k: Knobs, side: str, row: str, less: tuple[str, str] | None = None) -> Kept:
    """`Kept`, with the arms it reads."""
    return Kept(side, row, less, arms_of(k, side, row) + (arms_of(k, *less) if less else ()))


def better(k: Knobs, one: tuple[str, str], other: tuple[str, str], **how: Any) -> Better:
    """`Better`, with the arms it reads."""
    levels = how.get("levels", (0.0,))
    return Better(one, other, arms=arms_of(k, *one, levels) + arms_of(k, *other, levels), **how)


def claims(k: Knobs) -> list[lab.Claim]:
    """Table 3.1, CIFAR-2 without noise, Table B.1, and Fig. 3.2."""
    primary, secondary = lab.Kind.PRIMARY, lab.Kind.SECONDARY
    found = []
    for row, words in SETTINGS.items():
        network, kernel = KEPT[row]
        found += [
            lab.Claim(f"more_{row}", f"{words}: share of accuracy that the network keeps less what the kernel keeps: "
                      "above 0", f"{network / 100:.4f} - {kernel / 100:.4f} = {(network - kernel) / 100:.4f}",
                      lab.above(0.0), share_kept(k, NETWORK, row, (KERNEL, row)), primary),
            lab.Claim(f"network_{row}", f"{words}: share of accuracy that the network keeps: above 0.96",
                      f"{network / 100:.4f}", lab.above(0.96), share_kept(k, NETWORK, row), secondary),
            lab.Claim(f"kernel_{row}", f"{words}: share of accuracy that the kernel keeps: below 0.96",
                      f"{kernel / 100:.4f}", lab.below(0.96), share_kept(k, KERNEL, row), secondary),
        ]  # fmt: skip
    nearly = better(k, (KERNEL, "noise"), (NETWORK, "noise"), ratio=True)
    return [
        *found,
        lab.Claim("nearly", "CIFAR-2 without noise: accuracy of the kernel over the network's: above 0.92",
                  "89.9 / 94.7 = 0.949", NEARLY, nearly, primary),
        lab.Claim("ten_gap", "CIFAR-10 without noise: accuracy of the kernel over the network's: below 0.92",
                  "the kernel nearly equals the network on CIFAR-2 in contrast", lab.below(0.92),
                  better(k, (KERNEL, "ten"), (NETWORK, "ten"), ratio=True), secondary),
        *_placements(k),
        *_sizes(k),
        lab.Claim("sparser", "CIFAR-10 without background: active units at the end over those at the start: below 1",
                  "falls throughout training (Fig. 3.2)", lab.below(1.0), ActiveChange(0.0), primary),
        lab.Claim("sparser_on_photographs", "CIFAR-10 on photographs: active units at the end over those at the "
                  "start: below 1", "not measured", lab.below(1.0), ActiveChange(1.0), secondary),
        lab.Claim("fitted", "least training accuracy of a setting's networks: above 0.9", "not stated",
                  lab.above(0.9), fitted, lab.Kind.CONTROL),
    ]  # fmt: skip


# Mean accuracies of Table B.1 over levels, small images: any place, any corner, a fixed corner.
TABLE_B1 = {NETWORK: {"random": 93.3, "corner": 93.45, "fixed": 93.9},
            KERNEL: {"random": 84.45, "corner": 85.675, "fixed": 86.5}}  # fmt: skip


def _placements(k: Knobs) -> list[lab.Claim]:
    """Each placement against the one before: easier."""
    found, words = [], {"random": "any place", "corner": "any corner", "fixed": "a fixed corner"}
    for harder, easier in zip(k.placements, k.placements[1:], strict=False):
        one, other = (row_name(k, place, k.sides[0]) for place in (easier, harder))
        for side in SIDES:
            gap = TABLE_B1[side][easier] - TABLE_B1[side][harder]
            found.append(
                lab.Claim(
                    f"{easier}_{side}",
                    f"accuracy of the {side} in {words[easier]} less that in {words[harder]}, with and without "
                    "noise: above 0",
                    f"{gap / 100:.4f}",
                    lab.above(0.0),
                    better(k, (side, one), (side, other), levels=(0.0, 1.0)),
                    lab.Kind.SECONDARY,
                )
            )
    return found


def _sizes(k: Knobs) -> list[lab.Claim]:
    """Large images against small ones: the network keeps more."""
    if len(k.sides) < 2:
        return []
    large = row_name(k, k.placements[0], k.sides[1])
    return [
        lab.Claim(
            "larger",
            "share of accuracy that the network keeps on large images less that on small ones: above 0",
            "94.9 / 96.1 - 91.7 / 94.7 = 0.019",
            lab.above(0.0),
            share_kept(k, NETWORK, large, (NETWORK, "noise")),
            lab.Kind.SECONDARY,
        )
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 3.4 above; below, Tables 3.1 and B.1, Fig. 3.2 and Fig. 3.5."""
    picture.set_size_inches(14.5, 7.4)
    above, below = np.asarray(picture.subplots(2, 4))
    for ax, (row, words) in zip(above, SETTINGS.items(), strict=True):
        for side in SIDES:
            _draw_levels(ax, results, side, row, side)
        ax.set(title=words, xlabel="standard deviation" if row == "noise" else "scale of the background")
    above[0].set_ylabel("test accuracy")
    above[0].legend()
    _draw_kept(below[0], results)
    _draw_placements(below[1], results)
    _draw_active(below[2], results)
    _draw_examples(below[3], results)


def _draw_levels(ax: "Axes", results: lab.Results, side: str, row: str, label: str | None, style: str = "o-") -> None:
    """Accuracy against the strength of the background: the mean, and every seed."""
    levels = results.knobs.levels_of(row)
    x = [level * (2.0 if row.startswith("noise") else 1.0) for level in levels]
    values = np.array([accuracies(results, side, row, level) for level in levels])
    ax.plot(x, values.mean(axis=1), style, color=COLOURS[side], label=label, markersize=4)
    ax.plot(x, values, ".", color=COLOURS[side], alpha=0.35, markersize=4)


def _draw_kept(ax: "Axes", results: lab.Results) -> None:
    """Table 3.1: what is kept, with intervals; the thesis' as rings."""
    for place, row in enumerate(SETTINGS):
        for shift, side in ((-0.14, NETWORK), (0.14, KERNEL)):
            found = Kept(side, row)(results)
            error = [[found.value - found.low], [found.high - found.value]]
            ax.errorbar(place + shift, found.value, error, fmt="o", color=COLOURS[side], markersize=5, capsize=2)
            ring = KEPT[row][SIDES.index(side)] / 100
            ax.plot(place + shift, ring, "o", mfc="none", mec=COLOURS[side], markersize=8, alpha=0.6)
    ax.axhline(1.0, color=GREY, linestyle=":", linewidth=0.9)
    ax.set_xticks(range(len(SETTINGS)), ["CIFAR-10\nphotos", "vehicles\nanimals", "CIFAR-2\nphotos", "CIFAR-2\nnoise"])
    ax.set(title="Share of accuracy kept (rings: thesis)", xlim=(-0.5, len(SETTINGS) - 0.5))


def _draw_placements(ax: "Axes", results: lab.Results) -> None:
    """Table B.1."""
    k = results.knobs
    styles = dict(zip(k.placements, ("o-", "s--", "^:"), strict=False))
    for place, style in styles.items():
        for side in SIDES:
            label = f"{side}, {place}"
            _draw_levels(ax, results, side, row_name(k, place, k.sides[0]), label, style)
    ax.set(title="CIFAR-2 by placement", xlabel="standard deviation", ylabel="test accuracy")
    ax.legend(fontsize=7)


def _draw_active(ax: "Axes", results: lab.Results) -> None:
    """Fig. 3.2: the share of active units after each ReLU, mean over seeds, and over all."""
    seen = results.traces[arm_name(NETWORK, "ten", 0.0)].measured(ActiveUnits(256))
    layers = seen["layers"].mean(axis=0)
    for layer in range(layers.shape[1]):
        shade = lab.cold(layer, of=layers.shape[1])
        ax.plot(seen["step"], layers[:, layer], color=shade, linewidth=0.9, label=f"ReLU {layer + 1}")
    ax.plot(seen["step"], seen["active"].mean(axis=0), color="black", label="mean")
    ax.set(title="Active units, CIFAR-10", xlabel="steps")
    ax.legend(fontsize=7, ncols=2)


def _draw_examples(ax: "Axes", results: lab.Results) -> None:
    """Fig. 3.5: test images at three quarters of the strongest background; a row per setting."""
    images = results.computed["examples"]["images"]
    rows = [
        np.concatenate(list(np.pad(each, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=1)), 2) for each in images
    ]
    ax.imshow(np.clip(np.concatenate(rows, axis=1).transpose(1, 2, 0), 0, 1))
    ax.set(title="Examples at 3/4", xticks=[], yticks=[])
    ax.grid(False)


# Seeds that no pilot has seen.
LAPTOP: dict[str, Any] = {
    "first_seed": 100,
    "train": 2000, "test": 1000, "widen": 1, "levels": (0.0, 1.0), "all_levels": False,
    "placements": ("random", "corner"), "sides": (32,), "epochs": 12, "batch": 32, "decay": (0.6, 0.8),
    "mean_over_classes": False, "kernel_epochs": 6, "kernel_rates": (4e-3,), "function_space": True, "looks": 4,
}  # fmt: skip
SMOKE: dict[str, Any] = {
    **LAPTOP, "num_seeds": 2, "num_selection_seeds": 1, "first_seed": 0, "data": MADE, "train": 8, "test": 8,
    "levels": (0.0, 1.0), "placements": ("random",), "sides": (8,), "epochs": 1, "batch": 8, "kernel_epochs": 1,
    "kernel_batch": 8, "function_steps": 16, "looks": 1,
}  # fmt: skip

STUDY = lab.Study(
    name="local_signal/images",
    title="Images on backgrounds",
    paper=PAPER_TITLE,
    figures="Fig. 3.2, 3.4, 3.5, Tables 3.1, B.1",
    presets={"smoke": Knobs(**SMOKE), "laptop": Knobs(**LAPTOP), "paper": Knobs()},
    minutes={"smoke": 0.1, "laptop": 14.0, "paper": 1.2e7},
    arms=image_arms,
    computed=image_parts,
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("network", "real data"),
)
