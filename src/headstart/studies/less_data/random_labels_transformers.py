"""A first phase on permuted labels speeds up modular addition.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 20
Claim     Repeating a small set whose labels are permuted, then fresh samples with true labels, learns modular addition
          faster than fresh samples alone.
Setting   The modular-addition runs of mini_batch_transformers. First a set of .5% of the samples of the second phase
          for 50 epochs, a fifth of the steps, its labels permuted among themselves once and kept; then online. Beside
          it the same set with its true labels, and online throughout.
Measured  As in mini_batch_transformers, the first phase included. Comparable is a ratio within 2/3 to 3/2.
Shrunk    Laptop: as mini_batch_transformers.
Tried     Version 0.1, below 50 modulo 7: at most 0.66 [0, 0.71] of the steps of online training, which did not arrive,
          on 2500 pairs that fresh samples show 38 times each. mini_batch_transformers has what was looked at since.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Line, Panel, arms_of, draw_panels
from headstart.methods import RandomLabels
from headstart.plans import Online, Phase, Phases
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._other_tasks import ModularKnobs
from headstart.studies.less_data._transformers import presets, similar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# .5% of the second phase is .4% of the whole; 50 epochs over it are a fifth of the whole.
FIRST_FRACTION, FIRST_SHARE = 0.004, 0.2
FINDING = (
    "A first phase on permuted labels takes modular addition to the target in {modular_random_vs_online} of the steps "
    "of online training, and in {modular_random_like_true} of those after a first phase on true labels. That it is "
    "faster than online {modular_random_vs_online.says}."
)


def panels(k: ModularKnobs) -> list[Panel]:
    """One panel: permuted, true, online."""
    plan = Phases((Phase(fraction=FIRST_FRACTION, steps=round(FIRST_SHARE * k.modular_steps)), Phase()))
    return [
        k.modular_panel(
            (
                Line("random", "permuted labels first", plan, lab.warm(), (RandomLabels(permuted=True),)),
                Line("true", "true labels first", plan, lab.warm(1)),
                Line("online", "online", Online(), lab.cold()),
            )
        )
    ]


def claims(k: ModularKnobs) -> list[lab.Claim]:
    """Faster than online, as true labels are."""
    (panel,) = panels(k)
    said = "random labels speed up learning (Fig. 20)"
    return [
        panel.faster("random", "online", said, "permuted labels first against online", kind=lab.Kind.PRIMARY),
        panel.faster("true", "online", "not shown", "true labels first against online"),
        similar(panel, "random", "true", "a speed-up comparable to that of real labels (Section 5.1)"),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 20; the dashed line is where labels become true and samples fresh."""
    draw_panels(picture, results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/random_labels_transformers",
    title="Permuted labels first speed up modular addition",
    paper=PAPER_TITLE,
    figures="Fig. 20",
    presets=presets(ModularKnobs),
    minutes={"smoke": 0.1, "laptop": 2.5, "paper": 10_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    finding=FINDING,
    doc=__doc__ or "",
    tags=("transformer",),
)
