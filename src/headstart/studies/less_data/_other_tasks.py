"""Transformers on the other three tasks, with the settings of Appendix B.1: knobs, runs and panels."""

from dataclasses import dataclass
from typing import ClassVar

import headstart.lab as lab
from headstart.core.units import Batch
from headstart.lab.panels import Line, Panel
from headstart.losses import MSE, CrossEntropy
from headstart.models import Vectors
from headstart.plans import Online, Phase, Phases, Plan
from headstart.run import Run
from headstart.studies.less_data import ACCURACY, RELATIVE_LOSS, mean_curve_panel
from headstart.studies.less_data._transformers import AdamKnobs, Size, transformer_run
from headstart.tasks import Hermite, InContextRegression, ModularArithmetic, SingleIndex

# Fractions of the online samples, and epochs over each or shares of the steps: they fill the online budget exactly.
FRACTIONS, MODULAR_EPOCHS, CONTEXT_SHARES = (0.005, 0.02, 0.05, 0.1), (20, 5, 4, 6), (0.1, 0.1, 0.1, 0.7)
FOUR_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FRACTIONS, MODULAR_EPOCHS, strict=True)))


def small_and_online(small: Plan, label: str) -> tuple[Line, Line]:
    """The two arms of the other tasks."""
    return (
        Line("small", label, small, lab.warm()),
        Line("online", "online", Online(), lab.cold()),
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

    SMALLER: ClassVar = {
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
    }

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

    SMALLER: ClassVar = {
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
    }

    def context_run(self) -> Run:
        """A decoder."""
        features, examples = self.context
        model = Size(*self.context_size).decoder(tokens=Vectors(features))
        return transformer_run(InContextRegression(features, examples), model, MSE(), self.context_steps)

    def context_panel(self) -> Panel:
        """Four pools for shares of the budget, 1500, 1500, 1500 and 10500 of 15000 steps; against fresh sequences."""
        lengths = [max(1, round(share * self.context_steps)) for share in CONTEXT_SHARES[:-1]]
        first = [Phase(fraction=f, steps=s) for f, s in zip(FRACTIONS, lengths, strict=False)]
        lines = small_and_online(Phases((*first, Phase(fraction=FRACTIONS[-1]))), "4 phases")
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

    SMALLER: ClassVar = {
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
    }

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
