"""Transformers stacked against one after another: what a step costs, and what it is spent on.

    python -m benchmarks.transformers [--width 64] [--mlp-width 64] [--members 8] [--steps 60]

Times are CPU seconds of one thread, so that a busy machine changes them little.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

from headstart.core.units import Batch, Budget
from headstart.engines import Job, loop
from headstart.engines.ensemble import Ensemble
from headstart.engines.ensemble.cohort import Cohort, Limits
from headstart.engines.member import Member
from headstart.losses import Logistic
from headstart.models import Transformer
from headstart.optimizers import AdamW
from headstart.plans import Online
from headstart.run import Run
from headstart.tasks import Parity


@dataclass(frozen=True)
class Split:
    """CPU milliseconds of a member's step by part; a record (4096 test points) beside them."""

    members: int
    forward_and_backward: float
    optimizer: float
    data: float
    a_record: float

    @property
    def step(self) -> float:
        """Everything but records."""
        return self.forward_and_backward + self.optimizer + self.data


def parity_run(width: int, mlp_width: int, steps: int) -> Run:
    """(10,6)-parity, two layers, four heads, batch 32, AdamW: the laptop preset of the Transformer studies."""
    model = Transformer(width, depth=2, heads=4, mlp_width=mlp_width)
    return Run(
        Parity(10, 6),
        model,
        Online(),
        Logistic(),
        AdamW(1e-3, beta2=0.95),
        batch=Batch(32),
        budget=Budget(steps, steps),
    )


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """The least mean over three rounds, after one call to warm up."""
    call()
    rounds = []
    for _ in range(3):
        began = time.process_time()
        for _ in range(repeats):
            call()
        rounds.append((time.process_time() - began) / repeats)
    return 1e3 * min(rounds)


def split(run: Run, members: int, repeats: int) -> Split:
    """The parts of a step of a stack, each divided by its members."""
    cohort = Cohort([Member.of(i, Job(run.at(i)), "ensemble") for i in range(members)], "cpu", Limits(64, 2**26))
    with torch.no_grad():
        ((x, y),) = cohort.feed.batch(cohort.places, 0)
        count = torch.tensor(32.0)
        network = cohort._network(0)
        gradients = network.gradients(cohort.weights, {}, x, y, count)
        passes = milliseconds(lambda: network.gradients(cohort.weights, {}, x, y, count), repeats)
        update = milliseconds(lambda: cohort.update(cohort.weights, gradients, 0), repeats)
        record = milliseconds(lambda: cohort.evaluate(range(members)), 1)
        block = 64
        drawn = milliseconds(lambda: cohort.feed._draw(cohort.places, 0), 1) / block
    return Split(members, passes / members, update / members, drawn / members, record / members)


def alone(run: Run, repeats: int) -> float:
    """CPU milliseconds of a step of the loop engine: two runs of different lengths, one subtracted from the other."""

    def train(steps: int) -> float:
        began = time.process_time()
        list(loop.Loop().train([Job(replace(run, budget=Budget(steps, steps)))]))
        return time.process_time() - began

    train(2)
    short, long = (min(train(steps) for _ in range(3)) for steps in (2, 2 + repeats))
    return 1e3 * (long - short) / repeats


def main() -> None:
    """Print the table, and the ratio that stacking gains."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("width", 64), ("mlp-width", 64), ("members", 8), ("steps", 60)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = parity_run(options.width, options.mlp_width, options.steps)
    one = alone(run, options.steps)
    rows = [split(run, members, max(5, options.steps // members)) for members in sorted({1, 2, 4, options.members})]
    if options.json:
        print(json.dumps({"alone": one, "stacks": [asdict(row) for row in rows]}))
        return
    print(
        f"(10,6)-parity, 2 layers, width {options.width}, MLP {options.mlp_width}; CPU ms a member and step, one thread"
    )
    print(f"{'members':>8} {'passes':>8} {'AdamW':>8} {'data':>8} {'step':>8} {'a record':>9}")
    for row in rows:
        parts = row.forward_and_backward, row.optimizer, row.data, row.step
        print(f"{row.members:>8} " + " ".join(f"{v:>8.3f}" for v in parts) + f" {row.a_record:>9.1f}")
    print(f"one after another (loop engine): {one:.2f}; {rows[-1].members} stacked: {rows[-1].step:.2f}", end="")
    print(f", {one / rows[-1].step:.1f} times faster; the engine would stack {Ensemble().stack_size(run)}")


if __name__ == "__main__":
    main()
