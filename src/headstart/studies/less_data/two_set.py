"""Two-set training against phases at equal compute.

Paper     Less Data, Faster Training, Section 2, which names two-set training (Charton and Kempe, 2024) as similar to
          two phases and shows no comparison
Claim     At equal compute two-set training beats online training, and six phases beat two-set training.
Setting   The parity runs of mini_batch_transformers. Two sets: each example of a batch comes from a fixed set of 1% of
          the online samples with probability 1/4 or 1/2, else it is fresh.
Measured  Steps to 95% of the seed-mean test curve, each arm at its own best learning rate; 95% paired bootstraps. All
          arms take 32 samples a step, so steps are compute.
Shrunk    Laptop: (10,6), width 64, 3000 steps, beta2 = .95, few seeds; the small set is 960 samples, about 623 of the
          1024 points.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.plans import Fixed, TwoSet
from headstart.studies.less_data import ACCURACY, PAPER_TITLE, Line, Panel, arms_of, draw_panels
from headstart.studies.less_data._transformers import BETA2, Size, parity_panel, parity_run, three_arms

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBABILITIES = (0.25, 0.5)


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
    """One panel: six phases, two sets, online."""
    six, hundred, online = three_arms(k.steps)
    assert isinstance(hundred.plan, Fixed)
    small = hundred.plan.size
    mixed = [
        Line(f"two_set_{p:.2g}", f"two sets, {p:.0%} from {small:,}", lab.Side.SMALL, TwoSet(small, p))
        for p in PROBABILITIES
    ]
    run = parity_run(*k.parity, k.steps, Size(*k.size))
    lines = (six, *mixed, online)
    return [parity_panel("parity", f"{k.parity}-parity", run, k.rates, k.accuracy, k.beta2, lines)]


def claims(k: Knobs) -> list[lab.Claim]:
    """Each probability against online, and six phases against each probability."""
    (panel,) = panels(k)
    names = [line.name for line in panel.lines if line.name.startswith("two_set")]
    said = "similar to two-phase training (Section 2, no figure)"
    return [
        *(panel.faster(name, "online", said, f"{name} against online") for name in names),
        *(panel.faster("six", name, "not compared", f"6 phases against {name}") for name in names),
    ]


def figure(results: lab.Results) -> "Figure":
    """One panel."""
    return draw_panels(results, panels(results.knobs))


STUDY = lab.Study(
    name="less_data/two_set",
    title="Two-set training against phases at equal compute",
    paper=PAPER_TITLE,
    figures="no figure",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.2, "laptop": 6.0, "paper": 100_000.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("transformer",),
)
