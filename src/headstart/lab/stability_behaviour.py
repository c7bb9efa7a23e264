"""What trained networks do, row by row, and along the line between two of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.state import State
from headstart.lab.probe_problem import Problem, Split, device_of, fetch, moved
from headstart.lab.stability_training import Rows, put_state, state_of
from headstart.measures import Behaviour, barrier, interpolate

# Rows of S whose losses count at most: their mean needs no more.
_MOST_ROWS, _BATCH = 2048, 256
Batches = Sequence[tuple[int, Any]]
Values = NDArray[np.float64]
_FIELDS = ("train_loss", "train_error", "test_loss", "test_error")


@dataclass(frozen=True)
class Trained:
    """A network after its training. `state`, `metric` and `module` are those of a module; a Behaviour has none."""

    behaviour: Behaviour
    state: State | None = None
    module: Any = None

    def flat(self) -> dict[str, NDArray[Any]]:
        """All arrays, to be saved."""
        state = State(self.behaviour.weights) if self.state is None else self.state
        return {name: np.asarray(getattr(self.behaviour, name)) for name in _FIELDS} | {
            **state.flat(),
            "is_module": np.array(self.state is not None),
        }

    @classmethod
    def unflat(cls, arrays: Mapping[str, NDArray[Any]]) -> "Trained":
        """The inverse of `flat`, without the module."""
        state = State.unflat({name: array for name, array in arrays.items() if "/" in name})
        behaviour = Behaviour(weights=state.weights, **{name: arrays[name] for name in _FIELDS})
        return cls(behaviour, state if arrays["is_module"] else None)


@dataclass(frozen=True)
class Judge:
    """Looks at what a training returned: on its own rows S, and on test rows that are the same for all.

    `problem` has the rows, the loss and the metric, or is None where the training returns a Behaviour.
    """

    problem: Problem | None
    data: Split | None

    def trained(self, returned: Any, rows: Rows) -> Trained:
        """What it does on S and on the test rows."""
        if isinstance(returned, Behaviour):
            return Trained(_checked(returned))
        if not (hasattr(returned, "named_parameters") and callable(returned)):
            raise HeadstartError(
                f"train_fn returned a {type(returned).__name__}; return the trained nn.Module, or a "
                "headstart.measures.Behaviour"
            )
        if self.problem is None or self.data is None:
            raise HeadstartError(
                "stability(dataset=None): train_fn returned a module, and there are no rows to look at it with; give "
                "dataset=..., loss=... and metric=..., or return a headstart.measures.Behaviour"
            )
        some = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(np.int64)]
        parts = [some[i : i + _BATCH].tolist() for i in range(0, len(some), _BATCH)]
        train = [(len(part), fetch(self.problem, self.problem.dataset, part)) for part in parts]
        state = state_of(returned)
        returned.eval()
        seen = self._means(returned, train), self._errors(returned, train)
        tested = self._losses(returned), self._errors(returned, self.data.test)
        return Trained(Behaviour(*seen, *tested, state.weights), state, returned)

    def _means(self, model: Any, batches: Batches) -> Values:
        """The mean loss of its batch for each row: of training rows no more is asked."""
        import torch

        assert self.problem is not None
        with torch.no_grad():
            losses = [self.problem.training_loss(model, batch).item() for _, batch in batches]
        return np.repeat(losses, [num for num, _ in batches])

    def _errors(self, model: Any, batches: Batches) -> Values:
        """1 less the metric of its batch for each row; not a number where there is no metric."""
        assert self.problem is not None
        has = self.problem.metric is not None
        errors = [1 - self.problem.test_metric(model, batch) if has else np.nan for _, batch in batches]
        return np.repeat(errors, [num for num, _ in batches])

    def _losses(self, model: Any) -> Values:
        """The loss of every test row."""
        import torch

        assert self.problem is not None
        assert self.data is not None
        losses = []
        with torch.no_grad():
            for num, batch in self.data.test:
                whole, looked = self._predicted(model, num, moved(batch, device_of(model)))
                rows = (one_row(looked, i, num) for i in range(num))
                losses += [self.problem.training_loss(whole, row).item() for row in rows]
        return np.array(losses)

    def _predicted(self, model: Any, num: int, batch: Any) -> tuple[Any, Any]:
        """A model and a batch for row by row: where predictions come by rows, all at once, with the identity."""
        import torch

        assert self.problem is not None
        if self.problem.step is None and isinstance(batch, list | tuple) and len(batch) == 2:
            prediction = model(batch[0])
            if isinstance(prediction, torch.Tensor) and prediction.ndim and len(prediction) == num:
                return _same, moved([prediction, batch[1]], torch.device("cpu"))
        return model, batch

    def metric(self, model: Any) -> float:
        """The mean metric of the test rows, or minus their loss."""
        assert self.problem is not None
        assert self.data is not None
        model.eval()
        found = [(num, self.problem.test_metric(model, batch)) for num, batch in self.data.test]
        return sum(num * value for num, value in found) / sum(num for num, _ in found)

    def summary(self, trained: Trained) -> float:
        """The same of a trained network, from what it does row by row."""
        found = trained.behaviour
        has_metric = self.problem is None or self.problem.metric is not None
        return float(1 - np.mean(found.test_error) if has_metric else -np.mean(found.test_loss))

    def barrier(self, one: Trained, other: Trained, num_alphas: int) -> float:
        """The largest fall of the metric between two networks; the second's module is used for it, and changed."""
        if one.state is None or other.state is None or other.module is None:
            return float("nan")
        alphas = np.linspace(0.0, 1.0, num_alphas)
        found = []
        for alpha in alphas:
            put_state(other.module, interpolate(one.state, other.state, float(alpha)))
            found.append(self.metric(other.module))
        put_state(other.module, other.state)
        return barrier(found, alphas)


def dataset_rows(data: Split, rows: Rows) -> Rows:
    """The rows of the data set that these are, numbered without those held out."""
    return rows + np.searchsorted(data.gaps, rows, side="right") if len(data.gaps) else rows


def _same(prediction: Any) -> Any:
    return prediction


def one_row(batch: Any, row: int, num: int) -> Any:
    """A batch of one row of a batch of `num`: a slice of each tensor and list in it."""
    import torch

    if isinstance(batch, torch.Tensor):
        if batch.ndim and len(batch) == num:
            return batch[row : row + 1]
        raise HeadstartError(
            f"stability: a tensor of shape {tuple(batch.shape)} in a batch of {num} rows has no rows of its own; let "
            "collate put the rows first"
        )
    if isinstance(batch, Mapping):
        return {name: one_row(value, row, num) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(one_row(value, row, num) for value in batch))
    if isinstance(batch, list | tuple):
        nested = any(isinstance(part, torch.Tensor | Mapping | list | tuple) for part in batch)
        return type(batch)(one_row(part, row, num) for part in batch) if nested else batch[row : row + 1]
    return batch


def _checked(behaviour: Behaviour) -> Behaviour:
    for name in _FIELDS:
        values = np.asarray(getattr(behaviour, name))
        if values.ndim != 1 or not values.size:
            raise HeadstartError(
                f"train_fn returned a Behaviour whose {name} has shape {values.shape}; give one number a row"
            )
    return behaviour
