"""Transformers on the other three tasks, with the settings of Appendix B.1: knobs, runs and panels."""

from dataclasses import dataclass
from typing import ClassVar

import headstart.lab as lab
from headstart.core.units import Batch
from headstart.lab.panels import Line, Panel
from headstart.losses import MSE, CrossEntropy
from headstart.models import Vectors
from headstart.plans import Online, Phase, Phases, Plan
from headstart.studies.less_data import ACCURACY, RELATIVE_LOSS
from headstart.studies.less_data._transformers import AdamKnobs, decoder, transformer, transformer_run
from headstart.tasks import Hermite, InContextRegression, ModularArithmetic, SingleIndex

# Fractions of the online samples, and epochs over each or shares of the steps: they fill the online budget exactly.
FRACTIONS, MODULAR_EPOCHS, CONTEXT_SHARES = (0.005, 0.02, 0.05, 0.1), (20, 5, 4, 6), (0.1, 0.1, 0.1, 0.7)
FOUR_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FRACTIONS, MODULAR_EPOCHS, strict=True)))


def small_and_online(small: Plan, label: str) -> tuple[Line, Line]:
    """The two arms of the other tasks."""
    return Line("small", label, small, lab.warm()), Line("online", "online", Online(), lab.cold())


@dataclass(frozen=True)
class IndexKnobs(AdamKnobs):
    """y = He_3(<w*, x>): dimension, coordinates per token, batch, length in steps, also of the first phase; target;
    how many times the study's seeds.

    The square of a cubic has heavy tails, so that it takes more test points than other tasks.
    """

    index_dim: int = 50
    index_patch: int = 1
    index_size: tuple[int, int, int, int] = (64, 2, 4, 256)
    index_batch: int = 128
    index_test: int = 8192
    index_steps: int = 10_000
    index_first_steps: int = 800
    index_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    relative_loss: float = RELATIVE_LOSS
    index_factor: int = 1

    SMALLER: ClassVar = {
        "smoke": {
            "index_dim": 4,
            "index_patch": 2,
            "index_size": (8, 1, 2, 8),
            "index_batch": 32,
            "index_test": 512,
            "index_steps": 40,
            "index_first_steps": 10,
            "index_rates": None,
            "relative_loss": 0.99,
        },
        "laptop": {
            "index_dim": 16,
            "index_size": (32, 2, 4, 64),
            "index_batch": 64,
            "index_test": 2048,
            "index_steps": 1600,
            "index_first_steps": 200,
            "index_rates": (2e-3, 4e-3),
            "index_factor": 2,
        },
    }

    def index_panel(self, lines: tuple[Line, ...] | None = None) -> Panel:
        """An encoder. .005 of the online samples for the first phase, then fresh ones; against fresh ones."""
        task = SingleIndex(self.index_dim, Hermite(3), num_test=self.index_test)
        model = transformer(self.index_size, tokens=Vectors(self.index_patch))
        run = transformer_run(task, model, MSE(), self.index_steps, self.relative_loss, batch=Batch(self.index_batch))
        first = Phases((Phase(fraction=0.005, steps=self.index_first_steps), Phase()))
        lines, title = lines or small_and_online(first, "small pool, then fresh"), f"single index, d = {self.index_dim}"
        options = {"seeds_factor": self.index_factor, **self.sweeps}
        return Panel("index", title, run, self.index_rates, lines, self.relative_loss, **options)


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
            "context_steps": 3000,
            "context_rates": (4e-3, 8e-3),
        },
    }

    def context_panel(self) -> Panel:
        """A decoder. Four pools for 1500, 1500, 1500 and 10500 of 15000 steps; against fresh sequences."""
        features, examples = self.context
        task, model = (
            InContextRegression(features, examples, self.num_test),
            decoder(self.context_size, tokens=Vectors(features)),
        )
        lengths = [max(1, round(share * self.context_steps)) for share in CONTEXT_SHARES[:-1]]
        first = [Phase(fraction=f, steps=s) for f, s in zip(FRACTIONS, lengths, strict=False)]
        lines = small_and_online(Phases((*first, Phase(fraction=FRACTIONS[-1]))), "4 phases")
        title = f"in-context regression, {self.context}"
        run = transformer_run(task, model, MSE(), self.context_steps, self.context_loss)
        return Panel("context", title, run, self.context_rates, lines, self.context_loss, **self.sweeps)


@dataclass(frozen=True)
class ModularKnobs(AdamKnobs):
    """(N, p, base) of modular addition, length in steps, target; how many times the study's seeds."""

    modular: tuple[int, int, int] = (1000, 97, 10)
    modular_size: tuple[int, int, int, int] = (64, 2, 4, 256)
    modular_steps: int = 50_000
    modular_rates: tuple[float, float] | None = (5e-4, 1.25e-3)
    modular_accuracy: float = ACCURACY
    modular_factor: int = 1

    SMALLER: ClassVar = {
        "smoke": {
            "modular": (10, 2, 10),
            "modular_size": (8, 1, 2, 8),
            "modular_steps": 40,
            "modular_rates": None,
            "modular_accuracy": 0.55,
        },
        "laptop": {
            "modular": (100, 3, 10),
            "modular_size": (32, 2, 4, 64),
            "modular_steps": 4000,
            "modular_rates": (7e-4, 1.4e-3),
            "modular_factor": 2,
        },
    }

    def modular_panel(self, lines: tuple[Line, ...] | None = None) -> Panel:
        """A decoder. Four pools, against fresh numbers."""
        task, target = ModularArithmetic(*self.modular, num_test=self.num_test), self.modular_accuracy
        run = transformer_run(task, decoder(self.modular_size), CrossEntropy(), self.modular_steps, target)
        lines = lines or small_and_online(FOUR_PHASES, "4 phases")
        title = "addition below {} mod {}".format(*self.modular)
        options = {"seeds_factor": self.modular_factor, **self.sweeps}
        return Panel("modular", title, run, self.modular_rates, lines, target, **options)
