"""What the two studies of XOR clusters share: the task, gradient descent with decay, and the weak model."""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import headstart.lab as lab
from headstart.core.roles import Role
from headstart.core.streams import Stream
from headstart.core.units import Budget, FullBatch
from headstart.losses import Exponential
from headstart.measures import Every, View, When, norm_ratio
from headstart.methods import LayerScale
from headstart.models import MLP, Init
from headstart.optimizers import SGD, Decay
from headstart.plans import Fixed
from headstart.run import Run
from headstart.tasks import XorClusters

WEAK_WIDTH = 3
# Standard deviations of a weak model's two layers: N(0, 0.01) and N(0, 0.0001).
_FIRST_STD, _READOUT_STD = 0.1, 0.01


@dataclass(frozen=True)
class XorKnobs(lab.Knobs):
    """The clusters, gradient descent, and the weak model.

    theta <- (1 - coefficient) theta - rate gradient: the paper's "learning rate 0.1, weight decay 0.1" is read as
    PyTorch reads it, coefficient = rate x decay = 0.01. A coefficient of 0.1 lets all weights collapse to 0.
    """

    dim: int = 80_000
    samples: int = 400
    noise: float = 0.05
    num_test: int = 1000
    width: int = 2048
    rate: float = 0.1
    coefficient: float = 0.01
    weak_steps: int = 1000


def descent(k: XorKnobs) -> SGD:
    """theta <- (1 - coefficient) theta - rate gradient."""
    return SGD(k.rate, weight_decay=k.coefficient / k.rate, decay=Decay.DECOUPLED)


def xor_run(k: XorKnobs, model: MLP, steps: int, record_every: int = 1) -> Run:
    """Full-batch gradient descent on the exponential loss; an output of exactly 0 is an error."""
    return Run(
        task=XorClusters(k.dim, k.noise, k.num_test, ties=0.0),
        model=model,
        plan=Fixed(k.samples),
        batch=FullBatch(),
        loss=Exponential(),
        optimizer=descent(k),
        budget=Budget(steps, record_every),
    )


def weak_run(k: XorKnobs, width: int = WEAK_WIDTH, record_every: int = 5) -> Run:
    """A network of few neurons with W ~ N(0, 0.01) and a ~ N(0, 0.0001)."""
    run = xor_run(k, MLP(width, bias=False, init=Init.GAUSSIAN), k.weak_steps, record_every)
    scale = LayerScale(init={Role.INPUT: _FIRST_STD * sqrt(k.dim), Role.READOUT: _READOUT_STD * sqrt(width)})
    return replace(run, methods=(scale,))


@dataclass(frozen=True)
class PassedOn:
    """What a weak model would pass on: its first weights and the numbers it makes of test rows.

    "norm_ratio" r_W; "weights" [neurons, num_weights], those of the first coordinates; "z" [num_rows, neurons] and
    "corner" [num_rows, 2] of the first test rows.
    """

    at: When = Every(1000)
    num_weights: int = 12
    num_rows: int = 400

    semantics: ClassVar[int] = 1

    def __call__(self, view: View) -> dict[str, float | NDArray[Any]]:
        """All of it now."""
        weights = view.weights["layers.0.weight"]
        x = view.task.sample(view.seed, np.arange(self.num_rows), Stream.EVALUATION).x
        shown = weights[:, : self.num_weights].copy()
        return {"norm_ratio": norm_ratio(weights), "weights": shown, "z": x @ weights.T, "corner": x[:, :2].copy()}
