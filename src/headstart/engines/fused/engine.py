"""The fused engine: which runs it takes, and how members go from record to record in lockstep."""

import time
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headstart.core.errors import HeadstartError
from headstart.core.trace import Status
from headstart.core.units import FullBatch, flops_per_sample
from headstart.engines.engine import Interrupted, Job, Outcome, Watch
from headstart.engines.fused.layout import Layout, group_key, is_population, padded, uses_tables
from headstart.engines.fused.member import Member
from headstart.engines.lower import has_diverged, lower, samples_processed
from headstart.losses import MSE, Correlation, Hinge, Logistic
from headstart.models import MLP
from headstart.optimizers import SGD, AdamW
from headstart.plans import Place
from headstart.run import Run, Step
from headstart.tasks import Hermite, Parity, SingleIndex

_LARGEST_DEPTH = 8
# Members go in lockstep in chunks of at most this many, and at most this many bytes.
_MEMBERS, _BYTES = 64, 2.0**27


@dataclass(frozen=True)
class Fused:
    """Kernels that hold a member's weights in cache from record to record. Serial; threads are the caller's.

    Outcomes come in the order of the jobs, or, with `in_order=False`, as soon as each is there.
    """

    checkpoint_seconds: float = 10.0
    in_order: bool = True
    name: str = "fused"

    @property
    def in_threads(self) -> bool:
        """Kernels release the GIL."""
        return True

    def group_key(self, run: Run) -> Hashable:
        """Runs with equal keys share kernel calls."""
        return group_key(run)

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """MLPs on parity and single-index tasks, with the plans, losses and optimizers of this version."""
        if device != "cpu":
            return f"its kernels run on the cpu, not on {device}"
        if type(run.model) is not MLP:
            return f"its kernels are for MLPs, not {type(run.model).__name__}"
        if run.model.depth > _LARGEST_DEPTH:
            return f"its kernels go to depth {_LARGEST_DEPTH}"
        if type(run.task) not in (Parity, SingleIndex):
            return f"its kernels draw parity and single-index samples, not {type(run.task).__name__}"
        if isinstance(run.task, SingleIndex) and type(run.task.link) is not Hermite:
            return f"its kernels know Hermite links, not {type(run.task.link).__name__}"
        if type(run.loss) not in (MSE, Hinge, Logistic, Correlation):
            return f"its kernels lack the loss {run.loss.name}"
        if type(run.optimizer) not in (SGD, AdamW):
            return f"its kernels lack the optimizer {type(run.optimizer).__name__}"
        legs = lower(run).course.legs
        special = any(leg.target is not None or leg.favoured is not None for leg in legs)
        if special or lower(run).course.aside is not None:
            return f"its kernels lack the batches of {type(run.plan).__name__}"
        exact = any(is_population(run, leg.pool.size) for leg in legs)
        if exact and not uses_tables(run):
            return "it splits the exact population for two-layer networks only"
        return None

    def least_members(self, run: Run) -> int:
        """One: members do not gain from each other."""
        return 1

    def seconds(self, run: Run) -> float:
        """From nanoseconds a sample and neuron, measured on one core; evaluation counts forward passes only."""
        assert isinstance(run.model, MLP)
        width, lowered = padded(run.model.width, 16), lower(run)
        course = lowered.course
        samples = samples_processed(run)
        records = len(run.budget.recorded_steps())
        evaluated = records * (run.task.num_test + samples / max(run.budget.steps, 1))
        if any(is_population(run, leg.pool.size) for leg in course.legs):
            each = 1e-10 * width
        elif uses_tables(run):
            each = 6e-10 * width * max(1.0, run.task.dim / 20)
        else:
            each = 1e-11 * flops_per_sample(run.model.parameters(run.task.dim)) + 5e-9 * run.task.dim
        # Fresh samples that methods change are drawn in NumPy.
        drawn = any(leg.pool.size is None and by for leg, by in zip(course.legs, lowered.altering, strict=True))
        each_drawn = 8e-8 * run.task.dim if drawn else 0.0
        return 1e-3 + 2e-6 * run.budget.steps + 2e-5 * records + each * (samples + evaluated / 3) + each_drawn * samples

    def memory(self, run: Run) -> float:
        """The member's weights with optimizer state, its test set, its finite set if that is taken whole."""
        layout, lowered = Layout(run.model.parameters(run.task.dim), uses_tables(run)), lower(run)
        course = lowered.course
        sample = 8.0 if uses_tables(run) else 4.0 * (padded(run.task.dim, 4) + 1)
        kept = [leg.pool.size or 0 for leg, altering in zip(course.legs, lowered.altering, strict=True) if altering]
        whole = (
            max((leg.pool.size or 0) for leg in course.legs)
            if isinstance(run.batch, FullBatch)
            else max(kept, default=0)
        )
        return 4.0 * 3 * layout.size + sample * (run.task.num_test + whole) + 1000.0

    def train(self, jobs: Sequence[Job], device: str = "cpu", watch: Watch | None = None) -> Iterator[Outcome]:
        """Train the jobs, those that share a `group_key` together."""
        if device != "cpu":
            from headstart.engines.loop import check_device

            check_device(device)
            raise HeadstartError(f"--device {device}: the fused engine trains on the cpu")
        waiting: dict[int, Outcome] = {}
        following = 0
        for members in self._chunks(jobs):
            chunk = _Chunk(members, self.checkpoint_seconds)
            try:
                for index, outcome in chunk.train(watch):
                    if not self.in_order:
                        yield outcome
                        continue
                    waiting[index] = outcome
                    while following in waiting:
                        yield waiting.pop(following)
                        following += 1
            except Interrupted:
                yield from (waiting[index] for index in sorted(waiting))
                raise

    def _chunks(self, jobs: Sequence[Job]) -> Iterator[list[Member]]:
        """Members that share a key and a step, in chunks that fit in memory."""
        groups: dict[Hashable, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(group_key(job.run), []).append(index)
        for indices in groups.values():
            size = int(max(1, min(_MEMBERS, _BYTES // self.memory(jobs[indices[0]].run))))
            for first in range(0, len(indices), size):
                members = [_member(index, jobs[index]) for index in indices[first : first + size]]
                for step in sorted({member.step for member in members}):
                    yield [member for member in members if member.step == step]


def _member(index: int, job: Job) -> Member:
    """The member at its start or, where there is a checkpoint, as it was."""
    run = job.run
    parameters = run.model.parameters(run.task.dim)
    metric = run.task.metrics[0].name
    roles = dict.fromkeys(f"norm_{p.role}" for p in parameters)
    names = (f"test_{metric}", "test_loss", f"train_{metric}", "train_loss", *roles)
    member = Member(index, job, Layout(parameters, uses_tables(run)), flops_per_sample(parameters), names)
    member.load()
    return member


class _Chunk:
    """Members with one key at one step, and their arrays."""

    def __init__(self, members: list[Member], checkpoint_seconds: float) -> None:
        from headstart.engines.fused import trainer

        self.members, self.checkpoint_seconds = members, checkpoint_seconds
        self.run = members[0].job.run
        self.course = lower(self.run).course
        self.layout = members[0].layout
        self.roles = [f"norm_{p.role}" for p in self.layout.parameters]
        self.trainer = trainer.Trainer(self.run, self.layout, members)
        self.active = np.arange(len(members), dtype=np.int64)

    def train(self, watch: Watch | None) -> Iterator[tuple[int, Outcome]]:
        """Advance from record to record; yield members as they end."""
        saved = mark = time.monotonic()
        recorded = set(self.run.budget.recorded_steps())
        first = self.members[0]
        step, end = first.step, self.run.budget.steps
        place = Place(0, first.leg, first.began)
        kept = {at.step for m in self.members for at in m.job.keep if isinstance(at, Step)}
        stops = sorted(recorded | kept | {end})
        while True:
            place = self.course.observe(place, step)
            self.trainer.enter(place, self.active)
            stop = False
            if step in recorded and step not in first.steps[-1:]:
                yield from self._record(place, step)
                now = time.monotonic()
                for m in self.active:
                    self.members[m].seconds += (now - mark) / len(self.active)
                    stop = bool(watch and watch(self.members[m].index, step)) or stop
                mark = now
                if (stop or now - saved > self.checkpoint_seconds) and step < end:
                    self._save(place)
                    saved = time.monotonic()
                    if stop:
                        raise Interrupted
            else:
                self._keep()
            if step == end or not len(self.active):
                break
            left = self.course.steps_left(place, step)
            until = min(stops[bisect_right(stops, step)], end if left is None else step + left)
            self.trainer.advance(place, self.active, step, until)
            for m in self.active:
                self.members[m].samples += (until - step) * self.trainer.num_samples
                self.members[m].step = until
            step = until
        for m in self.active:
            yield self.members[m].index, self.members[m].outcome(Status.FINISHED)

    def _record(self, place: Place, step: int) -> Iterator[tuple[int, Outcome]]:
        """Evaluate every member; those that are no longer finite end here."""
        scores = self.trainer.evaluate(place, self.active, step)
        squares = self.trainer.squares(self.active)
        going = []
        for m in self.active:
            member, norms = self.members[m], dict.fromkeys(self.roles, 0.0)
            for role, square in zip(self.roles, squares[m].tolist(), strict=True):
                norms[role] += square
            values = [*scores[m].tolist(), *(square**0.5 for square in norms.values())]
            first = dict(zip(member.names, member.rows[0], strict=True)) if member.rows else None
            if not has_diverged(dict(zip(member.names, values, strict=True)), first):
                member.record(values)
                going.append(m)
            else:
                yield member.index, member.outcome(Status.DIVERGED)
        self.active = np.array(going, dtype=np.int64)
        self._keep()

    def _keep(self) -> None:
        for m in self.active:
            if self.members[m].job.keep:
                self.members[m].keep(self.trainer.weights[m])

    def _save(self, place: Place) -> None:
        for m in self.active:
            member = self.members[m]
            member.leg, member.began = place.leg, place.began
            member.save(self.trainer.weights[m], self.trainer.first[m], self.trainer.second[m])
