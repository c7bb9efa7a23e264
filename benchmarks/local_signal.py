"""Local signals by us, PyTorch and torch.func: `python -m benchmarks.local_signal [--quick] [--json]`.

Every contest times the same work by us and by what people write, in turns on one thread of one core: CPU microseconds
per step, the least of several turns. A contest joins by one line in CONTESTS: a function that yields rows.

Reduced against direct: SGD of one filter with a soft threshold, batches of 500 fresh samples of k patches in 10
dimensions, as in Local Signal Adaptivity, Fig. 3.3. Ours is the chain of (w . w*, |w_perp|, b), exact in law. Direct
draws every number of every patch: with torch's own generator and autograd, with the gradient by hand, or by the loop
engine. Rows are the start, where ours draws a normal per patch, and a filter whose threshold few patches pass.

Linearised: steps of a network linearised at the start, by the loop engine, by torch.func's recipe, and, where a step
takes all rows, in function space; `benchmarks.linearised` has the contestants.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

import headstart as hs
from benchmarks.linearised import InFunctionSpace, Ours, Recipe, all_steps
from headstart.core.kernels.compile import kernels
from headstart.engines import Job
from headstart.engines.loop import Loop, one_thread

# How many times faster than the best direct peer the reduced chain must be; a linearised step is never slower than
# the recipe's, and one in function space much faster.
REDUCED_BAR, LINEARISED_BAR, FUNCTION_BAR = 10.0, 1.0, 10.0
RATE, BATCH, DIM = 0.1, 500, 10


@dataclass(frozen=True)
class Row:
    """CPU microseconds per step of ours and of each peer; the bar is how many times faster than the best we must be."""

    setting: str
    ours: float
    peers: dict[str, float]
    bar: float

    @property
    def over_best(self) -> float:
        """How many of our steps go into one of the fastest peer's."""
        return min(self.peers.values()) / self.ours


@dataclass(frozen=True)
class Filter:
    """A filter at (c, v, b) on k patches; b is `alpha` deviations of a patch, and rates are so small that it stays."""

    name: str
    patches: int
    alpha: float
    batch: int = BATCH

    @property
    def task(self) -> hs.LocalSignal:
        """Its task."""
        return hs.LocalSignal(self.patches, DIM, num_test=1)

    @property
    def state(self) -> tuple[float, float, float]:
        """(c, v, b)."""
        return 1.0, 0.01, -self.alpha * self.task.sigma


class Reduced:
    """Ours: the chain."""

    def __init__(self, filter: Filter, rate: float = 1e-9) -> None:
        task, self.filter, self.step = filter.task, filter, 0
        self.state = np.array(filter.state)
        self.fixed = (task.patches, task.dim, task.sigma, filter.batch, np.array([rate, rate / task.patches]))
        self.scratch = np.zeros(8, dtype=np.int64), np.empty(2048, dtype=np.float32), np.empty((filter.batch, 3))
        self.kernel = kernels("theory.local_signal.kernels").advance

    def advance(self, num: int) -> None:
        """So many steps."""
        until = self.step + num
        self.kernel(np.uint64(1), np.int64(0), self.step, until, *self.fixed, self.state, *self.scratch)
        self.step = until


class Direct:
    """All numbers of all patches by torch's generator; the gradient by autograd, or by hand."""

    def __init__(self, filter: Filter, by_hand: bool, rate: float = 1e-9) -> None:
        self.task, self.filter, self.by_hand, self.rate = filter.task, filter, by_hand, rate
        c, v, b = filter.state
        self.generator = torch.Generator().manual_seed(1)
        self.w = torch.zeros(DIM)
        self.w[0], self.w[1] = c, v
        self.b = torch.tensor([b])
        if not by_hand:
            self.w.requires_grad_()
            self.b.requires_grad_()
            groups = [{"params": [self.w], "lr": rate}, {"params": [self.b], "lr": rate / self.task.patches}]
            self.optimizer = torch.optim.SGD(groups, lr=rate)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A batch: x [n, k + 1, d] and y [n]."""
        n, k = self.filter.batch, self.task.patches
        x = torch.randn((n, k + 1, DIM), generator=self.generator).mul_(self.task.sigma)
        y = torch.randint(2, (n,), generator=self.generator).float().mul_(2).sub_(1)
        rows = torch.arange(n), torch.randint(k + 1, (n,), generator=self.generator)
        x[rows] = 0.0
        x[rows[0], rows[1], 0] = y
        return x, y

    def advance(self, num: int) -> None:
        """So many steps."""
        for _ in range(num):
            x, y = self.draw()
            (self._hand if self.by_hand else self._autograd)(x, y)

    def _autograd(self, x: torch.Tensor, y: torch.Tensor) -> None:
        z = x @ self.w
        f = (torch.relu(z + self.b) - torch.relu(self.b - z)).sum(dim=1)
        self.optimizer.zero_grad()
        softplus(-y * f).mean().backward()
        self.optimizer.step()

    def _hand(self, x: torch.Tensor, y: torch.Tensor) -> None:
        z = x @ self.w
        up, down = (z + self.b).clamp_(min=0), (self.b - z).clamp_(min=0)
        slope = torch.sigmoid(-y * (up - down).sum(dim=1)).mul_(y)
        above, below = (up > 0).float(), (down > 0).float()
        ind = (above + below).mul_(slope[:, None])
        self.w.add_(torch.einsum("nk,nkd->d", ind, x), alpha=self.rate / len(y))
        self.b.add_(((above - below).sum(dim=1) @ slope) * (self.rate / self.task.patches / len(y)))


class OnLoop:
    """The loop engine on the same task and model."""

    def __init__(self, filter: Filter) -> None:
        task = filter.task
        slow = hs.LayerScale(rate={hs.Role.BIAS: 1 / task.patches})
        self.run = hs.Run(
            task,
            hs.ThresholdFilter(0.3),
            hs.Online(),
            hs.Logistic(),
            hs.SGD(1e-9),
            hs.Batch(filter.batch),
            methods=(slow,),
        )

    def advance(self, num: int) -> None:
        """So many steps, from the start."""
        list(Loop().train([Job(replace(self.run, budget=hs.Budget(num, num)))]))


def filters(quick: bool) -> list[Filter]:
    """The start and a high threshold at k = 1000, and other numbers of patches."""
    start, late = Filter("k = 1000, start", 1000, 0.02), Filter("k = 1000, few pass", 1000, 2.5)
    more = [Filter("k = 100, start", 100, 0.02), Filter("k = 4000, start", 4000, 0.02)]
    return [start, late] if quick else [start, late, *more]


def reduced_rows(quick: bool, measure: Callable[..., dict[str, float]]) -> Iterator[Row]:
    """Reduced against direct."""
    for filter in filters(quick):
        makes: dict[str, Callable[[], Any]] = {
            "ours": partial(Reduced, filter),
            "autograd": partial(Direct, filter, by_hand=False),
            "by hand": partial(Direct, filter, by_hand=True),
        }
        if not quick:
            makes["loop"] = partial(OnLoop, filter)
        times = measure(filter.name, makes)
        yield Row(filter.name, times.pop("ours"), times, REDUCED_BAR)


def linearised_rows(quick: bool, measure: Callable[..., dict[str, float]]) -> Iterator[Row]:
    """A linearised step against torch.func's recipe."""
    for steps in all_steps(quick):
        makes: dict[str, Callable[[], Any]] = {
            "ours": partial(Ours, steps),
            "torch.func": partial(Recipe, steps, channels_last=False),
            "channels last": partial(Recipe, steps, channels_last=True),
        }
        full = steps.batch == steps.rows
        if full:
            makes["function space"] = partial(InFunctionSpace, steps)
        times = measure(steps.name, makes)
        own, kernel = times.pop("ours"), times.pop("function space", 0.0)
        yield Row(steps.name, own, times, LINEARISED_BAR)
        if full:
            yield Row("the same in function space", kernel, times, FUNCTION_BAR)


# A contest: rows of one kind of work. `measure(name, makes)` times what each of `makes` builds, by its advance(steps).
CONTESTS: list[tuple[str, Callable[[bool, Callable[..., dict[str, float]]], Iterator[Row]]]] = [
    ("reduced against direct", reduced_rows),
    ("linearised against torch.func", linearised_rows),
]


def microseconds(contestant: Any, seconds: float) -> float:
    """CPU microseconds per step of a turn of about so many seconds."""
    steps = 1
    while True:
        began = time.process_time()
        contestant.advance(steps)
        taken = time.process_time() - began
        if taken > seconds / 2:
            return 1e6 * taken / steps
        steps = max(steps + 1, int(steps * min(8.0, seconds / max(taken, 1e-6))))


def in_turns(seconds: float, repeats: int, say: Callable[[str], None]) -> Callable[..., dict[str, float]]:
    """How contestants are measured: each once to warm up, then in turns; the least counts."""

    def measure(name: str, makes: dict[str, Callable[[], Any]]) -> dict[str, float]:
        all_of = {who: make() for who, make in makes.items()}
        for contestant in all_of.values():
            contestant.advance(2)
        turns = [{who: microseconds(each, seconds) for who, each in all_of.items()} for _ in range(repeats)]
        best = {who: min(turn[who] for turn in turns) for who in makes}
        say(f"{name}: " + ", ".join(f"{who} {found:.4g} us" for who, found in best.items()))
        return best

    return measure


def missed(rows: list[Row]) -> list[str]:
    """The bars that are not reached."""
    return [f"{r.setting}: {r.over_best:.2f} times the best peer, not {r.bar:g}" for r in rows if r.over_best < r.bar]


def table(rows: list[Row]) -> str:
    """The rows as text."""
    lines = [f"{'':32}{'ours':>10}{'best peer':>11}{'ratio':>8}{'bar':>6}"]
    for r in rows:
        lines.append(f"{r.setting:32}{r.ours:>10.4g}{min(r.peers.values()):>11.4g}{r.over_best:>8.1f}{r.bar:>6g}")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, shorter turns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    measure = in_turns(*((0.3, 2) if options.quick else (1.0, 4)), _quiet if options.json else print)
    with one_thread():
        rows = [row for _, contest in CONTESTS for row in contest(options.quick, measure)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("CPU us per step, one thread\n" + table(rows))
    print("\n".join(missed(rows)) or "all bars are reached")


def _quiet(line: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    main()
