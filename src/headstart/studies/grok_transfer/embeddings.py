"""What an embedding says of the task decides whether there is a delay; the tangent kernel does not.

Paper     Let Me Grok For You, Section 2.1, Figs. 2 and 3, Appendix A.3.1
Claim     A network over one-hot vectors of the numbers, or over those of a text model, fits its training pairs long
          before it generalises, also at the best initial scale. Over binary digits, or waves whose period is that of
          the task, it generalises as it fits. Binary digits help addition and not multiplication. The tangent kernel
          changes alike in all four.
Setting   a + b and a b modulo p, a quarter of the pairs for training; three ReLU layers without biases over a fixed
          table whose rows have length 1: one-hot, binary digits, cos and sin of the first seven primes as frequencies,
          and a text model's vectors of the numerals in 128 dimensions (MiniLM's, where the paper took GPT's; they come
          by `headstart data get numerals`). AdamW on the full batch, cross-entropy.
Measured  The time gap: steps from 95% training accuracy to 95% test accuracy, first crossings, restricted at the end of
          the run. Progress: the test accuracy when the training pairs are first at 95%, or at the end if they never
          are. The change of the pseudo-NTK on 64 training pairs, |K_t - K_0|_F / |K_0|_F, as a mean over the run. 95%
          paired bootstraps over seeds. Initial scale, rate and decay: the same combinations for each arm, by successive
          halving on the restricted mean time to 95%, on up to 16 seeds that no claim uses. Multiplication takes those
          of addition: the paper names one triple per embedding.
Expected  Curves without numbers: sharp transitions for one-hot and GPT, continuous progress for binary digits, and for
          waves memorisation and generalisation at once. The best (scale, rate, decay) of the paper: one-hot
          (.2, .01, 5), binary (.3, .01, 1), Fourier (.5, .1, .1), GPT (1.3, .01, 1).
Shrunk    The laptop preset has p = 97 instead of 113, width 128 instead of 512, and a coarse part of the paper's grid.
Tried     One run each, on a seed that no claim uses, at width 128. Fourier at the paper's setting: a gap of 25 at
          p = 113, 40 at p = 97 and 155 at p = 59, hence p = 97. One-hot at p = 97: 95% at step 500 with (.3, .1, 1),
          92% at step 800 with (.3, .03, 3). At p = 113 with the paper's (.2, .01, 5): nothing by step 300. Binary
          digits stay at 85% to 87% for 800 steps, and at 82% for 500 steps at width 256 and the paper's setting.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.measures import Every, NTKChange
from headstart.models import MLP, Binary, Fourier, OneHot, Text
from headstart.models.fixed_tables import FixedTable
from headstart.studies.grok_transfer import NO_EFFECT, PAPER_TITLE, ModularKnobs, arm, draw_grokking
from headstart.tasks import Operation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Kernels that differ by less than this factor change alike; declared before the runs that are reported.
ALIKE = 2.0
# So much of the test pairs would be progress.
SOME = 0.1
CHANGES = (r"$\|K_t - K_0\|_F / \|K_0\|_F$", r"$1 - \cos(K_t, K_0)$")
FITS = "test accuracy when the training pairs fit"
FINDING = (
    "Over one-hot vectors, at the best initial scale, the test pairs follow {one_hot_delay} steps after the training "
    "pairs; over waves the gap is {fourier_gap} of that. When the training pairs fit, binary digits have more of the "
    "test pairs right, by {binary_progress}; on multiplication they take {products_time} of the steps of one-hot. "
    "That the kernels change alike {kernels_alike.says}: the largest change over the least is {kernels_alike}."
)
TABLES: dict[str, FixedTable] = {"one_hot": OneHot(), "binary": Binary(), "fourier": Fourier(), "text": Text()}
LABELS = {"one_hot": "one-hot", "binary": "binary digits", "fourier": "waves (Fourier)", "text": "text model"}
COLOURS = {"one_hot": lab.cold(), "binary": lab.warm(1), "fourier": lab.warm(), "text": lab.cold(1)}
TIMES = Operation.MULTIPLICATION


@dataclass(frozen=True)
class Knobs(ModularKnobs):
    """Whether the text model's vectors are there, steps of multiplication, and what the kernel takes and how often."""

    text: bool = True
    product_steps: int = 3000
    kernel_rows: int = 64
    kernel_looks: int = 8


def kernel(k: Knobs) -> NTKChange:
    """The measure of the tangent kernel."""
    return NTKChange(k.kernel_rows, Every(max(1, k.steps // k.kernel_looks)))


def names(k: Knobs) -> list[str]:
    """The embeddings under addition."""
    return [name for name in TABLES if k.text or name != "text"]


def arms(k: Knobs) -> list[lab.Arm]:
    """Addition over every embedding; multiplication over one-hot vectors and binary digits."""

    def over(name: str, operation: Operation = Operation.ADDITION) -> lab.Arm:
        model = MLP(k.width, k.depth, bias=False, embedding=TABLES[name])
        prefix = "times_" if operation is TIMES else ""
        steps = k.product_steps if operation is TIMES else k.steps
        return arm(replace(k, steps=steps), f"{prefix}{name}", LABELS[name], model, operation, colour=COLOURS[name])

    added = [replace(over(name), measures=(kernel(k),)) for name in names(k)]
    return [*added, *(replace(over(name, TIMES), sweep=lab.RateOf(name)) for name in ("one_hot", "binary"))]


def changes(results: lab.Results, name: str, what: str = "change") -> NDArray[np.float64]:
    """The mean over the run of the kernel's change, [seeds]; the look at step 0, where it is 0, left out."""
    return np.asarray(results.traces[name].measured(kernel(results.knobs))[what][:, 1:].mean(axis=1))


def progress(results: lab.Results, name: str) -> NDArray[np.float64]:
    """The test accuracy of each run when its training pairs are first at the target, or at its end, [seeds]."""
    fits = results.curves(name, "train") >= results.knobs.accuracy
    when = np.where(fits.any(axis=1), fits.argmax(axis=1), fits.shape[1] - 1)
    return np.asarray(results.curves(name)[np.arange(len(when)), when])


@dataclass(frozen=True)
class Progress:
    """How much more of the test pairs the first arm has right than the second when their training pairs fit."""

    arms: tuple[str, str]

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean difference with its interval."""
        lab.check_paired(results, self.arms)
        one, other = (progress(results, name) for name in self.arms)
        return lab.bootstrap(lambda rows: float((one - other)[rows].mean()), len(one))


@dataclass(frozen=True)
class Spread:
    """The largest seed-mean of the kernel's change over embeddings, over the least: 1 where all change alike."""

    arms: tuple[str, ...]
    what: str = "change"

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The quotient with its interval."""
        lab.check_paired(results, self.arms)
        seen = np.array([changes(results, name, self.what) for name in self.arms])

        def quotient(rows: NDArray[np.int64]) -> float:
            means = seen[:, rows].mean(axis=1)
            return float(means.max() / means.min())

        return lab.bootstrap(quotient, seen.shape[1])


def delayed(k: Knobs, name: str, paper: str) -> lab.Claim:
    """There is a delay; one of two intervals between records would be none."""
    return lab.Claim(
        id=f"{name}_delay",
        statement=f"{LABELS[name]}, at the best initial scale, rate and decay: the time gap in steps is above 0",
        paper=paper,
        rule=lab.above(0.0),
        estimate=lab.TimeGap(name, k.accuracy),
        kind=lab.Kind.PRIMARY,
        smallest=lab.Within(-2.0 * k.record_every, 2.0 * k.record_every),
    )


# The two sentences of Fig. 2 on embeddings that know something of the task, and what each is about.
SENTENCES = {
    "binary": ("progress", "continuous generalization progress (Fig. 2)"),
    "fourier": ("gap", "simultaneously achieve memorization and perfect generalization (Fig. 2)"),
    "text": ("", "both are delayed (Fig. 2)"),
}


def against_one_hot(k: Knobs, name: str) -> list[lab.Claim]:
    """Progress, gap and time over an embedding, against one-hot vectors."""
    primary, paper = SENTENCES[name]
    said, pair = f"{LABELS[name]} over one-hot", (name, "one_hot")

    def claim(what: str, statement: str, estimate: Callable[[lab.Results], lab.Estimate]) -> lab.Claim:
        rule, smallest = (lab.above(0.0), None) if what == "progress" else (lab.below(1.0), NO_EFFECT)
        kind = lab.Kind.PRIMARY if what == primary else lab.Kind.SECONDARY
        return lab.Claim(f"{name}_{what}", statement, paper, rule, estimate, kind, smallest)

    return [
        claim("progress", f"{FITS}, {LABELS[name]} less one-hot, is above 0", Progress(pair)),
        claim("gap", f"time gap, {said}, is below 1", lab.TimeGapRatio(*pair, k.accuracy)),
        claim("time", f"steps to {k.accuracy:.0%}, {said}, are below 1", lab.TimeRatio(*pair, k.accuracy)),
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """The delays, and what the kernel has to do with them."""
    sharp = "sharp phase transition (Fig. 2)"
    persists = f"{sharp}; grokking persists even after carefully tuning the initialization scale"
    products = ("times_binary", "times_one_hot")
    fails = "reduces the sharp phase transition for modular addition but fails to do so for multiplication"
    alike, embeddings = f"largest of an embedding over the least is below {ALIKE:g}", tuple(names(k))
    return [
        delayed(k, "one_hot", persists),
        *([delayed(k, "text", sharp)] if k.text else []),
        *(claim for name in names(k)[1:] for claim in against_one_hot(k, name)),
        lab.Claim(
            id="products_time",
            statement=f"multiplication: steps to 95%, binary digits over one-hot, are not below {NO_EFFECT.low:g}",
            paper=fails,
            rule=lab.above(NO_EFFECT.low),
            estimate=lab.TimeRatio(*products, k.accuracy),
            kind=lab.Kind.PRIMARY,
        ),
        lab.Claim(
            id="products_progress",
            statement=f"multiplication: {FITS}, binary digits less one-hot, is below {SOME:g}",
            paper=fails,
            rule=lab.below(SOME),
            estimate=Progress(products),
        ),
        lab.Claim(
            id="kernels_alike",
            statement=f"change of the NTK over the run: {alike}",
            paper="evolves similarly across all four types of embeddings (Fig. 3)",
            rule=lab.below(ALIKE),
            estimate=Spread(embeddings),
            kind=lab.Kind.PRIMARY,
        ),
        lab.Claim(
            id="rotations_alike",
            statement=f"1 - cos(K_t, K_0) over the run: {alike}",
            paper="no number",
            rule=lab.below(ALIKE),
            estimate=Spread(embeddings, "rotation"),
        ),
    ]


def draw_changes(ax: "Axes", results: lab.Results, what: str, label: str) -> None:
    """Fig. 3: the change of the kernel since step 0, the mean over seeds and the range of all of them."""
    for name in names(results.knobs):
        seen = results.traces[name].measured(kernel(results.knobs))
        steps, values, colour = seen["step"][1:], seen[what][:, 1:], COLOURS[name]
        ax.plot(steps, values.mean(axis=0), color=colour, marker=".", label=LABELS[name])
        ax.fill_between(steps, *np.quantile(values, [0, 1], axis=0), color=colour, alpha=0.2, linewidth=0)
    # The change has the size of the weights in it and spans decades; the rotation is between 0 and 1.
    ax.set(title=f"NTK: {label}", xlabel="optimizer steps")
    if what == "change":
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)
    lab.legend_below(ax)


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 2 above; below multiplication and Fig. 3."""
    k = results.knobs
    picture.set_size_inches(3.0 * len(names(k)), 6)
    added, others = picture.subplots(2, len(names(k)))
    for ax, name in zip(added, names(k), strict=True):
        draw_grokking(ax, results, [name], f"a + b mod {k.modulus}", k.accuracy)
    for ax, name in zip(others, ("times_one_hot", "times_binary"), strict=False):
        draw_grokking(ax, results, [name], f"a b mod {k.modulus}", k.accuracy)
    for ax, what, label in zip(others[2:], ("change", "rotation"), CHANGES, strict=False):
        draw_changes(ax, results, what, label)


LAPTOP = Knobs(
    num_seeds=8,
    num_selection_seeds=16,
    modulus=97,
    num_test=2048,
    width=128,
    steps=600,
    product_steps=1000,
    record_every=10,
    inits=(0.3, 1.0),
    rates=(0.01, 0.1),
    decays=(0.1, 1.0),
    rungs=(1, 2, 4, 8),
)
SMOKE = replace(
    LAPTOP,
    num_seeds=2,
    num_selection_seeds=2,
    modulus=7,
    num_test=None,
    width=8,
    steps=20,
    product_steps=20,
    inits=(1.0,),
    decays=(0.1,),
    rungs=(),
    text=False,
    kernel_rows=4,
    kernel_looks=2,
)

STUDY = lab.Study(
    name="grok_transfer/embeddings",
    title="What an embedding says of the task decides whether there is a delay",
    paper=PAPER_TITLE,
    figures="Figs. 2 and 3",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": Knobs()},
    minutes={"smoke": 0.1, "laptop": 10.0, "paper": 5000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("mlp",),
)
