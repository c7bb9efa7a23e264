"""What a probe trains: somebody's model, data, loss and metric."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.streams import Stream, permute
from headstart.lab.probe_factory import asking, load_factory

if TYPE_CHECKING:
    import torch

_MOST_TEST_BATCH = 512


@dataclass(frozen=True)
class Problem:
    """A training problem of yours, for `probe`.

    `model()` builds a fresh nn.Module, and `dataset` is map-style. What a batch of its rows is decides how it is used:

    - (input, target): `loss(model(input), target)` is a scalar tensor, and `metric(model(input), target)` a number;
    - a dict, as for Hugging Face's models: the prediction is `model(**batch)`. Without a `loss` its own `.loss` counts;
      `loss` and `metric` get (prediction, batch);
    - anything: give `step(model, batch)`, which returns the loss. Then the metric is `metric(model, batch)`.

    The metric is higher for better models and is averaged over test rows; without one it is minus the loss. Without a
    `test_set` a tenth of the rows is held out. `collate(rows)` makes a batch, by default as torch's `DataLoader` does.
    `optimizer(parameters, lr)` defaults to AdamW, and `lr` is the middle of the learning-rate sweep.
    """

    model: Callable[[], "torch.nn.Module"]
    dataset: Any
    loss: Callable[[Any, Any], Any] | None = None
    metric: Callable[[Any, Any], Any] | None = None
    test_set: Any = None
    batch_size: int = 32
    optimizer: Callable[[Any, float], Any] | None = None
    lr: float = 1e-3
    step: Callable[[Any, Any], Any] | None = None
    collate: Callable[[Sequence[Any]], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("model", "loss", "metric", "optimizer", "step", "collate"):
            value = getattr(self, name)
            if not callable(value) and (name == "model" or value is not None):
                call = "optimizer(parameters, lr)" if name == "optimizer" else "something to call"
                raise HeadstartError(f"Problem({name}={value!r}): give {call}")
        if self.step is not None and self.loss is not None:
            raise HeadstartError("Problem(step=..., loss=...): step returns the loss; give one of the two")
        for name in ("dataset", "test_set"):
            data = getattr(self, name)
            needed = name == "dataset" or data is not None
            if needed and not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
                raise HeadstartError(
                    f"Problem({name}={type(data).__name__}): give a map-style data set, with a length and rows"
                )
        check_count("Problem", "batch_size", self.batch_size)
        check_positive("Problem", "lr", self.lr)
        if len(self.dataset) < 4 * self.batch_size:
            raise HeadstartError(
                f"Problem(dataset=..., batch_size={self.batch_size}): {len(self.dataset)} rows are fewer than four "
                "batches; there is no small subset of so few to repeat"
            )
        if self.test_set is not None and not len(self.test_set):
            raise HeadstartError("Problem(test_set=...): it has no rows; leave it out to hold some of the dataset out")

    @classmethod
    def of(cls, source: Any) -> "Problem":
        """A Problem from itself, a dict of its fields, a function that returns either, or "module:function"."""
        if isinstance(source, str):
            source = load_factory(source)
        if callable(source) and not isinstance(source, Problem):
            with asking("the factory"):
                source = source()
        if isinstance(source, Mapping):
            known = {f.name for f in fields(cls)}
            unknown, missing = set(source) - known, {"model", "dataset"} - set(source)
            if unknown or missing:
                names = ", ".join(sorted(map(str, unknown or missing)))
                wrong = f"has no use for {names}" if unknown else f"lacks {names}"
                raise HeadstartError(f"the factory's dict {wrong}; a Problem has {', '.join(sorted(known))}")
            source = cls(**source)
        if not isinstance(source, Problem):
            raise HeadstartError(
                f"the factory returned a {type(source).__name__}; return hs.Problem(model=..., dataset=..., loss=..., "
                "metric=...) or a dict with those keys"
            )
        return source

    def build_optimizer(self, parameters: Any, lr: float) -> Any:
        """The optimizer at this learning rate."""
        import torch

        with asking("Problem(optimizer=...)"):
            return torch.optim.AdamW(parameters, lr=lr) if self.optimizer is None else self.optimizer(parameters, lr)

    def training_loss(self, model: Any, batch: Any) -> Any:
        """The loss of a batch, a scalar tensor; the batch goes to the model's device first."""
        import torch

        batch = moved(batch, device_of(model))
        if self.step is not None:
            with asking("Problem(step=...)"):
                loss = self.step(model, batch)
        else:
            loss = self._loss(*_predicted(model, batch))
        if not isinstance(loss, torch.Tensor) or loss.ndim:
            name = "step=...): step(model, batch)" if self.step is not None else "loss=...): loss(prediction, target)"
            raise HeadstartError(f"Problem({name} returns a scalar tensor; take its mean")
        return loss

    def test_metric(self, model: Any, batch: Any) -> float:
        """The metric on a batch; higher is better."""
        import torch

        with torch.no_grad():
            if self.metric is None:
                return -float(self.training_loss(model, batch))
            batch = moved(batch, device_of(model))
            given = (model, batch) if self.step is not None else _predicted(model, batch)
            with asking("Problem(metric=...)"):
                return float(self.metric(*given))

    def _loss(self, prediction: Any, target: Any) -> Any:
        if self.loss is not None:
            with asking("Problem(loss=...)"):
                return self.loss(prediction, target)
        loss = prediction.get("loss") if isinstance(prediction, Mapping) else getattr(prediction, "loss", None)
        if loss is None:
            raise HeadstartError(
                "Problem(loss=None): the model's output has no loss of its own; give loss(prediction, target) or "
                "step(model, batch), or rows with labels"
            )
        return loss


def _predicted(model: Any, batch: Any) -> tuple[Any, Any]:
    """(prediction, target) of a batch; the target of a dict is the dict."""
    if isinstance(batch, Mapping):
        with asking("the model, called as model(**batch),"):
            return model(**batch), batch
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        what = f"{len(batch)} parts" if isinstance(batch, list | tuple) else f"a {type(batch).__name__}"
        raise HeadstartError(
            f"Problem(dataset=...): a batch is (input, target) or a dict, and this is {what}; give step(model, batch)"
        )
    with asking("the model, called as model(input),"):
        return model(batch[0]), batch[1]


def device_of(model: Any) -> Any:
    """The device of the model's first parameter."""
    import torch

    first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    return torch.device("cpu") if first is None else first.device


def moved(batch: Any, device: Any) -> Any:
    """The batch on a device; what is not a tensor, or a list, tuple or dict of them, stays."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch if batch.device == device else batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(moved(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(moved(value, device) for value in batch)
    return batch


@dataclass(frozen=True)
class Split:
    """The rows to train on and the test batches with their numbers of rows, the same for every arm and seed.

    `gaps` are the held-out rows in order, each less the number of those before it.
    """

    problem: Problem
    num_train: int
    gaps: NDArray[np.int64]
    test: tuple[tuple[int, Any], ...]

    def batch(self, rows: Sequence[int]) -> Any:
        """The collated batch of these training rows, numbered without those held out."""
        if len(self.gaps):
            rows = (np.asarray(rows) + np.searchsorted(self.gaps, rows, side="right")).tolist()
        return fetch(self.problem, self.problem.dataset, rows)


def split(problem: Problem, seed: int, most: int = 2048, device: str = "cpu") -> Split:
    """The test set, or else a tenth of the rows held out; of either, `most` rows at the most, drawn at random."""
    import torch

    source = problem.dataset if problem.test_set is None else problem.test_set
    share = len(source) // 10 if problem.test_set is None else len(source)
    num = max(1, min(share, most))
    chosen = np.sort(permute(seed, Stream.EVALUATION, 0, np.arange(num), len(source)))
    size = min(_MOST_TEST_BATCH, 4 * problem.batch_size)
    parts = [chosen[i : i + size].tolist() for i in range(0, num, size)]
    test = tuple((len(rows), moved(fetch(problem, source, rows), torch.device(device))) for rows in parts)
    gaps = chosen - np.arange(num) if problem.test_set is None else np.empty(0, dtype=np.int64)
    return Split(problem, len(problem.dataset) - len(gaps), gaps, test)


def fetch(problem: Problem, dataset: Any, rows: Sequence[int]) -> Any:
    """The collated batch of these rows."""
    import torch
    from torch.utils.data import TensorDataset, default_collate

    with asking("Problem(dataset=...)"):
        if isinstance(dataset, TensorDataset) and problem.collate is None:  # rows of tensors need no collating
            index = torch.as_tensor(rows)
            return [tensor[index] for tensor in dataset.tensors]
        many = getattr(dataset, "__getitems__", None)
        examples = many(list(rows)) if many is not None else [dataset[row] for row in rows]
        return default_collate(examples) if problem.collate is None else problem.collate(examples)


def generators(device: str) -> list["torch.Generator"]:
    """Torch's global generators that a model on this device draws from."""
    import torch

    on_device = list(torch.cuda.default_generators) if device.startswith("cuda") else []
    return [torch.default_generator, *on_device]


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """Torch's global generators at this seed, and afterwards as they were.

    A user's model draws its weights and its dropout from there; nothing of Headstart does.
    """
    import torch

    with torch.random.fork_rng(range(len(generators(device)) - 1)):
        for generator in generators(device):
            generator.manual_seed(seed)
        yield
