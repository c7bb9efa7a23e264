"""The fused engine: which runs it takes, and how members go from record to record in lockstep."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.state import Arrays, State
from headstart.core.units import FullBatch
from headstart.engines.engine import Job, Outcome, Watch
from headstart.engines.fused.layout import Layout, group_key, is_population, padded, sphere_of, uses_tables
from headstart.engines.fused.targets import target_of
from headstart.engines.lockstep import in_order, together, train_together
from headstart.engines.lower import lacking_hooks, lower, samples_processed
from headstart.engines.member import Member
from headstart.losses import MSE, Correlation, Hinge, Logistic
from headstart.methods import Hook
from headstart.models import MLP
from headstart.optimizers import SGD, AdamW, Decay
from headstart.plans import Place
from headstart.run import Run
from headstart.tasks import MultiIndex, Parity, SingleIndex

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

    @property
    def hooks(self) -> frozenset[Hook]:
        """What the kernels re-code of any run; those of OnSphere() are there too, where it is the input layer's."""
        return frozenset({Hook.SAMPLES, Hook.SCHEDULE})

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """MLPs on parity, single-index and multi-index tasks, with the plans, losses and optimizers of this version."""
        lowered = lower(run)
        sphere = sphere_of(lowered)
        hooks = self.hooks if sphere is None else self.hooks | sphere.hooks
        if (without := lacking_hooks(lowered, hooks)) is not None:
            return without
        if device != "cpu":
            return f"its kernels run on the cpu, not on {device}"
        if type(run.model) is not MLP:
            return f"its kernels are for MLPs, not {type(run.model).__name__}"
        if run.model.embedding is not None:
            return "its kernels lack embeddings"
        if run.model.depth > _LARGEST_DEPTH:
            return f"its kernels go to depth {_LARGEST_DEPTH}"
        if type(run.task) not in (Parity, SingleIndex, MultiIndex):
            return f"its kernels draw parity, single-index and multi-index samples, not {type(run.task).__name__}"
        if isinstance(run.task, SingleIndex | MultiIndex) and target_of(run.task) is None:
            return f"its kernels do not know the link {run.task.link}"
        if type(run.loss) not in (MSE, Hinge, Logistic, Correlation):
            return f"its kernels lack the loss {run.loss.name}"
        optimizer = run.optimizer
        plain = isinstance(optimizer, SGD) and optimizer.plain
        if not plain and not (isinstance(optimizer, AdamW) and optimizer.decay is Decay.DECOUPLED):
            return (
                f"its kernels know SGD and AdamW without momentum or coupled decay, not this {type(optimizer).__name__}"
            )
        exact = any(is_population(run, leg.pool.size) for leg in lowered.course.legs)
        if exact and not uses_tables(run):
            return "it splits the exact population for two-layer networks on no sphere"
        return None

    def least_members(self, run: Run) -> int:
        """One: members do not gain from each other."""
        return 1

    def seconds(self, run: Run) -> float:
        """From nanoseconds per sample and neuron, measured on one core; evaluation counts forward passes only."""
        assert isinstance(run.model, MLP)
        width, lowered = padded(run.model.width, 16), lower(run)
        course, dim = lowered.course, run.task.signature.num_inputs
        samples = samples_processed(run)
        records = len(run.budget.recorded_steps())
        evaluated = records * (run.task.num_test + samples / max(run.budget.steps, 1))
        if any(is_population(run, leg.pool.size) for leg in course.legs):
            each = 1e-10 * width
        elif uses_tables(run):
            each = 6e-10 * width * max(1.0, dim / 20)
        else:
            each = 1e-11 * lowered.flops + 5e-9 * dim
        # Fresh samples that methods change are drawn in NumPy.
        drawn = any(leg.pool.size is None and by for leg, by in zip(course.legs, lowered.altering, strict=True))
        each_drawn = 8e-8 * dim if drawn else 0.0
        return 1e-3 + 2e-6 * run.budget.steps + 2e-5 * records + each * (samples + evaluated / 3) + each_drawn * samples

    def memory(self, run: Run) -> float:
        """The member's weights with optimizer state, its test set, its finite set if that is taken whole."""
        layout, lowered = Layout(run.parameters, uses_tables(run)), lower(run)
        course = lowered.course
        sample = 8.0 if uses_tables(run) else 4.0 * (padded(run.task.signature.num_inputs, 4) + 1)
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
        ended = self._ended(jobs, watch)
        return in_order(ended) if self.in_order else (outcome for _, outcome in ended)

    def _ended(self, jobs: Sequence[Job], watch: Watch | None) -> Iterator[tuple[int, Outcome]]:
        """Members that share a key and stand at one step, in chunks that fit in memory."""
        groups: dict[Hashable, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(group_key(job.run), []).append(index)
        for indices in groups.values():
            size = int(max(1, min(_MEMBERS, _BYTES // self.memory(jobs[indices[0]].run))))
            for first in range(0, len(indices), size):
                chunk = [Member.of(index, jobs[index], self.name) for index in indices[first : first + size]]
                for members in together(chunk):
                    yield from train_together(members, _Chunk(members), watch, self.checkpoint_seconds)


class _Chunk:
    """Members with one key at one place, and their arrays."""

    def __init__(self, members: list[Member]) -> None:
        from headstart.engines.fused import trainer

        first = members[0]
        self.run, self.course, self.at, self.step = first.run, first.lowered.course, first.place, first.step
        self.layout = Layout(first.lowered.parameters, uses_tables(self.run))
        self.names = first.lowered.names
        roles = [p.role for p in self.layout.parameters]
        self.with_role = [[i for i, role in enumerate(roles) if role is each] for each in dict.fromkeys(roles)]
        states = [member.take() for member in members]
        self.adam = isinstance(self.run.optimizer, AdamW)
        self.ages = np.array([state.ages(self.names) for state in states], dtype=np.int64)
        self.trainer = trainer.Trainer(self.layout, [member.lowered for member in members], states)
        self.trainer.enter(self.at, np.arange(len(members), dtype=np.int64))

    def advance(self, active: Sequence[int], step: int, until: int) -> int:
        """Kernels go to the end of a leg or to `until`, whichever comes first."""
        rows, samples = np.array(active, dtype=np.int64), 0
        self.ages[rows] += until - step
        while step < until:
            left = self.course.steps_left(self.at, step)
            stop = until if left is None else min(until, step + left)
            self.trainer.advance(self.at, rows, step, stop)
            samples += (stop - step) * self.trainer.num_samples
            step = stop
            self.at = self.course.observe(self.at, step)
            self.trainer.enter(self.at, rows)
        self.step = until
        return samples

    def evaluate(self, active: Sequence[int]) -> NDArray[np.float64]:
        """Metric and loss on the test set and the next batch, and norms by role."""
        rows = np.array(active, dtype=np.int64)
        scores = self.trainer.evaluate(self.at, rows, self.step)[rows]
        squares = self.trainer.squares(rows)[rows]
        norms = [np.sqrt(sum(squares[:, i] for i in same)) for same in self.with_role]
        return np.column_stack([scores, *norms])

    def place(self, member: int) -> Place:
        """The place of all."""
        return self.at

    def retain(self, active: Sequence[int]) -> None:
        """Members that ended are not passed to the kernels any more."""

    def state(self, member: int) -> State:
        """A member's arrays, unpacked."""
        moments: Arrays = {}
        if self.adam:
            for kind, flat in (("exp_avg", self.trainer.first), ("exp_avg_sq", self.trainer.second)):
                moments |= {f"{kind}/{name}": array for name, array in self.layout.unpack(flat[member]).items()}
        ages = {f"age/{name}": np.asarray(self.ages[member, i]) for i, name in enumerate(self.names)}
        return State(self.layout.unpack(self.trainer.weights[member]), moments=moments, counters=ages)

    def saved(self, member: int) -> State:
        """All of its state."""
        return self.state(member)
