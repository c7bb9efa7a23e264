"""Schedules for your own data set: the lab's plans with sizes as fractions of its rows and a total of steps."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from headstart.core.errors import HeadstartError, check_count, check_positive
from headstart.core.units import Batch
from headstart.plans.course import Course
from headstart.plans.phases import Phase, Phases
from headstart.plans.two_set import TwoSet

# How long a schedule ends on the whole data set: so many steps, half of all steps, or not at all.
Everything = int | Literal["half"] | None
_ALWAYS = ("phases", "everything")  # said in every repr


@dataclass(frozen=True)
class Route:
    """A schedule resolved for a data set: the course, how many optimizer steps, and each leg's samples per step.

    The last leg begins at step `latest` whatever was learned before; None: when the legs before it are over.
    """

    course: Course
    steps: int
    batches: tuple[int, ...]
    latest: int | None = None

    @property
    def num_rows_used(self) -> int:
        """How many rows of the data set any leg may draw."""
        return max(leg.pool.first + (leg.pool.size or 0) for leg in self.course.legs)


@dataclass(frozen=True, repr=False)
class PhaseSchedule:
    """Which rows of a data set each optimizer step sees: phases on subsets, then everything.

        PhaseSchedule([Phase(fraction=0.01, epochs=20), Phase(size=5000, steps=400)], everything=1000)

    A phase has a `size` or a `fraction` of the data set, and `steps` or `epochs`. `steps` is the total; with it the
    last phase may leave its length open.

    `everything` is the number of steps at the end that see the whole data set. The default "half" is half of all
    steps; where the phases have lengths and a total, it is what they leave of it. `everything=None` says no: then rows
    that are in no phase are never seen, and the sampler warns.

    Subsets are nested: prefixes of one permutation of the rows; with `nested=False` they share no row. Epochs are
    permutations, and a batch may hold the end of one and the beginning of the next; with `replacement=True` rows are
    drawn uniformly. `batch_sizes` gives each phase a batch size of its own, the one on everything included.

    With a `target`, a phase also ends after the first epoch in which the mean of the reported metrics reached it
    (`sampler.report`), and its length is the latest end; the last phase stays, and the one on everything begins in time
    whatever was learned. With a `probability`, the schedule is two-set training: see `two_set`.
    Reference: Less Data, Faster Training, Section 3 and Fig. 19.
    """

    phases: tuple[Phase, ...] | Sequence[Phase]
    steps: int | None = None
    everything: Everything = "half"
    nested: bool = True
    replacement: bool = False
    batch_sizes: tuple[int, ...] | Sequence[int] | None = None
    target: float | None = None
    probability: float | None = None

    def __post_init__(self) -> None:
        phases = tuple(self.phases) if isinstance(self.phases, Sequence) else (None,)
        num_last = _num_last("PhaseSchedule", self.everything, self.steps)
        is_empty = not phases and not num_last and (self.everything != "half" or self.steps is None)
        if is_empty or not all(isinstance(phase, Phase) for phase in phases):
            raise HeadstartError(f"PhaseSchedule(phases={self.phases!r}): give a sequence of at least one Phase")
        object.__setattr__(self, "phases", phases)
        if phases and self.steps is not None and num_last >= self.steps:
            raise HeadstartError(
                f"PhaseSchedule(steps={self.steps}, everything={num_last}): everything is a part of the total of "
                f"steps; give at most {self.steps - 1}, or more steps"
            )
        for number, phase in enumerate(self.phases, start=1):
            if phase.steps is None and phase.epochs is None and (number < len(phases) or self.steps is None):
                raise HeadstartError(
                    f"PhaseSchedule: {phase}, number {number}, has no length; give it steps or epochs, or, if it is "
                    "the last, give PhaseSchedule(steps=...) the total"
                )
        if self.target is not None:
            check_positive("PhaseSchedule", "target", self.target)
        if self.probability is not None:
            if len(phases) != 1 or self.everything not in ("half", None):
                raise HeadstartError(f"PhaseSchedule(probability={self.probability!r}): two sets have one phase")
            object.__setattr__(self, "everything", None)  # the second set is everything else
        if self.batch_sizes is not None:
            sizes = tuple(self.batch_sizes) if isinstance(self.batch_sizes, Sequence) else ()
            wanted = len(phases) + self._ends_on_more
            if len(sizes) != wanted:
                last = ", the last being everything" if self._ends_on_more else ""
                raise HeadstartError(
                    f"PhaseSchedule(batch_sizes={self.batch_sizes!r}): give one for each of the {wanted} phases{last}"
                )
            for size in sizes:
                check_count("PhaseSchedule", "batch_sizes", size)
            object.__setattr__(self, "batch_sizes", sizes)

    @property
    def _ends_on_more(self) -> bool:
        """Whether a phase on everything comes after those that were given."""
        if self.everything == "half" and self.phases:
            return not _is_everything(self.phases[-1])
        return bool(self.everything)

    def __repr__(self) -> str:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        said = [f"{f.name}={given[f.name]!r}" for f in fields(self) if f.name in _ALWAYS or given[f.name] != f.default]
        left_out = self._left_out()
        return f"PhaseSchedule({', '.join(said)})" + (f"  # {left_out}" if left_out else "")

    def _left_out(self) -> str:
        """What a schedule that leaves rows out uses, in words, as far as it is known without the data set."""
        if self._ends_on_more or self.probability is not None or any(map(_is_everything, self.phases)):
            return ""
        most = max if self.nested else sum
        words = []
        if fractions := [phase.fraction for phase in self.phases if phase.fraction is not None]:
            words.append(f"{100 * min(1.0, most(fractions)):.3g}% of the rows")
        if sizes := [phase.size for phase in self.phases if phase.size is not None]:
            words.append(f"{most(sizes)} rows")
        return "uses " + (" or " if self.nested else " and ").join(words)

    @classmethod
    def geometric(
        cls,
        first: float = 1 / 320,
        last: float = 1 / 50,
        phases: int = 6,
        *,
        steps: int,
        everything: Everything = "half",
        nested: bool = True,
        replacement: bool = False,
    ) -> "PhaseSchedule":
        """`phases` subsets from the fraction `first` of the data set to `last`, of equal lengths, then everything.

            fraction_i = first (last / first)^(i / (phases - 1)),  i = 0 .. phases - 1

        `steps` is the total of optimizer steps, of which `everything` at the end (half of them unless you say
        otherwise; None: none) are on the whole data set.
        """
        num_last = _num_last("PhaseSchedule.geometric", everything, steps)
        fractions = _fractions("PhaseSchedule.geometric", first, last, phases)
        left = steps - num_last
        if left < phases:
            raise HeadstartError(
                f"PhaseSchedule.geometric(steps={steps}, everything={everything!r}): {left} steps are left for "
                f"{phases} phases; give each at least one"
            )
        ends = [round(left * (i + 1) / phases) for i in range(phases)]
        parts = [Phase(fraction=f, steps=e - b) for f, b, e in zip(fractions, [0, *ends], ends, strict=False)]
        return cls(parts, steps, num_last or None, nested, replacement)

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
        everything: Everything = "half",
        nested: bool = True,
        replacement: bool = False,
    ) -> "PhaseSchedule":
        """The same subsets, each left once it is learned: no lengths to choose.

        A phase ends after the first epoch in which the mean of the metrics given to `sampler.report` reached `target`
        (training accuracy, say; higher is better), or after `max_epochs`. Then comes everything, to the total of
        `steps`: for the last `everything` steps at least, whatever was learned by then (half of all steps unless you
        say otherwise). With `everything=None` the largest subset goes on to the end instead.
        Reference: Less Data, Faster Training, Fig. 19.
        """
        num_last = _num_last("PhaseSchedule.auto", everything, steps)
        fractions = _fractions("PhaseSchedule.auto", first, last, phases)
        parts = [Phase(fraction=f, epochs=max_epochs) for f in fractions]
        if not num_last:
            parts[-1] = Phase(fraction=fractions[-1])
        return cls(parts, steps, num_last or None, nested, replacement, target=target)

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
        """The schedule for a data set of `rows` rows, `batch_size` rows per batch and `shares` batches per step.

        A step takes `shares` batches: one for each replica and each accumulated micro-batch.
        """
        sizes = (batch_size,) * (len(self.phases) + 1) if self.batch_sizes is None else tuple(self.batch_sizes)
        phases = self._with_everything(rows, [size * shares for size in sizes])
        batches = tuple(size * shares for size in sizes[: len(phases)])
        wholes = [Batch(batch) for batch in batches]
        for number, (phase, whole) in enumerate(zip(phases, wholes, strict=True), start=1):
            pool = phase.pool_size(whole, self.steps, rows)
            assert pool is not None, "a data set is finite"
            if pool < whole.size and not self.replacement:
                parts = f"{whole.size // shares} x {shares}" if shares > 1 else f"{whole.size}"
                raise HeadstartError(
                    f"PhaseSchedule: phase {number} has {pool} rows, fewer than one global batch of {whole.size} "
                    f"({parts}); use a larger phase, a smaller batch_size, or PhaseSchedule(replacement=True)"
                )
        if self.probability is not None:
            return self._two_set(rows, batches[0])
        plan = Phases(phases, nested=self.nested, replacement=self.replacement)
        # Phases that may end early need not fit in the steps at their longest.
        legs = plan.legs(wholes, self.steps if self.target is None else None, rows)
        latest = None
        if len(phases) > len(self.phases) and self.steps is not None:
            latest = self.steps - _num_last("PhaseSchedule", self.everything, self.steps)
        begun = sum(leg.steps or 0 for leg in legs[:-1])
        if self.target is not None:
            legs = (*(replace(leg, target=float(self.target)) for leg in legs[:-1]), legs[-1])
        elif latest is not None and begun > latest and self.everything != "half":
            raise HeadstartError(
                f"PhaseSchedule(steps={self.steps}, everything={self.everything}): the phases take {begun} steps and "
                f"leave {(self.steps or 0) - begun}; shorten them, allow more steps, or lower everything"
            )
        steps = begun + (legs[-1].steps or 0) if self.steps is None else self.steps
        return Route(Course(legs, batches[0]), steps, batches, latest if self.target is not None else None)

    def _with_everything(self, rows: int, batches: Sequence[int]) -> tuple[Phase, ...]:
        """The phases with every length but the last known, and everything at the end where the schedule has it."""
        phases = tuple(self.phases)
        lengths = [p.length(Batch(b), self.steps, rows) for p, b in zip(phases, batches, strict=False)]
        taken = sum(length or 0.0 for length in lengths)
        is_default = self.everything == "half"
        if not self._ends_on_more or (is_default and phases and phases[-1].size == rows):
            return phases
        if self.steps is None:
            num_last = _num_last("PhaseSchedule", self.everything, None) or max(1, round(taken))
            return (*phases, Phase(steps=num_last))
        if phases and lengths[-1] is None:
            left = int(self.steps - _num_last("PhaseSchedule", self.everything, self.steps) - taken)
            if left < 1:
                raise HeadstartError(
                    f"PhaseSchedule(steps={self.steps}, everything={self.everything!r}): nothing is left for "
                    f"{phases[-1]}, number {len(phases)}; allow more steps, or lower everything"
                )
            phases = (*phases[:-1], replace(phases[-1], steps=left))
        elif is_default and self.target is None and round(taken) >= self.steps:
            return phases
        return (*phases, Phase())

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


def _is_everything(phase: Phase) -> bool:
    return phase.size is None and phase.fraction in (None, 1)


def _num_last(owner: str, everything: Everything, steps: int | None) -> int:
    """How many of so many steps at the end are on everything."""
    if steps is not None:
        check_count(owner, "steps", steps)
    if everything == "half":
        return 0 if steps is None else steps // 2
    if everything is None:
        return 0
    if isinstance(everything, bool) or not isinstance(everything, int) or everything < 0:
        raise HeadstartError(
            f"{owner}(everything={everything!r}): give the number of steps at the end on the whole data set, "
            "'half' (of all steps), or None"
        )
    return everything


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
