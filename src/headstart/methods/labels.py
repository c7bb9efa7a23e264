"""Random labels: a phase of training whose targets carry no information about the task."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.samples import Samples
from headstart.core.streams import Stream, uniforms
from headstart.methods.method import Method
from headstart.plans import Pool
from headstart.tasks import Task
from headstart.tasks.task import RandomlyLabelled


@dataclass(frozen=True)
class RandomLabels(Method):
    """In the phases listed, samples have labels drawn once and kept: the same at every visit.

    What a random label is, the task says: a uniform sign for parity, the link of another random direction for a
    single-index model. `permuted=True` permutes a finite set's own labels instead, for any task; phases are numbered
    from 0. No phases is the untouched run.

    Reference: Less Data, Faster Training, Section 5.1 and Figs. 4 and 20.
    """

    phases: tuple[int, ...] = (0,)
    permuted: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        phases = tuple(self.phases) if isinstance(self.phases, tuple | list) else None
        if phases is None or not all(isinstance(phase, int) and phase >= 0 for phase in phases):
            raise HeadstartError(f"RandomLabels(phases={self.phases!r}): give numbers of phases, the first being 0")
        object.__setattr__(self, "phases", phases)

    def check(self, task: Task) -> None:
        """A task must say what a random label is, unless its own are permuted."""
        if not self.permuted and not isinstance(task, RandomlyLabelled):
            raise HeadstartError(
                f"RandomLabels(): {type(task).__name__} does not say what a random label is (random_labels); "
                "use RandomLabels(permuted=True)"
            )

    def alters(self, leg: int, pool: Pool) -> bool:
        """The phases listed."""
        if leg in self.phases and self.permuted and pool.size is None:
            raise HeadstartError(
                f"RandomLabels(phases={self.phases}, permuted=True): phase {leg} has fresh samples, whose labels "
                "cannot be permuted; give that phase a size"
            )
        return leg in self.phases

    def samples(self, task: Task, seed: int, leg: int, pool: Pool, ids: NDArray[np.int64], samples: Samples) -> Samples:
        """The same inputs with other labels."""
        if leg not in self.phases:
            return samples
        if self.permuted:
            order = np.argsort(uniforms(seed, Stream.LABELS, ids, 1)[:, 0], kind="stable")
            return replace(samples, y=samples.y[order])
        assert isinstance(task, RandomlyLabelled)
        return replace(samples, y=task.random_labels(seed, ids, samples.x))
