"""Units of training: steps, samples processed (compute) and FLOPs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter

_MOST_STEPS, _MOST_RECORDS = 10**9, 10**7


@dataclass(frozen=True)
class Batch:
    """A mini-batch of `size` samples per step."""

    size: int = 128

    def __post_init__(self) -> None:
        check_count("Batch", "size", self.size)


@dataclass(frozen=True)
class FullBatch:
    """Every sample of the current pool in every step: gradient descent. With `Online()`, the exact population."""


@dataclass(frozen=True)
class Settled:
    """The last `records` records of the task's leading test metric are all at `value` or better."""

    value: float
    records: int = 3

    def __post_init__(self) -> None:
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not number or not abs(self.value) < float("inf"):
            raise HeadstartError(f"Settled(value={self.value!r}): give a finite number to reach, such as 0.95")
        check_count("Settled", "records", self.records, minimum=2)


@dataclass(frozen=True)
class Budget:
    """How long a run may train, in optimizer steps, and every how many steps it records (and at the last).

    With `settled` a run ends where it is, and its later records repeat the last one, with samples and FLOPs as if it
    had gone on: enough where all that is asked is when it gets to a target, and most of such runs is what comes after.
    """

    steps: int = 1000
    record_every: int = 20
    settled: Settled | None = field(default=None, metadata={"since": 6})

    def __post_init__(self) -> None:
        if self.settled is not None and not isinstance(self.settled, Settled):
            raise HeadstartError(f"Budget(settled={self.settled!r}): give Settled(value), or None")
        check_count("Budget", "steps", self.steps, maximum=_MOST_STEPS)
        check_count("Budget", "record_every", self.record_every)
        num = self.steps // self.record_every
        if num > _MOST_RECORDS:
            raise HeadstartError(
                f"Budget(steps={self.steps}, record_every={self.record_every}): {num} records are more than "
                f"{_MOST_RECORDS}; record less often"
            )

    def recorded_steps(self) -> tuple[int, ...]:
        """The recorded steps: 0, every `record_every`, and the last."""
        return (*range(0, self.steps, self.record_every), self.steps)


@dataclass(frozen=True)
class Cost:
    """What training took: optimizer steps, samples in all gradients, training FLOPs, seconds. Costs add up."""

    steps: int = 0
    samples: int = 0
    flops: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.steps + other.steps,
            self.samples + other.samples,
            self.flops + other.flops,
            self.seconds + other.seconds,
        )


def flops_per_sample(parameters: Sequence[Parameter]) -> int:
    """Training FLOPs per sample: 2 per weight forward, 4 backward. Vectors (biases) count 2 in all.

    A parameter that is used several times, or in another way, says itself what it costs.
    """
    total = 0
    for parameter in parameters:
        size = prod(parameter.shape)
        used_once = 6 * size if len(parameter.shape) > 1 else 2 * size
        total += used_once if parameter.flops is None else parameter.flops
    return total
