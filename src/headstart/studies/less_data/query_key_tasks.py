"""What scales of queries and keys do to the gap of three other tasks: initial scale and normalisation.

Paper     Less Data, Faster Training, Section 5.2.2, Appendix B.2.2 and Figs. 9 and 27b
Claim     A larger initial scale of W_q and W_k narrows the gap of a single-index model and of in-context regression.
          Normalised queries and keys speed online training on the single-index model, and hurt in-context regression
          and modular addition on both sides.
Setting   The runs of mini_batch_transformers, changed as in query_key: W_q and W_k begin at a multiple of their
          standard values, at the best global rate of the arm without it; or RMSNorm with a learnable scale on q and
          k, the rate swept by itself.
Measured  The area under the mean test curve (the mean accuracy or loss over the run), as in query_key; gains are signed
          so that above 0 is better.
Expected  No numbers.
Shrunk    Laptop: as mini_batch_transformers; multiples 1 and 4 of scales, 12 seeds.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._other_tasks import ContextKnobs, IndexKnobs, ModularKnobs
from headstart.studies.less_data._query_key import Family, draw_rows, narrows, norm_claim
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(ModularKnobs, ContextKnobs, IndexKnobs):
    """Those of the three tasks, and the multiples of scales; 1, the untouched run, is always among them."""

    init_factors: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)


PRESETS = presets(Knobs, smoke={"init_factors": (4.0,)}, laptop={"init_factors": (4.0,)})


def families(k: Knobs) -> tuple[Family, Family, Family]:
    """The single-index model and in-context regression with scales, modular addition."""
    return (
        Family(k.index_panel(), scales=k.init_factors),
        Family(k.context_panel(), scales=k.init_factors),
        Family(k.modular_panel()),
    )


def claims(k: Knobs) -> list[lab.Claim]:
    """Scales on two tasks, normalisation on all three."""
    index, context, modular = families(k)
    return [
        *(narrows(task, "init", "initial scale", "small") for task in (index, context)),
        norm_claim(index, "online", True, "speeds online training (Fig. 9b)"),
        *(norm_claim(context, line, False, "hurts both (Fig. 9d)") for line in ("online", "small")),
        *(norm_claim(modular, line, False, "worsens both (Fig. 27b)") for line in ("online", "small")),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Figs. 9 and 27b, a row for each task."""
    draw_rows(picture, results, [(family, family.panel.lines) for family in families(results.knobs)])


STUDY = lab.Study(
    name="less_data/query_key_tasks",
    title="Queries and keys on three other tasks: initial scale, normalisation",
    paper=PAPER_TITLE,
    figures="Figs. 9, 27b",
    presets=PRESETS,
    minutes={"smoke": 0.2, "laptop": 18.0, "paper": 100_000.0},
    arms=lambda knobs: [arm for family in families(knobs) for arm in family.arms()],
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
