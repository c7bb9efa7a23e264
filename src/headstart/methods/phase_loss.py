"""Another loss in some phases of training."""

from dataclasses import dataclass
from typing import Any, ClassVar

from headstart.core.errors import HeadstartError
from headstart.losses import Loss
from headstart.methods.method import Hook, Method
from headstart.tasks import Task


@dataclass(frozen=True)
class PhaseLoss(Method):
    """Phase i minimises losses[i]; None, and every phase after the last of them, minimises the run's own loss.

        PhaseLoss((Correlation(),))  # the correlation loss first, then what the run says

    Records are always of the run's own loss, so that curves can be compared. No losses is the untouched run.
    """

    losses: tuple[Any, ...] = ()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        losses = tuple(self.losses) if isinstance(self.losses, tuple | list) else (self.losses,)
        for loss in losses:
            if isinstance(loss, type) or not (loss is None or isinstance(loss, Loss)):
                raise HeadstartError(f"PhaseLoss(losses={self.losses!r}): give losses or None, one per phase")
        object.__setattr__(self, "losses", losses)

    @property
    def hooks(self) -> frozenset[Hook]:
        """Nothing, where no phase has a loss of its own."""
        return super().hooks if any(loss is not None for loss in self.losses) else frozenset()

    def check(self, task: Task) -> None:
        """The losses must fit the task's targets."""
        for loss in self.losses:
            if loss is not None and loss.name not in task.losses:
                raise HeadstartError(
                    f"PhaseLoss(losses=({loss},)): {type(task).__name__} offers {', '.join(task.losses)}"
                )

    def loss(self, leg: int) -> Loss | None:
        """The loss of this phase."""
        return self.losses[leg] if leg < len(self.losses) else None
