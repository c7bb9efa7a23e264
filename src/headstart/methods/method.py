"""The closed set of hooks through which a method changes training. Every hook here is neutral."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.roles import Parameter
from headstart.core.samples import Samples
from headstart.losses import Loss
from headstart.optimizers import Optimizer
from headstart.plans import Pool
from headstart.tasks import Task

if TYPE_CHECKING:
    import torch

# Tensors by parameter name. Where members are stacked, each has one more axis in front.
Tensors = dict[str, "torch.Tensor"]
Forward = Callable[[Tensors, Any], Any]


class Hook(StrEnum):
    """What a run may ask of an engine beyond plain training on the task's samples. Engines say which they have."""

    SAMPLES = "changed samples"
    GRADIENTS = "transformed gradients"
    PROJECTION = "projected weights"
    LOSS = "losses by phase"
    REWRITE = "rewritten models"
    SCHEDULE = "learning-rate schedules"
    FLOAT64 = "float64"
    CARRIED_MOMENTS = "moments carried over from another run"
    ADAPTIVE = "phases that end by a metric"
    FAVOURED = "batches of two sets"
    ASIDE = "plans by role"


class Method:
    """One change to how training goes: a frozen dataclass that overrides the hooks it needs.

    Engines never see a method, only what `engines.lower` makes of its hooks. Methods compose in the order written.
    The hooks on tensors change nothing but a memory of their own, and read the shape of one member from `parameters`:
    leading axes are members.
    """

    semantics: ClassVar[int] = 1

    @property
    def hooks(self) -> frozenset[Hook]:
        """What it asks of an engine, beside scales and samples: by default, the hooks that its class overrides."""
        return frozenset(
            hook for name, hook in _HOOKS.items() if getattr(type(self), name) is not getattr(Method, name)
        )

    @property
    def flops_factor(self) -> float:
        """How many times the FLOPs of a step it needs."""
        return 1.0

    def check(self, task: Task) -> None:
        """Raise a HeadstartError where the method cannot work on this task."""

    def check_parameters(self, parameters: Sequence[Parameter]) -> None:
        """Raise a HeadstartError where the method would do nothing to a model with these parameters."""

    def init_scale(self, parameter: Parameter) -> float:
        """The factor on this parameter's initial values."""
        return 1.0

    def rate_scale(self, parameter: Parameter, optimizer: Optimizer) -> float:
        """The factor on this parameter's learning rate under this optimizer."""
        return 1.0

    def alters(self, leg: int, pool: Pool) -> bool:
        """Whether `samples` changes the training samples of this leg of the plan (a phase; the first is 0)."""
        return False

    def samples(self, task: Task, seed: int, leg: int, pool: Pool, ids: NDArray[np.int64], samples: Samples) -> Samples:
        """The samples to train on in place of `samples`, those with these ids.

        Of a finite pool `ids` are all of it, so that the set may be changed as a whole. Of fresh samples any may be
        asked for, so that each may depend on its own id alone. Test samples never come here.
        """
        return samples

    def loss(self, leg: int) -> Loss | None:
        """The loss that this leg of the plan minimises; None is the run's own, which every record is of."""
        return None

    def transform(
        self,
        gradients: Tensors,
        memory: Tensors,
        weights: Tensors,
        parameters: Mapping[str, Parameter],
        step: int,
    ) -> tuple[Tensors, Tensors]:
        """The gradients to step with, and the memory for the next step; at step 0 the memory is empty.

        Memory is part of every checkpoint. Its tensors have the leading axes of the gradients.
        """
        return gradients, memory

    def project(self, weights: Tensors, parameters: Mapping[str, Parameter]) -> Tensors:
        """The weights after a step, and at the start; those that it leaves out stay as they are."""
        return {}

    def predict(self, forward: Forward, weights: Tensors, origin: Tensors, x: Any) -> Any:
        """The predictions of the model that is trained; `forward(weights, x)` is the network's own.

        `origin` are the weights at the start of the run.
        """
        return forward(weights, x)


_HOOKS = {"transform": Hook.GRADIENTS, "project": Hook.PROJECTION, "loss": Hook.LOSS, "predict": Hook.REWRITE}
