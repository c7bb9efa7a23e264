"""The gap of Transformers without gradient noise: full batches on sparse and dense parity.

Paper     Less Data, Faster Training, Appendix B.2.1, Figs. 14b and 15, and Fig. 27a
Claim     With full batches a fixed set of samples reaches the target in fewer steps than all points, on (10,6)- and on
          (10,10)-parity; normalised queries and keys speed the large side and remove the gap. So neither the variance
          of gradients nor sparsity explains it.
Setting   Encoders as in mini_batch_transformers, AdamW on full batches: a fixed set of N samples against the exact
          population of 2^d points. (Fig. 14b says gradient descent and the text AdamW: AdamW here. Fig. 27a says
          (20,6) and the text d = 10 for full batches: d = 10 here.) The paper does not give N.
Measured  As in mini_batch_transformers. A gap is removed where small over large is above 0.9 and at least 80% of the
          runs of both arrive. Test points are draws of the 2^d points, so some are in the fixed set.
Arithmetic  A step of the small arm has N / 2^d of the samples of the large one's, so the ratio of samples is that of
          steps times this.
Shrunk    Laptop: width 32 and MLPs of width 32; 512 samples, about 400 of the 1024 points. Sparse: (10,4), 300 steps.
          Dense: (10,10), 600 steps, embeddings N(0, 0.1^2), since with N(0, 1) part of the points is memorised.
Tried     Version 0.1, with embeddings N(0, 0.1^2): ratios of steps undecided, in area 0.066 [0.027, 0.112] on (10,6)
          and 0.171 [0.082, 0.258] on (10,10). 256 samples memorise and do not learn (0.59 at best after 600 steps).
          With N(0, 1) at 3e-3, two other seeds: on (10,6) all points arrive in about 180 and 210 steps and 512 samples
          memorise (0.78 and 0.65 after 400); on (10,4) 512 samples arrive in about 95 and 120; on (8,8) all points
          arrive in about 175 (4 of 4), and of 512 draws, 86% of the points, 0.85 are right after 200.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import headstart.lab as lab
from headstart.core.units import FullBatch
from headstart.lab.panels import Panel, arms_of, draw_panels, small_and_large
from headstart.plans import Fixed, Online
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._transformers import TRIES, ParityKnobs, presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "With full batches the fixed set takes {sparse_small_vs_large} of the steps of all points on sparse parity and "
    "{dense_small_vs_large} on dense parity; that it is faster {sparse_small_vs_large.says} and "
    "{dense_small_vs_large.says}. Normalised queries and keys take {norm_helps_large} of the steps of the large side "
    "and leave a ratio of {norm_small_not_faster_than_large}; that they speed it {norm_helps_large.says}, that they "
    "remove the gap {norm_small_not_faster_than_large.says}."
)


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of sparse parity, and the samples of both fixed sets; dimension, steps and embeddings of dense parity."""

    samples: int = 512
    dense_dim: int = 10
    dense_steps: int = 5000
    dense_std: float = 1.0


def panels(k: Knobs) -> list[Panel]:
    """Sparse, dense, and sparse with normalised queries and keys."""

    def panel(name: str, own: Knobs, what: str = "", **options: Any) -> Panel:
        labels = f"{k.samples:,} samples", f"all {2 ** own.parity[0]:,} points"
        lines = small_and_large(Fixed(k.samples), Online(), labels)
        run = replace(own.parity_run(**options), batch=FullBatch())
        return own.parity_panel(name, f"full batch, {own.parity}-parity{what}", lines, run, TRIES)

    dense = replace(k, parity=(k.dense_dim, k.dense_dim), steps=k.dense_steps)
    return [
        panel("sparse", k),
        panel("dense", dense, embedding_std=k.dense_std),
        panel("norm", k, ", QK norm", qk_norm=True),
    ]


def claims(k: Knobs) -> list[lab.Claim]:
    """A gap on both, a faster large side and no gap with normalised queries and keys."""
    sparse, dense, norm = panels(k)
    primary = lab.Kind.PRIMARY
    out = []
    for panel, said, dim in (
        (sparse, "a gap (Fig. 15a)", k.parity[0]),
        (dense, "a gap (Figs. 14b, 15b)", k.dense_dim),
    ):
        steps = panel.faster("small", "large", said, "the fixed set is faster", kind=primary)
        samples = panel.faster("small", "large", said, "the fixed set is cheaper", "samples", lab.Kind.IDENTITY)
        out += [
            steps,
            replace(samples, estimate=lab.Times(panel.ratio("small", "large"), k.samples / 2**dim), smallest=None),
        ]
    return [
        *out,
        norm.closes("small", "large", "removes the gap (Fig. 27a)", "no gap with normalised queries and keys", primary),
        lab.Claim(
            id="norm_helps_large",
            statement=f"{sparse.title}, all points: steps to {sparse.goal} with normalised queries and keys over those "
            "without, below 1",
            paper="significantly improves large-set training (Fig. 27a)",
            rule=lab.below(1.0),
            estimate=lab.TimeRatio(norm.arm("large"), sparse.arm("large"), k.accuracy),
            kind=primary,
            smallest=lab.NO_EFFECT,
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Figs. 15a, 15b (14b), 27a."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/full_batch_transformers",
    title="The gap of Transformers with full batches",
    paper=PAPER_TITLE,
    figures="Figs. 14b, 15, 27a",
    presets=presets(
        Knobs,
        smoke={"samples": 12, "dense_dim": 4, "dense_steps": 40},
        laptop={
            "parity": (10, 4),
            "size": (32, 2, 4, 32),
            "steps": 300,
            "rates": (2.8e-3, 5.6e-3),
            "dense_steps": 600,
            "dense_std": 0.1,
        },
        paper={"parity": (10, 6), "steps": 5000},
    ),
    minutes={"smoke": 0.1, "laptop": 27.0, "paper": 10_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
