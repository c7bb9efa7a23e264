"""What is measured: the workloads (a) to (g), each a Run with a number of members and the peers that train it too."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import headstart as hs

STACKED = ("loop", "vmap", "bmm", "compile", "jax")
WHOLE = (*STACKED, "chunked")


@dataclass(frozen=True)
class Workload:
    """`members` copies of `run`, seeds 0 .. members - 1. A variant tells two workloads of one letter apart."""

    letter: str
    title: str
    run: hs.Run
    members: int
    peers: tuple[str, ...] = STACKED
    variant: str = ""

    @property
    def name(self) -> str:
        """The letter and what tells it from others with the same."""
        return f"({self.letter}) {self.title}"

    @property
    def is_online(self) -> bool:
        """Whether every step draws fresh samples."""
        return isinstance(self.run.batch, hs.Batch)

    @property
    def samples(self) -> int:
        """The samples of one step of one member."""
        if isinstance(self.run.batch, hs.Batch):
            return self.run.batch.size
        return self.run.plan.size if isinstance(self.run.plan, hs.Fixed) else int(self.run.task.population_size or 0)

    @property
    def flops(self) -> int:
        """Dense training FLOPs of one step of one member: samples x (6 x weights - 2 x first-layer weights).

        Forward 2 a weight, backward 2 for the weight's gradient and 2 for its input's, which the first layer omits.
        Biases, activations, the loss and the optimizer are not counted.
        """
        sizes = [int(np.prod(p.shape)) for p in self.run.parameters if len(p.shape) == 2]
        return self.samples * (6 * sum(sizes) - 2 * sizes[0])

    def weights(self, first: int, members: int) -> list[tuple[NDArray[np.float32], NDArray[np.float32] | None]]:
        """Initial (weight [members, out, in], bias [members, out] or None) of every layer, as ours."""
        fresh = [self.run.at(seed).fresh_weights() for seed in range(first, first + members)]
        layers = []
        for layer in range(self.run.model.depth):
            weight, bias = f"layers.{layer}.weight", f"layers.{layer}.bias"
            stacked = np.stack([w[bias] for w in fresh]) if bias in fresh[0] else None
            layers.append((np.stack([w[weight] for w in fresh]), stacked))
        return layers

    def finite_set(self, first: int, members: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Inputs [members, samples, dim] and targets [members, samples] of a full batch, as ours."""
        task, ids = self.run.task, np.arange(self.samples)
        exact = isinstance(self.run.plan, hs.Online)
        sets = [task.population(s) if exact else task.sample(s, ids) for s in range(first, first + members)]
        return np.stack([s.x for s in sets]), np.stack([s.y for s in sets])


def parity(
    dim: int = 20, width: int = 64, depth: int = 2, plan: hs.Plan | None = None, optimizer: hs.SGD | None = None
) -> hs.Run:
    """A ReLU network without biases on (dim, 6)-parity with the squared loss; a plan means full batches."""
    return hs.Run(
        task=hs.Parity(dim, 6),
        model=hs.MLP(width=width, depth=depth, bias=False),
        plan=plan or hs.Online(),
        loss=hs.MSE(),
        # Small enough that no member diverges: one that did would stop early and count as fast.
        optimizer=optimizer or hs.SGD(0.01),
        batch=hs.FullBatch() if plan else hs.Batch(128),
    )


def workloads(quick: bool = False) -> tuple[Workload, ...]:
    """All workloads; the quick ones have fewer members."""
    single_index = hs.Run(
        task=hs.SingleIndex(40, hs.Hermite(3)),
        model=hs.MLP(width=64),
        plan=hs.Online(),
        loss=hs.MSE(),
        optimizer=hs.SGD(0.001),
        batch=hs.Batch(128),
    )
    full = (
        Workload("a", "parity, d=20, width 64, batch 128, online", parity(), 512),
        Workload("b", "parity, exact population of 2^20, width 64", parity(plan=hs.Online()), 1, WHOLE),
        Workload("c", "parity, full batch of 2^14, width 64", parity(plan=hs.Fixed(2**14)), 32, WHOLE),
        Workload("d", "single-index He_3, d=40, width 64, biases", single_index, 512),
        Workload("e", "parity, depth 4, width 64", parity(depth=4), 256),
        Workload("f", "parity, AdamW, width 64", parity(optimizer=hs.AdamW(1e-3)), 512),
        Workload("g", "parity, width 256", parity(width=256), 128, variant="width 256"),
        Workload("g", "parity, width 1024", parity(width=1024), 32, variant="width 1024"),
    )
    if not quick:
        return full
    # Compiling takes longer than all else: a quick run leaves it to the workloads whose bars ask for it.
    return tuple(replace(w, members=max(w.members // 4, min(w.members, 8)), peers=_quick_peers(w)) for w in full)


def _quick_peers(workload: Workload) -> tuple[str, ...]:
    return workload.peers if workload.letter in "ac" else tuple(p for p in workload.peers if p != "compile")
