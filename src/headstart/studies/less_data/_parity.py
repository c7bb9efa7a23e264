"""Transformers on parity, with the settings of Appendix B.1: knobs, runs, the three arms and their order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import headstart.lab as lab
from headstart.lab.panels import Line, Panel
from headstart.losses import Logistic
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run
from headstart.studies.less_data import ACCURACY, mean_curve_panel
from headstart.studies.less_data._transformers import AdamKnobs, Size, transformer_run
from headstart.tasks import Parity

# Fractions of the online samples and epochs over each: they fill the online budget exactly.
FRACTIONS, EPOCHS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.1), (100, 50, 20, 10, 10, 4)
SIX_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FRACTIONS, EPOCHS, strict=True)))


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


@dataclass(frozen=True)
class ParityKnobs(AdamKnobs):
    """(d, k)-parity: (width, depth, heads, MLP width), length in steps, where sweeps begin, target."""

    parity: tuple[int, int] = (20, 6)
    size: tuple[int, int, int, int] = (256, 2, 8, 1024)
    steps: int = 100_000
    rates: tuple[float, float] | None = (2.5e-4, 6.3e-4)
    accuracy: float = ACCURACY

    SMALLER: ClassVar = {
        "smoke": {"parity": (4, 2), "size": (8, 1, 2, 8), "steps": 40, "rates": None, "accuracy": 0.55},
        "laptop": {"parity": (10, 6), "size": (64, 2, 4, 64), "steps": 3000, "rates": (1.8e-3, 2.592e-3)},
    }

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


def in_order(panel: Panel, paper: str, order: str = "not stated") -> list[lab.Claim]:
    """6-phase < 100-epoch < online in steps, as three claims: what the paper says of online, and of the small sides."""
    return [
        panel.faster("six", "online", paper, "6 phases against online"),
        panel.faster("hundred", "online", paper, "100 epochs against online"),
        panel.faster("six", "hundred", order, "6 phases against 100 epochs"),
    ]
