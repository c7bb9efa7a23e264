"""A first phase on permuted labels speeds up modular addition.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 20
Claim     Repeating a small set whose labels are permuted, then fresh samples with true labels, learns modular addition
          faster than fresh samples alone.
Setting   The modular-addition runs of mini_batch_transformers. First a set of .5% of the samples of the second phase
          for 50 epochs, a fifth of the steps, its labels permuted among themselves once and kept; then online. Beside
          it the same set with its true labels, and online throughout.
Measured  Steps, the first phase included, to the target of the seed-mean test curve, and the test accuracy at the end;
          each arm at its own best learning rate. 95% paired bootstraps. "Matches": the ratio of steps lies in
          [2/3, 3/2], the margin of the other studies; the claim was added after the curves had been seen.
Shrunk    Laptop: addition of numbers below 50 modulo 7, 3000 steps, to 90% accuracy, as in mini_batch_transformers.
          There are 2500 pairs in all, and fresh samples repeat each about 38 times.
"""

from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.lab.panels import Line, Panel, arms_of, draw_panels, with_medians
from headstart.methods import RandomLabels
from headstart.plans import Online, Phase, Phases
from headstart.studies.less_data import PAPER_TITLE
from headstart.studies.less_data._other_tasks import ModularKnobs
from headstart.studies.less_data._transformers import presets

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# .5% of the second phase is .4% of the whole; 50 epochs over it are a fifth of the whole.
FIRST_FRACTION, FIRST_SHARE = 0.004, 0.2


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
    """Faster than online by steps and in the end, and so are true labels."""
    (panel,) = panels(k)
    said = "random labels speed up learning (Fig. 20)"
    return [
        panel.faster("random", "online", said, "permuted labels first against online"),
        panel.faster("true", "online", "not shown", "true labels first against online"),
        lab.Claim(
            id="random_like_true",
            statement=f"{panel.title}: steps to {panel.goal}, permuted over true labels first, between 2/3 and 3/2",
            paper="a speed-up comparable to that of real labels (Section 5.1)",
            rule=lab.Within(2 / 3, 3 / 2),
            estimate=panel.ratio("random", "true"),
        ),
        lab.Claim(
            id="random_final_accuracy",
            statement=f"{panel.title}: final test accuracy, permuted labels first over online, above 1",
            paper=said,
            rule=lab.above(1.0),
            estimate=lab.FinalRatio(panel.arm("random"), panel.arm("online")),
        ),
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Fig. 20; the dashed line is where labels become true and samples fresh."""
    draw_panels(picture, results, panels(results.knobs))
    picture.axes[0].axvline(FIRST_SHARE * results.knobs.modular_steps, color="#888888", linewidth=0.8, linestyle="--")


STUDY = lab.Study(
    name="less_data/random_labels_transformers",
    title="Permuted labels first speed up modular addition",
    paper=PAPER_TITLE,
    figures="Fig. 20",
    presets=presets(ModularKnobs, laptop={"num_seeds": 24}),
    minutes={"smoke": 0.2, "laptop": 2.0, "paper": 10_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=lambda knobs: with_medians(claims(knobs)),
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
