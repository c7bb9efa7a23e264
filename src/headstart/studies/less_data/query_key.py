"""What scales of queries and keys do to the gap: learning rate, initial scale, normalisation.

Paper     Less Data, Faster Training, Section 5.2.2 and Figs. 8, 9, 27b and 28
Claim     On parity a larger learning rate or initial scale of W_q and W_k helps online training most, 100 epochs less
          and 6 phases least, so the gap shrinks; a larger initial scale also narrows it on a single-index model and in
          context. Normalised queries and keys speed online training on parity and the single-index model, slow
          6 phases by overfitting, and hurt in-context regression and modular addition on both sides.
Setting   The runs of mini_batch_transformers. (a) The rate of W_q and W_k is a multiple of the others', which stay at
          the best global rate of the arm without it; (b) W_q and W_k begin at a multiple of their standard values, so
          that the logits begin at about its square, at the same global rate; (c) RMSNorm with a learnable scale on
          q and k, the rate swept by itself.
Measured  The area under the mean test curve (the mean accuracy or loss over the run). The best multiple of an arm is
          that with the best area, chosen anew in each resample of the 95% paired bootstraps over seeds. Gains are
          signed so that above 0 is better. The gap is the area of the small side less that of online; what is left of
          it with the best multiple of each side is compared with the standard one. Overfitting is the mean over
          records of the training accuracy (of the next batch) less the test accuracy.
Expected  Best rate multiples 3.6 (online), 2.5 (100 epochs), 1.25 (6 phases); best scales 8, 2, 1. No other numbers.
Shrunk    Laptop: as mini_batch_transformers; multiples 1, 2 and 4 of rates, 1, 2 and 8 of scales on parity, 1 and 4 of
          scales on the other tasks.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.lab.claims import check_paired
from headstart.lab.figures import Curve, draw_curve, house_style
from headstart.measures import Estimate, bootstrap
from headstart.methods import QueryKey
from headstart.studies.less_data import PAPER_TITLE, Line, Panel
from headstart.studies.less_data._transformers import ContextKnobs, IndexKnobs, ModularKnobs, ParityKnobs, presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAINING = Curve("training accuracy", lambda trace: trace["train_accuracy"])


@dataclass(frozen=True)
class Knobs(ModularKnobs, ContextKnobs, IndexKnobs, ParityKnobs):
    """Those of all four tasks, and the multiples; 1, the untouched run, is always among them."""

    rate_factors: tuple[float, ...] = (1.25, 1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.2)
    init_factors: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)
    other_init_factors: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)


PRESETS = presets(
    Knobs,
    smoke={"rate_factors": (2.0,), "init_factors": (4.0,), "other_init_factors": (4.0,)},
    laptop={"num_seeds": 6, "rate_factors": (2.0, 4.0), "init_factors": (2.0, 8.0), "other_init_factors": (4.0,)},
)


@dataclass(frozen=True)
class Family:
    """A task's untouched panel, and the multiples of rate and of initial scale that its arms are trained with too."""

    panel: Panel
    rates: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    def arm(self, line: str, kind: str = "", factor: float = 1.0) -> str:
        """The untouched arm, which is factor 1 of both scales; then rate4, init8 or norm."""
        plain = self.panel.arm(line)
        if kind == "norm":
            return f"{plain}_norm"
        return plain if factor == 1 else f"{plain}_{kind}{factor:g}"

    def multiples(self, kind: str) -> tuple[float, ...]:
        """1 and the others of a kind."""
        return (1.0, *(self.rates if kind == "rate" else self.scales))

    def arms(self) -> list[lab.Arm]:
        """Every arm untouched and normalised, each with its sweep, and with each multiple at the former's rate."""
        model: Any = self.panel.run.model
        normalised = replace(self.panel, run=replace(self.panel.run, model=replace(model, qk_norm=True)))
        out = []
        for line, plain, norm in zip(self.panel.lines, self.panel.arms(), normalised.arms(), strict=True):
            changed = [(self.arm(line.name, "rate", f), f"rate x {f:g}", QueryKey(rate=f)) for f in self.rates]
            changed += [(self.arm(line.name, "init", f), f"init x {f:g}", QueryKey(init=f)) for f in self.scales]
            out += [plain, replace(norm, name=self.arm(line.name, "norm"), label=f"{line.label}, normalised")]
            for name, label, method in changed:
                run = replace(plain.run, methods=(method,))
                out.append(
                    replace(plain, name=name, label=f"{line.label}, {label}", run=run, sweep=lab.RateOf(plain.name))
                )
        return out


def families(k: Knobs) -> tuple[Family, Family, Family, Family]:
    """Parity with all multiples, the single-index model and in-context regression with scales, modular addition."""
    return (
        Family(k.parity_panel(), k.rate_factors, k.init_factors),
        Family(k.index_panel(), scales=k.other_init_factors),
        Family(k.context_panel(), scales=k.other_init_factors),
        Family(k.modular_panel()),
    )


def goodness(results: lab.Results, arms: list[str]) -> NDArray[np.float64]:
    """The areas under the test curves, [arms, seeds], with the sign that makes more better."""
    check_paired(results, arms)
    sign = 1 if results.metric(arms[0]).higher_is_better else -1
    return np.array([[sign * summary.area for summary in results.summaries[arm]] for arm in arms])


@dataclass(frozen=True)
class BestMultiples:
    """The best multiple of line `one` over that of line `other`."""

    family: Family
    kind: str
    one: str
    other: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The ratio with its interval."""
        factors = self.family.multiples(self.kind)
        one, other = (
            goodness(results, [self.family.arm(line, self.kind, f) for f in factors]) for line in (self.one, self.other)
        )

        def ratio(rows: NDArray[np.int64]) -> float:
            best = [factors[int(stack[:, rows].mean(axis=1).argmax())] for stack in (one, other)]
            return best[0] / best[1]

        return bootstrap(ratio, one.shape[1])


@dataclass(frozen=True)
class GapLeft:
    """The gap in area, `small` less online, with the best multiple of each, over the standard one."""

    family: Family
    kind: str
    small: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The ratio with its interval."""
        factors = self.family.multiples(self.kind)
        small, online = (
            goodness(results, [self.family.arm(line, self.kind, f) for f in factors]) for line in (self.small, "online")
        )

        def ratio(rows: NDArray[np.int64]) -> float:
            means = [stack[:, rows].mean(axis=1) for stack in (small, online)]
            return float((means[0].max() - means[1].max()) / (means[0][0] - means[1][0]))

        return bootstrap(ratio, small.shape[1])


@dataclass(frozen=True)
class Gain:
    """How much better the area of arm `one` is than that of arm `other`."""

    one: str
    other: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The mean difference with its interval."""
        one, other = goodness(results, [self.one, self.other])
        return bootstrap(lambda rows: float((one - other)[rows].mean()), len(one))


def overfitting(trace: Trace) -> float:
    """The mean over records of training accuracy less test accuracy."""
    return float(np.mean(trace["train_accuracy"] - trace["test_accuracy"]))


@dataclass(frozen=True)
class Overfitting:
    """The overfitting of arm `one` less that of arm `other`."""

    one: str
    other: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The mean difference with its interval."""
        check_paired(results, (self.one, self.other))
        one, other = (np.array([overfitting(t) for t in results.traces[arm]]) for arm in (self.one, self.other))
        return bootstrap(lambda rows: float((one - other)[rows].mean()), len(one))


def claims(k: Knobs) -> list[lab.Claim]:
    """Multiples on parity, scales on two other tasks, normalisation on all four."""
    parity, index, context, modular = families(k)
    out = []
    for kind, what, paper in (("rate", "learning rate", "3.6 / 1.25 = 2.9"), ("init", "initial scale", "8 / 1")):
        largest = parity.multiples(kind)[-1]
        out += [
            lab.Claim(
                id=f"{kind}_multiple",
                statement=f"parity: the best multiple of the {what} of W_q and W_k, online over 6 phases, is above 1",
                paper=paper,
                rule=lab.above(1.0),
                estimate=BestMultiples(parity, kind, "online", "six"),
            ),
            lab.Claim(
                id=f"{kind}_helps_online",
                statement=f"parity, online: W_q and W_k with {largest:g} times the {what}; gain in area above 0",
                paper="helps online training most (Fig. 8)",
                rule=lab.above(0.0),
                estimate=Gain(parity.arm("online", kind, largest), parity.arm("online")),
            ),
        ]
        for family, small in ((parity, "six"), (parity, "hundred"), (index, "small"), (context, "small")):
            if len(family.multiples(kind)) > 1:
                out.append(
                    lab.Claim(
                        id=f"{kind}_narrows_{family.panel.arm(small)}",
                        statement=f"{family.panel.title}: what the best {what} of W_q and W_k on each side leaves of "
                        f"the gap in area, {small} against online, is below 1",
                        paper="the gap is reduced (Figs. 8, 9)",
                        rule=lab.below(1.0),
                        estimate=GapLeft(family, kind, small),
                    )
                )
    helps, hurts = (lab.above(0.0), "above 0"), (lab.below(0.0), "below 0")
    for family, line, (rule, side), paper in (
        (parity, "online", helps, "speeds online training (Fig. 8c)"),
        (parity, "six", hurts, "slows 6-phase training (Fig. 8c)"),
        (index, "online", helps, "speeds online training (Fig. 9b)"),
        (context, "online", hurts, "hurts both (Fig. 9d)"),
        (context, "small", hurts, "hurts both (Fig. 9d)"),
        (modular, "online", hurts, "worsens both (Fig. 27b)"),
        (modular, "small", hurts, "worsens both (Fig. 27b)"),
    ):
        out.append(
            lab.Claim(
                id=f"norm_{family.panel.arm(line)}",
                statement=f"{family.panel.title}, {line}: normalised queries and keys; gain in area {side}",
                paper=paper,
                rule=rule,
                estimate=Gain(family.arm(line, "norm"), family.arm(line)),
            )
        )
    out.append(
        lab.Claim(
            id="norm_overfits",
            statement="parity, 6 phases: training less test accuracy is larger with normalised queries and keys; "
            "above 0",
            paper="worse overfitting (Fig. 28)",
            rule=lab.above(0.0),
            estimate=Overfitting(parity.arm("six", "norm"), parity.arm("six")),
        )
    )
    return out


def figure(results: lab.Results) -> "Figure":
    """Rates, scales, the norm on test and training data: a row for each arm of parity (Figs. 8, 28), one for a task."""
    with house_style() as module:
        parity, *others = families(results.knobs)
        rows = [(parity, (line,)) for line in parity.panel.lines] + [(family, family.panel.lines) for family in others]
        picture = module.Figure(figsize=(13.5, 2.5 * len(rows)), layout="constrained")
        for row, (family, lines) in zip(picture.subplots(len(rows), 4), rows, strict=True):
            _draw_row(row, results, family, lines)
        return picture


def _draw_row(row: Any, results: lab.Results, family: Family, lines: tuple[Line, ...]) -> None:
    """Arms with every rate, with every scale, with and without the norm; the last also on training data."""

    def changed(kind: str) -> list[list[str]]:
        return [[family.arm(line.name, kind, f) for f in family.multiples(kind)] for line in lines]

    norm = [[family.arm(line.name), family.arm(line.name, "norm")] for line in lines]
    signs = family.panel.learns_signs
    columns = ("rate", changed("rate")), ("initial scale", changed("init")), ("norm", norm), ("norm, training", norm)
    for ax, (title, arms) in zip(row, columns, strict=True):
        training = title == "norm, training"
        if len(arms[0]) == 1 or (training and not signs):
            ax.set_axis_off()
            continue
        for names in arms:
            for shade, name in enumerate(names):
                draw_curve(ax, results, name, "steps", shade, len(names), TRAINING if training else None)
        ax.set_ylabel(TRAINING.label if training else "test accuracy" if signs else "test loss / Var(y)")
        ax.set_title(f"{family.panel.title}: {title}", fontsize=7)
        ax.legend(loc="lower right" if signs else "upper right", fontsize=6)


STUDY = lab.Study(
    name="less_data/query_key",
    title="Queries and keys: learning rate, initial scale, normalisation",
    paper=PAPER_TITLE,
    figures="Figs. 8, 9, 27b, 28",
    presets=PRESETS,
    minutes={"smoke": 0.3, "laptop": 19.0, "paper": 100_000.0},
    arms=lambda knobs: [arm for family in families(knobs) for arm in family.arms()],
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
