"""What scales of queries and keys do to the gap of parity: learning rate, initial scale, normalisation.

Paper     Less Data, Faster Training, Section 5.2.2 and Figs. 8 and 28
Claim     A larger learning rate or initial scale of W_q and W_k helps online training most, 100 epochs less and
          6 phases least, so the gap shrinks. Normalised queries and keys speed online training and almost close the
          gap, and slow 6 phases by overfitting: they fit the first two pools sooner and later ones worse.
Setting   The parity runs of mini_batch_transformers. (a) The rate of W_q and W_k is a multiple of the others', which
          stay at the best global rate of the arm without it, as in the paper; (b) W_q and W_k begin at a multiple of
          their standard values, so that the logits begin at about its square, the rate swept for each multiple;
          (c) RMSNorm with a learnable scale on q and k, the rate swept by itself.
Measured  As in mini_batch_transformers. The best multiple of an arm is the one of least restricted mean time, chosen
          anew in each resample of the seeds. That the gap narrows is the ratio of ratios of times, with the best
          multiple of each side over without, above 1: the same number says that online training gains more. "Almost
          closed" is a ratio above 0.8, declared beforehand. Overfitting is the mean over records of the training
          accuracy (of the next batch) less the test accuracy, none once a run is settled, with the norm less without.
Expected  Best rate multiples 3.6 (online), 2.5 (100 epochs), 1.25 (6 phases); best scales 8, 2, 1.
Shrunk    Laptop: as mini_batch_transformers; the paper's best multiples alone, and 1.
Tried     Version 0.1, on (10,6), where online training learns nothing, had scales at the rate of the standard ones:
          every multiple left all arms worse, and the norm lessened the overfitting of 6 phases with embeddings N(0, 1)
          and raised it with N(0, 0.1^2). With 8 seeds that choose, online training had another rate; its best multiple
          for W_q and W_k was 1, the ratio of ratios 1.00 [0.87, 1.13], and the norm slowed it, 1.29 [1.02, 1.65].
          After 48 seeds from 5000 on, whose overfitting was -0.002 [-0.009, 0.006], a difference within a point of
          accuracy was declared to be none.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._query_key import WHAT, Family, draw_rows, narrows, norm_claim, norm_closes
from headstart.studies.less_data._transformers import EPOCHS, FRACTIONS, OfTimes, ParityKnobs, presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The best multiples of each arm in the paper.
BEST = {
    "rate": {"online": 3.6, "hundred": 2.5, "six": 1.25},
    "init": {"online": 8.0, "hundred": 2.0, "six": 1.0},
}
# A point of accuracy is too little to matter.
A_POINT = lab.Within(-0.01, 0.01)
# The share of the steps that the first two phases take.
FIRST_TWO = FRACTIONS[0] * EPOCHS[0] + FRACTIONS[1] * EPOCHS[1]
FINDING = (
    "With the best rate of W_q and W_k on each side the ratio of steps, 6 phases over online, is "
    "{rate_narrows_parity_six} times that without, with the best initial scale {init_narrows_parity_six}; that the "
    "gap narrows {rate_narrows_parity_six.says} and {init_narrows_parity_six.says}. Normalised queries and keys take "
    "{norm_parity_online} of the steps of online training and {norm_parity_six} of those of 6 phases; that they speed "
    "the first {norm_parity_online.says}, slow the second {norm_parity_six.says}, and almost close the gap "
    "{norm_closes_parity_hundred.says}."
)


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of parity, and the multiples; 1, the untouched run, is always among them."""

    rate_factors: tuple[float, ...] = (1.25, 1.6, 2.0, 2.5, 3.0, 3.6, 4.3, 5.2)
    init_factors: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)


def family(k: Knobs) -> Family:
    """Parity with all multiples."""
    return Family(k.parity_panel(), k.rate_factors, k.init_factors)


@dataclass(frozen=True)
class Difference:
    """The seed-mean of a number of each trace of arm `one` less that of arm `other`."""

    one: str
    other: str
    statistic: Callable[[Trace], float]

    @property
    def arms(self) -> tuple[str, str]:
        """The arms it compares."""
        return self.one, self.other

    def __call__(self, results: lab.Results) -> lab.Estimate:
        """The difference with its interval."""
        lab.check_paired(results, self.arms)
        one, other = (np.array([self.statistic(trace) for trace in results.traces[arm]]) for arm in self.arms)
        return lab.bootstrap(lambda rows: float((one - other)[rows].mean()), len(one))


def overfitting(trace: Trace) -> float:
    """The mean over records of training accuracy less test accuracy; 0 where a settled run repeats its last one."""
    trained = np.diff(trace["train_loss"], prepend=np.inf) != 0
    return float(np.mean((trace["train_accuracy"] - trace["test_accuracy"]) * trained))


def fit(first: bool, trace: Trace) -> float:
    """The mean training accuracy over the records of the first two phases, or over those of the later ones."""
    inside = (trace.steps < FIRST_TWO * trace.steps[-1]) == first
    return float(np.mean(trace["train_accuracy"][inside]))


def _multiples(parity: Family, kind: str) -> list[lab.Claim]:
    """The best multiple of each arm beside the paper's, their order, and what they do to the gap."""
    factors, target, best = parity.multiples(kind), parity.panel.target, BEST[kind]
    tried, num = ", ".join(f"{factor:g}" for factor in factors), len(factors)

    def pick(times: np.ndarray) -> float:
        return factors[int(times.argmin())]

    out = [
        lab.Claim(
            id=f"{kind}_order",
            statement=f"parity: the best {WHAT[kind]} of W_q and W_k of online training over that of 6 phases, above 1",
            paper=f"{best['online']:g} over {best['six']:g} (Fig. 8)",
            rule=lab.above(1.0),
            estimate=OfTimes(
                parity.names("online", kind) + parity.names("six", kind),
                target,
                lambda t: pick(t[:num]) / pick(t[num:]),
            ),
            kind=lab.Kind.PRIMARY,
        ),
        narrows(parity, kind, "six", lab.Kind.PRIMARY),
        narrows(parity, kind, "hundred"),
    ]
    for line, said in best.items():
        nearest = min(factors, key=lambda factor: abs(math.log(factor / said)))
        out.append(
            lab.Claim(
                id=f"{kind}_multiple_{line}",
                statement=f"parity, {parity.panel.label(line)}: the best of the multiples {tried} of the {WHAT[kind]} "
                f"of W_q and W_k is the nearest to the paper's, {nearest:g}",
                paper=f"{said:g} (Fig. 8)",
                rule=lab.Within(0.99 * nearest, 1.01 * nearest),
                estimate=OfTimes(parity.names(line, kind), target, pick),
            )
        )
    return out


def claims(k: Knobs) -> list[lab.Claim]:
    """Multiples that online training wants and gains from, narrower gaps, normalisation and overfitting."""
    parity, primary = family(k), lab.Kind.PRIMARY
    greatly = lab.Claim(
        id="init_helps_online",
        statement="parity, online: steps with the best larger initial scale of W_q and W_k over those without, below 1",
        paper="benefits greatly, best at 8 (Fig. 8b)",
        rule=lab.below(1.0),
        estimate=OfTimes(parity.names("online", "init"), k.accuracy, lambda t: t[1:].min() / t[0]),
        kind=primary,
        smallest=lab.NO_EFFECT,
    )
    arms = parity.normed.arm("six"), parity.panel.arm("six")
    fits = (
        ("norm_overfits", "training less test accuracy", "above", "worse overfitting (Fig. 28)", overfitting),
        ("norm_fits_first", "training accuracy in the first two phases", "above", "", partial(fit, True)),
        ("norm_fits_later", "training accuracy in the later phases", "below", "", partial(fit, False)),
    )
    return [
        *_multiples(parity, "rate"),
        *_multiples(parity, "init"),
        greatly,
        norm_claim(parity, "online", True, "significantly speeds online training (Fig. 8c)", primary),
        norm_closes(parity, "hundred", "almost entirely closes the gap (Fig. 8c)", primary),
        norm_claim(parity, "six", False, "slows 6-phase training (Fig. 8c)", primary),
        *(
            lab.Claim(
                id=name,
                statement=f"parity, 6 phases: {what}, with normalised queries and keys less without, {side} 0",
                paper=said or "overfits in the first two phases, struggles to fit later ones (Fig. 28)",
                rule=lab.above(0.0) if side == "above" else lab.below(0.0),
                estimate=Difference(*arms, statistic),
                kind=primary if said else lab.Kind.SECONDARY,
                smallest=A_POINT,
            )
            for name, what, side, said, statistic in fits
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Figs. 8 and 28, a row for each arm."""
    parity = family(results.knobs)
    draw_rows(picture, results, [(parity, (line,)) for line in parity.panel.lines])


STUDY = lab.Study(
    name="less_data/query_key",
    title="Queries and keys on parity: learning rate, initial scale, normalisation",
    paper=PAPER_TITLE,
    figures="Figs. 8, 28",
    presets=presets(
        Knobs,
        smoke={"rate_factors": (2.0,), "init_factors": (4.0,)},
        laptop={"rate_factors": (1.25, 2.5, 3.6), "init_factors": (2.0, 8.0)},
    ),
    minutes={"smoke": 0.1, "laptop": 27.0, "paper": 100_000.0},
    arms=lambda knobs: family(knobs).arms(),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
