"""Phases that end by themselves: as good as a schedule chosen by hand.

Paper     Less Data, Faster Training, Appendix B.2.2 and Fig. 19
Claim     Six pools of geometric sizes, each left once 75% of its training batches' labels are right or after 50
          epochs, train about as fast as the six phases chosen by hand, and faster than online.
Setting   The parity runs of mini_batch_transformers. Pools from 1/320 to 1/50 of the online samples; the training
          accuracy is the mean over an epoch of each batch's accuracy before its step; the last pool has no exit.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; 95% paired bootstraps.
          Comparable means a ratio of steps between 2/3 and 3/2, stated before any run.
Shrunk    Laptop: (10,6), width 64, 3000 steps, beta2 = .95, few seeds: pools of 300 to 1920 samples, of which about
          260 to 867 of the 1024 points are distinct.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.plans import AutoPhases
from headstart.studies.less_data import ACCURACY, PAPER_TITLE, Line, Panel, arms_of, draw_panels
from headstart.studies.less_data._transformers import BETA2, Size, parity_panel, parity_run, three_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Task, model, length in steps, and where the sweeps begin."""

    parity: tuple[int, int] = (20, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    beta2: tuple[float, ...] = BETA2
    accuracy: float = ACCURACY


PAPER = Knobs(num_seeds=32, num_selection_seeds=8)
LAPTOP = Knobs(
    num_seeds=6,
    num_selection_seeds=2,
    parity=(10, 6),
    size=(64, 2, 4, 64),
    steps=3000,
    rates=(1e-3, 1.44e-3),
    beta2=(),
)
SMOKE = Knobs(
    num_seeds=2,
    num_selection_seeds=1,
    parity=(4, 2),
    size=(8, 1, 2, 8),
    steps=40,
    rates=None,
    beta2=(),
    accuracy=0.55,
)


def panels(k: Knobs) -> list[Panel]:
    """One panel: automatic, by hand, online."""
    six, _, online = three_arms(k.steps)
    auto = Line("auto", "automatic", lab.Side.SMALL, AutoPhases())
    run = parity_run(*k.parity, k.steps, Size(*k.size))
    return [parity_panel("parity", f"{k.parity}-parity", run, k.rates, k.accuracy, k.beta2, (auto, six, online))]


def claims(k: Knobs) -> list[lab.Claim]:
    """Faster than online, and comparable to six phases by hand."""
    (panel,) = panels(k)
    return [
        panel.faster("auto", "online", "much faster than online (Fig. 19)", "automatic phases against online"),
        lab.Claim(
            id="auto_like_six",
            statement=f"{panel.title}: steps to {panel.goal}, automatic over by hand, lie between 2/3 and 3/2",
            paper="comparable (Fig. 19)",
            rule=lab.Within(2 / 3, 3 / 2),
            estimate=panel.ratio("auto", "six"),
        ),
    ]


def figure(results: lab.Results) -> "Figure":
    """Fig. 19."""
    return draw_panels(results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/auto_schedule",
    title="Phases that end by themselves",
    paper=PAPER_TITLE,
    figures="Fig. 19",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 4.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
