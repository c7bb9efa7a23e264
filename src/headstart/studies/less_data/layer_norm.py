"""Layer normalisation is a variable of the gap: with it, the arms of parity hardly differ.

Paper     Less Data, Faster Training, which does not say whether its Transformers are normalised
Claim     With an RMSNorm before every attention, MLP and the readout (pre-norm), the gap of parity is narrower than
          without. This is not a statement of the paper; it came out of a first look at (10,6)-parity.
Setting   The parity runs of mini_batch_transformers, without normalisation and with pre-norm; 6 phases, 100 epochs,
          online.
Measured  The area under the mean test curve (the mean accuracy over the run), each arm at its own best learning rate;
          the gap is the area of a small side less that of online. 95% paired bootstraps.
Shrunk    Laptop: as mini_batch_transformers.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import headstart.lab as lab
from headstart.lab.claims import check_paired
from headstart.measures import Estimate, bootstrap
from headstart.studies.less_data import PAPER_TITLE, Panel, arms_of, draw_panels
from headstart.studies.less_data._transformers import ParityKnobs, in_order, presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def panels(k: ParityKnobs) -> tuple[Panel, Panel]:
    """Without and with normalisation."""
    plain = k.parity_panel()
    return plain, k.parity_panel("normed", f"{plain.title}, pre-norm", run=k.parity_run(pre_norm=True))


@dataclass(frozen=True)
class GapDifference:
    """The gap in area of line `small` against online in panel `one` less that in panel `other`."""

    one: Panel
    other: Panel
    small: str

    def __call__(self, results: lab.Results) -> Estimate:
        """The mean difference with its interval."""
        names = [panel.arm(line) for panel in (self.one, self.other) for line in (self.small, "online")]
        check_paired(results, names)
        a, b, c, d = (np.array([summary.area for summary in results.summaries[name]]) for name in names)
        gaps = (a - b) - (c - d)
        return bootstrap(lambda rows: float(gaps[rows].mean()), len(gaps))


def claims(k: ParityKnobs) -> list[lab.Claim]:
    """The order of the arms with pre-norm, and narrower gaps."""
    plain, normed = panels(k)
    return [
        *in_order(normed, "not stated"),
        *(
            lab.Claim(
                id=f"narrower_{small}",
                statement=f"{plain.title}: the gap in area, {small} less online, with pre-norm less that without; "
                "below 0",
                paper="not stated",
                rule=lab.below(0.0),
                estimate=GapDifference(normed, plain, small),
            )
            for small in ("six", "hundred")
        ),
    ]


def figure(results: lab.Results) -> "Figure":
    """Both panels."""
    return draw_panels(results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/layer_norm",
    title="Layer normalisation narrows the gap of Transformers",
    paper=PAPER_TITLE,
    figures="no figure",
    presets=presets(ParityKnobs),
    minutes={"smoke": 0.2, "laptop": 6.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
