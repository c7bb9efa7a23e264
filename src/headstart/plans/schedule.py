"""Schedules for your own data set: the lab's plans with sizes as fractions of its rows and a total of steps."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.units import Batch
from headstart.plans.course import Course
from headstart.plans.phases import Phase, Phases
from headstart.plans.two_set import TwoSet


@dataclass(frozen=True)
class Route:
    """A schedule resolved for a data set: the course, how many optimizer steps, and each leg's samples a step."""

    course: Course
    steps: int
    batches: tuple[int, ...]


@dataclass(frozen=True)
class PhaseSchedule:
    """Which rows of a data set each optimizer step sees: phases on subsets, one after another.

        PhaseSchedule([Phase(fraction=0.01, epochs=20), Phase(size=5000, steps=400)], everything=1000)

    A phase has a `size` or a `fraction` of the data set, and `steps` or `epochs`; an open last phase goes on to the
    total of `steps`. `everything` adds a last phase of so many steps on the whole data set. Subsets are nested:
    prefixes of one permutation of the rows; with `nested=False` they share no row. Epochs are permutations, and a
    batch may hold the end of one and the beginning of the next; with `replacement=True` rows are drawn uniformly.

    `batch_sizes` gives each phase a batch size of its own. With a `target`, a phase also ends after the first epoch
    in which the mean of the reported metrics reached it (`sampler.report`), and its length is the latest end; the last
    phase stays. With a `probability`, the schedule is two-set training: see `two_set`.
    Reference: Less Data, Faster Training, Section 3 and Fig. 19.
    """

    phases: tuple[Phase, ...] | Sequence[Phase]
    steps: int | None = None
    everything: InitVar[int] = 0
    nested: bool = True
    replacement: bool = False
    batch_sizes: tuple[int, ...] | Sequence[int] | None = None
    target: float | None = None
    probability: float | None = None

    def __post_init__(self, everything: int) -> None:
        given = self.phases if isinstance(self.phases, Sequence) else ()
        if not all(isinstance(phase, Phase) for phase in given) or not (given or everything):
            raise HeadstartError(f"PhaseSchedule(phases={self.phases!r}): give a sequence of at least one Phase")
        check_count("PhaseSchedule", "everything", everything, minimum=0)
        phases = (*given, *([Phase(steps=everything)] if everything else []))
        object.__setattr__(self, "phases", phases)
        if self.steps is not None:
            check_count("PhaseSchedule", "steps", self.steps)
        for number, phase in enumerate(phases, start=1):
            if phase.steps is None and phase.epochs is None and (number < len(phases) or self.steps is None):
                raise HeadstartError(
                    f"PhaseSchedule: {phase}, number {number}, has no length; give it steps or epochs, or, if it is "
                    "the last, give PhaseSchedule(steps=...) the total"
                )
        if self.batch_sizes is not None:
            sizes = tuple(self.batch_sizes)
            if len(sizes) != len(phases):
                raise HeadstartError(
                    f"PhaseSchedule(batch_sizes={sizes!r}): give one for each of the {len(phases)} phases"
                )
            for size in sizes:
                check_count("PhaseSchedule", "batch_sizes", size)
            object.__setattr__(self, "batch_sizes", sizes)
        if self.target is not None:
            check_positive("PhaseSchedule", "target", self.target)
        if self.probability is not None and len(phases) != 1:
            raise HeadstartError(f"PhaseSchedule(probability={self.probability!r}): two sets have one phase")

    @classmethod
    def geometric(
        cls,
        first: float = 1 / 320,
        last: float = 1 / 50,
        phases: int = 6,
        *,
        steps: int,
        everything: int = 0,
        nested: bool = True,
        replacement: bool = False,
    ) -> "PhaseSchedule":
        """`phases` subsets from the fraction `first` of the data set to `last`, of equal lengths.

            fraction_i = first (last / first)^(i / (phases - 1)),  i = 0 .. phases - 1

        `steps` is the total of optimizer steps, of which `everything` at the end are on the whole data set.
        """
        check_count("PhaseSchedule.geometric", "steps", steps)
        check_count("PhaseSchedule.geometric", "everything", everything, minimum=0)
        fractions = _fractions("PhaseSchedule.geometric", first, last, phases)
        left = steps - everything
        if left < phases:
            raise HeadstartError(
                f"PhaseSchedule.geometric(steps={steps}, everything={everything}): {left} steps are left for "
                f"{phases} phases; give each at least one"
            )
        ends = [round(left * (i + 1) / phases) for i in range(phases)]
        parts = [Phase(fraction=f, steps=e - b) for f, b, e in zip(fractions, [0, *ends], ends, strict=False)]
        return cls(parts, steps=steps, everything=everything, nested=nested, replacement=replacement)

    @classmethod
    def auto(
        cls,
        first: float = 1 / 320,
        last: float = 1 / 50,
        phases: int = 6,
        *,
        steps: int,
        target: float = 0.75,
        max_epochs: float = 50,
        everything: bool = False,
        nested: bool = True,
        replacement: bool = False,
    ) -> "PhaseSchedule":
        """The same subsets, each left once it is learned: no lengths to choose.

        A phase ends after the first epoch in which the mean of the metrics given to `sampler.report` reached `target`
        (training accuracy, say; higher is better), or after `max_epochs`. The last one, on the whole data set if
        `everything`, goes on to the total of `steps`. Reference: Less Data, Faster Training, Fig. 19.
        """
        fractions = _fractions("PhaseSchedule.auto", first, last, phases)
        parts = [Phase(fraction=f, epochs=max_epochs) for f in fractions]
        if everything:
            parts.append(Phase())
        else:
            parts[-1] = Phase(fraction=fractions[-1])
        return cls(parts, steps=steps, nested=nested, replacement=replacement, target=target)

    @classmethod
    def two_set(
        cls, *, steps: int, probability: float, size: int | None = None, fraction: float | None = None
    ) -> "PhaseSchedule":
        """Two-set training: every example comes from one small subset with this probability, else from the rest.

        Both are drawn uniformly with replacement. Reference: Charton and Kempe, Emergent properties with repeated
        examples, 2024.
        """
        if size is None and fraction is None:
            raise HeadstartError("PhaseSchedule.two_set(size=None, fraction=None): give one of the two")
        return cls([Phase(size=size, fraction=fraction)], steps=steps, replacement=True, probability=probability)

    def route(self, rows: int, batch_size: int, shares: int = 1) -> Route:
        """The schedule for a data set of `rows` rows, `batch_size` rows a batch and `shares` batches a step.

        A step takes `shares` batches: one for each replica and each accumulated micro-batch.
        """
        sizes = (batch_size,) * len(self.phases) if self.batch_sizes is None else self.batch_sizes
        batches = tuple(size * shares for size in sizes)
        wholes = [Batch(batch) for batch in batches]
        for number, (phase, whole, size) in enumerate(zip(self.phases, wholes, sizes, strict=True), start=1):
            pool = phase.pool_size(whole, self.steps, rows)
            assert pool is not None, "a data set is finite"
            if pool < whole.size and not self.replacement:
                parts = f"{size} x {shares}" if shares > 1 else f"{size}"
                raise HeadstartError(
                    f"PhaseSchedule: phase {number} has {pool} rows, fewer than one global batch of {whole.size} "
                    f"({parts}); use a larger phase, a smaller batch_size, or PhaseSchedule(replacement=True)"
                )
        if self.probability is not None:
            return self._two_set(rows, batches[0])
        plan = Phases(tuple(self.phases), nested=self.nested, replacement=self.replacement)
        # Phases that may end early need not fit in the steps at their longest.
        legs = plan.legs(wholes, self.steps if self.target is None else None, rows)
        if self.target is not None:
            legs = (*(replace(leg, target=float(self.target)) for leg in legs[:-1]), legs[-1])
        steps = sum(leg.steps or 0 for leg in legs) if self.steps is None else self.steps
        return Route(Course(legs, batches[0]), steps, batches)

    def _two_set(self, rows: int, batch: int) -> Route:
        size = self.phases[0].pool_size(Batch(batch), self.steps, rows)
        assert size is not None
        assert self.probability is not None
        assert self.steps is not None
        if size >= rows:
            raise HeadstartError(
                f"PhaseSchedule.two_set: the small set of {size} rows leaves nothing of a data set of {rows}; "
                f"give size={rows - 1} at most"
            )
        plan = TwoSet(size, self.probability, total=rows)
        return Route(plan.course(Batch(batch), self.steps), self.steps, (batch,))


def _fractions(owner: str, first: float, last: float, phases: int) -> list[float]:
    check_count(owner, "phases", phases)
    for name, value in (("first", first), ("last", last)):
        check_positive(owner, name, value)
        if value > 1:
            raise HeadstartError(f"{owner}({name}={value!r}): a fraction of the data set is at most 1")
    if first > last:
        raise HeadstartError(f"{owner}(first={first!r}, last={last!r}): the smallest subset comes first")
    ratio = (last / first) ** (1 / max(1, phases - 1))
    return [min(1.0, first * ratio**i) for i in range(phases)]
