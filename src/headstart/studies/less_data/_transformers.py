"""What the Transformer studies share: runs under AdamW, and presets put together from the settings of their tasks.

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
from headstart.models import Readout, Transformer
from headstart.optimizers import AdamW
from headstart.plans import Online
from headstart.run import Run
from headstart.tasks import Task

BETA2 = (0.8, 0.9, 0.95, 0.999)
NUM_RECORDS = 40
SEEDS: dict[str, dict[str, Any]] = {
    "smoke": {"num_seeds": 2, "num_selection_seeds": 1, "beta2": ()},
    "laptop": {"num_seeds": 12, "num_selection_seeds": 2, "beta2": ()},
    "paper": {"num_seeds": 32, "num_selection_seeds": 8},
}


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


@dataclass(frozen=True)
class AdamKnobs(lab.Knobs):
    """The values of beta2 that every sweep of a learning rate tries; none keeps .95.

    A class of knobs for a task has the paper's settings as its defaults, and others by preset in `SMALLER`.
    """

    beta2: tuple[float, ...] = BETA2


def presets(kind: type, **own: Mapping[str, Any]) -> dict[str, Any]:
    """smoke, laptop and paper of knobs of class `kind`: the settings of its tasks, then what `own` has for each."""

    def smaller(name: str) -> dict[str, Any]:
        tasks = [vars(base).get("SMALLER", {}) for base in kind.__mro__]
        return {knob: value for task in tasks for knob, value in task.get(name, {}).items()}

    return {name: kind(**seeds | smaller(name) | dict(own.get(name, {}))) for name, seeds in SEEDS.items()}
