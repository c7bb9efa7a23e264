"""The span engine: which runs it takes, and what they cost."""

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from headstart.core.errors import HeadstartError
from headstart.engines.engine import Job, Outcome, Watch
from headstart.engines.lockstep import in_order, train_together
from headstart.engines.loop import check_device, each_within, one_thread
from headstart.engines.lower import lacking_hooks, lower, samples_processed
from headstart.engines.member import Member
from headstart.engines.span.first import BLOCK, begin, first_layer
from headstart.engines.span.rows import SpanRows, num_rows
from headstart.engines.span.training import Training
from headstart.methods import Hook
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.run import Precision, Run

# Seconds per floating-point operation of a large product, per number drawn of a row and of an initial weight, per step.
_OPERATION, _ROW, _WEIGHT, _STEP = 1.2e-11, 5e-9, 1e-8, 2e-4


@dataclass(frozen=True)
class Span:
    """MLPs on n rows of many more real numbers, under SGD: exact, and free of the number of inputs in every step.

    The gradient of the first layer is a combination of the rows, so that with decay and momentum it stays

        W_t = c_t W_0 + A_t X,   X [n, inputs] the rows of all pools

    A step needs the Gram matrix X X^T [n, n] and X W_0^T, records the same products of the test rows; W_0 itself is
    drawn some neurons at a time and not held. Layers above are any number. `least_inputs` and `least_ratio`, of inputs
    to rows, say from where on this is a gain.

    A checkpoint holds c and A and not W, which would be inputs / n times as large; whoever goes on from it computes the
    products again. Only a kept State has the whole first layer. Results do not depend on which runs share a call.
    """

    checkpoint_seconds: float = 10.0
    least_inputs: int = 1024
    least_ratio: float = 4.0
    name: str = "span"
    in_threads: bool = False

    @property
    def hooks(self) -> frozenset[Hook]:
        """All that leaves the first layer in the span of its start and the rows."""
        return frozenset({Hook.SAMPLES, Hook.LOSS, Hook.SCHEDULE, Hook.FLOAT64, Hook.ADAPTIVE, Hook.FAVOURED})

    def supports(self, run: Run, device: str = "cpu") -> str | None:
        """MLPs on real inputs, trained by SGD on few rows."""
        if (without := lacking_hooks(lower(run), self.hooks)) is not None:
            return without
        if device != "cpu":
            return f"it trains on the cpu, not on {device}"
        if type(run.model) is not MLP:
            return f"it splits the first layer off MLPs, not off {type(run.model).__name__}"
        if run.task.signature.symbols is not None:
            return "its first layer acts on rows of real numbers, not on symbols"
        if type(run.optimizer) is not SGD:
            return f"steps of {type(run.optimizer).__name__} leave the span of the rows; it takes SGD"
        try:
            hash((run.task, run.methods))
        except TypeError as error:
            return f"it shares rows between runs by parts that can be hashed: {error}"
        inputs, rows = run.task.signature.num_inputs, num_rows(run)
        if rows is None:
            return "its rows are those of a finite set, and this run draws fresh samples without end"
        if inputs < self.least_inputs or rows * self.least_ratio > inputs:
            return f"{rows} rows of {inputs} numbers are no gain: it takes rows of {self._enough(rows)} numbers or more"
        return None

    def _enough(self, rows: int) -> int:
        return max(self.least_inputs, int(rows * self.least_ratio))

    def group_key(self, run: Run) -> Hashable:
        """Runs on the same rows share them: same task and seed, plan and precision; all else may differ."""
        lowered = lower(run)
        pools = tuple(leg.pool for leg in lowered.course.legs)
        return run.task, run.seed, lowered.altering, pools, run.precision

    def least_members(self, run: Run) -> int:
        """One: runs share their rows, and nothing of a step."""
        return 1

    def seconds(self, run: Run) -> float:
        """From the products of rows with rows and with W_0, once, and what a step takes of rows and layers above."""
        lowered, rows = lower(run), num_rows(run) or 0
        inputs, neurons = self._first_shape(run)
        every, test, records = rows + run.task.num_test, run.task.num_test, len(run.budget.recorded_steps())
        once = _ROW * every * inputs + _WEIGHT * neurons * inputs
        once += _OPERATION * 2 * every * inputs * (rows + neurons)
        others = lowered.flops - 6 * inputs * neurons
        each = 2 * rows * neurons + others + 8 * neurons
        samples = samples_processed(run)
        evaluated = records * (test + samples / run.budget.steps)
        return 1e-3 + once + _STEP * (run.budget.steps + records) + _OPERATION * each * (samples + evaluated)

    def memory(self, run: Run) -> float:
        """The rows, all products, coefficients with their velocity, the layers above, and a block of W_0.

        A kept State adds the whole first layer, twice while it is made.
        """
        rows, test = num_rows(run) or 0, run.task.num_test
        inputs, neurons = self._first_shape(run)
        number = 8.0 if run.precision is Precision.FLOAT64 else 4.0
        above = sum(prod(p.shape) for p in run.parameters[1:])
        # Rows are drawn in float32, and the training rows are made float64 for a product.
        held = 4.0 * (rows + test) * inputs + (number == 8) * number * rows * inputs
        block = min(neurons * inputs, BLOCK + inputs)
        return held + number * ((rows + test) * (rows + 2 * neurons) + 4 * rows * neurons + 4 * above + 2 * block)

    def _first_shape(self, run: Run) -> tuple[int, int]:
        """The numbers of inputs and of neurons of the first layer."""
        inputs = run.task.signature.num_inputs
        return inputs, prod(first_layer(run).shape) // inputs

    def train(self, jobs: Sequence[Job], device: str = "cpu", watch: Watch | None = None) -> Iterator[Outcome]:
        """Train the jobs one after another, those on the same rows in a row."""
        check_device(device)
        if device != "cpu":
            raise HeadstartError(f"--device {device}: the span engine trains on the cpu")
        return in_order(self._ended(jobs, watch))

    def _ended(self, jobs: Sequence[Job], watch: Watch | None) -> Iterator[tuple[int, Outcome]]:
        groups: dict[Hashable, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault(self.group_key(job.run), []).append(index)
        for indices in groups.values():
            began = time.monotonic()
            with one_thread():
                rows = SpanRows(lower(jobs[indices[0]].run))
            shared = (time.monotonic() - began) / len(indices)
            for index in indices:
                began = time.monotonic()
                apart = (first_layer(jobs[index].run).name,)
                member = Member.of(index, jobs[index], self.name, apart, begin)
                with one_thread():
                    training = Training(member, rows)
                # What other engines do in their steps is done here once, and is most of what a run takes.
                member.seconds += shared + time.monotonic() - began
                ended = train_together([member], training, watch, self.checkpoint_seconds)
                yield from each_within(one_thread, ended)
