"""Amplify the slow part of the gradient: its running mean is added to it."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from headstart.core.errors import HeadstartError, check_count

if TYPE_CHECKING:
    import torch


class GradientFilter:
    """Add `strength` times a running mean of past gradients to each gradient. Call it between backward and step.

        kind="ema"     mean <- decay mean + (1 - decay) g, starting at the first g;  g <- g + strength mean
        kind="window"  g <- g + strength (mean of the last `window` gradients), once there are so many

        slow = hs.GradientFilter(model, decay=0.98, strength=2.0)
        loss.backward(); slow(); optimizer.step()

    The state, one copy of the gradients (or `window` copies), is in `state_dict`. Strength 0 changes nothing. With
    mixed precision unscale first; clip after. Reference: Lee et al., Grokfast: accelerated grokking by amplifying slow
    gradients (2024), Algorithms 1 and 2.
    """

    def __init__(
        self,
        model: "torch.nn.Module",
        kind: Literal["ema", "window"] = "ema",
        *,
        decay: float = 0.98,
        window: int = 100,
        strength: float = 2.0,
    ) -> None:
        if kind not in ("ema", "window"):
            raise HeadstartError(f"GradientFilter(kind={kind!r}): choose 'ema' or 'window'")
        if not 0 <= decay < 1:
            raise HeadstartError(f"GradientFilter(decay={decay!r}): the decay lies in [0, 1)")
        check_count("GradientFilter", "window", window)
        if not 0 <= strength < float("inf"):
            raise HeadstartError(f"GradientFilter(strength={strength!r}): the strength is finite and at least 0")
        self.model, self.kind, self.decay, self.window, self.strength = model, kind, decay, window, strength
        self._past: dict[str, deque[torch.Tensor]] = {}
        self._mean: dict[str, torch.Tensor] = {}

    def __call__(self) -> None:
        """Filter the gradients that are there, in place."""
        import torch

        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if parameter.grad is not None:
                    slow = self._slow(name, parameter.grad)
                    if slow is not None and self.strength:
                        parameter.grad.add_(slow, alpha=self.strength)

    def _slow(self, name: str, gradient: "torch.Tensor") -> "torch.Tensor | None":
        """The running mean after this gradient; None while a window is not full."""
        if self.kind == "ema":
            if name not in self._mean:
                self._mean[name] = gradient.clone()
            else:
                self._mean[name].mul_(self.decay).add_(gradient, alpha=1 - self.decay)
            return self._mean[name]
        past = self._past.setdefault(name, deque(maxlen=self.window))
        past.append(gradient.clone())
        return sum(past, start=gradient.new_zeros(())) / self.window if len(past) == self.window else None

    def state_dict(self) -> dict[str, Any]:
        """The running means by parameter name, or the gradients of the window, oldest first."""
        return {
            "kind": self.kind,
            "mean": dict(self._mean),
            "past": {name: list(past) for name, past in self._past.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        if state["kind"] != self.kind:
            raise HeadstartError(f"load_state_dict: the state is of kind={state['kind']!r}, this filter {self.kind!r}")
        names = {name for name, _ in self.model.named_parameters()}
        unknown = (set(state["mean"]) | set(state["past"])) - names
        if unknown:
            raise HeadstartError(f"load_state_dict: the model has no parameter {sorted(unknown)[0]!r}")
        self._mean = {name: mean.clone() for name, mean in state["mean"].items()}
        self._past = {
            name: deque((g.clone() for g in past), maxlen=self.window) for name, past in state["past"].items()
        }
