"""Where a schedule stands, for TensorBoard, W&B or any other tracker; needs no extra.

track = PhaseTracker(loader, SummaryWriter())  # or wandb.init(...), or a function of (values, step)
for inputs, targets in loader:
    ...
    track()
"""

from collections.abc import Callable
from typing import Any

from headstart.core.errors import HeadstartError, check_count
from headstart.plans import PhasedLoader

Values = dict[str, float]


class PhaseTracker:
    """Call it once per batch: it sends the phase and the fraction of rows seen, once per optimizer step.

    `to` is a `SummaryWriter` (TensorBoard), a run of W&B or another object with `log(values, step=...)`, or a function
    of (values, step). Steps between are left out with `every`, but a new phase never is. Hugging Face's Trainer and
    Lightning need none: `PhasedTrainer` and `PhaseCallback` log the same values to whatever tracker they have.
    """

    def __init__(self, loader: PhasedLoader, to: Any, every: int = 1, prefix: str = "schedule/") -> None:
        if not isinstance(loader, PhasedLoader):
            raise HeadstartError(f"PhaseTracker(loader={loader!r}): give a PhasedLoader")
        check_count("PhaseTracker", "every", every)
        self.loader, self.every, self.prefix = loader, every, prefix
        self._send = _sender(to)
        self._last: tuple[int, int] | None = None  # (step, phase) sent last

    def __call__(self) -> None:
        """Send what is known of the batch delivered last, unless its step was sent before."""
        step, phase = self.loader.step, self.loader.phase
        if self._last is not None and (step == self._last[0] or (step % self.every and phase == self._last[1])):
            return
        self._last = step, phase
        self._send({f"{self.prefix}phase": float(phase), f"{self.prefix}rows_seen": self.loader.rows_seen}, step)


def _sender(to: Any) -> Callable[[Values, int], Any]:
    if hasattr(to, "add_scalar"):

        def add(values: Values, step: int) -> None:
            for name, value in values.items():
                to.add_scalar(name, value, step)

        return add
    if hasattr(to, "log") and callable(to.log):
        return lambda values, step: to.log(values, step=step)
    if callable(to):
        return lambda values, step: to(values, step)
    raise HeadstartError(
        f"PhaseTracker(to={to!r}): give a SummaryWriter, a run of W&B, or a function of (values, step)"
    )
