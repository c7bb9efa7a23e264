"""What scales of queries and keys do to the gap: learning rate, initial scale, normalisation.

Paper     Less Data, Faster Training, Section 5.2.2 and Figs. 8 and 28 (parity)
Claim     A larger learning rate or initial scale of W_q and W_k helps online training most, 100 epochs less and
          6 phases least, so the gap shrinks. Normalised queries and keys speed online training, and slow 6 phases
          by overfitting: the training accuracy is ahead of the test accuracy.
Setting   The parity runs of mini_batch_transformers. (a) The rate of W_q and W_k is a multiple of the others', which
          stay at the arm's best global rate; (b) W_q and W_k begin at a multiple of their standard values, so that
          the logits begin at about its square; (c) RMSNorm with a learnable scale on q and k, swept by itself.
          The best global rates are knobs, one for each arm, for what the sweep of mini_batch_transformers chooses.
Measured  The area under the mean test curve (the mean accuracy over the run) for every multiple. The best multiple of
          an arm is that with the largest area; claims compare best multiples of two arms, and areas with and without
          normalisation, by 95% paired bootstraps over seeds. Overfitting is the mean over records of the training
          accuracy (of the next batch) less the test accuracy.
Expected  Best rate multiples 3.6 (online), 2.5 (100 epochs), 1.25 (6 phases); best scales 8, 2, 1.
Shrunk    Laptop: (10,6), width 64, 3000 steps, multiples 1, 2, 4 (and 8 for scales), few seeds, one global rate for
          all three arms. Single index, in-context regression and modular addition (Figs. 9 and 27) are not here.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.lab.claims import check_paired
from headstart.lab.figures import Curve, draw_curve, house_style
from headstart.measures import Estimate, bootstrap
from headstart.methods import Method, QueryKey
from headstart.optimizers import AdamW
from headstart.run import Run
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._transformers import Size, parity_run, three_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("six", "hundred", "online")


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Task, model, length in steps, the global rate of each arm (6 phases, 100 epochs, online), and the multiples."""

    parity: tuple[int, int] = (20, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float, float] = (4e-4, 4e-4, 4e-4)
    rate_factors: tuple[float, ...] = (1.0, 1.25, 1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.2)
    init_factors: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    norm_rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)


PAPER = Knobs(num_seeds=32, num_selection_seeds=8)
LAPTOP = Knobs(
    num_seeds=6,
    num_selection_seeds=2,
    norm_rates=(1e-3, 1.44e-3),
    parity=(10, 6),
    size=(64, 2, 4, 64),
    steps=3000,
    rates=(1e-3, 1e-3, 1e-3),
    rate_factors=(1.0, 2.0, 4.0),
    init_factors=(1.0, 2.0, 4.0, 8.0),
)
SMOKE = Knobs(
    num_seeds=2,
    norm_rates=None,
    parity=(4, 2),
    size=(8, 1, 2, 8),
    steps=40,
    rates=(5e-3, 5e-3, 5e-3),
    rate_factors=(1.0, 2.0),
    init_factors=(1.0, 4.0),
)


def arm_name(line: str, kind: str, factor: float = 1.0) -> str:
    """plain is the untouched run, which is factor 1 of both scales; then rate4, init8 or norm."""
    if kind == "norm":
        return f"{line}_norm"
    return f"{line}_plain" if factor == 1 else f"{line}_{kind}{factor:g}"


def arms(k: Knobs) -> list[lab.Arm]:
    """Every arm of parity untouched, with each multiple, and normalised."""
    out = {}
    for line, rate in zip(three_arms(k.steps), k.rates, strict=True):

        def add(name: str, label: str, methods: tuple[Method, ...], norm: bool = False) -> None:
            run: Run = parity_run(*k.parity, k.steps, Size(*k.size), qk_norm=norm)
            run = replace(run, plan=line.plan, methods=methods, optimizer=AdamW(rate, beta2=0.95))  # noqa: B023
            sweep = lab.Sweep(*k.norm_rates) if norm and k.norm_rates is not None else None
            out[name] = lab.Arm(name, f"{line.label}, {label}", run, sweep, line.side)  # noqa: B023

        add(arm_name(line.name, "rate"), "standard", ())
        for factor in k.rate_factors:
            if factor != 1:
                add(arm_name(line.name, "rate", factor), f"rate x {factor:g}", (QueryKey(rate=factor),))
        for factor in k.init_factors:
            if factor != 1:
                add(arm_name(line.name, "init", factor), f"init x {factor:g}", (QueryKey(init=factor),))
        add(arm_name(line.name, "norm"), "normalised", (), norm=True)
    return list(out.values())


def areas(results: lab.Results, arm: str) -> NDArray[np.float64]:
    """The area under each seed's test curve."""
    return np.array([summary.area for summary in results.summaries[arm]])


@dataclass(frozen=True)
class BestFactorRatio:
    """The multiple with the largest mean area of line `one` over that of line `other`."""

    kind: str
    factors: tuple[float, ...]
    one: str
    other: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The ratio with its interval."""
        names = [[arm_name(line, self.kind, f) for f in self.factors] for line in (self.one, self.other)]
        check_paired(results, [*names[0], *names[1]])
        stacks = [np.stack([areas(results, arm) for arm in arms_of_line]) for arms_of_line in names]

        def ratio(rows: NDArray[np.int64]) -> float:
            best = [self.factors[int(stack[:, rows].mean(axis=1).argmax())] for stack in stacks]
            return best[0] / best[1]

        return bootstrap(ratio, stacks[0].shape[1])


@dataclass(frozen=True)
class AreaGain:
    """The mean area of arm `one` less that of arm `other`."""

    one: str
    other: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The difference with its interval."""
        check_paired(results, (self.one, self.other))
        gain = areas(results, self.one) - areas(results, self.other)
        return bootstrap(lambda rows: float(gain[rows].mean()), len(gain))


def overfitting(trace: Trace) -> float:
    """The mean over records of training accuracy less test accuracy."""
    return float(np.mean(trace["train_accuracy"] - trace["test_accuracy"]))


def overfitting_gain(results: lab.Results) -> Estimate:
    """The overfitting of 6 phases with normalised queries and keys less that without."""
    arms = "six_norm", "six_plain"
    check_paired(results, arms)
    one, other = (np.array([overfitting(trace) for trace in results.traces[arm]]) for arm in arms)
    return bootstrap(lambda rows: float((one - other)[rows].mean()), len(one))


def claims(k: Knobs) -> list[lab.Claim]:
    """Online training wants larger multiples than 6 phases, gains more from them, and gains from normalisation."""
    out = []
    for kind, what, factors, paper in (
        ("rate", "learning rate", k.rate_factors, "3.6 / 1.25 = 2.9"),
        ("init", "initial scale", k.init_factors, "8 / 1"),
    ):
        out.append(
            lab.Claim(
                id=f"{kind}_multiple",
                statement=f"The best multiple of the {what} of queries and keys, online over 6 phases, is above 1",
                paper=paper,
                rule=lab.above(1.0),
                estimate=BestFactorRatio(kind, factors, "online", "six"),
            )
        )
        best = factors[-1]
        out.append(
            lab.Claim(
                id=f"{kind}_helps_online",
                statement=f"Online: a {what} of queries and keys {best:g} times as large adds area; above 0",
                paper="the gap is reduced (Fig. 8)",
                rule=lab.above(0.0),
                estimate=AreaGain(arm_name("online", kind, best), "online_plain"),
            )
        )
    for line, rule, paper in (
        ("online", lab.above(0.0), "speeds online training"),
        ("six", lab.below(0.0), "slows 6-phase training"),
    ):
        side = "above" if line == "online" else "below"
        out.append(
            lab.Claim(
                id=f"norm_{line}",
                statement=f"{line}: normalised queries and keys change the area by an amount {side} 0",
                paper=f"{paper} (Fig. 8c)",
                rule=rule,
                estimate=AreaGain(f"{line}_norm", f"{line}_plain"),
            )
        )
    out.append(
        lab.Claim(
            id="norm_overfits",
            statement="6 phases: training less test accuracy is larger with normalised queries and keys; above 0",
            paper="worse overfitting (Fig. 28)",
            rule=lab.above(0.0),
            estimate=overfitting_gain,
        )
    )
    return out


def figure(results: lab.Results) -> "Figure":
    """Figs. 8 and 28: for each arm the curves of all rates, of all scales, with and without the norm."""
    k = results.knobs
    train = Curve("training accuracy", lambda trace: trace["train_accuracy"])
    with house_style() as module:
        picture = module.Figure(figsize=(14, 8.2), layout="constrained")
        grid = picture.subplots(3, 4)
        for row, line in zip(grid, LINES, strict=True):
            columns = [
                [arm_name(line, "rate", f) for f in k.rate_factors],
                [arm_name(line, "init", f) for f in k.init_factors],
                [f"{line}_plain", f"{line}_norm"],
            ]
            for ax, names in zip(row, columns, strict=False):
                for shade, name in enumerate(names):
                    draw_curve(ax, results, name, "steps", shade, len(names))
                ax.set_ylabel("test accuracy")
                ax.legend(loc="upper left")
            for shade, name in enumerate(columns[2]):
                draw_curve(row[3], results, name, "steps", shade, 2, train)
            row[3].set_ylabel(train.label)
            row[3].legend(loc="upper left")
        for ax, title in zip(grid[0], ("(a) rate", "(b) initial scale", "(c) norm", "(d) norm, training"), strict=True):
            ax.set_title(title)
        return picture


STUDY = lab.Study(
    name="less_data/query_key",
    title="Queries and keys: learning rate, initial scale, normalisation",
    paper=PAPER_TITLE,
    figures="Figs. 8, 28",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 13.0, "paper": 100_000.0},
    arms=arms,
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
