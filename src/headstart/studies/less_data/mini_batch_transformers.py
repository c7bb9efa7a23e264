"""The small-vs-large gap of Transformers with mini-batch AdamW, on four tasks.

Paper     Less Data, Faster Training, Section 3 and Fig. 1 (a-d); schedules from Appendix B.1
Claim     Two-layer Transformers reach the target in fewer steps when they repeat smaller sets first. On parity, in
          steps: 6 phases < 100 epochs on 1% of the data < online.
Setting   AdamW (beta1 .9), batch 32 (single index: 128), two layers, no layer normalisation, learned positions.
          (a) (d, k)-parity, encoder, mean-pooled readout, logistic loss; pools of .001 .002 .005 .01 .02 .1 of the
              online samples for 100 50 20 10 10 4 epochs; one pool of .01 for 100 epochs; online.
          (b) y = He_3(<w*, x>), encoder: .005 of the online samples first, then fresh ones, against fresh ones.
          (c) In-context linear regression, 4 features, 15 examples, decoder, loss on the last token: pools of
              .005 .02 .05 .1 for .1 .1 .1 .7 of the steps, against fresh sequences.
          (d) Modular addition of digits, decoder, cross-entropy: the same pools for 20 5 4 6 epochs, against online.
          The paper states neither normalisation, positions, readout, MLP width, weight decay nor (N, p, base). It says
          that weights begin as PyTorch's defaults; ours do, but for embeddings and positions, N(0, 0.1^2) instead of
          N(0, 1), chosen because the gap is plain there: open_choices shows what N(0, 1) leaves of it.
Measured  Steps of the seed-mean test curve, as its nearest monotone curve, to 95% accuracy or to a loss of
          0.3 Var(y); 95% paired bootstraps over seeds. Learning rates: grid of ratio 1.2 for each arm, extended until
          the best is inside, on seeds that no claim uses; with each beta2 of .8 .9 .95 .999 in the paper preset. The
          mean of some seeds is at 95% only once nearly all of them have learned. So every ratio of steps is also that
          of the median seed, and gaps are also claimed by area, the mean accuracy or loss over the run;
          these claims were added after curves had been seen, here and in the other studies of Transformers.
Held out  At (10,6) there are 1024 points in all. With 3000 steps of 32 the 1% pool is 960 samples, about 623 distinct
          points, and the six pools hold about 92, 175, 383, 623, 867 and all of them. A claim bounds the accuracy of
          100 epochs on the points outside its pool from below, as if it had every point of the pool right. Addition
          below 50 has 2500 pairs in all: the four pools hold about 437, 1340, 2134 and 2446 of them and online training
          sees each about 38 times, so that panel is about how fast a table is learned, not about new pairs.
Shrunk    Laptop: (10,6) instead of (20,6), width 64 and 4 heads instead of 256 and 8, MLPs of width 64 instead of four
          times the width, 3000 steps, 24 seeds, beta2 = .95 alone. The others have width 32 and MLPs of width 64:
          single index d = 16, batch 64, 1200 steps, 200 of them in the first phase; in-context regression 2 features,
          8 examples, 2000 steps; addition of numbers below 50 modulo 7, 3000 steps, to 90% accuracy.
Tried     On two or three selection seeds and a few rates, before any claim: parity (10,4), (10,5), (12,4), the same
          order; single index d = 16 and 24 with two and four coordinates a token, where the gap is small or mixed;
          in-context 4 features and 10 examples, not learned in 2500 steps; addition below 100 modulo 11 and 23, not
          learned to 95% in 3000 steps.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import headstart.lab as lab
from headstart.lab.areas import better
from headstart.lab.panels import Panel, arms_of, draw_panels, with_medians
from headstart.measures import Estimate, bootstrap
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._other_tasks import ContextKnobs, IndexKnobs, ModularKnobs
from headstart.studies.less_data._parity import ParityKnobs, in_order, pool_size
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Most of what is outside the pool is right: declared before the claim was computed.
HELD_OUT = 0.9


@dataclass(frozen=True)
class Knobs(ModularKnobs, ContextKnobs, IndexKnobs, ParityKnobs):
    """Those of all four tasks."""


def panels(k: Knobs) -> list[Panel]:
    """The four panels of Fig. 1."""
    return [k.parity_panel(), k.index_panel(), k.context_panel(), k.modular_panel()]


@dataclass(frozen=True)
class HeldOutAccuracy:
    """A lower bound on the final accuracy of an arm on the points outside its pool, by every seed's own pool.

        1 - (1 - accuracy) / (1 - share),  share = distinct points of the pool / 2^d

    It is exact if every point of the pool is right, and 0 at worst.
    """

    arm: str
    pool: int

    def __call__(self, results: lab.Results) -> Estimate:
        """The mean over seeds with its interval."""
        task, ids = results.arms[self.arm].run.task, np.arange(self.pool, dtype=np.int64)
        pools = [np.unique(task.sample(trace.seed, ids).x, axis=0) for trace in results.traces[self.arm]]
        share = np.array([len(points) / 2**task.signature.num_inputs for points in pools])
        bound = np.where(share < 1, 1 - (1 - results.finals(self.arm)) / np.maximum(1 - share, 1e-9), 0.0).clip(0, 1)
        return bootstrap(lambda rows: float(bound[rows].mean()), len(bound))


def claims(k: Knobs) -> list[lab.Claim]:
    """The order of the three arms of parity, what it is worth outside the pool, and a gap in each other task."""
    parity, *others = panels(k)
    return [
        *in_order(parity, *("6-phase < 100-epoch < online (Fig. 1, 8; no number)",) * 2),
        better(parity, "six", "hundred", "6-phase < 100-epoch in steps (Fig. 1, 8; no number)"),
        lab.Claim(
            id="parity_held_out",
            statement=f"{parity.title}: 100 epochs, final accuracy outside its pool, at least; above {HELD_OUT:g}",
            paper="not asked: the paper's pools are a small part of 2^20 points",
            rule=lab.above(HELD_OUT),
            estimate=HeldOutAccuracy(parity.arm("hundred"), pool_size(k.steps)),
        ),
        *(panel.faster("small", "online", "a gap (Fig. 1)", "repeating first against online") for panel in others),
        *(better(panel, "small", "online", "a gap (Fig. 1)") for panel in others),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 1."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/mini_batch_transformers",
    title="The small-vs-large gap of Transformers on four tasks",
    paper=PAPER_TITLE,
    figures="Fig. 1 (a-d)",
    presets=presets(Knobs, laptop={"num_seeds": 24}),
    minutes={"smoke": 0.3, "laptop": 19.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
