"""One loss first, another later, in a training loop of your own."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError, check_count, check_positive

if TYPE_CHECKING:
    import torch

_SETTINGS = ("below", "steps", "window")


class LossSchedule:
    """Minimise `first` until `last` is low enough, or for so many steps, and `last` from then on.

        losses = hs.LossSchedule(hs.CorrelationLoss(), torch.nn.MSELoss(), below=0.6)
        for x, y in batches:
            optimizer.zero_grad()
            losses(model(x), y).backward()
            optimizer.step()
            losses.step()

    Each loss is a function of (predictions, targets) to a scalar tensor. The schedule looks at `last` on every training
    batch, whichever of the two is minimised, and changes over in `step()`

        below=0.6    once `last` is under 0.6 times what it was at the start
        steps=200    after so many steps; with both, whichever comes first

    `window` batches are averaged for what it is now and for its start; give more than 1 where batches are small. With
    an `optimizer` its learning rates are multiplied by `rate` at the change and by `decay` after every later step.
    Batches under torch.no_grad() are not counted, so that it serves for evaluation too; those between two calls of
    `step()` are averaged, and so are those of the processes of torch.distributed, which change over together.
    In a `Run` the method `PhaseLoss` does this by phases.

    Reference: Online Learning and Information Exponents, where correlation steps come first, which bear a larger rate,
    until the loss is under 60% of its start, and then the squared error, with rate=0.1 and decay=0.995.
    """

    def __init__(
        self,
        first: Callable[[Any, Any], Any],
        last: Callable[[Any, Any], Any],
        below: float | None = None,
        steps: int | None = None,
        window: int = 1,
        optimizer: "torch.optim.Optimizer | None" = None,
        rate: float = 1.0,
        decay: float = 1.0,
    ) -> None:
        for name, loss in (("first", first), ("last", last)):
            if not callable(loss) or isinstance(loss, type):
                raise HeadstartError(f"LossSchedule({name}={loss!r}): give a function of (predictions, targets)")
        if below is None and steps is None:
            raise HeadstartError("LossSchedule(below=None, steps=None): say when to change over, such as below=0.6")
        if below is not None and (isinstance(below, bool) or not isinstance(below, int | float) or not 0 < below < 1):
            raise HeadstartError(f"LossSchedule(below={below!r}): a share of the loss at the start, between 0 and 1")
        if steps is not None:
            check_count("LossSchedule", "steps", steps)
        check_count("LossSchedule", "window", window)
        for name, factor in (("rate", rate), ("decay", decay)):
            check_positive("LossSchedule", name, factor)
            if factor != 1 and optimizer is None:
                raise HeadstartError(f"LossSchedule({name}={factor!r}): give the optimizer whose rates it changes")
        self.first, self.last, self.below, self.steps, self.window = first, last, below, steps, window
        self.optimizer, self.rate, self.decay = optimizer, rate, decay
        self.num_steps = 0
        self.changed_at: int | None = None
        self.start: float | None = None
        self._recent: deque[float] = deque(maxlen=window)
        self._seen: list[torch.Tensor] = []

    @property
    def phase(self) -> int:
        """0 while `first` is minimised, 1 from then on."""
        return 0 if self.changed_at is None else 1

    @property
    def recorded(self) -> float | None:
        """What `last` was over the latest `window` steps; None before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else None

    def __call__(self, prediction: Any, target: Any) -> Any:
        """The loss to minimise on this batch."""
        import torch

        loss = self.first(prediction, target) if self.phase == 0 else self.last(prediction, target)
        if torch.is_grad_enabled():
            with torch.no_grad():
                seen = self.last(prediction, target) if self.phase == 0 else loss.detach()
            if seen.ndim:
                raise HeadstartError(
                    f"LossSchedule: `last` gave a tensor of shape {tuple(seen.shape)}; give a loss with a mean"
                )
            self._seen.append(seen)
        return loss

    def step(self) -> None:
        """Count an optimizer step, change over if it is time, and set the optimizer's rates for the next."""
        if not self._seen:
            raise HeadstartError("LossSchedule.step(): no batch since the last step; call the schedule on one first")
        self.num_steps += 1
        self._recent.append(self._mean_seen())
        self._seen.clear()
        if self.start is None and len(self._recent) == self.window:
            self.start = self.recorded
            self._check_start()
        if self.phase == 1:
            self._multiply_rates(self.decay)
        elif self._is_time():
            self.changed_at = self.num_steps
            self._multiply_rates(self.rate)

    def _is_time(self) -> bool:
        if self.steps is not None and self.num_steps >= self.steps:
            return True
        if self.below is None or self.start is None or self.recorded is None:
            return False
        return self.recorded < self.below * self.start

    def _check_start(self) -> None:
        if self.below is not None and self.start is not None and self.start <= 0:
            raise HeadstartError(
                f"LossSchedule(below={self.below}): `last` begins at {self.start:.4g}, and a share needs a loss above "
                "0; use steps=..."
            )

    def _mean_seen(self) -> float:
        """The mean over the batches since the last step, of all processes."""
        import torch
        from torch import distributed

        mean = torch.stack(self._seen).mean()
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(mean)
            mean = mean / distributed.get_world_size()
        return float(mean)

    def _multiply_rates(self, factor: float) -> None:
        if self.optimizer is not None and factor != 1:
            for group in self.optimizer.param_groups:
                group["lr"] = group["lr"] * factor

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, as plain numbers. Rates are in the optimizer's own state, which is to be saved too."""
        kept = {name: getattr(self, name) for name in (*_SETTINGS, "num_steps", "changed_at", "start")}
        return {**kept, "recent": list(self._recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, exactly; load that of the optimizer too."""
        for name in _SETTINGS:
            if state[name] != getattr(self, name):
                raise HeadstartError(
                    f"load_state_dict: the state has {name}={state[name]!r}, this schedule {getattr(self, name)!r}"
                )
        self.num_steps, self.changed_at, self.start = (state[name] for name in ("num_steps", "changed_at", "start"))
        self._recent = deque(state["recent"], maxlen=self.window)
        self._seen = []
