"""Less Data, Faster Training: repeating smaller datasets speeds up learning via sampling biases (2026).

What its studies of MLPs share: the settings of Appendix B.1 as runs, and the four panels of Fig. 2 with their knobs. A
study that varies one of these panels takes it from here, so that the arms they share are the same cells, swept alike
and with the same seeds: one choice of rates and one number for one contrast.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import headstart.lab as lab
from headstart.core.units import Batch, Budget, FullBatch, Settled
from headstart.lab.panels import Panel, small_and_large
from headstart.losses import MSE
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run
from headstart.tasks import Hermite, Parity, SingleIndex

PAPER_TITLE = "Less Data, Faster Training"
ACCURACY, RELATIVE_LOSS = 0.95, 0.3
# The first phase on a single-index model: so many steps, under SGD on this share of the online samples.
FIRST_PHASE_STEPS, POOL_FRACTION = 100, 0.01
NUM_RECORDS = 100
# Claims are of seeds from here on, which neither pilots nor earlier versions looked at: those had less than 8000, and
# how many seeds a claim wants was seen there.
UNSEEN = 10_000
# GD is dear: fewer rates, narrowed by half on 2, 4, 8 and all selection seeds.
gd_panel = partial(Panel, tries=4, rungs=(2, 4, 8))


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
    """GD as in Fig. 2 (b) and (d): sizes, lengths in steps, targets, and where each sweep of learning rates begins.

    The arms of Fig. 2 have `gd_seeds_factor` times the study's seeds, and so as many in every study; those of (d),
    which are cheaper, `gd_index_factor` times as many again.
    """

    width: int = 64
    accuracy: float = ACCURACY
    relative_loss: float = RELATIVE_LOSS
    parity_bias: bool = False
    single_index_bias: bool = True
    gd_seeds_factor: int = 1
    gd_index_factor: int = 1
    gd_parity_dim: int = 20
    gd_parity_degree: int = 6
    gd_parity_samples: int = 2**14
    gd_parity_steps: int = 2500
    gd_parity_rates: tuple[float, float] = (0.2, 0.28)
    single_index_dim: int = 40
    gd_index_samples: tuple[int, int] = (8000, 64000)
    gd_index_steps: int = 1000
    gd_index_rates: tuple[float, float] = (0.16, 0.23)


@dataclass(frozen=True)
class Figure2Knobs(FullBatchKnobs):
    """All of Fig. 2: SGD as in (a) and (c) too, which is cheap and has more seeds."""

    sgd_seeds_factor: int = 4
    sgd_parity_dim: int = 20
    sgd_parity_degree: int = 6
    sgd_parity_samples: int = 2**14
    sgd_parity_steps: int = 4000
    sgd_parity_rates: tuple[float, float] = (0.16, 0.23)
    sgd_index_steps: int = 1000
    sgd_index_rates: tuple[float, float] = (0.08, 0.115)


# What the presets of both classes of knobs have in common.
FULL_BATCH: dict[str, dict[str, Any]] = {
    "smoke": {
        "num_seeds": 3,
        "num_selection_seeds": 2,
        "width": 8,
        "accuracy": 0.55,
        "relative_loss": 0.97,
        "gd_parity_dim": 6,
        "gd_parity_degree": 2,
        "gd_parity_samples": 48,
        "gd_parity_steps": 60,
        "gd_parity_rates": (0.576, 0.83),
        "single_index_dim": 4,
        "gd_index_samples": (64, 512),
        "gd_index_steps": 120,
        "gd_index_rates": (0.15, 0.26),
    },
    "laptop": {
        "num_seeds": 64,
        "first_seed": UNSEEN,
        "gd_seeds_factor": 2,
        "gd_index_factor": 3,
        "gd_parity_dim": 18,
        "gd_index_samples": (1000, 8000),
        "gd_index_steps": 360,
    },
    "paper": {"num_seeds": 64, "first_seed": UNSEEN},
}
# Full batches where they are dear: 16 seeds for the arms of Fig. 2 and 8 for the others; 8 choose rates.
FEW_SEEDS = {"num_seeds": 8, "num_selection_seeds": 8, "gd_seeds_factor": 2, "gd_index_factor": 1}
FIGURE_2: dict[str, dict[str, Any]] = {
    "smoke": {
        **FULL_BATCH["smoke"],
        "sgd_seeds_factor": 1,
        "sgd_parity_dim": 6,
        "sgd_parity_degree": 2,
        "sgd_parity_samples": 48,
        "sgd_parity_steps": 60,
        "sgd_parity_rates": (0.6, 0.86),
        "sgd_index_steps": 120,
        "sgd_index_rates": (0.12, 0.18),
    },
    "laptop": {**FULL_BATCH["laptop"], "sgd_seeds_factor": 8, "sgd_parity_steps": 3000},
    "paper": FULL_BATCH["paper"],
}


def sgd_parity(k: Figure2Knobs) -> Panel:
    """Fig. 2 (a): SGD on a fixed set of N samples of parity against fresh samples."""
    model = MLP(k.width, bias=k.parity_bias)
    return Panel(
        name="sgd_parity",
        title=f"SGD, ({k.sgd_parity_dim},{k.sgd_parity_degree})-parity",
        run=parity_run(k.sgd_parity_dim, k.sgd_parity_degree, Batch(128), k.sgd_parity_steps, model),
        rates=k.sgd_parity_rates,
        lines=small_and_large(
            Fixed(k.sgd_parity_samples), Online(), (f"{k.sgd_parity_samples:,} samples", "fresh samples")
        ),
        target=k.accuracy,
        seeds_factor=k.sgd_seeds_factor,
    )


def gd_parity(k: FullBatchKnobs) -> Panel:
    """Fig. 2 (b): GD on a fixed set of N samples of parity against the exact population."""
    model, many = MLP(k.width, bias=k.parity_bias), 2**k.gd_parity_dim
    return gd_panel(
        name="gd_parity",
        title=f"GD, ({k.gd_parity_dim},{k.gd_parity_degree})-parity",
        run=parity_run(k.gd_parity_dim, k.gd_parity_degree, FullBatch(), k.gd_parity_steps, model),
        rates=k.gd_parity_rates,
        lines=small_and_large(
            Fixed(k.gd_parity_samples), Online(), (f"{k.gd_parity_samples:,} samples", f"all {many:,} points")
        ),
        target=k.accuracy,
        seeds_factor=k.gd_seeds_factor,
    )


def sgd_index(k: Figure2Knobs) -> Panel:
    """Fig. 2 (c): SGD on the single-index model, 100 steps on a small pool first, against fresh samples."""
    model = MLP(k.width, bias=k.single_index_bias)
    return Panel(
        name="sgd_index",
        title=f"SGD, single index, d = {k.single_index_dim}",
        run=index_run(k.single_index_dim, Batch(128), k.sgd_index_steps, model),
        rates=k.sgd_index_rates,
        lines=small_and_large(two_phases(None, None), Online(), ("small pool, then fresh", "fresh samples")),
        target=k.relative_loss,
        seeds_factor=k.sgd_seeds_factor,
    )


def gd_index(k: FullBatchKnobs) -> Panel:
    """Fig. 2 (d): GD on the single-index model, 100 steps on a small set first, against the large set."""
    few, many = k.gd_index_samples
    model = MLP(k.width, bias=k.single_index_bias)
    return gd_panel(
        name="gd_index",
        title=f"GD, single index, d = {k.single_index_dim}",
        run=index_run(k.single_index_dim, FullBatch(), k.gd_index_steps, model),
        rates=k.gd_index_rates,
        lines=small_and_large(two_phases(few, many), Fixed(many), (f"{few:,}, then {many:,}", f"{many:,} samples")),
        target=k.relative_loss,
        seeds_factor=k.gd_seeds_factor * k.gd_index_factor,
    )


def at_rate(panel: Panel, rate: float) -> Panel:
    """The panel with all its lines at one learning rate, so that their data alone differ."""
    run = replace(panel.run, optimizer=SGD(rate))
    return replace(panel, name=f"{panel.name}_at_rate", title=f"{panel.title}, rate {rate:g}", run=run, rates=None)


def with_model(panel: Panel, name: str, title: str, model: MLP, rates: tuple[float, float]) -> Panel:
    """The panel with another network, whose sweeps begin elsewhere. Runs without phases end once settled."""
    run = replace(panel.run, model=model)
    if not any(isinstance(line.plan, Phases) for line in panel.lines):
        run = replace(run, budget=replace(run.budget, settled=Settled(panel.target)))
    return replace(panel, name=f"{panel.name}_{name}", title=f"{panel.title}, {title}", run=run, rates=rates)
