"""What scales of queries and keys do to the gap of three other tasks: initial scale and normalisation.

Paper     Less Data, Faster Training, Section 5.2.2, Appendix B.2.2 and Figs. 9 and 27b
Claim     A larger initial scale of W_q and W_k narrows the gap of a single-index model and of in-context regression.
          Normalised queries and keys speed online training on the single-index model and almost close its gap, and
          hurt in-context regression and modular addition on both sides.
Setting   The runs of mini_batch_transformers, changed as in query_key: W_q and W_k begin at a multiple of their
          standard values, or RMSNorm with a learnable scale on q and k; the rate is swept for each.
Measured  As in query_key.
Expected  No numbers.
Shrunk    Laptop: as mini_batch_transformers; multiples 1 and 4 of scales.
Tried     Version 0.1, with shorter runs, embeddings N(0, 0.1^2) and scales at the rate of the standard ones: the norm
          helped online training on all three tasks.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._other_tasks import ContextKnobs, IndexKnobs, ModularKnobs
from headstart.studies.less_data._query_key import Family, draw_rows, narrows, norm_claim, norm_closes
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FINDING = (
    "With the best initial scale of W_q and W_k on each side the ratio of steps, small over online, is "
    "{init_narrows_index_small} times that without on a single-index model and {init_narrows_context_small} in "
    "context; that the gap narrows {init_narrows_index_small.says} and {init_narrows_context_small.says}. Normalised "
    "queries and keys take {norm_index_online}, {norm_context_online} and {norm_modular_online} of the steps of "
    "online training on a single-index model, in context and on modular addition; that they help the first "
    "{norm_index_online.says}, and that they hurt the others {norm_context_online.says} and "
    "{norm_modular_online.says}."
)


@dataclass(frozen=True)
class Knobs(ModularKnobs, ContextKnobs, IndexKnobs):
    """Those of the three tasks, and the multiples of scales; 1, the untouched run, is always among them."""

    init_factors: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0)


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
    primary, worsens = lab.Kind.PRIMARY, "can even worsen online training (Figs. 9d, 27b)"
    return [
        *(narrows(task, "init", "small", lab.Kind.SECONDARY) for task in (index, context)),
        norm_claim(index, "online", True, "significantly speeds online training (Fig. 9b)", primary),
        norm_closes(index, "small", "almost entirely closes the gap (Fig. 9b)", primary),
        *(norm_claim(task, "online", False, worsens, primary) for task in (context, modular)),
        *(norm_claim(task, "small", False, "hurts both (Figs. 9d, 27b)") for task in (context, modular)),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Figs. 9 and 27b, a row for each task."""
    draw_rows(picture, results, [(family, family.panel.lines) for family in families(results.knobs)])


STUDY = lab.Study(
    name="less_data/query_key_tasks",
    title="Queries and keys on three other tasks: initial scale, normalisation",
    paper=PAPER_TITLE,
    figures="Figs. 9, 27b",
    presets=presets(Knobs, smoke={"init_factors": (4.0,)}, laptop={"init_factors": (4.0,)}),
    minutes={"smoke": 0.1, "laptop": 43.0, "paper": 100_000.0},
    arms=lambda knobs: [arm for family in families(knobs) for arm in family.arms()],
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
