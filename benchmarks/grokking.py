"""Modular addition by us, PyTorch, torch.func and JAX: `python -m benchmarks.grokking [--quick] [--json]`.

Weak networks by the hundreds, and eight targets, as in Let Me Grok For You: full batches of a quarter of all pairs,
cross-entropy, AdamW with decay, float32, no evaluation. All take one thread of one core. Times are CPU milliseconds per
step of one member, the least of several turns that every contestant takes after the other. Peers are at their best: of
several ways to write the first layer on an embedding, and sizes of a stack, each is measured by its fastest. The last
rows are gradient descent on XOR clusters by the span engine.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

import headstart as hs
from benchmarks.grokking_peers import TorchLoop, TorchVmap
from benchmarks.span import BAR, span_rows
from headstart.engines import Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.loop import one_thread
from headstart.engines.member import Member

# What ours must be, against the loop for the weak network, and against the best peer in every row.
LOOP_BAR, BEST_BAR = 3.0, 0.95


@dataclass(frozen=True)
class Setting:
    """Members of one architecture on addition modulo p; stack sizes and ways of a peer that are tried."""

    name: str
    p: int
    model: hs.MLP
    members: int
    stacks: tuple[int, ...] = (1, 4, 8)
    train: float = 0.25

    @property
    def run(self) -> hs.Run:
        """A run of it, without records."""
        task = hs.Split(hs.ModularArithmetic(self.p, base=self.p), train=self.train)
        optimizer, budget = hs.AdamW(0.01, weight_decay=1.0), hs.Budget(10**6, 10**6)
        return hs.Run(task, self.model, hs.Online(), hs.CrossEntropy(), optimizer, hs.FullBatch(), budget=budget)


@dataclass(frozen=True)
class Row:
    """Milliseconds per step and member of each contestant at its best, and how it was set up."""

    setting: str
    ours: float
    peers: dict[str, float]
    ways: dict[str, str]

    @property
    def over_loop(self) -> float:
        """How many of our steps go into one of the loop's."""
        return self.peers["loop"] / self.ours

    @property
    def over_best(self) -> float:
        """The same for the fastest peer."""
        return min(self.peers.values()) / self.ours


class Ours:
    """As many members as the engine would stack, or all."""

    def __init__(self, setting: Setting) -> None:
        engine = Ensemble()
        members = [Member.of(i, Job(setting.run.at(i)), engine.name) for i in range(setting.members)]
        self.cohort = engine._cohort(next(iter(engine._chunks(members))), "cpu")
        self.members = len(self.cohort.rows)

    def advance(self, num_steps: int) -> int:
        """Steps of all members; the number of model-steps."""
        self.cohort.advance(range(self.members), self.cohort.step, self.cohort.step + num_steps)
        return num_steps * self.members

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights of all members."""
        return self.cohort.weights


def settings(quick: bool = False) -> list[Setting]:
    """The rows of the table."""

    def target(width: int) -> hs.MLP:
        return hs.MLP(width, depth=3, bias=False, embedding=hs.Embedding(128, rank=4))

    weak = hs.MLP(16, bias=False, embedding=hs.Embedding(4))
    rows = [Setting("256 weak networks, p = 113", 113, weak, 256), Setting("8 targets, p = 59", 59, target(256), 8)]
    if quick:
        return rows
    return [*rows, Setting("8 targets, p = 113", 113, target(256), 8), Setting("8 wide", 113, target(512), 8, (1, 4))]


def contestants(setting: Setting, quick: bool = False) -> dict[str, dict[str, Callable[[], object]]]:
    """By name and way, how to make each."""
    ways, stacks = ("vectors", "tables"), setting.stacks[-1:] if quick else setting.stacks
    makers: dict[str, dict[str, Callable[[], object]]] = {
        "ours": {"stacked": lambda: Ours(setting)},
        "loop": {way: (lambda way=way: TorchLoop(setting, way)) for way in ways},
        "vmap": {f"{way}, {n}": (lambda w=way, n=n: TorchVmap(setting, w, n)) for way in ways for n in stacks},
    }
    try:
        from benchmarks.grokking_jax import Jax
    except ImportError:
        return makers
    ways = ("vectors", "tables", "one-hot")
    makers["jax"] = {f"{way}, {n}": (lambda w=way, n=n: Jax(setting, w, n)) for way in ways for n in stacks}
    return makers


def milliseconds(contestant: object, seconds: float) -> float:
    """CPU milliseconds per model-step of a turn of about so many seconds, one step at least."""
    steps, taken, done = 1, 0.0, 0
    while True:
        began = time.process_time()
        done = contestant.advance(steps)
        taken = time.process_time() - began
        if taken > seconds / 2:
            return 1e3 * taken / done
        steps = max(steps + 1, int(steps * min(8.0, seconds / max(taken, 1e-6))))


def measure(setting: Setting, seconds: float, repeats: int, quick: bool, say: Callable[[str], None]) -> Row:
    """Every way of a contestant once, then the fastest of each in turns."""
    chosen: dict[str, tuple[float, str, object]] = {}
    for name, ways in contestants(setting, quick).items():
        for way, make in ways.items():
            contestant = make()
            contestant.advance(3)  # compiles, traces, and fills caches
            found = milliseconds(contestant, seconds / 2)
            say(f"{setting.name}: {name} ({way}) {found:.3g} ms")
            if name not in chosen or found < chosen[name][0]:
                chosen[name] = found, way, contestant
    times = {name: [found] for name, (found, _, _) in chosen.items()}
    for _ in range(repeats):
        for name, (_, _, contestant) in chosen.items():
            times[name].append(milliseconds(contestant, seconds))
    best = {name: min(found) for name, found in times.items()}
    return Row(setting.name, best.pop("ours"), best, {name: way for name, (_, way, _) in chosen.items()})


def table(rows: list[Row]) -> str:
    """The rows as text."""
    peers = list(rows[0].peers)
    lines = [f"{'':28}" + "".join(f"{name:>9}" for name in ("ours", *peers)) + f"{'/ loop':>9}{'/ best':>9}"]
    for row in rows:
        times = "".join(f"{value:>9.3g}" for value in (row.ours, *row.peers.values()))
        lines.append(f"{row.setting:28}{times}{row.over_loop:>9.2f}{row.over_best:>9.2f}")
    return "\n".join(lines)


def missed(rows: list[Row]) -> list[str]:
    """The bars that are not reached."""
    out = [f"{r.setting}: {r.over_best:.2f} of the best peer, not {BEST_BAR}" for r in rows if r.over_best < BEST_BAR]
    weak = rows[0]
    if weak.over_loop < LOOP_BAR:
        out.append(f"{weak.setting}: {weak.over_loop:.2f} times the loop, not {LOOP_BAR}")
    return out


def main() -> None:
    """Print the table and the rows of the span engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows and ways, shorter turns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds, repeats = (0.4, 2) if options.quick else (1.0, 5)
    with one_thread():
        rows = [
            measure(s, seconds, repeats, options.quick, _quiet if options.json else print)
            for s in settings(options.quick)
        ]
    span = span_rows(options.quick)
    if options.json:
        print(json.dumps({"grokking": [asdict(row) for row in rows], "span": [asdict(row) for row in span]}))
        return
    print("CPU ms per step of a member, one thread\n" + table(rows))
    for row in rows:
        print(f"{row.setting}: " + "; ".join(f"{name} by {way}" for name, way in row.ways.items() if name != "ours"))
    for row in span:
        bar = f" (bar {BAR:.0f})" if not options.quick and row.width > 3 else ""
        said = f"{row.ratio:.0f} times direct PyTorch{bar}"
        print(f"span, dim {row.dim}, width {row.width}: {1e3 * row.ours:.3g} ms against {1e3 * row.peer:.4g}, {said}")
    print("\n".join(missed(rows)) or "all bars are reached")


def _quiet(line: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    main()
