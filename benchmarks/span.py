"""Gradient descent on few rows of many numbers: the span engine beside direct PyTorch, `python -m benchmarks.span`.

The setting of XOR clusters in Let Me Grok For You: 400 rows of 80,000 numbers, two layers, exponential loss, decay.
Both take one thread and float32. The peer is PyTorch at its best: gradients by hand, tensors made once, and the decay,
the product and the step on the first layer in one call. What both made of the start is compared before times are taken.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch

import headstart as hs
from headstart.engines.engine import Job
from headstart.engines.loop import one_thread
from headstart.engines.lower import lower
from headstart.engines.member import Member
from headstart.engines.span.engine import Span
from headstart.engines.span.first import begin, first_layer
from headstart.engines.span.rows import SpanRows
from headstart.engines.span.training import Training

_SHRINK, _RATE = 0.01, 0.1
# The bar at 80,000 numbers and width 2048.
BAR = 100.0


@dataclass(frozen=True)
class SpanRow:
    """Seconds per step of ours and of the peer, ours to set up, and the largest difference of their predictions."""

    dim: int
    rows: int
    width: int
    ours: float
    peer: float
    set_up: float
    difference: float

    @property
    def ratio(self) -> float:
        """How many of our steps go into one of the peer's."""
        return self.peer / self.ours


def run_of(dim: int, rows: int, width: int, steps: int) -> hs.Run:
    """Descent on XOR clusters."""
    return hs.Run(
        hs.XorClusters(dim, num_test=10),
        hs.MLP(width, bias=False),
        hs.Fixed(rows),
        hs.Exponential(),
        hs.SGD(_RATE, weight_decay=_SHRINK / _RATE, decay="decoupled"),
        batch=hs.FullBatch(),
        budget=hs.Budget(steps, steps),
    )


class Direct:
    """The same steps in PyTorch, the first layer a matrix [width, dim]."""

    def __init__(self, run: hs.Run) -> None:
        data, weights = lower(run).pool(0), run.fresh_weights()
        self.x, self.y = torch.from_numpy(data.x), torch.from_numpy(data.y)
        self.w, self.a = (torch.from_numpy(weights[f"layers.{i}.weight"]) for i in (0, 1))
        self.z = torch.empty(len(self.y), len(self.w))

    def step(self) -> torch.Tensor:
        """One step; the predictions before it."""
        torch.mm(self.x, self.w.T, out=self.z)
        h = self.z.clamp_(min=0)
        f = (h @ self.a.T).squeeze(-1)
        slope = -self.y * torch.exp(-self.y * f) / len(self.y)
        back = (h > 0) * (slope[:, None] * self.a)
        self.a.mul_(1 - _SHRINK).sub_(slope @ h, alpha=_RATE)
        self.w.addmm_(back.T, self.x, beta=1 - _SHRINK, alpha=-_RATE)
        return f


def ours(run: hs.Run) -> tuple[Training, float]:
    """A run of the span engine at its start, and the seconds that this took."""
    began = time.perf_counter()
    rows = SpanRows(lower(run))
    training = Training(Member.of(0, Job(run), Span().name, (first_layer(run).name,), begin), rows)
    return training, time.perf_counter() - began


def span_row(dim: int, rows: int, width: int, repeats: int = 3, peer_steps: int = 1) -> SpanRow:
    """Best of `repeats`, taken in turns: a loaded machine slows both."""
    warm = 2
    run = run_of(dim, rows, width, 10**6)
    with one_thread():
        training, set_up = ours(run)
        peer = Direct(run)
        for step in range(warm):
            predicted = peer.step()
            mine = training.above(training.hidden(slice(0, rows)), training.weights).detach()
            training.advance([0], step, step + 1)
        difference = float((mine - predicted).abs().max())
        steps, times = max(10, min(1000, 2**26 // (rows * width))), []
        for repeat in range(repeats):
            first = warm + repeat * steps
            began = time.perf_counter()
            training.advance([0], first, first + steps)
            between = time.perf_counter()
            for _ in range(peer_steps):
                peer.step()
            times.append(((between - began) / steps, (time.perf_counter() - between) / peer_steps))
    fastest = np.min(times, axis=0)
    return SpanRow(dim, rows, width, float(fastest[0]), float(fastest[1]), set_up, difference)


def span_rows(quick: bool = False) -> list[SpanRow]:
    """The wide network and the weak one of width 3; quick ones have a tenth of the numbers."""
    dim = 8_000 if quick else 80_000
    return [
        span_row(dim, 400, 256 if quick else 2048),
        span_row(dim, 400, 3, peer_steps=20),
    ]


def main() -> None:
    """Print the rows."""
    print("400 rows, one thread, float32; seconds per step")
    for row in span_rows():
        said = f"dim {row.dim}, width {row.width}: span {row.ours * 1e3:.3g} ms, direct {row.peer * 1e3:.4g} ms"
        print(f"{said}, {row.ratio:.0f}x (set-up {row.set_up:.2g} s; predictions differ by {row.difference:.1g})")


if __name__ == "__main__":
    main()
