"""What the paper leaves open: layer normalisation and the scale of embeddings, and what they do to the gap.

Paper     Less Data, Faster Training, which says neither whether its Transformers are normalised nor how embeddings are
          scaled, but for "PyTorch defaults", which for torch.nn.Embedding is N(0, 1)
Claim     With an RMSNorm before every attention, MLP and the readout (pre-norm), or with embeddings of symbols and
          positions from N(0, 1) instead of N(0, 0.01), the gap of parity is narrower than with our defaults. These are
          not statements of the paper: they came out of first looks at (10,6)-parity, and the defaults were chosen
          after them, because the gap is plain there.
Setting   The parity runs of mini_batch_transformers as they are, with pre-norm, and with the wider embeddings;
          6 phases, 100 epochs, online.
Measured  The order of the arms, by steps to 95%; and the area under the mean test curve (the mean accuracy over the
          run), the gap being the area of a small side less that of online. Each arm at its own best learning rate; 95%
          paired bootstraps.
Shrunk    Laptop: as mini_batch_transformers, with 10 seeds.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.areas import GapDifference
from headstart.lab.panels import Panel, arms_of, draw_panels, with_medians
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._parity import ParityKnobs, in_order
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def panels(k: ParityKnobs) -> tuple[Panel, Panel, Panel]:
    """The defaults, pre-norm, wider embeddings."""
    plain = k.parity_panel()
    return (
        plain,
        k.parity_panel("normed", f"{plain.title}, pre-norm", run=k.parity_run(pre_norm=True)),
        k.parity_panel("wide", f"{plain.title}, embeddings N(0, 1)", run=k.parity_run(embedding_std=1.0)),
    )


def claims(k: ParityKnobs) -> list[lab.Claim]:
    """The order of the arms with each change, and narrower gaps."""
    plain, *changed = panels(k)
    out = []
    for panel in changed:
        out += in_order(panel, "not stated")
        for small in ("six", "hundred"):
            out.append(
                lab.Claim(
                    id=f"{panel.name}_narrower_{small}",
                    statement=f"{panel.title}: gap in area, {panel.label(small)} less online, "
                    "less that of the defaults; below 0",
                    paper="not stated",
                    rule=lab.below(0.0),
                    estimate=GapDifference(panel, plain, small),
                )
            )
    return out


def figure(results: lab.Results, picture: "Figure") -> None:
    """The three panels."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/open_choices",
    title="Layer normalisation, embeddings and the gap of Transformers",
    paper=PAPER_TITLE,
    figures="no figure",
    presets=presets(ParityKnobs, laptop={"num_seeds": 10}),
    minutes={"smoke": 0.2, "laptop": 19.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
