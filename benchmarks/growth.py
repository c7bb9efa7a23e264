"""How our time grows, what a member costs in memory, and what the first call and the import cost."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

import headstart as hs
from benchmarks.contest import Arena, Say
from benchmarks.workloads import parity

_FIRST_CALL = """
import time
from benchmarks.ours import train
from benchmarks.workloads import workloads
run = {w.letter: w for w in workloads()}["a"].run
began = time.perf_counter()
train(run, 1, 1)
print(time.perf_counter() - began)
"""
_IMPORT = """
import time
began = time.perf_counter()
import headstart, sys
print(time.perf_counter() - began, *[name for name in ("numba", "torch", "jax") if name in sys.modules])
"""


@dataclass(frozen=True)
class Growth:
    """Seconds at sizes, and the slope of a line through their logarithms."""

    what: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """p in seconds ~ size^p."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])

    @property
    def ends(self) -> str:
        """The range of sizes."""
        return f"{self.sizes[0]} .. {self.sizes[-1]}"


Point = tuple[int, hs.Run, int, int]  # size, run, members, steps


def _points(quick: bool) -> dict[str, list[Point]]:
    s = 4 if quick else 1
    exact = [(2**d, parity(d, plan=hs.Online()), 1, max(4, min(2000, 2 ** (25 - d)) // s)) for d in range(10, 25, 2)]
    fixed = [(n, parity(plan=hs.Fixed(n)), 16, max(8, 2**18 // n // s)) for n in (2**e for e in range(10, 17, 2))]
    return {
        "members": [(n, parity(), n, 800 // s) for n in (64, 128, 256, 512, 1024)],
        "steps": [(n // s, parity(), 64, n // s) for n in (1000, 2000, 4000, 8000, 16000)],
        "width": [(n, parity(width=n), 64, 1600 // s) for n in (16, 32, 64, 128, 256)],
        "depth (kernels may change above 2)": [(n, parity(depth=n), 16, 800 // s) for n in (2, 3, 4, 6, 8)],
        "samples, full batch": fixed,
        "points of the population, d = 10 .. 24": exact,
    }


def growths(arena: Arena, quick: bool, say: Say) -> list[Growth]:
    """Time of a step of all members (against steps: of all steps), as one size grows and all else stays."""
    out = []
    for what, points in _points(quick).items():
        say(f"growth with {what}")
        times = []
        for _, run, members, steps in points:
            total = arena.ours.call("ours", "seconds", run, members, steps, 1 if quick else 3)
            times.append(total if what == "steps" else total / steps)
        out.append(Growth(what, tuple(size for size, *_ in points), tuple(times)))
    return out


def member_memory(arena: Arena, say: Say) -> list[tuple[str, float]]:
    """Bytes a member takes by what it trains on."""
    say("memory a member")
    rows = [("online, 100 steps", parity(), 100), ("online, 1000 steps", parity(), 1000)]
    rows += [(f"full batch of 2^{e}", parity(plan=hs.Fixed(2**e)), 4) for e in (12, 14, 16)]
    weights = 4.0 * sum(int(np.prod(p.shape)) for p in parity().parameters)
    measured = [(name, arena.ours.call("ours", "member_bytes", run, steps)) for name, run, steps in rows]
    return [("its weights alone", weights), *measured]


@dataclass(frozen=True)
class StartUp:
    """Seconds of the first call with an empty kernel cache and a full one, of `import headstart`, and what it loads."""

    compile_seconds: float
    cached_seconds: float
    import_seconds: float
    imports: tuple[str, ...]


def start_up(say: Say, repeats: int) -> StartUp:
    """Measured in new processes."""
    say("first call with an empty kernel cache")
    with tempfile.TemporaryDirectory(prefix="headstart-bench-") as folder:
        cold, warm = (float(_python(_FIRST_CALL, NUMBA_CACHE_DIR=folder)) for _ in range(2))
    say("import")
    imports = [_python(_IMPORT).split() for _ in range(repeats)]
    return StartUp(cold, warm, float(np.median([float(i[0]) for i in imports])), tuple(imports[0][1:]))


def _python(code: str, **environment: str) -> str:
    call = [sys.executable, "-c", code]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return done.stdout
