"""One architecture for many members: the gradient and the prediction of a stack, traced to plain tensor operations."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from headstart.engines.ensemble.attention import with_kernels
from headstart.engines.ensemble.plan import Pool, plan
from headstart.losses import Loss
from headstart.models import Model
from headstart.run import Run

# Tensors by parameter name, each with the members in front: float32[members, *shape].
Stack = dict[str, torch.Tensor]


class Network:
    """Gradients and predictions of stacked members: `torch.func.vmap` of the module, its dispatch paid once a shape.

    The vmapped function is traced to the tensor operations it performs, which halves the time of small steps. Members
    never mix in these operations, so a member that is not finite cannot touch another.
    """

    def __init__(self, model: Model, dim: int, loss: Loss, device: str) -> None:
        module = model.module(dim).to(device)

        def predict(weights: Stack, x: torch.Tensor) -> Any:
            return functional_call(module, weights, (x,))

        def mean_loss(weights: Stack, x: torch.Tensor, y: torch.Tensor, count: torch.Tensor) -> Any:
            prediction = predict(weights, x)
            return loss(prediction, y).sum() / count, prediction

        self._functions: dict[str, Callable[..., Any]] = {
            "predict": vmap(predict),
            "gradients": vmap(grad(mean_loss, has_aux=True), in_dims=(0, 0, 0, None)),
        }
        self._traced: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._device, self._pool = device, Pool()

    def predictions(self, weights: Stack, x: torch.Tensor) -> torch.Tensor:
        """Predictions [members, n] for inputs [members, n, dim]."""
        predictions: torch.Tensor = self._call("predict", weights, x)
        return predictions

    def gradients(
        self, weights: Stack, x: torch.Tensor, y: torch.Tensor, count: torch.Tensor
    ) -> tuple[Stack, torch.Tensor]:
        """Gradients of each member's summed loss over its samples, divided by `count`, and the predictions."""
        gradients: tuple[Stack, torch.Tensor] = self._call("gradients", weights, x, y, count)
        return gradients

    def _call(self, name: str, weights: Stack, *tensors: torch.Tensor) -> Any:
        if len(tensors[0]) > 1:
            return self._traced_call(name, weights, *tensors)
        # A product of single matrices rounds otherwise than one of a stack. With a copy beside it a member alone takes
        # the steps that it takes in company, so that results do not depend on who shares a call.
        both = [torch.cat((t, t)) if t.dim() else t for t in tensors]
        outcome = self._traced_call(name, {name: torch.cat((t, t)) for name, t in weights.items()}, *both)
        return tree_map(lambda t: t[:1], outcome)

    def _traced_call(self, name: str, weights: Stack, *tensors: torch.Tensor) -> Any:
        key = (name, *((t.shape, t.dtype) for t in tensors))
        if key not in self._traced:
            graph = make_fx(self._functions[name])(weights, *tensors)
            graph.graph.eliminate_dead_code()
            with_kernels(graph, self._device)
            plan(graph, (weights, *tensors), self._pool)
            self._traced[key] = graph
        return self._traced[key](weights, *tensors)


def network(run: Run, device: str) -> Network:
    """The network of a run, kept with its traces for the next group of members."""
    model, task, loss = _parts(run)
    return _network(model, task.dim, loss, device)


def lacking(run: Run) -> str | None:
    """None, or why two members of this architecture cannot be stacked: tried on two samples."""
    return _lacking(*_parts(run))


def bytes_per_sample(run: Run) -> tuple[int, int]:
    """(bytes of a sample, bytes of what one member's backward pass holds for it), from a forward pass."""
    return _bytes_per_sample(*_parts(run))


def _parts(run: Run) -> tuple[Any, Any, Any]:
    """What the cached functions hash, though the protocols of a model, a task and a loss do not promise a hash."""
    return run.model, run.task, run.loss


@lru_cache(maxsize=16)
def _network(model: Any, dim: int, loss: Any, device: str) -> Network:
    return Network(model, dim, loss, device)


@lru_cache(maxsize=256)
def _lacking(model: Any, task: Any, loss: Any) -> str | None:
    data = task.sample(0, np.arange(2, dtype=np.int64))
    stacked = {p.name: torch.zeros(2, *p.shape) for p in model.parameters(task.dim)}
    x, y = (torch.from_numpy(np.stack((a, a))) for a in (data.x, data.y))
    try:
        with torch.no_grad():
            _network(model, task.dim, loss, "cpu").gradients(stacked, x, y, torch.tensor(2.0))
    except Exception as error:  # whatever a foreign module raises under vmap is the reason
        first = str(error).strip().partition("\n")[0]
        return f"torch.func cannot stack {type(model).__name__}: {first or type(error).__name__}"
    return None


@lru_cache(maxsize=256)
def _bytes_per_sample(model: Any, task: Any, loss: Any) -> tuple[int, int]:
    data = task.sample(0, np.arange(3, dtype=np.int64))
    weights = {p.name: torch.zeros(p.shape, requires_grad=True) for p in model.parameters(task.dim)}
    module = model.module(task.dim)

    def held(num: int) -> int:
        storages: dict[int, int] = {}

        def note(tensor: torch.Tensor) -> torch.Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        x, y = torch.from_numpy(data.x[:num].copy()), torch.from_numpy(data.y[:num].copy())
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            graph = loss(functional_call(module, weights, (x,)), y).sum()
        del graph
        return sum(storages.values())

    return (data.x.nbytes + data.y.nbytes) // 3, max(4, (held(3) - held(1)) // 2)
