"""Pairs S, S' by us, PyTorch and torch.func: `python -m benchmarks.stability [--quick] [--json]`.

Logistic regressions on 784 pixels, SGD, batches of 128, as in On the Algorithmic Stability of SGD: two models that
differ in one training row. All take one thread of one core and the same rows in the same order, without evaluation. The
loop is what people write, one model after the other: a Linear layer, autograd and SGD; beside it the same with the
gradient by hand, and torch.func's vmap over the models of one or of several pairs. Peers have their pixels in float32,
made once. Beside them networks with batch norm on small images, SGD with momentum: ours is a pair as grouped
convolutions, the loop is one run after the other, and vmap is torch.func over both. Times are CPU microseconds per step
of a pair, the least of several turns that every contestant takes after the other; of the ways of a contestant the
fastest counts.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn.functional import cross_entropy, softplus

import headstart as hs
from headstart.core.kernels.compile import kernels
from headstart.engines.loop import one_thread
from headstart.engines.pairs.networks import NetworkPair, Training

# How many times faster than the loop ours must be, and a pair of networks than two runs.
LOOP_BAR, NETWORK_BAR = 10.0, 1.3
RATE, SCALE = 0.1, 1 / 255


@dataclass(frozen=True)
class Setting:
    """Pairs of logistic regressions on `size` rows."""

    name: str
    size: int
    dim: int = 784
    batch: int = 128


class Pair:
    """Rows, labels, order and initial weights of a pair, drawn from its number."""

    def __init__(self, setting: Setting, number: int = 0, steps: int = 4096) -> None:
        rng = np.random.Generator(np.random.Philox(key=number))
        size, self.batch, self.steps = setting.size, setting.batch, steps
        # The rows of S, z, and a blank row that the kernel fills batches with.
        self.x = rng.integers(0, 256, (size + 2, setting.dim), dtype=np.uint8)
        self.y = np.sign(rng.standard_normal(size + 2)).astype(np.float32)
        self.x[-1], self.y[-1] = 0, 0
        self.place = int(rng.integers(size))
        self.weights = (rng.uniform(-1, 1, setting.dim) / setting.dim**0.5).astype(np.float32)
        self.order = np.empty(steps * setting.batch, dtype=np.int32)
        kernels("engines.pairs.logistic_kernels").fill_order(number, size, self.order)

    def both(self) -> tuple[np.ndarray, np.ndarray]:
        """Pixels float32[2, size, dim] and labels [2, size] of S and S'."""
        x, y = np.stack([self.x[:-2]] * 2), np.stack([self.y[:-2]] * 2)
        x[1, self.place], y[1, self.place] = self.x[-2], self.y[-2]
        return x.astype(np.float32) * np.float32(SCALE), y


class Contestant:
    """Takes steps of some pairs; after the last of an order it begins that again."""

    pairs = 1

    def __init__(self, setting: Setting) -> None:
        self.pair, self.step = Pair(setting), 0

    def advance(self, num_steps: int) -> int:
        """So many steps; the number of pair-steps."""
        for _ in range(num_steps):
            self.one_step(self.step % self.pair.steps)
            self.step += 1
        return num_steps * self.pairs

    def one_step(self, step: int) -> None:
        """Step number `step` of the order."""
        raise NotImplementedError

    def found(self) -> np.ndarray:
        """The weights and biases of the first pair, [2, dim + 1]."""
        raise NotImplementedError


class Ours(Contestant):
    """The kernel: a row is read once for both."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.w, self.biases = np.stack([self.pair.weights] * 2), np.zeros(2, dtype=np.float32)
        self.kernel = kernels("engines.pairs.logistic_kernels").advance

    def advance(self, num_steps: int) -> int:
        """So many steps in as few calls as the order allows."""
        left, p, rate, scale = num_steps, self.pair, np.float32(RATE), np.float32(SCALE)
        while left:
            at = self.step % p.steps
            until = min(at + left, p.steps)
            self.kernel(p.x, p.y, p.order, at, until, p.batch, p.place, rate, scale, self.w, self.biases)
            self.step, left = self.step + until - at, left - (until - at)
        return num_steps

    def found(self) -> np.ndarray:
        return np.concatenate([self.w, self.biases[:, None]], axis=1)


class TorchLoop(Contestant):
    """One model after the other: Linear, autograd, SGD."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        x, y = self.pair.both()
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        self.order = torch.from_numpy(self.pair.order.astype(np.int64))
        self.models = [torch.nn.Linear(setting.dim, 1) for _ in range(2)]
        for model in self.models:
            model.load_state_dict({"weight": torch.from_numpy(self.pair.weights)[None], "bias": torch.zeros(1)})
        self.optimizers = [torch.optim.SGD(model.parameters(), lr=RATE) for model in self.models]

    def one_step(self, step: int) -> None:
        ids = self.order[step * self.pair.batch : (step + 1) * self.pair.batch]
        for x, y, model, optimizer in zip(self.x, self.y, self.models, self.optimizers, strict=True):
            optimizer.zero_grad()
            softplus(-y[ids] * model(x[ids]).squeeze(1)).mean().backward()
            optimizer.step()

    def found(self) -> np.ndarray:
        return np.stack([torch.cat([m.weight[0], m.bias]).detach().numpy() for m in self.models])


class TorchByHand(Contestant):
    """One model after the other, the gradient written out."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        x, y = self.pair.both()
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        self.order = torch.from_numpy(self.pair.order.astype(np.int64))
        self.w, self.b = torch.from_numpy(np.stack([self.pair.weights] * 2)), torch.zeros(2)

    def one_step(self, step: int) -> None:
        ids = self.order[step * self.pair.batch : (step + 1) * self.pair.batch]
        for k in range(2):
            x, y = self.x[k].index_select(0, ids), self.y[k].index_select(0, ids)
            slope = torch.sigmoid(-y * torch.addmv(self.b[k], x, self.w[k])).mul_(y)
            self.w[k].addmv_(x.T, slope, alpha=RATE / len(ids))
            self.b[k] += RATE * slope.mean()

    def found(self) -> np.ndarray:
        return torch.cat([self.w, self.b[:, None]], dim=1).numpy().copy()


class TorchVmap(Contestant):
    """torch.func over the models of several pairs, each with rows of its own."""

    def __init__(self, setting: Setting, pairs: int) -> None:
        super().__init__(setting)
        self.pairs = pairs
        all_pairs = [self.pair, *(Pair(setting, number) for number in range(1, pairs))]
        x, y = (np.concatenate(parts) for parts in zip(*(pair.both() for pair in all_pairs), strict=True))
        self.x, self.y = torch.from_numpy(x), torch.from_numpy(y)
        self.order = torch.from_numpy(self.pair.order.astype(np.int64))
        self.w = torch.from_numpy(np.stack([pair.weights for pair in all_pairs for _ in range(2)]))
        self.b = torch.zeros(2 * pairs)
        self.gradients = vmap(grad(_loss, argnums=(0, 1)))

    def one_step(self, step: int) -> None:
        ids = self.order[step * self.pair.batch : (step + 1) * self.pair.batch]
        by_weight, by_bias = self.gradients(self.w, self.b, self.x[:, ids], self.y[:, ids])
        self.w.sub_(by_weight, alpha=RATE)
        self.b.sub_(by_bias, alpha=RATE)

    def found(self) -> np.ndarray:
        return torch.cat([self.w, self.b[:, None]], dim=1)[:2].numpy().copy()


def _loss(w: torch.Tensor, b: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return softplus(-y * (x @ w + b)).mean()


@dataclass(frozen=True)
class NetworkSetting:
    """Pairs of networks on images of a study."""

    name: str
    width: int = 8
    depth: int = 4
    channels: int = 1
    side: int = 14
    batch: int = 32
    size: int = 640

    @property
    def part(self) -> NetworkPair:
        """The pair, with steps enough."""
        run = hs.Run(
            hs.MadeImages(self.size, 50, self.side, self.channels),
            hs.ConvNet(self.width, self.depth),
            hs.Fixed(self.size, replacement=False),
            hs.CrossEntropy(),
            hs.SGD(0.03, momentum=0.9),
            hs.Batch(self.batch),
            budget=hs.Budget(10**6, 10**6),
        )
        return NetworkPair(run, 0, (0,))


class NetworkContestant(Contestant):
    """Takes steps of a pair of networks, the rows and their order made before."""

    def __init__(self, setting: NetworkSetting) -> None:
        self.part, self.step = setting.part, 0
        run = self.part.run
        self.run = run
        rows = [hs.SwapRow(run.task, self.part.pair, swapped).population(0) for swapped in (False, True)]
        self.x, self.y = (torch.from_numpy(np.stack([getattr(r, name) for r in rows])) for name in ("x", "y"))
        self.course = run.plan.course(run.batch, run.budget.steps)
        self.fresh = {name: torch.from_numpy(value) for name, value in run.fresh_weights().items()}
        self.block = torch.empty(0)

    def advance(self, num_steps: int) -> int:
        """So many steps."""
        for _ in range(num_steps):
            if self.step % 256 == 0:
                self.block = torch.from_numpy(self.course.ids(self.course.start(0), self.step, 256)).reshape(256, -1)
            self.one_step(self.step % 256)
            self.step += 1
        return num_steps

    def module(self) -> torch.nn.Module:
        """One network at its start."""
        module = self.run.model.module(self.run.task.signature)
        module.load_state_dict(self.fresh, strict=False)
        return module


class Grouped(NetworkContestant):
    """Ours: grouped convolutions."""

    def __init__(self, setting: NetworkSetting) -> None:
        super().__init__(setting)
        self.training = Training(self.part)

    def advance(self, num_steps: int) -> int:
        self.training.advance(self.training.step + num_steps)
        return num_steps

    def found(self) -> np.ndarray:
        return np.stack([np.concatenate([w.ravel() for w in s.weights.values()]) for s in self.training.states()])


class TwoRuns(NetworkContestant):
    """One network after the other, autograd, SGD."""

    def __init__(self, setting: NetworkSetting) -> None:
        super().__init__(setting)
        self.models = [self.module() for _ in range(2)]
        self.optimizers = [torch.optim.SGD(m.parameters(), lr=0.03, momentum=0.9) for m in self.models]

    def one_step(self, step: int) -> None:
        rows = self.block[step]
        for x, y, model, optimizer in zip(self.x, self.y, self.models, self.optimizers, strict=True):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()

    def found(self) -> np.ndarray:
        return np.stack([torch.cat([p.detach().flatten() for p in m.parameters()]).numpy() for m in self.models])


class NetworkVmap(NetworkContestant):
    """torch.func over both networks."""

    def __init__(self, setting: NetworkSetting) -> None:
        super().__init__(setting)
        self.base = self.module()
        weights, self.buffers = stack_module_state([self.module() for _ in range(2)])
        self.weights = {name: value.detach() for name, value in weights.items()}
        self.moments = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self.gradients = vmap(grad(self._loss), (0, 0, 0, 0))

    def _loss(self, weights: Any, buffers: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(functional_call(self.base, (weights, buffers), (x,)), y)

    def one_step(self, step: int) -> None:
        rows = self.block[step]
        for name, g in self.gradients(self.weights, self.buffers, self.x[:, rows], self.y[:, rows]).items():
            self.weights[name].sub_(self.moments[name].mul_(0.9).add_(g), alpha=0.03)

    def found(self) -> np.ndarray:
        return torch.cat([value.flatten(1) for value in self.weights.values()], dim=1).numpy().copy()


@dataclass(frozen=True)
class Row:
    """CPU microseconds per step of a pair of ours and of each peer at its best, and how it was set up."""

    setting: str
    ours: float
    peers: dict[str, float]
    ways: dict[str, str]
    bar: float = LOOP_BAR

    @property
    def over_loop(self) -> float:
        """How many of our steps go into one of the loop's."""
        return self.peers["loop"] / self.ours

    @property
    def over_best(self) -> float:
        """The same for the fastest peer."""
        return min(self.peers.values()) / self.ours


def settings(quick: bool = False) -> list[Setting | NetworkSetting]:
    """The rows of the table."""
    small, large = Setting("logistic pair, 800 rows", 800), Setting("logistic pair, 12,800 rows", 12_800)
    digits, colours = NetworkSetting("network pair, 14 x 14"), NetworkSetting("network pair, 16 x 16 x 3", 8, 4, 3, 16)
    return [small, digits] if quick else [small, large, digits, colours]


def contestants(setting: Setting | NetworkSetting) -> dict[str, dict[str, Callable[[], Contestant]]]:
    """By name and way, how to make each."""
    if isinstance(setting, NetworkSetting):
        return {
            "ours": {"grouped": lambda: Grouped(setting)},
            "loop": {"two runs": lambda: TwoRuns(setting)},
            "vmap": {"of both": lambda: NetworkVmap(setting)},
        }
    stacks = {f"{n} pairs": (lambda n=n: TorchVmap(setting, n)) for n in (1, 4)}
    return {
        "ours": {"fused": lambda: Ours(setting)},
        "loop": {"autograd": lambda: TorchLoop(setting)},
        "by hand": {"one by one": lambda: TorchByHand(setting)},
        "vmap": stacks,
    }


def microseconds(contestant: Any, seconds: float) -> float:
    """CPU microseconds per pair-step of a turn of about so many seconds."""
    steps = 1
    while True:
        began = time.process_time()
        done = contestant.advance(steps)
        taken = time.process_time() - began
        if taken > seconds / 2:
            return 1e6 * taken / done
        steps = max(steps + 1, int(steps * min(8.0, seconds / max(taken, 1e-6))))


def measure(setting: Setting | NetworkSetting, seconds: float, repeats: int, say: Callable[[str], None]) -> Row:
    """Every way of a contestant once, then the fastest of each in turns."""
    chosen: dict[str, tuple[float, str, Contestant]] = {}
    for name, ways in contestants(setting).items():
        for way, make in ways.items():
            contestant = make()
            contestant.advance(3)  # compiles, traces, and fills caches
            found = microseconds(contestant, seconds / 2)
            say(f"{setting.name}: {name} ({way}) {found:.3g} us")
            if name not in chosen or found < chosen[name][0]:
                chosen[name] = found, way, contestant
    times = {name: [found] for name, (found, _, _) in chosen.items()}
    for _ in range(repeats):
        for name, (_, _, contestant) in chosen.items():
            times[name].append(microseconds(contestant, seconds))
    best = {name: min(found) for name, found in times.items()}
    bar = NETWORK_BAR if isinstance(setting, NetworkSetting) else LOOP_BAR
    return Row(setting.name, best.pop("ours"), best, {name: way for name, (_, way, _) in chosen.items()}, bar)


def table(rows: list[Row]) -> str:
    """The rows as text."""
    peers = list(rows[0].peers)
    lines = [f"{'':28}" + "".join(f"{name:>9}" for name in ("ours", *peers)) + f"{'/ loop':>9}{'/ best':>9}"]
    for row in rows:
        cells = (row.ours, *(row.peers.get(name) for name in peers))
        times = "".join(f"{'' if value is None else f'{value:.3g}':>9}" for value in cells)
        lines.append(f"{row.setting:28}{times}{row.over_loop:>9.2f}{row.over_best:>9.2f}")
    return "\n".join(lines)


def missed(rows: list[Row]) -> list[str]:
    """The bars that are not reached."""
    return [f"{r.setting}: {r.over_loop:.2f} times the loop, not {r.bar:g}" for r in rows if r.over_loop < r.bar]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, shorter turns")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds, repeats = (0.3, 2) if options.quick else (1.0, 5)
    with one_thread():
        rows = [measure(s, seconds, repeats, _quiet if options.json else print) for s in settings(options.quick)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("CPU us per step of a pair, one thread\n" + table(rows))
    print("\n".join(missed(rows)) or "all bars are reached")


def _quiet(line: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    main()
