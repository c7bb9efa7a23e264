"""Numbers of 64 bits against 32: does what was learned stay learned?

Paper     Let Me Grok For You, Section 4.1 and Appendix A.3.3, after Nanda et al. (2023) and Thilak et al. (2022)
Claim     Under Adam accuracy collapses again and again after it was high, the slingshot; training in float64 mitigates
          it. The paper trains in float32 to save compute, and ascribes its oscillations to the slingshot and to large
          rates.
Setting   Modular addition on a quarter of the pairs, three ReLU layers without biases, AdamW on the full batch,
          cross-entropy, at fixed settings. "no decay": over one-hot vectors, without weight decay, second beta .98 as
          in Nanda et al., where the training loss falls to what float32 can hold; this network memorises and its
          training accuracy is what can collapse. "large rate": the target of fnn_to_fnn from scratch at the paper's
          (.1, .1, 2), which generalises and then oscillates. The precisions differ in nothing else.
Measured  From the first record with 95% accuracy to the end of the run: the least accuracy, and how often it falls
          below 90% (drops). Runs that never have 95% have nothing to lose: their least accuracy is 1, with 0 drops, and
          the share that arrives stands beside. 95% paired bootstraps over seeds.
Expected  Less of a fluctuation in float64; no number.
Tried     One or two runs each, on seeds that no claim uses. No decay, p = 31 and 43: a least training accuracy of 0.61
          to 0.90 in float32 and 0.98 to 1.00 in float64, at rates 0.03 and 0.1, widths 64 and 128. At rate 0.01, or
          with a second beta of .999, there is no collapse in 3000 steps. Large rate, p = 59: down to 0.02 to 0.18 in
          float32, and to 0.03 to 0.05 in float64. With waves as a fixed table at the paper's (.5, .1, .1), or from
          scratch at (.3, .03, 2), there is none in either within 800 and 1000 steps.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.methods import InitScale
from headstart.models import MLP, OneHot
from headstart.optimizers import AdamW
from headstart.run import Precision, Run
from headstart.studies.grok_transfer import NO_EFFECT, PAPER_TITLE, ModularKnobs, modular_run, target_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SINGLE, DOUBLE = Precision.FLOAT32, Precision.FLOAT64
# Each setting with its words and the accuracy that can collapse.
SETTINGS = {"no_decay": ("no decay", "train_accuracy"), "large_rate": ("large rate", "test_accuracy")}
# A difference of accuracies this small would not matter; declared before the runs that are reported.
NO_LOSS = lab.Within(-0.02, 0.02)
FINDING = (
    "Without decay the least training accuracy after 95% is higher in float64 by {no_decay_least}, and at a large rate "
    "the least test accuracy by {large_rate_least}: that float64 mitigates the collapse {no_decay_least.says} in the "
    "first and {large_rate_least.says} in the second."
)


@dataclass(frozen=True)
class Knobs(ModularKnobs):
    """The rate and decay of the large rate; size, length and rate without decay; and what counts as a drop."""

    large: tuple[float, float, float] = (0.1, 0.1, 2.0)
    small_modulus: int = 31
    small_width: int = 64
    small_steps: int = 3000
    small_rate: float = 0.03
    beta2: float = 0.98
    dropped: float = 0.9


def runs(k: Knobs) -> dict[str, Run]:
    """Both settings in float32."""
    small = replace(k, modulus=k.small_modulus, width=k.small_width, steps=k.small_steps, num_test=None)
    memorising = modular_run(small, MLP(small.width, small.depth, bias=False, embedding=OneHot()))
    init, rate, decay = k.large
    return {
        "no_decay": replace(memorising, methods=(), optimizer=AdamW(k.small_rate, beta2=k.beta2, weight_decay=0.0)),
        "large_rate": replace(
            modular_run(k, target_model(k)), methods=(InitScale(init),), optimizer=AdamW(rate, weight_decay=decay)
        ),
    }


def arms(k: Knobs) -> list[lab.Arm]:
    """Both settings in both precisions."""
    return [
        lab.Arm(f"{name}_{precision}", str(precision), replace(run, precision=precision), None, colour)
        for name, run in runs(k).items()
        for precision, colour in ((SINGLE, lab.warm()), (DOUBLE, lab.cold()))
    ]


@dataclass(frozen=True)
class Kept:
    """float64 against float32: the least accuracy after arrival, or with `drops` how often it falls below `dropped`."""

    setting: str
    target: float
    dropped: float
    drops: bool = False

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return f"{self.setting}_{DOUBLE}", f"{self.setting}_{SINGLE}"

    def after(self, trace: Trace) -> NDArray[np.float64]:
        """The accuracy from the first record at the target on; nothing if it never gets there."""
        curve = trace[SETTINGS[self.setting][1]]
        there = np.flatnonzero(curve >= self.target)
        return curve[there[0] :] if len(there) else np.empty(0)

    def of(self, trace: Trace) -> float:
        """The number of one run."""
        kept = self.after(trace)
        low = kept < self.dropped
        return float((low[1:] & ~low[:-1]).sum()) if self.drops else float(kept.min(initial=1.0))

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The mean difference with its interval, and the least share of runs that arrive."""
        lab.check_paired(results, self.arms)
        arrived = [[len(self.after(trace)) > 0 for trace in results.traces[arm]] for arm in self.arms]
        arrivals = min(float(np.mean(each)) for each in arrived)
        if not np.any(arrived):
            nothing = float("nan")
            return lab.Estimate(nothing, nothing, nothing, arrivals=arrivals)
        one, other = (np.array([self.of(trace) for trace in results.traces[arm]]) for arm in self.arms)
        return replace(lab.bootstrap(lambda rows: float((one - other)[rows].mean()), len(one)), arrivals=arrivals)


def claims(k: Knobs) -> list[lab.Claim]:
    """At each setting: the least accuracy and drops; and the steps that float64 takes."""
    out = []
    for name, (words, metric) in SETTINGS.items():
        least, what = Kept(name, k.accuracy, k.dropped), metric.replace("_", " ")
        out += [
            lab.Claim(
                id=f"{name}_least",
                statement=f"{words}: least {what} after {k.accuracy:.0%}, float64 less float32, is above 0",
                paper="float64 mitigates the Slingshot phenomenon, a fluctuation of accuracy and loss",
                rule=lab.above(0.0),
                estimate=least,
                kind=lab.Kind.PRIMARY,
                smallest=NO_LOSS,
            ),
            lab.Claim(
                id=f"{name}_drops",
                statement=f"{words}: drops of {what} below {k.dropped:.0%}, float64 less float32, are below 0",
                paper="no number",
                rule=lab.below(0.0),
                estimate=replace(least, drops=True),
            ),
        ]
    return [
        *out,
        lab.Claim(
            id="large_rate_time",
            statement=f"large rate: steps to {k.accuracy:.0%}, float64 over float32, are 1 within a tenth",
            paper="no number",
            rule=NO_EFFECT,
            estimate=lab.TimeRatio(f"large_rate_{DOUBLE}", f"large_rate_{SINGLE}", k.accuracy),
            kind=lab.Kind.CONTROL,
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """The accuracy of every run, in float32 above and in float64 below, at each setting."""
    picture.set_size_inches(9, 4.8)
    grid = picture.subplots(2, len(SETTINGS), sharex="col", sharey=True)
    for column, (name, (words, metric)) in zip(grid.T, SETTINGS.items(), strict=True):
        for ax, precision in zip(column, (SINGLE, DOUBLE), strict=True):
            arm = results.arms[f"{name}_{precision}"]
            for trace in results.traces[arm.name]:
                ax.plot(trace.steps, trace[metric], color=arm.colour, linewidth=0.7, alpha=0.6)
            ax.axhline(results.knobs.dropped, color="#888888", linewidth=0.8, linestyle=":")
            ax.set(title=f"{words}, {precision}", ylim=(-0.02, 1.02), ylabel=metric.replace("_", " "))
        column[-1].set_xlabel("optimizer steps")


LAPTOP = Knobs(num_seeds=16, modulus=59, num_test=2048, dim=64, width=128, steps=1000)
SMOKE = replace(
    LAPTOP,
    num_seeds=2,
    modulus=5,
    train_share=0.7,
    num_test=None,
    dim=8,
    width=16,
    steps=60,
    accuracy=0.5,
    dropped=0.4,
    small_modulus=7,
    small_width=16,
    small_steps=100,
)

STUDY = lab.Study(
    name="grok_transfer/precision",
    title="Whether float64 keeps what was learned",
    paper=PAPER_TITLE,
    figures="Section 4.1 and Appendix A.3.3",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": Knobs(num_seeds=16, small_modulus=113, small_width=512)},
    minutes={"smoke": 0.1, "laptop": 4.0, "paper": 3000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    finding=FINDING,
    tags=("mlp",),
)
