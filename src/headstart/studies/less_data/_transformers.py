"""What the Transformer studies share: the four tasks with the settings of Appendix B.1 as knobs, runs and panels.

Left open by the paper and chosen here: logistic loss and mean-pooled readout for parity, weight decay 0.01, MLPs of
width 64 in the laptop presets and four times the width in the paper ones. Embeddings and positions begin as
N(0, 0.1^2), since the gap is plain there; PyTorch's own, the paper's "defaults", are N(0, 1): `open_choices` has both.

The settings of a task are one class of knobs, so that a study has those of the tasks it trains and runs of the same
settings are the same runs in every study. Laptop settings are the smallest found that show the effect: docs/log.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import headstart.lab as lab
from headstart.core.units import Batch, Budget, FullBatch
from headstart.lab.panels import Line, Panel
from headstart.losses import MSE, CrossEntropy, Logistic
from headstart.models import Readout, Transformer, Vectors
from headstart.optimizers import AdamW
from headstart.plans import Fixed, Online, Phase, Phases, Plan
from headstart.run import Run
from headstart.studies.less_data import ACCURACY, RELATIVE_LOSS, mean_curve_panel
from headstart.tasks import Hermite, InContextRegression, ModularArithmetic, Parity, SingleIndex, Task

BETA2 = (0.8, 0.9, 0.95, 0.999)
NUM_RECORDS = 40
# Fractions of the online samples and epochs over each: both schedules fill the online budget exactly.
PARITY_FRACTIONS, PARITY_EPOCHS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.1), (100, 50, 20, 10, 10, 4)
FOUR_FRACTIONS, MODULAR_EPOCHS, CONTEXT_SHARES = (0.005, 0.02, 0.05, 0.1), (20, 5, 4, 6), (0.1, 0.1, 0.1, 0.7)
SIX_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(PARITY_FRACTIONS, PARITY_EPOCHS, strict=True)))
FOUR_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FOUR_FRACTIONS, MODULAR_EPOCHS, strict=True)))


@dataclass(frozen=True)
class Size:
    """Width, layers, heads and the width of the MLPs."""

    width: int = 64
    depth: int = 2
    heads: int = 4
    mlp_width: int = 64

    def model(self, **options: Any) -> Transformer:
        """A Transformer of this size."""
        return Transformer(self.width, self.depth, self.heads, mlp_width=self.mlp_width, **options)

    def decoder(self, **options: Any) -> Transformer:
        """One with a causal mask, read at its last token."""
        return self.model(causal=True, readout=Readout.LAST, **options)


def transformer_run(task: Task, model: Transformer, loss: Any, steps: int, batch: Batch | FullBatch = Batch(32)) -> Run:
    """AdamW with beta2 = .95; plans are those of arms, and rates too, unless they are not swept."""
    budget = Budget(steps, record_every=max(8, steps // NUM_RECORDS))
    return Run(task, model, Online(), loss, AdamW(5e-3, beta2=0.95), batch=batch, budget=budget)


def three_arms(steps: int) -> tuple[Line, Line, Line]:
    """The arms of parity: 6-phase, 100-epoch on a pool of 1% of the online samples, online."""
    return (
        Line("six", "6 phases", SIX_PHASES, lab.warm()),
        Line("hundred", "100 epochs", Fixed(pool_size(steps)), lab.warm(1)),
        Line("online", "online", Online(), lab.cold()),
    )


def pool_size(steps: int) -> int:
    """1% of the online samples, 32 a step."""
    return max(1, round(0.01 * 32 * steps))


def small_and_online(small: Plan, label: str) -> tuple[Line, Line]:
    """The two arms of the other tasks."""
    return (
        Line("small", label, small, lab.warm()),
        Line("online", "online", Online(), lab.cold()),
    )


@dataclass(frozen=True)
class AdamKnobs(lab.Knobs):
    """The values of beta2 that every sweep of a learning rate tries; none keeps .95."""

    beta2: tuple[float, ...] = BETA2


@dataclass(frozen=True)
class ParityKnobs(AdamKnobs):
    """(d, k)-parity: (width, depth, heads, MLP width), length in steps, where sweeps begin, target."""

    parity: tuple[int, int] = (20, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    accuracy: float = ACCURACY

    def parity_run(self, **options: Any) -> Run:
        """An encoder, one of two symbols a token; options are the model's."""
        return transformer_run(Parity(*self.parity), Size(*self.size).model(**options), Logistic(), self.steps)

    def parity_panel(
        self, name: str = "parity", title: str = "", lines: tuple[Line, ...] | None = None, run: Run | None = None
    ) -> Panel:
        """The three arms, or others."""
        lines, run = lines or three_arms(self.steps), run or self.parity_run()
        return mean_curve_panel(
            name, title or f"{self.parity}-parity", run, self.rates, lines, self.accuracy, beta2=self.beta2
        )


@dataclass(frozen=True)
class IndexKnobs(AdamKnobs):
    """y = He_3(<w*, x>): dimension, coordinates a token, batch, length in steps, also of the first phase; target."""

    index_dim: int = 50
    index_patch: int = 1
    index_size: tuple[int, int, int, int] = (64, 2, 4, 256)
    index_batch: int = 128
    index_steps: int = 10_000
    index_first_steps: int = 800
    index_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    relative_loss: float = RELATIVE_LOSS

    def index_run(self) -> Run:
        """An encoder."""
        model = Size(*self.index_size).model(tokens=Vectors(self.index_patch))
        return transformer_run(
            SingleIndex(self.index_dim, Hermite(3)), model, MSE(), self.index_steps, Batch(self.index_batch)
        )

    def index_panel(self, lines: tuple[Line, ...] | None = None) -> Panel:
        """.005 of the online samples for the first phase, then fresh ones; against fresh ones."""
        first = Phases((Phase(fraction=0.005, steps=self.index_first_steps), Phase()))
        lines = lines or small_and_online(first, "small pool, then fresh")
        title, run = f"single index, d = {self.index_dim}", self.index_run()
        return mean_curve_panel("index", title, run, self.index_rates, lines, self.relative_loss, beta2=self.beta2)


@dataclass(frozen=True)
class ContextKnobs(AdamKnobs):
    """In-context regression: (features, examples), length in steps, target."""

    context: tuple[int, int] = (4, 15)
    context_size: tuple[int, int, int, int] = (64, 2, 4, 256)
    context_steps: int = 15_000
    context_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    context_loss: float = RELATIVE_LOSS

    def context_run(self) -> Run:
        """A decoder."""
        features, examples = self.context
        model = Size(*self.context_size).decoder(tokens=Vectors(features))
        return transformer_run(InContextRegression(features, examples), model, MSE(), self.context_steps)

    def context_panel(self) -> Panel:
        """Four pools for shares of the budget, 1500, 1500, 1500 and 10500 of 15000 steps; against fresh sequences."""
        lengths = [max(1, round(share * self.context_steps)) for share in CONTEXT_SHARES[:-1]]
        first = [Phase(fraction=f, steps=s) for f, s in zip(FOUR_FRACTIONS, lengths, strict=False)]
        lines = small_and_online(Phases((*first, Phase(fraction=FOUR_FRACTIONS[-1]))), "4 phases")
        title, run = f"in-context regression, n = {self.context[0]}, k = {self.context[1]}", self.context_run()
        return mean_curve_panel("context", title, run, self.context_rates, lines, self.context_loss, beta2=self.beta2)


@dataclass(frozen=True)
class ModularKnobs(AdamKnobs):
    """(N, p, base) of modular addition, length in steps, target."""

    modular: tuple[int, int, int] = (1000, 97, 10)
    modular_size: tuple[int, int, int, int] = (64, 2, 4, 256)
    modular_steps: int = 50_000
    modular_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    modular_accuracy: float = ACCURACY

    def modular_run(self) -> Run:
        """A decoder."""
        task = ModularArithmetic(*self.modular)
        model = Size(*self.modular_size).decoder()
        return transformer_run(task, model, CrossEntropy(), self.modular_steps)

    def modular_panel(self, lines: tuple[Line, ...] | None = None) -> Panel:
        """Four pools, against fresh numbers."""
        lines, run = lines or small_and_online(FOUR_PHASES, "4 phases"), self.modular_run()
        title = f"addition below {self.modular[0]} mod {self.modular[1]}"
        return mean_curve_panel(
            "modular", title, run, self.modular_rates, lines, self.modular_accuracy, beta2=self.beta2
        )


_SEEDS: dict[str, dict[str, Any]] = {
    "smoke": {"num_seeds": 2, "num_selection_seeds": 1, "beta2": ()},
    "laptop": {"num_seeds": 12, "num_selection_seeds": 2, "beta2": ()},
    "paper": {"num_seeds": 32, "num_selection_seeds": 8},
}
_SMALL: dict[type, dict[str, dict[str, Any]]] = {
    ParityKnobs: {
        "smoke": {
            "parity": (4, 2),
            "size": (8, 1, 2, 8),
            "steps": 40,
            "rates": None,
            "accuracy": 0.55,
        },
        "laptop": {"parity": (10, 6), "size": (64, 2, 4, 64), "steps": 3000, "rates": (1.8e-3, 2.592e-3)},
    },
    IndexKnobs: {
        "smoke": {
            "index_dim": 4,
            "index_patch": 2,
            "index_size": (8, 1, 2, 8),
            "index_batch": 32,
            "index_steps": 40,
            "index_first_steps": 10,
            "index_rates": None,
            "relative_loss": 0.99,
        },
        "laptop": {
            "index_dim": 16,
            "index_size": (32, 2, 4, 64),
            "index_batch": 64,
            "index_steps": 1200,
            "index_first_steps": 200,
            "index_rates": (2e-3, 2.88e-3),
        },
    },
    ContextKnobs: {
        "smoke": {
            "context": (1, 2),
            "context_size": (8, 1, 2, 8),
            "context_steps": 40,
            "context_rates": None,
            "context_loss": 0.99,
        },
        "laptop": {
            "context": (2, 8),
            "context_size": (32, 2, 4, 64),
            "context_steps": 2000,
            "context_rates": (4e-3, 5.76e-3),
        },
    },
    ModularKnobs: {
        "smoke": {
            "modular": (10, 2, 10),
            "modular_size": (8, 1, 2, 8),
            "modular_steps": 40,
            "modular_rates": None,
            "modular_accuracy": 0.55,
        },
        "laptop": {
            "modular": (50, 7, 10),
            "modular_size": (32, 2, 4, 64),
            "modular_steps": 3000,
            "modular_rates": (2e-3, 2.88e-3),
            "modular_accuracy": 0.9,
        },
    },
}


def presets(kind: type, **own: Mapping[str, Any]) -> dict[str, Any]:
    """smoke, laptop and paper of knobs of class `kind`: the settings of its tasks, then what `own` has for each."""
    return {
        name: kind(
            **seeds
            | {k: v for task, small in _SMALL.items() if issubclass(kind, task) for k, v in small.get(name, {}).items()}
            | dict(own.get(name, {}))
        )
        for name, seeds in _SEEDS.items()
    }


def in_order(panel: Panel, paper: str, order: str = "not stated") -> list[lab.Claim]:
    """6-phase < 100-epoch < online in steps, as three claims: what the paper says of online, and of the small sides."""
    return [
        panel.faster("six", "online", paper, "6 phases against online"),
        panel.faster("hundred", "online", paper, "100 epochs against online"),
        panel.faster("six", "hundred", order, "6 phases against 100 epochs"),
    ]
