"""Amplify the slow part of the gradient: its running mean is added to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from headstart.core.errors import HeadstartError, check_count, check_nonnegative
from headstart.core.roles import Parameter
from headstart.methods.method import Hook, Method, Tensors

if TYPE_CHECKING:
    import torch


class Mean(StrEnum):
    """Which running mean: ema, exponential, or window, of the last gradients."""

    EMA = "ema"
    WINDOW = "window"


@dataclass(frozen=True)
class GradientFilter(Method):
    """Add `strength` times a running mean of past gradients to each gradient.

        kind="ema"     mean <- decay mean + (1 - decay) g, starting at the first g;  g <- g + strength mean
        kind="window"  g <- g + strength (mean of the last `window` gradients), once there are so many

    The memory is one copy of the gradients, or `window` copies. Strength 0 is the untouched run. In a training loop of
    your own, `attach` it to the model:

        slow = hs.GradientFilter(decay=0.98, strength=2.0).attach(model)
        loss.backward(); slow(); optimizer.step()

    Reference: Lee et al., Grokfast: accelerated grokking by amplifying slow gradients (2024), Algorithms 1 and 2.
    """

    kind: Mean = Mean.EMA
    decay: float = 0.98
    window: int = 100
    strength: float = 2.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str):
            raise HeadstartError(
                f"GradientFilter({type(self.kind).__name__}): a filter is made first and then attached to a model: "
                "GradientFilter(...).attach(model)"
            )
        if self.kind not in list(Mean):
            raise HeadstartError(f"GradientFilter(kind={self.kind!r}): choose {' or '.join(Mean)}")
        object.__setattr__(self, "kind", Mean(self.kind))
        if not isinstance(self.decay, int | float) or not 0 <= self.decay < 1:
            raise HeadstartError(f"GradientFilter(decay={self.decay!r}): the decay lies in [0, 1)")
        check_count("GradientFilter", "window", self.window)
        check_nonnegative("GradientFilter", "strength", self.strength)

    @property
    def hooks(self) -> frozenset[Hook]:
        """Nothing, at strength 0."""
        return super().hooks if self.strength else frozenset()

    def attach(self, model: "torch.nn.Module") -> "AttachedFilter":
        """The filter for a training loop of your own; call it between backward and step."""
        return AttachedFilter(self, model)

    def transform(
        self,
        gradients: Tensors,
        memory: Tensors,
        weights: Tensors,
        parameters: Mapping[str, Parameter],
        step: int,
    ) -> tuple[Tensors, Tensors]:
        """The filtered gradients and the running means."""
        filtered, kept = dict(gradients), dict(memory)
        for name, gradient in gradients.items():
            kept[name] = self._remember(gradient, memory.get(name), step)
            if self.kind is Mean.EMA:
                filtered[name] = gradient + self.strength * kept[name]
            elif step + 1 >= self.window:
                filtered[name] = gradient + self.strength * kept[name].mean(dim=-1)
        return filtered, kept

    def _remember(self, gradient: "torch.Tensor", memory: "torch.Tensor | None", step: int) -> "torch.Tensor":
        """The running mean or, of a window, the last gradients along a last axis, that of step t in place t mod w."""
        if self.kind is Mean.EMA:
            return gradient.clone() if memory is None else self.decay * memory + (1 - self.decay) * gradient
        past = gradient.new_zeros(*gradient.shape, self.window) if memory is None else memory
        past[..., step % self.window] = gradient
        return past


class AttachedFilter:
    """A `GradientFilter` at work on the gradients of a torch module, in place.

    With mixed precision unscale first; clip after. Its memory is in `state_dict`.
    """

    def __init__(self, method: GradientFilter, model: "torch.nn.Module") -> None:
        self.method, self.model = method, model
        self._memory: Tensors = {}
        self._steps: dict[str, int] = {}

    def __call__(self) -> None:
        """Filter the gradients that are there."""
        import torch

        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if parameter.grad is None:
                    continue
                step = self._steps.get(name, 0)
                memory = {name: self._memory[name]} if name in self._memory else {}
                filtered, kept = self.method.transform({name: parameter.grad}, memory, {}, {}, step)
                self._memory |= kept
                self._steps[name] = step + 1
                if self.method.strength:
                    parameter.grad.copy_(filtered[name])

    def state_dict(self) -> dict[str, Any]:
        """The memory and the number of gradients seen, by parameter name."""
        memory = {name: tensor.clone() for name, tensor in self._memory.items()}
        return {"kind": str(self.method.kind), "memory": memory, "steps": dict(self._steps)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        if state["kind"] != self.method.kind:
            raise HeadstartError(
                f"load_state_dict: the state is of kind={state['kind']!r}, this filter of {str(self.method.kind)!r}"
            )
        names = {name for name, _ in self.model.named_parameters()}
        unknown = set(state["memory"]) - names
        if unknown:
            raise HeadstartError(f"load_state_dict: the model has no parameter {sorted(unknown)[0]!r}")
        windows = (
            {memory.shape[-1] for memory in state["memory"].values()} if self.method.kind is Mean.WINDOW else set()
        )
        if windows - {self.method.window}:
            raise HeadstartError(
                f"load_state_dict: the state has a window of {windows.pop()}, this filter one of {self.method.window}"
            )
        self._memory = {name: memory.clone() for name, memory in state["memory"].items()}
        self._steps = {name: int(step) for name, step in state["steps"].items()}
