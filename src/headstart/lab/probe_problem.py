"""What a probe trains: somebody's model, data, loss and metric."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.faults import said, users_line
from headstart.core.streams import Stream, permute

if TYPE_CHECKING:
    import torch

_MOST_TEST_ROWS = 2048


@dataclass(frozen=True)
class Problem:
    """A training problem of yours, for `probe`.

    `model()` builds a fresh nn.Module; `dataset` is map-style, of (input, target); `loss(prediction, target)` is a
    scalar tensor; `metric(prediction, target)` is a number, higher being better, averaged over test batches. Without a
    `test_set` a tenth of the rows, at most 2048, is held out. `optimizer(parameters, lr)` defaults to AdamW, and `lr`
    is the middle of the learning-rate sweep.
    """

    model: Callable[[], "torch.nn.Module"]
    dataset: Any
    loss: Callable[[Any, Any], Any]
    metric: Callable[[Any, Any], Any]
    test_set: Any = None
    batch_size: int = 32
    optimizer: Callable[[Any, float], Any] | None = None
    lr: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("model", "loss", "metric"):
            if not callable(getattr(self, name)):
                raise HeadstartError(f"Problem({name}={getattr(self, name)!r}): give something to call")
        if self.optimizer is not None and not callable(self.optimizer):
            raise HeadstartError(f"Problem(optimizer={self.optimizer!r}): give optimizer(parameters, lr)")
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

    def build_optimizer(self, parameters: Any, lr: float) -> Any:
        """The optimizer at this learning rate."""
        import torch

        return torch.optim.AdamW(parameters, lr=lr) if self.optimizer is None else self.optimizer(parameters, lr)


@dataclass(frozen=True)
class Split:
    """The rows to train on and the test batches, which stay the same for every arm and seed.

    `gaps` are the held-out rows in order, each less the number of those before it.
    """

    dataset: Any
    num_train: int
    gaps: NDArray[np.int64]
    test: tuple[tuple[Any, Any], ...]

    def batch(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """The collated (input, target) of these training rows, numbered without those held out."""
        if len(self.gaps):
            rows = (np.asarray(rows) + np.searchsorted(self.gaps, rows, side="right")).tolist()
        return fetch(self.dataset, rows)


def split(problem: Problem, seed: int) -> Split:
    """The test set, or else a tenth of the rows held out, at most so many; a larger test set is sampled."""
    source = problem.dataset if problem.test_set is None else problem.test_set
    share = len(source) // 10 if problem.test_set is None else len(source)
    num = max(1, min(share, _MOST_TEST_ROWS))
    chosen = np.sort(permute(seed, Stream.EVALUATION, 0, np.arange(num), len(source)))
    test = tuple(fetch(source, chosen[i : i + 512].tolist()) for i in range(0, num, 512))
    gaps = chosen - np.arange(num) if problem.test_set is None else np.empty(0, dtype=np.int64)
    return Split(problem.dataset, len(problem.dataset) - len(gaps), gaps, test)


def fetch(dataset: Any, rows: Sequence[int]) -> tuple[Any, Any]:
    """The collated (input, target) of these rows."""
    import torch
    from torch.utils.data import TensorDataset, default_collate

    if isinstance(dataset, TensorDataset):  # rows of tensors need no collating
        index = torch.as_tensor(rows)
        parts: Any = [tensor[index] for tensor in dataset.tensors]
    else:
        many = getattr(dataset, "__getitems__", None)
        parts = default_collate(many(list(rows)) if many is not None else [dataset[row] for row in rows])
    if not isinstance(parts, list | tuple) or len(parts) != 2:
        raise HeadstartError(f"Problem(dataset=...): a row is (input, target), not {type(parts).__name__}")
    return parts[0], parts[1]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's global generator at this seed, and afterwards as it was.

    A user's model draws its weights and its dropout from there; nothing of Headstart does.
    """
    import torch

    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        yield


def as_problem(source: Any) -> Problem:
    """A Problem from itself, from a mapping with its fields, from a factory of either, or from "module:factory"."""
    if isinstance(source, str):
        source = load_factory(source)
    if callable(source) and not isinstance(source, Problem):
        try:
            source = source()
        except HeadstartError:
            raise
        except (Exception, SystemExit) as error:
            raise HeadstartError(f"the factory raised {said(error)} ({users_line(error)})") from error
    if isinstance(source, Mapping):
        known = {f.name for f in fields(Problem)}
        unknown, missing = set(source) - known, {"model", "dataset", "loss", "metric"} - set(source)
        if unknown or missing:
            wrong = f"has no use for {', '.join(sorted(unknown))}" if unknown else f"lacks {', '.join(sorted(missing))}"
            raise HeadstartError(f"the factory's dict {wrong}; a Problem has {', '.join(sorted(known))}")
        source = Problem(**source)
    if not isinstance(source, Problem):
        raise HeadstartError(
            f"the factory returned a {type(source).__name__}; return hs.Problem(model=..., dataset=..., loss=..., "
            "metric=...) or a dict with those keys"
        )
    return source


def load_factory(name: str) -> Any:
    """The function that "package.module:factory" or "path/to/file.py:factory" names."""
    module, colon, attribute = name.rpartition(":")
    if not colon or not module or not attribute or module.startswith("."):
        raise HeadstartError(f"{name!r}: write package.module:factory, or file.py:factory")
    try:
        if module.endswith(".py"):
            spec = importlib.util.spec_from_file_location("headstart_probed", module)
            if spec is None or spec.loader is None or not os.path.exists(module):
                raise HeadstartError(f"{name!r}: there is no file {module}")
            found: Any = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = found
            spec.loader.exec_module(found)
        else:
            if "" not in sys.path and os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            found = importlib.import_module(module)
    except HeadstartError:
        raise
    except ImportError as error:
        raise HeadstartError(f"{name!r}: {error}; is its folder the current one, or on PYTHONPATH?") from None
    except SyntaxError as error:
        raise HeadstartError(f"{name!r}: {module} is no Python: line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise HeadstartError(f"{name!r}: {module} cannot be loaded: {said(error)} ({users_line(error)})") from error
    if not hasattr(found, attribute):
        raise HeadstartError(f"{name!r}: module {module} has no {attribute}")
    return getattr(found, attribute)
