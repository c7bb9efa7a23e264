"""One architecture for many members: the gradient and the prediction of a stack, traced to plain tensor operations."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.func import functional_call, vjp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from headstart.core.signature import Signature
from headstart.engines.ensemble.cross_entropy import loss_to_trace, scores_to_trace
from headstart.engines.ensemble.kernels import with_kernels
from headstart.engines.ensemble.plan import Pool, plan
from headstart.engines.ensemble.readout import is_narrow
from headstart.engines.lower import first_buffers
from headstart.losses import Loss
from headstart.methods import Hook, Method
from headstart.models import Model
from headstart.run import Precision, Run

# Tensors by parameter name, each with the members in front: float32[members, *shape].
Stack = dict[str, torch.Tensor]
Names = frozenset[str]


class Network:
    """Gradients and predictions of stacked members: `torch.func.vmap` of the module, its dispatch paid once per shape.

    The vmapped function is traced to the tensor operations it performs, which halves the time of small steps. Members
    never mix in these operations, so a member that is not finite cannot touch another. `rewriting` are the methods
    that make another model of the module, given the weights it began with, `origin`, which is empty without them.
    """

    def __init__(
        self, model: Model, signature: Signature, loss: Loss, rewriting: tuple[Method, ...], device: str
    ) -> None:
        module = model.module(signature).to(device)

        def forward(weights: Stack, x: torch.Tensor) -> Any:
            return functional_call(module, weights, (x,))

        def predict(weights: Stack, origin: Stack, x: torch.Tensor) -> Any:
            model = forward
            for method in rewriting:
                model = partial(_rewritten, method, model, origin)
            return model(weights, x)

        each = loss_to_trace(loss, device)

        def both(
            weights: Stack,
            origin: Stack,
            x: torch.Tensor,
            y: torch.Tensor,
            count: torch.Tensor,
            weight: torch.Tensor | None = None,
        ) -> Any:
            def total(weights: Stack) -> Any:
                prediction = predict(weights, origin, x)
                losses = each(prediction, y)
                return (losses if weight is None else losses * weight).sum(), prediction

            # The slope of the mean, given instead of computed: nothing in the trace needs the loss itself.
            sums: Any = vjp(total, weights, has_aux=True)
            # One for each member: with one for all, the samples of two members would share a vector of the processor.
            slope = torch.ones_like(next(iter(weights.values())).flatten()[0]) / count
            return sums[1](slope)[0], sums[2]

        self._functions: dict[str, Callable[..., Any]] = {
            "predict": predict,
            "classified": lambda *args: scores_to_trace(predict(*args[:3]), args[3]),
            "both": lambda *args: both(*args),  # tracing takes as many arguments as a signature has
            # A trace that does not return its predictions need not keep them.
            "gradients": lambda *args: both(*args)[0],
        }
        self._traced: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._device, self._pool = device, Pool()

    def predictions(self, weights: Stack, origin: Stack, x: torch.Tensor) -> torch.Tensor:
        """Predictions [members, n, ...] for inputs [members, n, ...]."""
        predictions: torch.Tensor = self._call("predict", weights, origin, x)
        return predictions

    def classified(
        self, weights: Stack, origin: Stack, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cross-entropy and whether the prediction is right for each target, [members, n, ...]."""
        scores: tuple[torch.Tensor, torch.Tensor] = self._call("classified", weights, origin, x, y)
        return scores

    def gradients(self, weights: Stack, origin: Stack, *data: torch.Tensor, of: Names | None = None) -> Stack:
        """Gradients of each member's summed loss over its samples, divided by `count`, by all weights or those `of`.

        `data` are inputs, targets, `count` and, where targets weigh differently, their weights.
        """
        gradients: Stack = self._call("gradients", weights, origin, *data, of=of)
        return gradients

    def gradients_and_predictions(
        self, weights: Stack, origin: Stack, *data: torch.Tensor
    ) -> tuple[Stack, torch.Tensor]:
        """The same, and the predictions."""
        both: tuple[Stack, torch.Tensor] = self._call("both", weights, origin, *data)
        return both

    def try_gradients(self, weights: Stack, origin: Stack, *data: torch.Tensor) -> None:
        """Take gradients without tracing, which takes seconds for a deep model: raises what vmap raises."""
        self._stacked("gradients", data)(weights, origin, *data)

    def _stacked(self, name: str, tensors: Sequence[torch.Tensor], of: Names | None = None) -> Callable[..., Any]:
        """A function of all members; single numbers among the tensors are shared by them."""
        function = self._functions[name]
        # What makes only the others is dead code of the trace.
        chosen = function if of is None else lambda *args: {key: g for key, g in function(*args).items() if key in of}
        return vmap(chosen, in_dims=(0, 0, *(0 if t.dim() else None for t in tensors)))

    def _call(self, name: str, weights: Stack, origin: Stack, *tensors: torch.Tensor, of: Names | None = None) -> Any:
        if len(tensors[0]) > 1:
            return self._traced_call(name, of, weights, origin, *tensors)
        # A product of single matrices rounds otherwise than one of a stack. With a copy beside it a member alone takes
        # the steps that it takes in company, so that results do not depend on who shares a call.
        both = [torch.cat((t, t)) if t.dim() else t for t in tensors]
        twice, start = ({name: torch.cat((t, t)) for name, t in stack.items()} for stack in (weights, origin))
        outcome = self._traced_call(name, of, twice, start, *both)
        return tree_map(lambda t: t[:1], outcome)

    def _traced_call(self, name: str, of: Names | None, weights: Stack, origin: Stack, *tensors: torch.Tensor) -> Any:
        # What is traced on whole tensors does not fit parts of larger ones.
        tensors = tuple(t.contiguous() for t in tensors)
        key = (name, of, next(iter(weights.values())).dtype, *((t.shape, t.dtype) for t in tensors))
        if key not in self._traced:
            # One mode for the shapes of all operations: without it torch makes one for each, which takes half the time.
            with tracing(TracingContext(FakeTensorMode())):
                graph = make_fx(self._stacked(name, tensors, of))(weights, origin, *tensors)
            graph.graph.eliminate_dead_code()
            with_kernels(graph, self._device)
            plan(graph, (weights, origin, *tensors), self._pool)
            self._traced[key] = graph
        return self._traced[key](weights, origin, *tensors)


def _rewritten(method: Method, forward: Any, origin: Stack, weights: Stack, x: torch.Tensor) -> Any:
    return method.predict(forward, weights, origin, x)


def network(run: Run, device: str, loss: Any) -> Network:
    """The network of a run that minimises this loss, kept with its traces for the next group of members."""
    parts = _parts(run)
    return _network(parts.model, parts.signature, loss, parts.rewriting, device)


def lacking(run: Run) -> str | None:
    """None, or why two members of this architecture cannot be stacked: tried on two samples."""
    return _lacking(_parts(run))


def bytes_per_sample(run: Run) -> tuple[int, int]:
    """(bytes of a sample, bytes of what one member's backward pass holds for it), from a forward pass."""
    return _bytes_per_sample(_parts(run))


def is_weighted(run: Run) -> bool:
    """Whether samples of the task weigh differently; members of a stack all have weights, or none."""
    return _is_weighted(_parts(run))


class _Parts(NamedTuple):
    """What the cached functions hash, though the protocols of a model, a task and a loss do not promise a hash."""

    model: Any
    task: Any
    loss: Any
    rewriting: tuple[Any, ...]
    precision: Precision

    @property
    def signature(self) -> Signature:
        return self.task.signature


def _parts(run: Run) -> _Parts:
    rewriting = tuple(method for method in run.methods if Hook.REWRITE in method.hooks)
    return _Parts(run.model, run.task, run.loss, rewriting, run.precision)


@lru_cache(maxsize=16)
def _network(model: Any, signature: Signature, loss: Any, rewriting: tuple[Any, ...], device: str) -> Network:
    return Network(model, signature, loss, rewriting, device)


@lru_cache(maxsize=256)
def _lacking(parts: _Parts) -> str | None:
    data = parts.task.sample(0, np.zeros(2, dtype=np.int64))
    name = type(parts.model).__name__
    if first_buffers(parts.model, parts.signature):
        return f"it lacks the buffers of {name}"
    stacked = {p.name: torch.zeros(2, *p.shape) for p in parts.model.parameters(parts.signature)}
    x, y, *weight = (torch.from_numpy(np.stack((a, a))) for a in (data.x, data.y, data.weight) if a is not None)
    try:
        with torch.no_grad():
            net = Network(parts.model, parts.signature, parts.loss, parts.rewriting, "cpu")
            net.try_gradients(stacked, stacked if parts.rewriting else {}, x, y, torch.tensor(2.0), *weight)
    except Exception as error:  # whatever a foreign module raises under vmap is the reason
        first = str(error).strip().partition("\n")[0]
        return f"torch.func cannot stack {name}: {first or type(error).__name__}"
    return None


@lru_cache(maxsize=256)
def _is_weighted(parts: _Parts) -> bool:
    return parts.task.sample(0, np.zeros(1, dtype=np.int64)).weight is not None


@lru_cache(maxsize=256)
def _bytes_per_sample(parts: _Parts) -> tuple[int, int]:
    data = parts.task.sample(0, np.zeros(3, dtype=np.int64))
    weights = {p.name: torch.zeros(p.shape, requires_grad=True) for p in parts.model.parameters(parts.signature)}
    module = parts.model.module(parts.signature)

    def held(num: int) -> int:
        storages: dict[int, int] = {}

        def note(tensor: torch.Tensor) -> torch.Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        x, y = torch.from_numpy(data.x[:num].copy()), torch.from_numpy(data.y[:num].copy())
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            prediction = functional_call(module, weights, (x,))
            graph = parts.loss(prediction, y).sum()
        if is_narrow(parts.model.parameters(parts.signature), parts.loss):
            storages.pop(prediction.untyped_storage().data_ptr(), None)
        del graph
        return sum(storages.values())

    width = 2 if parts.precision is Precision.FLOAT64 else 1
    return width * (data.x.nbytes + data.y.nbytes) // 3, width * max(4, (held(3) - held(1)) // 2)
