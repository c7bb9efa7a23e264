"""One member of a stack: its job, what it has recorded so far, its outcome and its checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headstart.core.files import replacing
from headstart.core.trace import Status, Trace
from headstart.core.units import flops_per_sample
from headstart.engines.engine import Job, Outcome
from headstart.engines.lower import Lowered, lower
from headstart.models import Weights
from headstart.plans import Place
from headstart.run import At, Reaches, Run, Step, reached


def value_names(run: Run) -> list[str]:
    """What a record holds: test metrics and loss, the same on the next batch, and weight norms by role."""
    metrics = [*(metric.name for metric in run.task.metrics), "loss"]
    roles = dict.fromkeys(p.role for p in run.model.parameters(run.task.dim))
    return [f"{split}_{name}" for split in ("test", "train") for name in metrics] + [f"norm_{role}" for role in roles]


@dataclass
class Member:
    """A job with its place among the jobs and its state when it joins a stack; `weights` None is the beginning.

    `values` is float64[records, names], `samples` the samples seen at each record; `moments` are the optimizer's.
    """

    index: int
    job: Job
    place: Place
    lowered: Lowered
    step: int = 0
    seconds: float = 0.0
    samples: list[int] = field(default_factory=list)
    values: NDArray[np.float64] | None = None
    weights: Weights | None = None
    moments: tuple[Weights, ...] | None = None
    kept: dict[At, Weights] = field(default_factory=dict)
    diverged: bool = False

    @classmethod
    def of(cls, index: int, job: Job) -> "Member":
        """A member at the beginning, or where its checkpoint says."""
        lowered = lower(job.run)
        member = cls(index, job, lowered.course.start(0), lowered)
        _load(member)
        return member

    @property
    def run(self) -> Run:
        """What it trains."""
        return self.job.run

    @property
    def cohort(self) -> tuple[Any, ...]:
        """Members that may go in lockstep have this in common."""
        return self.step, None if self.lowered.course.adaptive else self.place, len(self.samples)

    def current_weights(self) -> Weights:
        """The weights it joins with."""
        if self.weights is not None:
            return self.weights
        return self.lowered.scaled(self.run.fresh_weights()) if self.job.start is None else self.job.start

    def wanted(self, step: int, last: dict[str, float] | None) -> list[At]:
        """The moments asked for that are now; `last` is what was recorded at this step, if anything was."""
        return [at for at in self.job.keep if at not in self.kept and self._is_now(at, step, last)]

    def _is_now(self, at: At, step: int, last: dict[str, float] | None) -> bool:
        if isinstance(at, Step):
            return step == at.step
        assert isinstance(at, Reaches)
        return last is not None and reached(self.run, at, {name: np.array([value]) for name, value in last.items()})

    def outcome(self) -> Outcome:
        """The outcome, once it is over."""
        names = value_names(self.run)
        values = np.empty((0, 0)) if self.values is None else self.values
        samples = np.asarray(self.samples, dtype=np.int64)
        trace = Trace(
            cell=self.run.cell,
            seed=self.run.seed,
            steps=np.asarray(self.run.budget.recorded_steps()[: len(samples)], dtype=np.int64),
            samples=samples,
            flops=samples.astype(np.float64) * flops_per_sample(self.lowered.parameters),
            values={name: values[:, i].copy() for i, name in enumerate(names)} if len(samples) else {},
            status=Status.DIVERGED if self.diverged else Status.FINISHED,
            seconds=self.seconds,
        )
        return Outcome(self.run, trace, {at: self.kept.get(at) for at in self.job.keep})

    def save(self) -> None:
        """Write the whole state to the checkpoint file, if there is to be one."""
        if self.job.checkpoint is None:
            return
        state = _identity(self.job) | {
            "step": self.step,
            "place": list(self.place),
            "seconds": self.seconds,
            "samples": self.samples,
            "values": _tensors([np.empty((0, 0)) if self.values is None else self.values]),
            "weights": None if self.weights is None else _named(self.weights),
            "moments": None if self.moments is None else [_named(moment) for moment in self.moments],
            "kept": [_named(self.kept[at]) for at in self.kept],
            "kept_at": [self.job.keep.index(at) for at in self.kept],
            "diverged": self.diverged,
        }
        with replacing(self.job.checkpoint) as temporary:
            torch.save(state, temporary)


def _identity(job: Job) -> dict[str, Any]:
    """What a checkpoint must agree on: the engine that wrote it, the run, and the moments to keep."""
    return {"run": ["ensemble", job.run.cell, job.run.seed], "keep": repr(job.keep)}


def _load(member: Member) -> None:
    """Go on from the checkpoint if there is one that fits; a checkpoint that cannot be read is not used."""
    path, mine = member.job.checkpoint, _identity(member.job)
    if path is None or not path.exists():
        return
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if {name: state.get(name) for name in mine} != mine:
            return
        read: dict[str, Any] = {name: state[name] for name in ("step", "seconds", "samples", "diverged")}
        read["place"] = Place(*state["place"])
        read["values"] = state["values"][0].numpy()
        read["weights"] = None if state["weights"] is None else _arrays(state["weights"])
        read["moments"] = None if state["moments"] is None else tuple(_arrays(m) for m in state["moments"])
        kept = zip(state["kept_at"], state["kept"], strict=True)
        read["kept"] = {member.job.keep[i]: _arrays(weights) for i, weights in kept}
    except Exception:  # torch raises many kinds for a damaged file; training from the start is always right
        return
    for name, value in read.items():
        setattr(member, name, value)


def _tensors(arrays: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]


def _named(weights: Weights) -> dict[str, torch.Tensor]:
    # A copy of its own: torch.save writes the whole storage behind a view.
    return {name: torch.from_numpy(value.copy()) for name, value in weights.items()}


def _arrays(tensors: dict[str, torch.Tensor]) -> Weights:
    return {name: tensor.numpy() for name, tensor in tensors.items()}
