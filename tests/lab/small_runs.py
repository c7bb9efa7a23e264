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

    def compute(self) -> dict[str, np.ndarray]:
        """One array of floats and one of integers."""
        if self.diary:
            with Path(self.diary).open("a") as file:
                file.write(f"{self.base:g}\n")
        if self.base < 0:
            raise hs.HeadstartError(f"Powers(base={self.base}): cannot")
        return {"power": self.base ** np.arange(self.num), "order": np.arange(self.num)}


@dataclass(frozen=True)
class Numbered:
    """The target of a sample is its id and its input is 0, so that a network without biases predicts 0 for ever.

    The training loss of a batch of one is then the square of its id: traces say which samples a run drew.
    """

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("mse",)
    num_test: ClassVar[int] = 4
    signature: ClassVar[hs.Signature] = hs.Signature((3,))
    metrics: ClassVar[tuple[hs.Metric, ...]] = (hs.sign_accuracy(),)
    population_size: ClassVar[None] = None

    def sample(self, seed: int, ids: np.ndarray, stream: hs.Stream = hs.Stream.DATA) -> hs.Samples:
        return hs.Samples(np.zeros((len(ids), 3), np.float32), np.asarray(ids, dtype=np.float32))

    def population(self, seed: int, ids: np.ndarray | None = None) -> hs.Samples:
        raise NotImplementedError


def numbered_run(**changes: object) -> hs.Run:
    """Ten steps on one sample each, all recorded."""
    parts: dict = {
        "task": Numbered(),
        "model": hs.MLP(width=2, bias=False),
        "plan": hs.Online(),
        "loss": hs.MSE(),
        "optimizer": hs.SGD(0.1),
        "batch": hs.Batch(1),
        "budget": hs.Budget(steps=10, record_every=1),
    }
    return hs.Run(**(parts | changes))


def drawn_ids(trace: hs.Trace) -> list[int]:
    """The sample ids of each step of a `numbered_run`; a record is of the batch that the next step takes."""
    return np.sqrt(trace["train_loss"][:-1]).round().astype(int).tolist()


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
