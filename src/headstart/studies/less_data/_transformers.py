"""What the Transformer studies share: runs of the four tasks with the settings of Appendix B.1, and their plans.

Left open by the paper and chosen here: logistic loss and mean-pooled readout for parity, weight decay 0.01, MLPs as
wide as the model in the laptop presets and four times as wide in the paper ones.
"""

from dataclasses import dataclass

import headstart.lab as lab
from headstart.core.units import Batch, Budget, FullBatch
from headstart.losses import MSE, CrossEntropy, Logistic
from headstart.methods import Method
from headstart.models import Readout, Signs, Symbols, Transformer, Vectors
from headstart.optimizers import AdamW
from headstart.plans import Fixed, Online, Phase, Phases, Plan
from headstart.run import Run
from headstart.studies.less_data import Line, Panel
from headstart.tasks import Hermite, InContextRegression, ModularAddition, Parity, SingleIndex, Task

BETA2 = (0.8, 0.9, 0.95, 0.999)
NUM_RECORDS = 40
# Fractions of the online samples and epochs over each: both schedules fill the online budget exactly.
PARITY_FRACTIONS, PARITY_EPOCHS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.1), (100, 50, 20, 10, 10, 4)
FOUR_FRACTIONS, MODULAR_EPOCHS, CONTEXT_SHARES = (0.005, 0.02, 0.05, 0.1), (20, 5, 4, 6), (0.1, 0.1, 0.1, 0.7)
SIX_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(PARITY_FRACTIONS, PARITY_EPOCHS, strict=True)))
FOUR_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FOUR_FRACTIONS, MODULAR_EPOCHS, strict=True)))


def context_phases(steps: int) -> Phases:
    """The four phases of in-context regression, as shares of the budget: 1500, 1500, 1500, 10500 of 15000 steps."""
    lengths = [max(1, round(share * steps)) for share in CONTEXT_SHARES[:-1]]
    first = [Phase(fraction=f, steps=s) for f, s in zip(FOUR_FRACTIONS, lengths, strict=False)]
    return Phases((*first, Phase(fraction=FOUR_FRACTIONS[-1])))


def hundred_epochs(batch: int, steps: int) -> Fixed:
    """One pool of 1% of the online samples."""
    return Fixed(max(1, round(0.01 * batch * steps)))


@dataclass(frozen=True)
class Size:
    """Width, layers, heads and the width of the MLPs."""

    width: int = 64
    depth: int = 2
    heads: int = 4
    mlp_width: int = 64


def _run(task: Task, model: Transformer, loss: object, steps: int, batch: Batch | FullBatch, lr: float = 5e-3) -> Run:
    budget = Budget(steps, record_every=max(8, steps // NUM_RECORDS))
    return Run(task, model, Online(), loss, AdamW(lr, beta2=0.95), batch=batch, budget=budget)  # type: ignore[arg-type]


def parity_run(
    dim: int, degree: int, steps: int, size: Size, batch: Batch | FullBatch = Batch(32), qk_norm: bool = False
) -> Run:
    """An encoder on parity, one of two symbols a token."""
    model = Transformer(size.width, size.depth, size.heads, Signs(), mlp_width=size.mlp_width, qk_norm=qk_norm)
    return _run(Parity(dim, degree), model, Logistic(), steps, batch)


def index_run(dim: int, patch: int, batch: int, steps: int, size: Size, qk_norm: bool = False) -> Run:
    """An encoder on y = He_3(<w*, x>), `patch` coordinates a token."""
    model = Transformer(size.width, size.depth, size.heads, Vectors(patch), mlp_width=size.mlp_width, qk_norm=qk_norm)
    return _run(SingleIndex(dim, Hermite(3)), model, MSE(), steps, Batch(batch))


def context_run(features: int, context: int, steps: int, size: Size, qk_norm: bool = False) -> Run:
    """A decoder on in-context regression, read at its last token."""
    model = Transformer(
        size.width,
        size.depth,
        size.heads,
        Vectors(features),
        causal=True,
        readout=Readout.LAST,
        mlp_width=size.mlp_width,
        qk_norm=qk_norm,
    )
    return _run(InContextRegression(features, context), model, MSE(), steps, Batch(32))


def modular_run(task: ModularAddition, steps: int, size: Size, qk_norm: bool = False) -> Run:
    """A decoder on modular addition, read at its last token."""
    model = Transformer(
        size.width,
        size.depth,
        size.heads,
        Symbols(task.base),
        causal=True,
        readout=Readout.LAST,
        num_outputs=task.modulus,
        mlp_width=size.mlp_width,
        qk_norm=qk_norm,
    )
    return _run(task, model, CrossEntropy(), steps, Batch(32))


def three_arms(steps: int, methods: tuple[Method, ...] = (), batch: int = 32) -> tuple[Line, Line, Line]:
    """The arms of parity: 6-phase, 100-epoch on a 1% pool, online."""
    return (
        Line("six", "6 phases", lab.Side.SMALL, SIX_PHASES, methods),
        Line("hundred", "100 epochs", lab.Side.SMALL, hundred_epochs(batch, steps), methods),
        Line("online", "online", lab.Side.LARGE, Online(), methods),
    )


def parity_panel(
    name: str,
    title: str,
    run: Run,
    rates: tuple[float, float] | None,
    target: float,
    beta2: tuple[float, ...],
    lines: tuple[Line, ...] | None = None,
) -> Panel:
    """A panel of parity with its three arms, or others."""
    return Panel(name, title, run, rates, lines or three_arms(run.budget.steps), target, beta2=beta2)


def in_order(panel: Panel, paper: str) -> list[lab.Claim]:
    """6-phase < 100-epoch < online in steps, as three claims."""
    return [
        panel.faster("six", "online", paper, "6 phases against online"),
        panel.faster("hundred", "online", paper, "100 epochs against online"),
        panel.faster("six", "hundred", paper, "6 phases against 100 epochs"),
    ]


def small_and_online(small: Plan, label: str) -> tuple[Line, Line]:
    """The two lines of the other tasks."""
    return Line("small", label, lab.Side.SMALL, small), Line("online", "online", lab.Side.LARGE, Online())
