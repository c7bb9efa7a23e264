"""The children of one parent, stacked or not: `python -m benchmarks.growing [--quick] [--json]`.

A post-norm Transformer of 12 layers grows to 16, as in the studies of growing: windows of 32 characters, batches of 16,
AdamW. Its children take the same batches, without evaluation, in five ways: stacked by the ensemble engine on one
thread; the same in two processes, half of the children each; one after another by the loop engine, in one process and
in two; and one after another by Hugging Face, grown by copies of its modules. Its models are GPT-1, which is post-norm
too, and GPT-2, with AdamW in its fused form. Times are processor milliseconds per step of a child, the least of several
turns that every contestant takes after the other. Of two processes the slower one counts, so that it is the time of two
free cores.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from benchmarks.growing_children import Alone, Contestant, Peer, Setting, Stacked, TwoProcesses

# How many times less a child must cost in a stack than alone in the loop, by width, and in two processes than in one.
STACK_BARS, PROCESS_BAR = {32: 1.5, 64: 1.0}, 1.0
PEERS = ("GPT-1", "GPT-2")


@dataclass(frozen=True)
class Row:
    """Processor milliseconds per step of a child, by contestant."""

    width: int
    setting: str
    times: dict[str, float]

    @property
    def stacking(self) -> float:
        """How many times less a child costs in a stack than alone in the loop."""
        return self.times["loop"] / self.times["stacked"]

    @property
    def processes(self) -> float:
        """How many times faster two processes are, the better way of the two, than stacks in one."""
        return self.times["stacked"] / min(self.times["two stacked"], self.times["two loops"])

    @property
    def peer(self) -> float:
        """How many times less a child costs in a stack than by the faster model of Hugging Face."""
        return min(self.times[name] for name in PEERS) / self.times["stacked"]


def settings(quick: bool = False) -> list[Setting]:
    """The rows of the table."""
    return [Setting(width, 3, 1, 8) if quick else Setting(width) for width in (32, 64)]


def contestants(setting: Setting) -> dict[str, Callable[[], Contestant]]:
    """By name, how to make each."""
    return {
        "stacked": partial(Stacked, setting),
        "two stacked": partial(TwoProcesses, Stacked, setting),
        "loop": partial(Alone, setting),
        "two loops": partial(TwoProcesses, Alone, setting),
        **{kind: partial(Peer, setting, kind) for kind in PEERS},
    }


def measure(setting: Setting, steps: int, repeats: int) -> Row:
    """The least of some turns of so many steps."""
    made = {name: make() for name, make in contestants(setting).items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    try:
        for contestant in made.values():
            contestant.advance(2)  # traces, and fills caches
        for _ in range(repeats):
            for name, contestant in made.items():
                times[name].append(1e3 * contestant.advance(steps) / (steps * setting.children))
    finally:
        for contestant in made.values():
            contestant.close()
    return Row(setting.width, setting.name, {name: min(found) for name, found in times.items()})


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    ratios = {"loop / stacked": "stacking", "stacked / two": "processes", "HF / stacked": "peer"}
    names = tuple(rows[0].times)
    lines = [f"{'':24}" + "".join(f"{name:>13}" for name in names) + "".join(f"{name:>16}" for name in ratios)]
    for row in rows:
        times = "".join(f"{row.times[name]:>13.3g}" for name in names)
        lines.append(f"{row.setting:24}{times}" + "".join(f"{getattr(row, name):>16.2f}" for name in ratios.values()))
    return "\n".join(lines)


def missed(rows: Sequence[Row]) -> list[str]:
    """The bars that are not reached."""
    out = []
    for row in rows:
        if row.stacking < (bar := STACK_BARS.get(row.width, 1.0)):
            out.append(f"{row.setting}: a child costs {row.stacking:.2f} times less in a stack, not {bar:g}")
        if row.processes < PROCESS_BAR:
            found = f"{row.processes:.2f} times as fast as one"
            out.append(f"{row.setting}: two processes are {found}, not {PROCESS_BAR:g}")
    return out


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer layers, children and steps")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    steps, repeats = (4, 3) if options.quick else (6, 5)
    rows = [measure(setting, steps, repeats) for setting in settings(options.quick)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("processor ms per step of a child\n" + table(rows))
    print("\n".join(missed(rows)) or "all bars are reached")


if __name__ == "__main__":
    main()
