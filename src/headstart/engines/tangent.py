"""A linearised network trained on all its rows at once, in function space: a part of a study.

Gradient descent on f(x; w_0) + J(x) (w - w_0) moves predictions by the kernel K = J J^T alone, so that rows' Jacobians
are found once and a step costs rows^2, whatever the network. Cross-entropy does not see what is added to all scores of
a row, and its gradients add up to zero, so that C classes need C - 1 rows of Jacobian each: of two classes, one.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import helmert

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.samples import Samples
from headstart.core.units import FullBatch
from headstart.engines.loop import one_thread
from headstart.engines.lower import Lowered, lower
from headstart.losses import CrossEntropy
from headstart.measures import row_gradients
from headstart.methods import Linearised, fix_statistics
from headstart.optimizers import SGD, Constant
from headstart.run import Fresh, Run
from headstart.tasks import held_out

# Rows whose Jacobians are held at once, beside those of all training rows.
_CHUNK = 128
# Seconds on one core: per training FLOP of a row's gradient, and per multiply-add of a kernel.
_GRADIENT, _PRODUCT = 3.0e-11, 1.5e-11


@dataclass(frozen=True)
class TangentTraining:
    """What `run`, a linearised network that takes full batches, finds at each of `record` for every rate of `rates`.

    The run is Run(..., methods=(Linearised(),), batch=FullBatch()) with CrossEntropy and SGD at a constant rate, with
    or without momentum; `rates` take the place of its own and share one kernel. Its engine finds the same by weights,
    with a pass over the data for each step. Memory: rows (C - 1) by as many, and by the number of weights.
    """

    run: Run
    rates: tuple[float, ...]
    record: tuple[int, ...]

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_run(self.run)
        object.__setattr__(self, "rates", tuple(self.rates))
        object.__setattr__(self, "record", tuple(self.record))
        for rate in self.rates or (0.0,):
            check_positive("TangentTraining", "rates", rate)
        if not self.record or list(self.record) != sorted(set(self.record)) or self.record[0] < 0:
            raise HeadstartError(f"TangentTraining(record={self.record!r}): give steps from 0 on, in order")

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        task, lowered = self.run.task, lower(self.run)
        contrasts = task.signature.num_outputs - 1
        train, test = _num_rows(lowered) * contrasts, task.num_test * contrasts
        weights = sum(int(np.prod(p.shape)) for p in lowered.parameters)
        flops = lowered.flops / self.run.methods[0].flops_factor
        kernel = (train / 2 + test) * train * weights * _PRODUCT
        return 0.5 + (train + test) * flops * _GRADIENT + kernel + self.record[-1] * train**2 * 3e-10

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """step [t], rate [r]; train_accuracy, test_accuracy, train_loss and test_loss [r, t]."""
        with one_thread(), torch.no_grad():
            kernels = _Kernels(self.run)
            found = [self._one(kernels, rate) for rate in self.rates]
        arrays = {name: np.array([each[name] for each in found]) for name in found[0]}
        return {"step": np.array(self.record), "rate": np.array(self.rates), **arrays}

    def _one(self, kernels: "_Kernels", rate: float) -> dict[str, list[float]]:
        """Training at one rate; predictions are in the basis of contrasts, [rows * (C - 1)]."""
        optimizer: Any = self.run.optimizer
        train = kernels.train.first.clone()
        velocity = torch.zeros_like(train)  # of the coefficients a in w = w_0 - J^T a
        total, done = torch.zeros_like(train), 0
        found: dict[str, list[float]] = {f"{p}_{what}": [] for p in ("train", "test") for what in ("accuracy", "loss")}
        for step in self.record:
            for _ in range(step - done):
                velocity.mul_(optimizer.momentum).add_(kernels.residuals(train))
                total.add_(velocity)
                train.addmv_(kernels.train.kernel, velocity, alpha=-rate)
            done = step
            test = kernels.test.first - rate * (kernels.test.kernel @ total)
            for part, scores in (("train", train), ("test", test)):
                accuracy, loss = getattr(kernels, part).scored(scores, kernels.basis)
                found[f"{part}_accuracy"].append(accuracy)
                found[f"{part}_loss"].append(loss)
        return found


class _Rows:
    """Rows with their first predictions, their labels, and the kernel with the training rows."""

    def __init__(self, first: torch.Tensor, y: torch.Tensor, kernel: torch.Tensor) -> None:
        self.first, self.y, self.kernel = first, y, kernel

    def scored(self, contrasts: torch.Tensor, basis: torch.Tensor) -> tuple[float, float]:
        """Accuracy and mean loss."""
        scores = (contrasts.unflatten(0, (len(self.y), -1)) @ basis.T).double()
        right = (scores.argmax(1) == self.y).double().mean()
        return right.item(), CrossEntropy()(scores, self.y).mean().item()


class _Kernels:
    """Kernels of a run: of training rows with themselves, and of test rows with them."""

    def __init__(self, run: Run) -> None:
        lowered = lower(run)
        module: Any = run.model.module(run.task.signature)
        if lowered.dtype is np.float64:
            module.double()
        begin = {name: torch.from_numpy(array.copy()) for name, array in lowered.begin(None).weights.items()}
        module.load_state_dict({**module.state_dict(), **begin})
        train, test = _training_rows(lowered), held_out(run.task, run.seed)
        dtype = next(module.parameters()).dtype
        fix_statistics(module, torch.from_numpy(train.x).to(dtype))
        self.module, self.names = module, [p.name for p in lowered.parameters if not p.fixed]
        self.basis = _contrasts(run.task.signature.num_outputs).to(dtype)
        jacobian = torch.cat(list(self._jacobians(train.x)))
        self.train = _Rows(self._first(train.x, dtype), torch.from_numpy(train.y), jacobian @ jacobian.T)
        kernel = torch.cat([rows @ jacobian.T for rows in self._jacobians(test.x)])
        self.test = _Rows(self._first(test.x, dtype), torch.from_numpy(test.y), kernel)

    def _jacobians(self, x: NDArray[Any]) -> Any:
        """Rows [chunk * (C - 1), weights], chunk by chunk."""
        for first in range(0, len(x), _CHUNK):
            each = []
            for along in self.basis.T.tolist():
                found = row_gradients(self.module, x[first : first + _CHUNK], self.names, along)
                each.append(torch.cat([gradient.flatten(1) for gradient in found.values()], dim=1))
            yield torch.stack(each, dim=1).flatten(0, 1)

    def _first(self, x: NDArray[Any], dtype: Any) -> torch.Tensor:
        found = [self.module(part.to(dtype)) @ self.basis for part in torch.from_numpy(x).split(_CHUNK)]
        return torch.cat(found).flatten()

    def residuals(self, train: torch.Tensor) -> torch.Tensor:
        """The gradient of the mean loss by the contrasts of the training rows."""
        scores = train.unflatten(0, (len(self.train.y), -1)) @ self.basis.T
        wrong = torch.softmax(scores, dim=1)
        wrong[torch.arange(len(wrong)), self.train.y] -= 1
        return (wrong @ self.basis).flatten() / len(wrong)


def _contrasts(num: int) -> torch.Tensor:
    """An orthonormal basis of the scores that add up to zero, float64[num, num - 1]."""
    return torch.from_numpy(helmert(num).T.copy())


def _training_rows(lowered: Lowered) -> Samples:
    pool = lowered.course.legs[0].pool
    return lowered.run.task.population(lowered.run.seed) if pool.size is None else lowered.pool(0)


def _num_rows(lowered: Lowered) -> int:
    return int(lowered.course.legs[0].pool.size or lowered.run.task.population_size or 0)


def _check_run(run: Run) -> None:
    """Raise unless training is gradient descent in function space."""
    if not isinstance(run, Run):
        raise HeadstartError(f"TangentTraining(run={run!r}): give a Run")
    optimizer: Any = run.optimizer
    plain = isinstance(optimizer, SGD) and isinstance(optimizer.schedule, Constant) and not optimizer.weight_decay
    wanted = {
        "methods": (run.methods == (Linearised(),), "(Linearised(),)"),
        "batch": (isinstance(run.batch, FullBatch), "FullBatch()"),
        "loss": (isinstance(run.loss, CrossEntropy), "CrossEntropy()"),
        "optimizer": (plain and not optimizer.nesterov, "SGD(lr, momentum) at a constant rate, without decay"),
        "start": (isinstance(run.start, Fresh), "Fresh()"),
        "plan": (len(run.plan.course(run.batch, run.budget.steps).legs) == 1, "Online() or Fixed(size), one phase"),
    }
    for name, (good, fix) in wanted.items():
        if not good:
            raise HeadstartError(f"TangentTraining(run=Run({name}={getattr(run, name)!r})): give {fix}")
