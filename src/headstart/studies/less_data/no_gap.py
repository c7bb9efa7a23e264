"""A negative control: linear regression has no small-vs-large gap.

Paper     Less Data, Faster Training, Section 6
Claim     On linear regression repeating a small set does not reach a low loss in fewer steps than fresh samples do.
Setting   y = <w*, x>, x standard normal, d = 40, a linear model, mean squared error. SGD with batch 128: a fixed set,
          and 100 steps on a small pool and then fresh samples, against fresh samples. GD: 100 steps on a small set and
          then a large one, and the small set throughout, against the large one.
Measured  Steps to a loss of 0.01 Var(y) of the seed-mean test curve, each arm at its own best learning rate (ratio
          1.2, chosen by area on other seeds). "No gap": the ratio of steps, small over large, is above 0.9, a margin
          declared beforehand. 95% paired bootstrap over seeds.
Expected  No speed-up: the paper knows of no result that suggests one.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import headstart.lab as lab
from headstart.core.units import Batch, FullBatch
from headstart.lab.panels import Line, Panel, arms_of, draw_panels
from headstart.models import MLP
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.studies.less_data import PAPER_TITLE, index_run, mean_curve_panel
from headstart.tasks import Hermite, SingleIndex

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 0.9


@dataclass(frozen=True)
class Knobs(lab.Knobs):
    """Dimension, set sizes, length in steps and of the first phase, and where each sweep begins."""

    dim: int = 40
    samples: tuple[int, int] = (1000, 8000)
    steps: int = 60
    first_phase_steps: int = 10
    sgd_rates: tuple[float, float] = (0.2, 0.35)
    gd_rates: tuple[float, float] = (0.35, 0.6)
    relative_loss: float = 0.01


PAPER = Knobs(num_seeds=256, num_selection_seeds=16)
LAPTOP = Knobs(num_seeds=64, num_selection_seeds=8)
SMOKE = Knobs(num_seeds=2, num_selection_seeds=1, dim=4, samples=(64, 512), steps=30, first_phase_steps=5)


def panels(k: Knobs) -> list[Panel]:
    """SGD and GD."""
    few, many = k.samples
    first = Phase(size=few, steps=k.first_phase_steps)
    out = []
    for name, batch, rates, rest in (
        ("sgd", Batch(128), k.sgd_rates, None),
        ("gd", FullBatch(), k.gd_rates, many),
    ):
        run = index_run(k.dim, batch, k.steps, MLP(1, depth=1, bias=False))
        out.append(
            mean_curve_panel(
                name=name,
                title=f"{name.upper()}, linear regression, d = {k.dim}",
                run=replace(run, task=SingleIndex(k.dim, Hermite(1))),
                rates=rates,
                lines=(
                    Line("small", f"{few:,} samples", Fixed(few), lab.warm()),
                    Line("phased", f"{few:,}, then {rest or 'fresh'}", Phases((first, Phase(size=rest))), lab.warm(1)),
                    Line(
                        "large",
                        f"{rest:,} samples" if rest else "fresh samples",
                        Fixed(rest) if rest else Online(),
                        lab.cold(),
                    ),
                ),
                target=k.relative_loss,
            )
        )
    return out


def claims(k: Knobs) -> list[lab.Claim]:
    """No arm is faster than the large one."""
    return [
        lab.Claim(
            id=f"{panel.name}_{line}",
            statement=f"{panel.title}: {what}; ratio of steps to {panel.goal} above {MARGIN}",
            paper="linear regression does not have a small-vs-large gap",
            rule=lab.above(MARGIN),
            estimate=panel.ratio(line, "large"),
        )
        for panel in panels(k)
        for line, what in (("small", "a small set is not faster"), ("phased", "a small phase first is not faster"))
    ]


def figure(results: lab.Results, picture: "Figure") -> None:
    """Test loss of both, on a logarithmic axis."""
    draw_panels(picture, results, panels(results.knobs))
    for ax in picture.axes:
        ax.set_yscale("log")


STUDY = lab.Study(
    name="less_data/no_gap",
    title="Linear regression has no small-vs-large gap",
    paper=PAPER_TITLE,
    figures="Section 6",
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    minutes={"smoke": 0.1, "laptop": 0.5, "paper": 2.0},
    arms=lambda knobs: arms_of(panels(knobs)),
    claims=claims,
    figure=figure,
    doc=__doc__ or "",
    tags=("mlp",),
)
