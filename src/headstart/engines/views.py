"""What measures see of a member, and what they saw."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.samples import Samples
from headstart.core.state import Arrays, State
from headstart.engines.lower import Lowered
from headstart.measures import Measure, View
from headstart.methods import Hook
from headstart.plans import Place
from headstart.tasks import held_out


@dataclass
class Seen:
    """What one measure saw of a member so far: the steps, and its numbers or arrays at each by name."""

    measure: Measure
    due: frozenset[int]
    steps: list[int] = field(default_factory=list)
    values: dict[str, list[NDArray[Any]]] = field(default_factory=dict)

    def is_due(self, step: int) -> bool:
        """Whether it looks at this step and has not yet."""
        return step in self.due and step not in self.steps[-1:]

    def look(self, view: View) -> None:
        """Add what it sees now."""
        said = f"{self.measure} at step {view.step}"
        try:
            found = {name: np.asarray(value) for name, value in self.measure(view).items()}
        except HeadstartError:
            raise
        except Exception as error:
            raise HeadstartError(f"{said}: {type(error).__name__}: {error}; mend the measure") from error
        if self.steps and {n: v[0].shape for n, v in self.values.items()} != {n: a.shape for n, a in found.items()}:
            raise HeadstartError(f"{said}: it gave other names or shapes than before; give the same at every step")
        self.steps.append(view.step)
        for name, value in found.items():
            self.values.setdefault(name, []).append(value)

    def arrays(self) -> Arrays:
        """All it saw: "step" int64[moments], and [moments, ...] for each name."""
        return {"step": np.array(self.steps, dtype=np.int64), **{n: np.stack(v) for n, v in self.values.items()}}

    def restore(self, arrays: Arrays) -> None:
        """Go on from `arrays`."""
        self.steps = arrays["step"].tolist()
        self.values = {name: list(array) for name, array in arrays.items() if name != "step"}


def view_of(lowered: Lowered, place: Place, step: int, state: State, initial: Arrays) -> View:
    """A member's state as measures see it."""
    run = lowered.run

    def train() -> Samples:
        pool = lowered.course.pool(place)
        if pool.size is not None:
            return lowered.pool(place.leg)
        if lowered.course.batch is None:
            return run.task.population(run.seed)
        return lowered.draw(place.leg, lowered.course.ids(place, step))

    return View(
        step=step,
        seed=run.seed,
        task=run.task,
        model=run.model,
        parameters=lowered.parameters,
        weights=state.weights,
        initial=initial,
        buffers=state.buffers,
        draw_train=train,
        draw_test=lambda: held_out(run.task, run.seed),
        predictor=lambda weights: _predictor(lowered, weights, state.buffers, initial),
    )


def _predictor(lowered: Lowered, weights: Arrays, buffers: Arrays, initial: Arrays) -> Callable[[Any], NDArray[Any]]:
    """The predictions of the model, or of what methods make of it."""
    import torch
    from torch.func import functional_call

    run = lowered.run
    module = run.model.module(run.task.signature).eval()
    if lowered.dtype is np.float64:
        module.double()

    def tensors(arrays: Arrays) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    still, origin = tensors(buffers), tensors(initial)
    forward: Any = lambda named, x: functional_call(module, {**named, **still}, (x,))  # noqa: E731
    for _, method in lowered.using(Hook.REWRITE):
        forward = rewritten(method, forward, origin)

    def predict(x: NDArray[Any]) -> NDArray[Any]:
        real = np.issubdtype(x.dtype, np.floating)
        with torch.no_grad():
            moved = torch.from_numpy(x.astype(lowered.dtype, copy=False) if real else x)
            return np.asarray(forward(tensors(weights), moved).numpy())

    return predict


def rewritten(method: Any, forward: Any, origin: Any) -> Any:
    """What a method makes of a model's predictions, as a function of weights and inputs."""
    return lambda named, x: method.predict(forward, named, origin, x)
