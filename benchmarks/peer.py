"""What every contestant offers, and the ways a peer may be set up; its fastest is the one that is measured."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import Workload

Layers = list[tuple[NDArray[np.float32], NDArray[np.float32] | None]]


@dataclass(frozen=True)
class Setup:
    """`processes` with `threads` each; `members` stacked at a time and `samples` of a full batch (0: all)."""

    processes: int = 1
    threads: int = 1
    members: int = 0
    samples: int = 0

    def __str__(self) -> str:
        parts = [f"{self.processes}x{self.threads} threads"]
        parts += [f"{self.members} members"] * bool(self.members) + [f"{self.samples} samples"] * bool(self.samples)
        return ", ".join(parts)


class Peer(Protocol):
    """Members under training."""

    def step(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        """One optimizer step on x [members, samples, dim] and y [members, samples]; what the tests compare."""
        ...

    def advance(self, num_steps: int) -> int:
        """Take at least so many steps on the workload's own data; the number of model-steps done."""
        ...

    def layers(self) -> Layers:
        """The weights now."""
        ...


def setups(peer: str, workload: Workload, quick: bool) -> list[Setup]:
    """The ways worth trying, the most promising first; a quick run tries fewer."""
    one, whole = workload.members == 1, not workload.is_online
    spread = [Setup(1, 2), Setup(1, 1)] if one else [Setup(2, 1), Setup(1, 2)]
    tried = spread[:1] if quick else spread
    if peer == "loop" or (one and peer != "chunked"):
        return tried
    if peer == "chunked":
        sizes = (2048, 8192) if quick else (1024, 2048, 4096, 8192, 16384)
        stacked = (0,) if one else (1, 4)
        return [Setup(s.processes, s.threads, m, n) for s in tried for m in stacked for n in sizes]
    chunks = [m for m in ((1, 4, 0) if whole else (16, 64, 0)) if m < workload.members]
    if peer in ("compile", "jax"):
        # Each compiles for seconds: all stack sizes in two processes, and one process with two threads for the rest.
        return [Setup(2, 1)] if quick else [*(Setup(2, 1, m) for m in chunks), Setup(1, 2)]
    return [Setup(s.processes, s.threads, m) for s in tried for m in (chunks[:2] if quick else chunks)]
