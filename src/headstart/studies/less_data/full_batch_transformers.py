"""The gap of Transformers without gradient noise: full batches on sparse and dense parity.

Paper     Less Data, Faster Training, Appendix B.2.1, Figs. 14b and 15, and Fig. 27a
Claim     With full batches a fixed set of samples reaches the target in fewer steps than all points, on (10,6)- and on
          (10,10)-parity; normalised queries and keys remove the gap. So neither the variance of gradients nor sparsity
          explains it.
Setting   Encoders as in mini_batch_transformers, AdamW on full batches: a fixed set of N samples against the exact
          population of 2^d points. (Fig. 14b says gradient descent and the text AdamW: AdamW here. Fig. 27a says
          (20,6) and the text d = 10 for full batches: d = 10 here.) The paper does not give N.
Measured  Steps, and samples processed, to the target of the seed-mean test curve, each arm at its own best learning
          rate; 95% paired bootstraps. Test points are 4096 draws of the 2^d points, so some are in the fixed set. Sets
          that overfit end near the target, so gaps are also claimed by area, the mean accuracy over the run (added
          after the curves had been seen).
Shrunk    Laptop: width 32 and MLPs of width 32, 400 steps, 12 seeds. Looked at first, with one seed: 256 samples, which
          memorise and do not learn (0.59 at best after 600 steps); 512 were kept.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import headstart.lab as lab
from headstart.core.units import FullBatch
from headstart.lab.areas import GapDifference, better
from headstart.lab.panels import Panel, arms_of, draw_panels, small_and_large, with_medians
from headstart.plans import Fixed, Online
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._parity import ParityKnobs
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ParityKnobs):
    """Those of sparse parity, whose dimension dense parity has too; the samples of the fixed set."""

    samples: int = 512


PRESETS = presets(
    Knobs,
    smoke={"samples": 12},
    laptop={"size": (32, 2, 4, 32), "steps": 400, "rates": (4e-3, 5.76e-3)},
    paper={"parity": (10, 6), "steps": 5000},
)


def panels(k: Knobs) -> list[Panel]:
    """Sparse, dense, and sparse with normalised queries and keys."""
    dim, _ = k.parity
    lines = small_and_large(Fixed(k.samples), Online(), (f"{k.samples:,} samples", f"all {2**dim:,} points"))

    def panel(name: str, degree: int, what: str = "", **options: Any) -> Panel:
        own = replace(k, parity=(dim, degree))
        run = replace(own.parity_run(**options), batch=FullBatch())
        return own.parity_panel(name, f"full batch, {own.parity}-parity{what}", lines, run)

    return [panel("sparse", k.parity[1]), panel("dense", dim), panel("norm", k.parity[1], ", QK norm", qk_norm=True)]


def claims(k: Knobs) -> list[lab.Claim]:
    """A gap on both, and less of one with normalised queries and keys."""
    sparse, dense, norm = panels(k)
    half = f" (a step has {k.samples / 2 ** k.parity[0]:g} of the samples, whatever is learned)"
    out = [
        panel.faster("small", "large", said, "the fixed set is faster" + (half if axis == "samples" else ""), axis)
        for panel, said in ((sparse, "a gap (Fig. 15a)"), (dense, "a gap (Figs. 14b, 15b)"))
        for axis in ("steps", "samples")
    ]
    said = "removes the gap (Fig. 27a)"
    return [
        *out,
        norm.level("small", "large", said, "no gap with normalised queries and keys"),
        lab.Claim(
            id="norm_narrows",
            statement=f"{sparse.title}: the ratio of steps, set over all, with the norm over that without, above 1",
            paper=said,
            rule=lab.above(1.0),
            estimate=lab.GapRatio(norm.ratio("small", "large"), sparse.ratio("small", "large")),
        ),
        better(sparse, "small", "large", "a gap (Fig. 15a)"),
        better(dense, "small", "large", "a gap (Figs. 14b, 15b)"),
        lab.Claim(
            id="norm_narrows_area",
            statement=f"{sparse.title}: the gap in area, set less all, with the norm less that without, below 0",
            paper=said,
            rule=lab.below(0.0),
            estimate=GapDifference(norm, sparse, "small", "large"),
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
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 13.0, "paper": 10_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
