"""A loader whose state counts the batches it delivered, and random labels that touch the loader, not the data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError, check_count
from headstart.core.streams import Stream, check_seed, integers, permute
from headstart.plans.sampler import PhasedBatchSampler
from headstart.plans.sampler_state import State
from headstart.plans.schedule import PhaseSchedule


@dataclass(frozen=True)
class Relabel:
    """Random labels in the first `phases` phases, drawn once for each row and kept; true labels after them.

    `classes` is a number of classes, for labels 0 .. classes - 1, or the labels themselves, such as (-1.0, 1.0). An
    example is a tuple whose last entry is its label, or a mapping with the label under `key`.
    Reference: Less Data, Faster Training, Section 5.1 (random labels help as well: what helps is that the layers grow).
    """

    classes: int | tuple[float, ...] | Sequence[float]
    phases: int = 1
    key: str = "labels"

    def __post_init__(self) -> None:
        labels: Any = self.classes
        if isinstance(labels, Sequence) and not isinstance(labels, str):
            object.__setattr__(self, "classes", tuple(labels))
            sound = len(set(labels)) > 1 and all(_is_label(label) for label in labels)
        else:
            sound = _is_label(labels) and isinstance(labels, int) and labels > 1
        if not sound:
            raise HeadstartError(
                f"Relabel(classes={self.classes!r}): give at least two classes, by their number, such as 10, or as "
                "labels, such as (-1.0, 1.0)"
            )
        check_count("Relabel", "phases", self.phases)
        if not isinstance(self.key, str):
            raise HeadstartError(f"Relabel(key={self.key!r}): give the name of the label in an example")

    def draw(self, seed: int, rows: Sequence[int]) -> list[float]:
        """The random label of each row."""
        labels = range(self.classes) if isinstance(self.classes, int) else self.classes
        return [labels[i] for i in integers(seed, Stream.LABELS, np.asarray(rows), 1, len(labels))[:, 0]]

    def apply(self, example: Any, label: float) -> Any:
        """The example with this label in place of its own, of the same type."""
        if isinstance(example, Mapping):
            if self.key not in example:
                raise HeadstartError(f"Relabel(key={self.key!r}): the examples have {', '.join(map(str, example))}")
            return {**example, self.key: _like(example[self.key], label)}
        if isinstance(example, tuple | list) and len(example) > 1:
            return (*example[:-1], _like(example[-1], label))
        raise HeadstartError(f"Relabel: an example is (input, label) or a mapping, not {type(example).__name__}")


def _is_label(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _like(label: Any, value: float) -> Any:
    """The value with the type of the label, which is one number, as an array of one element or as it is."""
    import torch

    if isinstance(label, torch.Tensor) and label.numel() == 1:
        return torch.full_like(label, value)
    if isinstance(label, np.ndarray) and label.size == 1:
        return np.full_like(label, value)
    if isinstance(label, int | float | np.generic):
        return type(label)(value)
    shape = f" of shape {tuple(label.shape)}" if hasattr(label, "shape") else ""
    raise HeadstartError(
        f"Relabel: a label is one number per example, not a {type(label).__name__}{shape}; give the data set random "
        "labels of that kind yourself"
    )


class RelabelledRows:
    """A view of a data set in which row -1 - i is row i with its random label."""

    def __init__(self, dataset: Any, relabel: Relabel, seed: int) -> None:
        self.dataset, self.relabel, self.seed = dataset, relabel, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Any:
        """One example."""
        return self.__getitems__([row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[Any]:
        """A batch of examples; torch's loaders ask so when they can."""
        true = [row if row >= 0 else -1 - row for row in rows]
        many = getattr(self.dataset, "__getitems__", None)
        examples = many(true) if many is not None else [self.dataset[row] for row in true]
        if rows[0] >= 0:  # a batch is of one phase
            return list(examples)
        labels = self.relabel.draw(self.seed, true)
        return [self.relabel.apply(example, label) for example, label in zip(examples, labels, strict=True)]


class RelabelledBatches:
    """The batches of a sampler, with rows -1 - i in the phases that are relabelled."""

    def __init__(self, sampler: PhasedBatchSampler, relabel: Relabel) -> None:
        self.sampler, self.relabel = sampler, relabel
        self.batch_size, self.drop_last = sampler.batch_size, sampler.drop_last

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.sampler:
            yield [-1 - row for row in batch] if self.sampler.phase < self.relabel.phases else batch


class PhasedLoader:
    """A `DataLoader` over a schedule: one pass is the whole of training.

        for inputs, targets in PhasedLoader(dataset, PhaseSchedule.geometric(steps=6000), batch_size=64): ...

    Its state counts the batches it delivered, not those its workers fetched ahead, so a loop that stops anywhere goes
    on with exactly the batches it has not seen. `relabel` (a `Relabel`, or its classes) gives the first phase random
    labels. Further options go to torch's `DataLoader`, which is `loader`. For replicas and `accumulate` see
    `PhasedBatchSampler`.
    """

    def __init__(
        self,
        dataset: Any,
        schedule: PhaseSchedule,
        batch_size: int = 32,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        accumulate: int = 1,
        relabel: Relabel | int | Sequence[float] | None = None,
        **options: Any,
    ) -> None:
        from torch.utils.data import DataLoader

        for name in ("batch_sampler", "sampler", "shuffle", "drop_last"):
            if name in options:
                raise HeadstartError(f"PhasedLoader({name}={options[name]!r}): the schedule decides that; leave it out")
        self.sampler = PhasedBatchSampler(
            dataset, schedule, batch_size, seed, num_replicas, rank, accumulate=accumulate
        )
        self.dataset: Any = dataset
        batches: Any = self.sampler
        if relabel is not None:
            dataset, batches = relabelled(dataset, self.sampler, relabel)
        self.loader: DataLoader[Any] = DataLoader(dataset, batch_sampler=batches, **options)
        self._delivered = 0

    def __len__(self) -> int:
        """The batches of a whole pass."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        """All batches from the first on, or, once after `load_state_dict`, those that remain."""
        resumed = self._delivered if self.sampler.resumed else 0
        batches = iter(self.loader)
        self._delivered = resumed
        for batch in batches:
            self._delivered += 1
            yield batch
            self.sampler.check_heard(self._delivered)

    @property
    def phase(self) -> int:
        """The phase, from 0 on, of the batch that was delivered last."""
        return self.sampler.phase_of(max(0, self._delivered - 1))

    @property
    def rows_seen(self) -> float:
        """The expected fraction of all rows in the steps up to that of the batch delivered last."""
        return self.sampler.rows_seen_of(self._delivered - 1) if self._delivered else 0.0

    @property
    def step(self) -> int:
        """The optimizer step, from 0 on, that the batch delivered last belongs to."""
        return max(0, self._delivered - 1) // self.sampler.accumulate

    def report(self, metric: float) -> None:
        """Tell an auto schedule how well the batch delivered last is learned; see `PhasedBatchSampler.report`."""
        self.sampler.report(metric, self.phase)

    def state_dict(self) -> State:
        """Where the pass stands, counted in batches delivered, as plain JSON data."""
        return {**self.sampler.state_dict(), "batch": self._delivered}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next pass begins at the batch after those that were delivered."""
        self.sampler.load_state_dict(state)
        self._delivered = int(state["batch"])


def relabelled(
    dataset: Any, sampler: PhasedBatchSampler, relabel: Relabel | int | Sequence[float]
) -> tuple[RelabelledRows, RelabelledBatches]:
    """The data set and the batch sampler for a torch loader with random labels; neither original is touched."""
    if not isinstance(relabel, Relabel):
        relabel = Relabel(relabel)
    return RelabelledRows(dataset, relabel, sampler.seed), RelabelledBatches(sampler, relabel)


class _RepeatFirst:
    def __init__(self, iterable: Iterable[Any], size: int, epochs: int, seed: int) -> None:
        self.iterable, self.size, self.epochs, self.seed = iterable, size, epochs, seed

    def __iter__(self) -> Iterator[Any]:
        stream = iter(self.iterable)
        first: list[Any] = []
        for item in stream:
            first.append(item)
            yield item
            if len(first) == self.size:
                break
        for epoch in range(1, self.epochs if first else 0):
            for i in permute(self.seed, Stream.ORDER, epoch, np.arange(len(first)), len(first)):
                yield first[i]
        del first  # the rest of the stream may be long
        yield from stream


def repeat_first(iterable: Iterable[Any], size: int, epochs: int, seed: int = 0) -> Iterable[Any]:
    """A stream that sees its first `size` items `epochs` times, then goes on with the rest.

    For data without a length: the first epoch is in the order of the stream, each further one in a random order of its
    own; `size` items are held meanwhile. `epochs=1` is the stream itself. Items may be examples or whole batches.

        for batch in repeat_first(stream_of_batches, size=100, epochs=20): ...
    """
    check_count("repeat_first", "size", size)
    check_count("repeat_first", "epochs", epochs)
    check_seed(seed)
    if not isinstance(iterable, Iterable):
        raise HeadstartError(f"repeat_first(iterable={iterable!r}): give something to iterate over")
    return _RepeatFirst(iterable, size, epochs, seed)
