"""Biases of the input distribution do not explain the gap of Transformers either.

Paper     Less Data, Faster Training, Section 4.1.3, Appendix B.2.1 and Figs. 16 and 17
Claim     Removing the biases of the repeated set, E[x] = 0 or also E[y] = 0 and E[x|y] = 0, or whitening it, leaves its
          speed-up; giving fresh samples the biases of 2^m samples does not bring it unless m is very small.
Setting   The runs of mini_batch_transformers. Parity: the 1% pool of 100 epochs as it is drawn, with every column
          balanced, or balanced within each class of equal size. Biased online: fresh samples whose coordinates are
          independent, with the means of the run's first 2^m samples; labels true, test set uniform. Single index: the
          pool of the first phase whitened and labelled anew. The paper has (20,6)-parity and d = 50.
Measured  Steps to 95% accuracy, or a loss of 0.3 Var(y), of the seed-mean test curve, each arm at its own best
          learning rate; 95% paired bootstraps. "Remains": the ratio of steps lies in [2/3, 3/2], declared beforehand.
Expected  Best at m = 3; curves without numbers.
Shrunk    Laptop: as mini_batch_transformers; m = 3 alone of 2 to 6, since each arm costs a sweep; 12
          seeds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.areas import better
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, shaded, with_medians
from headstart.methods import SampledBias, Whiten, ZeroMean
from headstart.plans import Fixed, Online
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._other_tasks import IndexKnobs
from headstart.studies.less_data._parity import ParityKnobs, pool_size, three_arms
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REMAINS = lab.Within(2 / 3, 3 / 2)
# Biases as of 2^3 samples speed online training most in the paper.
BEST_EXPONENT = 3


@dataclass(frozen=True)
class Knobs(IndexKnobs, ParityKnobs):
    """Those of both tasks; biases are those of 2^m samples."""

    bias_exponents: tuple[int, ...] = (2, 3, 4, 5, 6)


PRESETS = presets(Knobs, smoke={"steps": 50, "bias_exponents": (3,)}, laptop={"bias_exponents": (3,)})


def panels(k: Knobs) -> tuple[Panel, Panel]:
    """Parity with all of its arms, and the single-index model."""
    six, hundred, online = three_arms(k.steps)
    pool = Fixed(pool_size(k.steps) // 8 * 8)  # whole classes of whole columns can be balanced
    biased = (
        Line(f"biased_{m}", f"online, biased as $2^{m}$", Online(), methods=(SampledBias(2**m),))
        for m in k.bias_exponents
    )
    parity = k.parity_panel(
        lines=(
            six,
            hundred,
            Line("zero_mean", "E[x] = 0", pool, lab.warm(2), (ZeroMean(),)),
            Line("zero_class_means", "also E[y] = E[x|y] = 0", pool, lab.warm(3), (ZeroMean(by_class=True),)),
            *shaded(lab.cold, (online, *biased)),
        )
    )
    two, fresh = k.index_panel().lines
    whitened = Line("whitened", "whitened pool, then fresh", two.plan, lab.warm(1), (Whiten(),))
    return parity, k.index_panel((two, whitened, fresh))


def claims(k: Knobs) -> list[lab.Claim]:
    """The gap without biases, and no gap closed by them."""
    parity, index = panels(k)
    persists = "repetition remains superior with biases removed (Fig. 16)"
    out = [
        parity.faster("zero_mean", "online", persists, "pool with E[x] = 0 against online"),
        parity.faster("zero_class_means", "online", persists, "also E[y] = E[x|y] = 0, against online"),
        index.faster("whitened", "online", persists, "whitened pool first against online"),
    ]
    for panel, plain, lines in (
        (parity, "hundred", ("zero_mean", "zero_class_means")),
        (index, index.lines[0].name, ("whitened",)),
    ):
        for line in lines:
            out.append(
                lab.Claim(
                    id=f"{panel.arm(line)}_vs_{plain}",
                    statement=f"{panel.title}: {panel.label(line)}, over the pool as drawn, steps in [2/3, 3/2]",
                    paper=persists,
                    rule=REMAINS,
                    estimate=panel.ratio(line, plain),
                )
            )
    bridges = "does not bridge the gap (Fig. 17)"
    for m in k.bias_exponents:
        biased = f"biased_{m}"
        out.append(parity.faster("hundred", biased, bridges, f"100 epochs against biased online, m = {m}"))
        out.append(parity.faster("six", biased, bridges, f"6 phases against biased online, m = {m}"))
        if m == BEST_EXPONENT:
            said = f"makes online training faster, best at m = {m} (Fig. 17)"
            out.append(parity.faster(biased, "online", said, f"biased online, m = {m}, against online"))
            out.append(better(parity, biased, "online", said))
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """Figs. 16 and 17."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/input_bias_transformers",
    title="Input biases do not explain the gap of Transformers",
    paper=PAPER_TITLE,
    figures="Figs. 16, 17",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 17.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
