"""Less Data, Faster Training: repeating smaller datasets speeds up learning via sampling biases (2026).

What its studies share: the time that their panels compare, and the settings of Appendix B.1 on MLPs as runs.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.trace import Trace
from headstart.core.units import Batch, Budget, FullBatch
from headstart.lab.panels import Panel, arms_of
from headstart.losses import MSE
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed, Phase, Phases
from headstart.run import Run
from headstart.tasks import Hermite, Parity, SingleIndex

PAPER_TITLE = "Less Data, Faster Training"
ACCURACY, RELATIVE_LOSS = 0.95, 0.3
# The first phase on a single-index model: so many steps, under SGD on this share of the online samples.
FIRST_PHASE_STEPS, POOL_FRACTION = 100, 0.01
NUM_RECORDS = 100
# Studies of version 0.1 read times off mean curves, and do so until they are run again.
TIME = lab.Typical.MEAN_CURVE
mean_curve_panel = partial(Panel, of=TIME)


def parity_run(dim: int, degree: int, batch: Batch | FullBatch, steps: int, model: MLP | None = None) -> Run:
    """Parity with mean squared error under SGD (or GD), two ReLU layers of width 64 without biases by default."""
    return _run(Parity(dim, degree), model or MLP(64, bias=False), batch, steps)


def index_run(dim: int, batch: Batch | FullBatch, steps: int, model: MLP | None = None) -> Run:
    """y = He_3(<w*, x>) likewise, with biases: a ReLU network without them cannot express an odd link."""
    return _run(SingleIndex(dim, Hermite(3)), model or MLP(64), batch, steps)


def _run(task: Any, model: MLP, batch: Batch | FullBatch, steps: int) -> Run:
    budget = Budget(steps, record_every=max(1, steps // NUM_RECORDS))
    return Run(task, model, Fixed(1), MSE(), SGD(lr=1.0), batch=batch, budget=budget)


def two_phases(few: int | None, many: int | None) -> Phases:
    """100 steps on the first `few` samples (None: 1% of the online samples), then `many` (None: fresh ones)."""
    small = Phase(fraction=POOL_FRACTION) if few is None else Phase(size=few)
    return Phases((replace(small, steps=FIRST_PHASE_STEPS), Phase(size=many)))


@dataclass(frozen=True)
class FullBatchKnobs(lab.Knobs):
    """GD on parity and on the single-index model: sizes, lengths in steps, where sweeps begin, and common rates."""

    width: int = 64
    dim: int = 20
    degree: int = 6
    samples: int = 2**14
    steps: int = 2500
    rates: tuple[float, float] = (0.2, 0.28)
    common_rate: float = 0.24
    index_dim: int = 40
    index_samples: tuple[int, int] = (8000, 64000)
    index_steps: int = 1000
    index_rates: tuple[float, float] = (0.16, 0.23)
    index_common_rate: float = 0.16
    accuracy: float = ACCURACY
    relative_loss: float = RELATIVE_LOSS


FULL_BATCH_PRESETS = {
    "smoke": FullBatchKnobs(
        num_seeds=2,
        num_selection_seeds=1,
        width=8,
        dim=6,
        degree=2,
        samples=48,
        steps=140,
        rates=(0.3, 0.43),
        index_dim=4,
        index_samples=(64, 256),
        index_steps=140,
        index_rates=(0.15, 0.26),
        accuracy=0.55,
        relative_loss=0.97,
    ),
    "laptop": FullBatchKnobs(
        num_seeds=24, num_selection_seeds=6, dim=18, steps=1500, index_samples=(1000, 8000), index_steps=360
    ),
    "paper": FullBatchKnobs(num_seeds=64, num_selection_seeds=16),
}


def after_first_phase(trace: Trace, curve: NDArray[np.float64]) -> float:
    """A curve's value at the last record of the first phase, 100 steps long."""
    return float(curve[np.searchsorted(trace.steps, FIRST_PHASE_STEPS, side="right") - 1])


def full_batch_arms(panels: tuple[Panel, Panel], k: FullBatchKnobs) -> list[lab.Arm]:
    """The arms of parity and of the single-index model, and each again at a common rate."""
    parity, index = panels
    return arms_of(panels) + at_common_rate(parity, k.common_rate) + at_common_rate(index, k.index_common_rate)


def at_common_rate(panel: Panel, rate: float) -> list[lab.Arm]:
    """The arms of a panel again, all at one learning rate, so that their data alone differ."""
    return [
        replace(arm, name=f"{arm.name}_common_rate", run=replace(arm.run, optimizer=SGD(rate)), sweep=None)
        for arm in panel.arms()
    ]
