"""Runs and simulations that take milliseconds, for the tests of the lab."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import headstart as hs


@dataclass(frozen=True)
class Powers:
    """The powers 0 to num - 1 of a base; `diary`, where given, notes each call."""

    base: float
    num: int = 4
    diary: str = ""

    semantics: ClassVar[int] = 1
    seconds: ClassVar[float] = 0.01

    def simulate(self) -> dict[str, np.ndarray]:
        """One array of floats and one of integers."""
        if self.diary:
            with Path(self.diary).open("a") as file:
                file.write(f"{self.base:g}\n")
        if self.base < 0:
            raise hs.HeadstartError(f"Powers(base={self.base}): cannot")
        return {"power": self.base ** np.arange(self.num), "order": np.arange(self.num)}


def parity_run(**changes: object) -> hs.Run:
    """A tiny mini-batch run; every part can be replaced."""
    parts: dict = {
        "task": hs.Parity(6, 2),
        "model": hs.MLP(width=4),
        "plan": hs.Online(),
        "loss": hs.MSE(),
        "optimizer": hs.SGD(0.1),
        "batch": hs.Batch(16),
        "budget": hs.Budget(steps=20, record_every=5),
    }
    return hs.Run(**(parts | changes))
