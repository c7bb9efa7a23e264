"""The ensemble engine: which runs it takes, how many go together, and in what order their outcomes come."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from headstart.core.units import FullBatch
from headstart.engines.engine import Job, Outcome, Watch
from headstart.engines.ensemble.cohort import Cohort, Limits
from headstart.engines.ensemble.network import bytes_per_sample, is_weighted, lacking
from headstart.engines.lockstep import in_order, together, train_together
from headstart.engines.loop import check_device, each_within, one_thread
from headstart.engines.lower import lacking_hooks, lower, samples_processed
from headstart.engines.member import Member
from headstart.methods import Hook
from headstart.optimizers import SGD, AdamW
from headstart.run import Run

# What the backward passes of a stack hold at once should stay in a core's cache.
_CACHE_BYTES = 4 * 2**20
# Fresh samples are drawn ahead for as many steps as fit.
_BLOCK_BYTES = 64 * 2**20
# A member's pass over a large batch is split, so that members and samples share the cache; a pass of a model too
# large for it is still this long, if memory allows.
_LONGEST_PASS, _SHORTEST_PASS = 2**10, 2**6
# A pass also reads the weights, applies them to tables and adds up their gradients: it should hold this many times as
# many bytes of activations as there are of weights, or take the longest.
_WEIGHTS_IN_A_PASS = 4
# What models do once per symbol of an input of two, they do in every pass: it should take so many samples per symbol.
_SAMPLES_PER_SYMBOL = 32
_MOST_MEMBERS = 512
# Members that each fill the cache still share the dispatch of their operations: worth a factor of two at eight, and a
# twentieth more at sixteen, of which some are left when the others have settled.
_LEAST_MEMBERS = 16
# Seconds, fitted to Transformers of width 32 and 64 with 2 and 16 layers (`python -m benchmarks.growing` and
# `.transformers`), and a fifth more, since both cores are busy.
_PER_FLOP, _PER_BYTE = 1.25e-11, 7e-10
_TOO_LARGE = "its memory takes one such member at a time, which it would train beside a copy, at twice the cost"


@dataclass(frozen=True)
class Ensemble:
    """Any torch model that torch.func can stack, its members in lockstep, in `memory_budget` bytes on one thread.

    A group of up to 32 members writes its checkpoints every `checkpoint_seconds`, a larger one as much more seldom.
    Outcomes come in the order of the jobs. On the CPU results do not depend on which runs share a call, bit for bit,
    if the activations of a batch fill whole vectors of the processor (a multiple of 32 numbers per layer); else
    activations such as sigmoid may differ in the last bit.
    """

    checkpoint_seconds: float = 10.0
    memory_budget: float = 2.0 * 2**30
    name: str = "ensemble"
    in_threads: bool = False

    @property
    def hooks(self) -> frozenset[Hook]:
        """All: hooks on tensors broadcast over members."""
        return frozenset(Hook)

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """Every model, task and loss that torch.func can stack, with SGD or AdamW, and of which two fit into memory."""
        lowered = lower(run)
        if (without := lacking_hooks(lowered, self.hooks)) is not None:
            return without
        if device not in ("cpu", "cuda"):
            return f"it trains on cpu and cuda, not {device}"
        if type(run.optimizer) not in (SGD, AdamW):
            return f"it lacks the stacked update of {type(run.optimizer).__name__}"
        if lowered.course.adaptive and isinstance(run.batch, FullBatch):
            return "it stacks full batches of one size, and members of a plan that adapts differ in theirs"
        if lowered.course.adaptive and len(set(lowered.losses)) > 1:
            return "it stacks steps on one loss, and members of a plan that adapts may be in different phases"
        try:
            hash((run.model, run.task, run.loss, run.methods))
        except TypeError as error:
            return f"it groups runs by parts that can be hashed: {error}"
        mini_batches = lowered.course.batch is not None
        if mini_batches and 2 * _weight_bytes(run) > self._member_bytes:  # no need to try the model on samples
            return _TOO_LARGE
        if (without := lacking(run)) is not None:
            return without
        return _TOO_LARGE if mini_batches and self.stack_size(run) == 1 else None

    def group_key(self, run: Run) -> Hashable:
        """Seeds, rates, scales, starts and the details of the task may differ; shapes and courses may not."""
        lowered = lower(run)
        task = (type(run.task), run.task.signature, run.task.population_size, run.task.num_test, is_weighted(run))
        return run.model, task, run.loss, type(run.optimizer), lowered.course, run.budget, lowered.shared

    def least_members(self, run: Run) -> int:
        """A full stack: `seconds` is of a run that shares one."""
        return self.stack_size(run)

    def seconds(self, run: Run) -> float:
        """From FLOPs, bytes that a backward pass holds and a share of a stack's step; evaluation counts as a third."""
        evaluated = len(run.budget.recorded_steps()) * run.task.num_test / 3
        each = _PER_FLOP * lower(run).flops + _PER_BYTE * bytes_per_sample(run)[1]
        return run.budget.steps * 5e-6 + (samples_processed(run) + evaluated) * each

    def memory(self, run: Run) -> float:
        """Weights with gradients and optimizer state, the test set, the largest pool, and one pass over a batch."""
        sample, held = bytes_per_sample(run)
        course, batch = lower(run).course, _largest_batch(run)
        pools = [leg.pool.size or 0 for leg in course.legs]
        pooled = batch if course.batch is None else sum(pools) if course.adaptive else max(pools)
        rows, passed = run.task.num_test + pooled, min(batch, max(_LONGEST_PASS, _for_symbols(run)))
        curves = 128 * len(run.budget.recorded_steps())
        return _weight_bytes(run) + sample * (rows + 2 * batch) + 3 * held * passed + curves

    def train(self, jobs: Sequence[Job], device: str = "cpu", watch: Watch | None = None) -> Iterator[Outcome]:
        """Train the jobs, those of one group together."""
        check_device(device)
        return in_order(self._ended(jobs, device, watch))

    def _ended(self, jobs: Sequence[Job], device: str, watch: Watch | None) -> Iterator[tuple[int, Outcome]]:
        groups: dict[Hashable, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(self.group_key(job.run), []).append(index)
        for indices in groups.values():
            for members in self._chunks([Member.of(index, jobs[index], self.name) for index in indices]):
                with one_thread():
                    cohort = self._cohort(members, device)
                ended = train_together(members, cohort, watch, self.checkpoint_seconds)
                yield from each_within(one_thread, ended)

    def _chunks(self, members: Sequence[Member]) -> Iterator[list[Member]]:
        """Members that may go in lockstep, as many as memory and cache take."""
        most = self.stack_size(members[0].run)
        for cohort in together(members):
            size = -(-len(cohort) // -(-len(cohort) // most))
            for first in range(0, len(cohort), size):
                yield cohort[first : first + size]

    def stack_size(self, run: Run) -> int:
        """How many members like this run go together at most: fewer in a call are slower each, more go in turn."""
        _, held = bytes_per_sample(run)
        in_memory = self._member_bytes // self.memory(run)
        in_cache = self._cache_bytes // (held * min(_largest_batch(run), _LONGEST_PASS))
        return int(max(1, min(in_memory, max(in_cache, _LEAST_MEMBERS), _MOST_MEMBERS)))

    @property
    def _member_bytes(self) -> float:
        """What all members of a stack may take."""
        return self.memory_budget * 2 / 3

    @property
    def _cache_bytes(self) -> float:
        # The backward pass holds as much again in gradients, and a forward pass some copies.
        return min(_CACHE_BYTES, self.memory_budget / 16)

    def _cohort(self, members: Sequence[Member], device: str) -> Cohort:
        run = members[0].run
        _, each = bytes_per_sample(run)
        # As if the stack were full: how the samples of a pass are cut must not depend on how many share it.
        held = each * self.stack_size(run)
        weights = sum(4 * prod(p.shape) for p in run.parameters)
        shortest = min(_LONGEST_PASS, max(_SHORTEST_PASS, _WEIGHTS_IN_A_PASS * weights // each))
        rows = max(1, self._cache_bytes // held, min(max(shortest, _for_symbols(run)), self.memory_budget / 8 // held))
        limits = Limits(int(rows), min(_BLOCK_BYTES, self.memory_budget / 16))
        return Cohort(members, device, limits)


def _weight_bytes(run: Run) -> float:
    """A member's weights with gradients, optimizer state and what is made of them on the way."""
    return 8.0 * sum(4 * prod(p.shape) for p in run.parameters)


def _for_symbols(run: Run) -> int:
    """How long a pass should be for what is done once per symbol; 0 where nothing is."""
    signature = run.task.signature
    return _SAMPLES_PER_SYMBOL * (signature.symbols or 0) if signature.num_inputs <= 2 else 0


def _largest_batch(run: Run) -> int:
    """The most samples a step of the run takes."""
    course = lower(run).course
    return course.batch or max(leg.pool.size or run.task.population_size or 0 for leg in course.legs)
