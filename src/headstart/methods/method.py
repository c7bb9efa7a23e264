"""The closed set of hooks through which a method changes training. Every hook here is neutral."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.roles import Parameter
from headstart.optimizers import Optimizer
from headstart.plans import Pool
from headstart.tasks import Samples, Task


class Method:
    """One change to how training goes: a frozen dataclass that overrides the hooks it needs.

    Engines never see a method, only what `engines.lower` makes of its hooks. Methods compose in the order written.
    """

    semantics: ClassVar[int] = 1

    def check(self, task: Task) -> None:
        """Raise a HeadstartError where the method cannot work on this task."""

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
