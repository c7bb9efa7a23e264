"""The data of many members, stacked. Members of one task and seed see the same samples, which are drawn once."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from headstart.core.samples import Samples, joined
from headstart.engines.lower import Lowered
from headstart.plans import Place
from headstart.tasks import Rows, held_out

# Inputs and targets, and where a task weighs its targets, their weights.
Data = tuple[torch.Tensor, ...]
# Mini-batches are drawn for at most this many steps at once.
BLOCK = 64


class Feed:
    """Test sets, pools and mini-batches [members, n, ...] on the device, at most `rows` samples a member at a time.

    Samples are held once for each source, a (task, seed, methods that change samples); `of` is the source of each
    member. Fresh samples are drawn a block of steps at a time, of at most `block_bytes` if a step is smaller, into
    buffers that are used again.

    Batches are asked for with the places of the members: one place for all, or, where the course adapts, one each; then
    every member is a source of its own, and the pools of all legs are held, one after another.
    """

    def __init__(self, lowered: Sequence[Lowered], device: str, rows: int, block_bytes: float) -> None:
        self.course = course = lowered[0].course
        self.device, self.rows, self.last = device, rows, lowered[0].run.budget.steps
        self.dtype = lowered[0].dtype
        self.block_bytes = block_bytes
        keys = [
            (its.run.task, its.run.seed, its.altering, member if course.adaptive else 0)
            for member, its in enumerate(lowered)
        ]
        sources = dict(zip(keys, lowered, strict=True))
        number = {source: i for i, source in enumerate(sources)}
        self.sources = list(sources.values())
        self.shared = len(sources) < len(lowered)
        self.of = torch.tensor([number[key] for key in keys], device=device)
        self.test, self.counts = self._distinct([held_out(source.run.task, source.run.seed) for source in self.sources])
        self.legs: list[int] = []
        self.held: Data = self.test
        self.block: tuple[list[tuple[int, int]], int, int] | None = None
        self.buffers: Data | None = None
        self.fresh: Data = self.test
        self.picked, self.num_drawn = torch.empty(0, dtype=torch.int64), 0

    def size(self, places: Sequence[Place]) -> int:
        """The number of samples in the batch of each step at these places."""
        if self.course.batch is not None:
            return self.course.batch
        self._hold(places)
        return self.held[1].shape[1]

    def batch(self, places: Sequence[Place], step: int) -> Iterator[Data]:
        """The data of the batch at `step`, [members, n, ...], in parts of at most `rows` samples.

        Weights are scaled: those of a batch add up to its number of samples.
        """
        self._hold(places)
        if self.course.batch is None:
            yield from self.parts(_scaled(self.held))
            return
        stretches = [place.stretch for place in places]
        if self.block is None or self.block[0] != stretches or not self.block[1] <= step < self.block[2]:
            self._draw(places, step)
            self.block = (stretches, step, step + self.num_drawn)
        offset = step - self.block[1]
        if self.course.pool(places[0]).size is None:
            yield from self.parts(_scaled(tuple(a[offset] for a in self.fresh)))
            return
        picked = self.picked[offset]
        weights = _scaled(tuple(_taken(a, picked) for a in self.held))[2:] if len(self.held) > 2 else ()
        for first in range(0, self.course.batch, part := self._part(self.course.batch)):
            x, y = (_taken(a, picked[:, first : first + part]) for a in self.held[:2])
            yield x, y, *(w[:, first : first + part] for w in weights)

    def test_parts(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Inputs, targets and how much each sample, or each target, counts, [members, n', ...], n' at most `rows`."""
        for x, y, counts, *weights in self.parts((*self.test[:2], self.counts, *self.test[2:])):
            yield x, y, weights[0].double() if weights else counts

    def parts(self, data: Data) -> Iterator[Data]:
        """Data of the sources [sources, n, ...] as equal parts [members, n', ...] with n' at most `rows`."""
        part = self._part(data[1].shape[1])
        for cut in zip(*(torch.split(a, part, dim=1) for a in data), strict=True):
            yield tuple(a.index_select(0, self.of) for a in cut) if self.shared else cut

    def _part(self, num: int) -> int:
        """The length of the parts of `num` samples: as equal as can be, since every length is traced once."""
        return -(-num // -(-num // self.rows))

    def _hold(self, places: Sequence[Place]) -> None:
        """Make the samples of a leg's finite pool, or of the exact population if every step takes all of it."""
        legs = list(range(len(self.course.legs))) if self.course.adaptive else [places[0].leg]
        if legs == self.legs:
            return
        self.legs, self.block = legs, None
        self.held = self.test  # let go of the last pool before the next one is made
        if self.course.legs[legs[0]].pool.size is not None:
            self.held = self._stack(joined([source.pool(leg) for leg in legs]) for source in self.sources)
        elif self.course.batch is None:
            self.held = self._stack(source.run.task.population(source.run.seed) for source in self.sources)

    def _draw(self, places: Sequence[Place], step: int) -> None:
        """The next block of steps of every source; it ends with a leg, or with the batch after the last step."""
        size = self.course.batch
        assert size is not None
        left = [steps for place in places if (steps := self.course.steps_left(place, step)) is not None]
        finite = self.course.pool(places[0]).size is not None
        num = self.num_drawn = min(self._block_steps(size, finite), self.last + 1 - step, *left)
        each = places if self.course.adaptive else list(places) * len(self.sources)
        places = [place._replace(seed=source.run.seed) for place, source in zip(each, self.sources, strict=True)]
        if not finite:
            for number, (source, its) in enumerate(zip(self.sources, places, strict=True)):
                self._write(number, num, source.draw(its.leg, self.course.ids(its, step, num)))
            assert self.buffers is not None
            self.fresh = tuple(buffer[:num].to(self.device) for buffer in self.buffers)
        else:
            ids = np.stack([self.course.ids(its, step, num).reshape(num, size) for its in places], axis=1)
            picked = torch.from_numpy(ids).to(self.device)
            rows = self.held[1].shape[1]
            first = [number * rows + self._row_of_id_0(its.leg) for number, its in enumerate(places)]
            picked += torch.tensor(first, device=self.device)[:, None]
            self.picked = picked[:, self.of]

    def _row_of_id_0(self, leg: int) -> int:
        """Where the sample with id 0 of a leg's finite pool would lie among the held rows of its source."""
        before = sum(self.course.legs[other].pool.size or 0 for other in self.legs if other < leg)
        return before - self.course.legs[leg].pool.first

    def _block_steps(self, size: int, finite: bool) -> int:
        row = 8 if finite else sum(a[0, 0].nbytes for a in self.test)
        return int(min(BLOCK, max(1, self.block_bytes // (len(self.sources) * size * row))))

    def _write(self, source: int, num: int, data: Samples) -> None:
        """Put a source's samples for `num` steps into the buffers, where the samples of one step lie together."""
        arrays = tuple(a.view(num, -1, *a.shape[1:]) for a in self._tensors(data))
        if self.buffers is None or len(self.buffers[0]) < num:
            self.buffers = tuple(self._empty(a, num) for a in arrays)
        for buffer, array in zip(self.buffers, arrays, strict=True):
            buffer[:num, source] = array

    def _stack(self, samples: Iterator[Samples]) -> Data:
        """The samples of every source on the device, each copied as it is drawn."""
        stacked: Data | None = None
        for source, data in enumerate(samples):
            arrays = self._tensors(data)
            if stacked is None:
                stacked = tuple(self._empty(a[None], 1)[0].to(self.device) for a in arrays)
            for whole, array in zip(stacked, arrays, strict=True):
                whole[source] = array
        assert stacked is not None
        return stacked

    def _distinct(self, samples: list[Samples]) -> tuple[Data, torch.Tensor]:
        """The samples of every source, each point of a small population once; how often each occurs, 0 for padding."""
        task, num = self.sources[0].run.task, len(samples[0].y)
        # Rows are distinct already, and points of two weights are two.
        apart = isinstance(task, Rows) or samples[0].weight is not None
        if apart or task.population_size is None or task.population_size >= num:
            return self._stack(iter(samples)), torch.ones(len(samples), num, dtype=torch.float64, device=self.device)
        found = [np.unique(each.x, axis=0, return_index=True, return_counts=True)[1:] for each in samples]
        most = max(len(first) for first, _ in found)
        rows = [np.pad(first, (0, most - len(first))) for first, _ in found]
        counts = np.stack([np.pad(count, (0, most - len(count))) for _, count in found]).astype(np.float64)
        kept = (each[row] for each, row in zip(samples, rows, strict=True))
        return self._stack(kept), torch.from_numpy(counts).to(self.device)

    def _tensors(self, data: Samples) -> Data:
        """The arrays of samples; real numbers in the precision of the runs, symbols as they are."""
        arrays = (a for a in (data.x, data.y, data.weight) if a is not None)
        return tuple(torch.from_numpy(a.astype(self.dtype, copy=False) if a.dtype.kind == "f" else a) for a in arrays)

    def _empty(self, like: torch.Tensor, num: int) -> torch.Tensor:
        """Room for `num` tensors of every source shaped as those in `like`: [num, sources, ...], not on the device."""
        return torch.empty(num, len(self.sources), *like.shape[1:], dtype=like.dtype)


def _taken(data: torch.Tensor, picked: torch.Tensor) -> torch.Tensor:
    """Rows of data [sources, n, ...] that `picked` [members, n'] counts through all sources: [members, n', ...]."""
    return data.flatten(0, 1).index_select(0, picked.reshape(-1)).view(*picked.shape, *data.shape[2:])


def _scaled(data: Data) -> Data:
    """The data of whole batches [sources, n, ...], weights so that those of a batch add up to its samples."""
    if len(data) == 2:
        return data
    x, y, weight = data
    total = weight.flatten(1).sum(dim=1).view(-1, *[1] * (weight.dim() - 1))
    return x, y, weight * (weight.shape[1] / total)
