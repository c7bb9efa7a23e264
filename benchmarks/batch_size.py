"""The reduced chain beside direct simulation of SGD: `python -m benchmarks.batch_size [--quick] [--json]`.

One neuron He_3 on the target He_3, projected SGD on the squared error, d = 1024 and n_b = d^1.75 as in Online Learning
and Information Exponents. Direct simulation draws inputs of d numbers: in PyTorch and NumPy, in blocks of the size that
is fastest, float32, the target along the first axis; and by our fused engine. All take one thread. Times are CPU
seconds per step of one run, the least of several turns that every contestant takes after the other. Then what the
chain costs against d at a fixed n_b, and against n_b.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

import headstart as hs
from headstart.core.roles import Role
from headstart.engines import Job
from headstart.engines.fused import Fused
from headstart.engines.loop import one_thread
from headstart.theory import ReducedSGD, simulate

# How many times faster than the fastest direct simulation, how much the cost may vary over d, and its power of n_b.
BAR, FLAT, LINEAR = 100.0, 1.5, (0.85, 1.1)
RATE = 1e-4


@dataclass(frozen=True)
class Contest:
    """CPU seconds per step of the chain and of each direct simulation."""

    dim: int
    batch: int
    chain: float
    direct: dict[str, float]

    @property
    def ratio(self) -> float:
        """How many steps of the chain go into one of the fastest direct simulation."""
        return min(self.direct.values()) / self.chain


@dataclass(frozen=True)
class Cost:
    """CPU seconds per step of the chain."""

    dim: int
    batch: int
    seconds: float


class Chain:
    """The reduced chain, one run."""

    def __init__(self, dim: int, batch: int) -> None:
        self.process, self.run = ReducedSGD(hs.Hermite(3), hs.Hermite(3), dim, batch, RATE), 0

    def seconds(self, steps: int) -> float:
        """CPU seconds of so many steps."""
        began = time.process_time()
        simulate(self.process, [self.run], steps)
        self.run += 1
        return time.process_time() - began


class Direct:
    """Blocks of inputs from a generator, with the gradient by hand; a subclass says how a block is drawn."""

    def __init__(self, dim: int, batch: int, block: int, seed: int = 0, rate: float = RATE) -> None:
        self.dim, self.batch, self.block, self.rate = dim, batch, min(block, batch), rate

    def seconds(self, steps: int) -> float:
        """CPU seconds of so many steps."""
        began = time.process_time()
        for _ in range(steps):
            self.step()
        return time.process_time() - began

    def step(self) -> None:
        """One step of projected SGD."""
        down = 0.0 * self.w
        for first in range(0, self.batch, self.block):
            z = self.draw(min(self.block, self.batch - first))
            star, lam = z[:, 0], z @ self.w
            error = star * (star * star - 3) - lam * (lam * lam - 3)
            down += (error * (3 * lam * lam - 3)) @ z
        self.w = self.w + self.rate / self.batch * down
        self.w = self.w / (self.w @ self.w) ** 0.5

    @property
    def overlap(self) -> float:
        """<w, w*>."""
        return float(self.w[0])


class TorchDirect(Direct):
    """In PyTorch."""

    def __init__(self, dim: int, batch: int, block: int, seed: int = 0, rate: float = RATE) -> None:
        super().__init__(dim, batch, block, seed, rate)
        self.generator = torch.Generator().manual_seed(seed)
        self.z, self.w = torch.empty(self.block, dim), torch.randn(dim, generator=self.generator)
        self.w = self.w / self.w.norm()

    def draw(self, rows: int) -> torch.Tensor:
        """Inputs [rows, dim], in memory that is taken once."""
        return torch.randn(rows, self.dim, generator=self.generator, out=self.z[:rows])


class NumpyDirect(Direct):
    """In NumPy."""

    def __init__(self, dim: int, batch: int, block: int, seed: int = 0, rate: float = RATE) -> None:
        super().__init__(dim, batch, block, seed, rate)
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.z, self.w = np.empty((self.block, dim), dtype=np.float32), self.generator.standard_normal(dim, np.float32)
        self.w = self.w / np.linalg.norm(self.w)

    def draw(self, rows: int) -> np.ndarray:
        """Inputs [rows, dim], in memory that is taken once."""
        return self.generator.standard_normal(out=self.z[:rows], dtype=np.float32)


class Engine:
    """Our fused engine: a training of 9 steps less one of 1 step, which has the same start and evaluations."""

    def __init__(self, dim: int, batch: int) -> None:
        self.run = hs.Run(
            hs.MultiIndex(dim, hs.Hermite(3), num_test=1),
            hs.MLP(1, activation="he3", bias=False, init="committee"),
            hs.Online(),
            hs.MSE(),
            hs.SGD(RATE / 2),
            hs.Batch(batch),
            methods=(hs.OnSphere(), hs.LayerScale(rate={Role.READOUT: 0})),
            budget=hs.Budget(1, 1),
        )
        self._training(1)  # compiles
        self.apart = self._training(1)

    def seconds(self, steps: int) -> float:
        """CPU seconds of so many steps: a share of eight, since what is no step takes as long as some."""
        self.apart = min(self.apart, self._training(1))
        return (self._training(9) - self.apart) * steps / 8

    def _training(self, steps: int) -> float:
        began = time.process_time()
        list(Fused().train([Job(replace(self.run, budget=hs.Budget(steps, steps)))]))
        return time.process_time() - began


def contestants(dim: int, batch: int, blocks: tuple[int, ...]) -> dict[str, dict[str, Callable[[], Any]]]:
    """By name and way, how to make each direct simulation."""
    return {
        "torch": {f"{b} rows": (lambda b=b: TorchDirect(dim, batch, b)) for b in blocks},
        "numpy": {f"{b} rows": (lambda b=b: NumpyDirect(dim, batch, b)) for b in blocks},
        "fused": {"": lambda: Engine(dim, batch)},
    }


def measure(
    dim: int,
    batch: int,
    repeats: int = 3,
    blocks: tuple[int, ...] = (256, 2048, 8192),
    names: tuple[str, ...] = ("torch", "numpy", "fused"),
    say: Callable[[str], None] = print,
) -> Contest:
    """Every way once, then the fastest of each in turns with the chain."""
    chosen: dict[str, tuple[float, Any]] = {}
    ways = contestants(dim, batch, blocks)
    for name in names:
        for way, make in ways[name].items():
            contestant = make()
            found = contestant.seconds(1)
            say(f"{name} {way}: {1e3 * found:.4g} ms")
            if name not in chosen or found < chosen[name][0]:
                chosen[name] = found, contestant
    chain, times = Chain(dim, batch), {name: [found] for name, (found, _) in chosen.items()}
    chain.seconds(1)
    steps, mine = max(1, 10**7 // batch), []
    for _ in range(repeats):
        mine.append(chain.seconds(steps) / steps)
        for name, (_, contestant) in chosen.items():
            times[name].append(contestant.seconds(1))
    return Contest(dim, batch, min(mine), {name: min(found) for name, found in times.items()})


def costs(pairs: list[tuple[int, int]], draws: int, repeats: int = 3) -> list[Cost]:
    """What a step of the chain costs at each (d, n_b), over about so many draws a turn, taken in turns."""
    chains = [Chain(*pair) for pair in pairs]
    chains[0].seconds(1)
    times: list[list[float]] = [[] for _ in pairs]
    for _ in range(repeats):
        for (_, batch), chain, found in zip(pairs, chains, times, strict=True):
            steps = max(1, draws // batch)
            found.append(chain.seconds(steps) / steps)
    return [Cost(dim, batch, min(found)) for (dim, batch), found in zip(pairs, times, strict=True)]


def missed(contest: Contest, over_dims: list[Cost], over_batches: list[Cost]) -> list[str]:
    """The bars that are not reached."""
    out, seconds = [], [cost.seconds for cost in over_dims]
    if contest.ratio < BAR:
        out.append(f"{contest.ratio:.0f} times the fastest direct simulation, not {BAR:.0f}")
    if max(seconds) > FLAT * min(seconds):
        out.append(f"cost varies by {max(seconds) / min(seconds):.2f} over d, more than {FLAT}")
    if not LINEAR[0] <= power(over_batches) <= LINEAR[1]:
        out.append(f"cost grows as n_b^{power(over_batches):.2f}, outside {LINEAR}")
    return out


def power(over_batches: list[Cost]) -> float:
    """The slope of log seconds against log n_b."""
    batches, seconds = np.log([c.batch for c in over_batches]), np.log([c.seconds for c in over_batches])
    return float(np.polyfit(batches, seconds, 1)[0])


def main() -> None:
    """Print the contest, the costs and the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one turn of the direct simulations, fewer sizes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    say = _quiet if options.json else print
    dims = (10**3, 10**6, 10**9) if options.quick else (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9)
    batches = (10**4, 10**5, 10**6) if options.quick else (10**4, 10**5, 10**6, 10**7)
    repeats, draws = (1, 10**6) if options.quick else (3, 10**7)
    with one_thread():
        contest = measure(1024, int(1024**1.75), repeats, (256, 2048) if options.quick else (256, 2048, 8192), say=say)
        over_dims = costs([(dim, 10**5) for dim in dims], draws, repeats + 2)
        over_batches = costs([(10**4, batch) for batch in batches], draws, repeats + 2)
    if options.json:
        rows = {"contest": {**asdict(contest), "ratio": contest.ratio}, "power": power(over_batches)}
        print(
            json.dumps(
                {**rows, **{n: [asdict(c) for c in v] for n, v in (("dims", over_dims), ("batches", over_batches))}}
            )
        )
        return
    direct = ", ".join(f"{name} {1e3 * seconds:.4g}" for name, seconds in contest.direct.items())
    print(
        f"d = {contest.dim}, n_b = {contest.batch}: chain {1e3 * contest.chain:.3g} ms a step; direct, in ms: {direct}"
    )
    print(f"{contest.ratio:.0f} times the fastest direct simulation (bar {BAR:.0f})")
    for cost in (*over_dims, *over_batches):
        print(f"d = {cost.dim:>10}, n_b = {cost.batch:>8}: {1e3 * cost.seconds:.4g} ms a step")
    print(f"seconds go as n_b^{power(over_batches):.2f}")
    print("\n".join(missed(contest, over_dims, over_batches)) or "all bars are reached")


def _quiet(line: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    main()
