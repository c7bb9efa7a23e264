"""The arrays of a chunk of members, and the kernel each leg of their course goes to."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.kernels.compile import kernels
from headstart.core.samples import Samples
from headstart.core.state import State
from headstart.engines.fused.layout import (
    LABEL_BIT,
    LARGEST_PACKED_DIM,
    Layout,
    floats,
    is_population,
    sphere_of,
    uses_tables,
)
from headstart.engines.fused.targets import Target, target_of
from headstart.engines.lower import Lowered
from headstart.models import MLP
from headstart.optimizers import AdamW
from headstart.plans import Place
from headstart.run import Run
from headstart.tasks import MultiIndex, Parity, SingleIndex

_EVALUATION, _DATA = np.uint64(6), np.uint64(2)
# Fresh samples that are not the task's own are made for this many steps at a time.
_WINDOW = 64


def _support_bits(run: Run) -> np.uint64:
    """The support of a parity as bits, where samples are packed."""
    if not isinstance(run.task, Parity) or run.task.dim > LARGEST_PACKED_DIM:
        return np.uint64(0)
    return np.uint64(sum(1 << i for i in run.task.support or ()))


class Trainer:
    """Weights float32[members, size] with their optimizer state, and the scratch of the kernels."""

    def __init__(self, layout: Layout, lowered: list[Lowered], states: list[State]) -> None:
        run = lowered[0].run
        assert isinstance(run.model, MLP)
        self.run, self.layout, self.lowered, self.course = run, layout, lowered, lowered[0].course
        num, adam = len(lowered), isinstance(run.optimizer, AdamW)
        self.weights = floats(num, layout.size)
        self.first = floats(num, layout.size if adam else 0)
        self.second = floats(*self.first.shape)
        rates, constants = np.array([each.rates for each in lowered]), np.zeros((num, 4))
        for m, (each, state) in enumerate(zip(lowered, states, strict=True)):
            self.weights[m] = layout.pack(state.weights)
            if isinstance(o := each.run.optimizer, AdamW):
                constants[m] = o.beta1, o.beta2, o.eps, o.weight_decay
            for kind, flat in (("exp_avg", self.first), ("exp_avg_sq", self.second)):
                if state.moments:
                    flat[m] = layout.pack({name: state.moments[f"{kind}/{name}"] for name in each.names})
        seeds = np.array([each.run.seed for each in lowered], dtype=np.uint64)
        batches = kernels("engines.fused.batches")
        losses = kernels("engines.fused.losses")
        self._batches, sphere = batches.Batches, sphere_of(lowered[0])
        self.shape = batches.Shape(
            dim=run.task.signature.num_inputs,
            neurons=run.model.width,
            width=layout.width,
            depth=run.model.depth,
            bias=int(run.model.bias),
            activation=losses.ACTIVATIONS[str(run.model.activation)],
            loss=losses.LOSSES[run.loss.name],
            optimizer=int(adam),
            support=_support_bits(run),
            ties=float(run.task.ties) if isinstance(run.task, Parity) else 0.0,
            radius=0.0 if sphere is None else float(sphere.radius),
            tangent=0 if sphere is None else int(sphere.tangent),
        )
        factors = lowered[0].factors
        self.members = batches.Members(
            seeds, self.weights, self.first, self.second, rates, constants, layout.offsets, factors
        )
        self.scores = np.zeros((num, 4))
        back_end = Tables if uses_tables(run) else Blocks
        self.backend: Tables | Blocks = back_end(run, self.shape, self.members, self.course.batch or 1)
        self.plan: Any = None
        self.num_samples = 0

    def enter(self, place: Place, active: NDArray[np.int64]) -> None:
        """Make ready for the leg of this place."""
        leg = self.course.legs[place.leg]
        size = leg.pool.size
        exact = is_population(self.run, size)
        full = self.course.batch is None
        self.num_samples = self.course.batch or size or self.run.task.population_size or 0
        plan = self._batches(
            batch=self.num_samples,
            full=int(full),
            first=leg.pool.first + (place.fresh if size is None else 0),
            size=-1 if size is None else size,
            replacement=int(leg.replacement),
            leg=place.leg,
            began=place.began,
            stored=int(bool(self.lowered[0].altering[place.leg])),
            origin=leg.pool.first + (place.fresh if size is None else 0),
        )
        if plan != self.plan:
            self.plan = plan
            self.backend.enter(plan, exact, active)
            if plan.stored and size is not None:
                self.backend.hold({m: self.lowered[m].pool(place.leg) for m in active}, size)

    def advance(self, place: Place, active: NDArray[np.int64], start: int, stop: int) -> None:
        """Steps start .. stop - 1."""
        for first in range(start, stop, _WINDOW):
            last = min(first + _WINDOW, stop)
            self.backend.advance(active, self._stored_from(place, active, first, last - first), first, last)

    def _stored_from(self, place: Place, active: NDArray[np.int64], step: int, num_steps: int) -> Any:
        """The plan; where samples are fresh but not the task's own, their store now begins with the batch of `step`."""
        if not self.plan.stored or self.plan.size >= 0:
            return self.plan
        ids = self.course.ids(place, step, num_steps)
        self.backend.hold({m: self.lowered[m].draw(place.leg, ids) for m in active}, len(ids))
        return self.plan._replace(origin=int(ids[0]))

    def evaluate(self, place: Place, active: NDArray[np.int64], step: int) -> NDArray[np.float64]:
        """Metric and loss on the test set, and on the batch of `step`: float64[members, 4]."""
        self.backend.evaluate(active, self._stored_from(place, active, step, 1), step, self.scores)
        return self.scores

    def squares(self, active: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums of squares by parameter: float64[members, parameters]."""
        out = np.zeros((len(self.weights), len(self.layout.parameters)))
        kernels("engines.fused.optim").squares(self.weights, active, self.layout.offsets, out)
        return out


class Tables:
    """Two layers on +-1 inputs: bit tables, and the half-cube for the exact population."""

    def __init__(self, run: Run, shape: Any, members: Any, batch: int) -> None:
        self.bits, self.shape, self.members = kernels("engines.fused.bits"), shape, members
        self.scratch = self.bits.scratch(shape, batch)
        assert isinstance(run.task, Parity)
        self.support = list(run.task.support or ())
        num = len(members.seeds)
        self.test = np.zeros((num, run.task.num_test), dtype=np.uint64)
        self._fill(self.test, range(num), _EVALUATION, 0)
        self.pools = np.zeros((num, 0), dtype=np.uint64)

    def _fill(self, out: Any, active: Any, stream: Any, first: int) -> None:
        for m in active:
            self.bits.fill_words(self.shape, self.members.seeds[m], stream, first, out[m], self.scratch)

    def enter(self, plan: Any, exact: bool, active: NDArray[np.int64]) -> None:
        """Draw the pool of a full batch, or make ready for the population."""
        self.half_cube: Any = None
        self.pools = np.zeros((len(self.members.seeds), 0), dtype=np.uint64)
        if exact:
            population = kernels("engines.fused.population")
            if self.shape.dim >= population.SMALLEST_DIM:
                self.half_cube = population.scratch(self.shape)
                return
        if plan.full and not plan.stored:
            self.pools = np.zeros((len(self.members.seeds), plan.batch), dtype=np.uint64)
            if exact:
                self.pools[:] = np.arange(plan.batch, dtype=np.uint64)
            else:
                self._fill(self.pools, active, _DATA, plan.first)

    def hold(self, samples: Mapping[int, Samples], size: int) -> None:
        """Store these samples of members, packed: a bit where a coordinate is -1, and one where the label is odd."""
        self.pools = np.zeros((len(self.members.seeds), size), dtype=np.uint64)
        for m, data in samples.items():
            padded = np.zeros((size, 64), dtype=np.uint8)
            padded[:, : data.x.shape[1]] = data.x < 0
            padded[:, LABEL_BIT] = (data.y < 0) ^ (padded[:, self.support].sum(axis=1) % 2 == 1)
            self.pools[m] = np.packbits(padded, axis=1, bitorder="little").view("<u8")[:, 0]

    def advance(self, active: NDArray[np.int64], plan: Any, start: int, stop: int) -> None:
        """Steps start .. stop - 1."""
        if self.half_cube is None:
            self.bits.advance(self.shape, self.members, active, plan, self.pools, start, stop, self.scratch)
        else:
            kernels("engines.fused.population").advance(
                self.shape, self.members, active, start, stop, self.scratch, self.half_cube
            )

    def evaluate(self, active: NDArray[np.int64], plan: Any, step: int, out: NDArray[np.float64]) -> None:
        """Scores on the test set and the batch of `step`."""
        if self.half_cube is not None:
            plan = plan._replace(batch=0)
        self.bits.evaluate(self.shape, self.members, active, plan, self.pools, self.test, step, out, self.scratch)
        if self.half_cube is not None:
            kernels("engines.fused.population").evaluate(self.shape, self.members, active, out, self.half_cube)


class Blocks:
    """Any depth on dense inputs, samples in blocks."""

    def __init__(self, run: Run, shape: Any, members: Any, batch: int) -> None:
        self.dense, self.shape, self.members = kernels("engines.fused.dense"), shape, members
        task, seeds = run.task, members.seeds
        support, rows, variance = np.zeros(0, dtype=np.int64), np.zeros((len(seeds), 1, 0)), 1.0
        target: Target | None = Target(np.zeros((0, 1), dtype=np.int64), np.zeros(0))
        if isinstance(task, SingleIndex | MultiIndex):
            rows = np.stack([np.atleast_2d(task.teacher(int(seed))) for seed in seeds])
            target, variance = target_of(task), task.variance
        else:
            assert isinstance(task, Parity)
            support = np.array(task.support, dtype=np.int64)
        assert target is not None
        teacher = self._teacher(rows, target)
        self.scratch = self.dense.scratch(shape, members.weights.shape[1], batch, support, teacher, variance)
        self.num_test = task.num_test
        self.test = self._blocks(self.num_test)
        self._fill(self.test, range(len(seeds)), _EVALUATION, 0, self.num_test)
        self.pools = self._blocks(0)

    def _teacher(self, rows: NDArray[np.float64], target: Target) -> Any:
        chunk = self.dense.CHUNK
        return kernels("engines.fused.labels").Teacher(
            rows=rows,
            degrees=target.degrees,
            coefficients=target.coefficients,
            inner=target.inner,
            outer=target.outer,
            degree=target.degree,
            root=float(np.sqrt(target.noise)),
            hidden=np.zeros((rows.shape[1], chunk)),
            noise=np.zeros(4 * chunk, dtype=np.float32),
        )

    def _blocks(self, num: int) -> NDArray[np.float32]:
        chunk = self.dense.CHUNK
        size = -(-num // chunk) * (self.scratch.rows + 1) * chunk
        return floats(len(self.members.seeds), size)

    def _fill(self, out: NDArray[np.float32], active: Any, stream: Any, first: int, num: int) -> None:
        for m in active:
            ids = np.arange(first, first + num, dtype=np.int64)
            self.dense.draw_samples(self.shape, self.members.seeds[m], stream, m, ids, num, out[m], self.scratch)

    def enter(self, plan: Any, exact: bool, active: NDArray[np.int64]) -> None:
        """Draw the pool of a full batch."""
        assert not exact
        drawn = plan.full and not plan.stored
        self.pools = self._blocks(plan.batch if drawn else 0)
        if drawn:
            self._fill(self.pools, active, _DATA, plan.first, plan.batch)

    def hold(self, samples: Mapping[int, Samples], size: int) -> None:
        """Store these samples of members in blocks."""
        self.pools = self._blocks(size)
        chunk, rows = self.dense.CHUNK, self.scratch.rows
        for m, data in samples.items():
            padded = np.zeros((-(-size // chunk) * chunk, rows + 1), dtype=np.float32)
            padded[:size, : data.x.shape[1]], padded[:size, rows] = data.x, data.y
            self.pools[m] = padded.reshape(-1, chunk, rows + 1).transpose(0, 2, 1).ravel()

    def advance(self, active: NDArray[np.int64], plan: Any, start: int, stop: int) -> None:
        """Steps start .. stop - 1."""
        self.dense.advance(self.shape, self.members, active, plan, self.pools, start, stop, self.scratch)

    def evaluate(self, active: NDArray[np.int64], plan: Any, step: int, out: NDArray[np.float64]) -> None:
        """Scores on the test set and the batch of `step`."""
        self.dense.evaluate(
            self.shape, self.members, active, plan, self.pools, self.test, self.num_test, step, out, self.scratch
        )
