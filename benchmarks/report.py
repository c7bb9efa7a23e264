"""The tables, as text for the terminal, and the two files: benchmark.md and benchmark.json."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contest import Effort, Result
from benchmarks.growth import Growth, StartUp
from headstart.core.files import replacing
from headstart.lab.provenance import commit, machine, versions

PEERS = ("loop", "vmap", "bmm", "compile", "jax", "chunked")
EXPLANATION = """\
A ratio is our rate over the peer's, the median of interleaved repeats, with the 2.5 and 97.5 percentiles. Ours is timed
as a training of n + 1 steps less one of 1 step; the latter, with the initial weights, test sets and two evaluations of
all members, stands in the column "apart". Peers are timed on steps alone, each at the fastest of the set-ups tried
(threads, processes, members or samples stacked at a time), warmed up, with the same start as ours, and with fresh
samples from its own generator. loop: PyTorch as a user writes it, a process a core. vmap: torch.func. bmm: stacked
products with the backward pass by hand, in reused buffers. compile: torch.compile of the stacked step. jax: vmap, scan
and jit. chunked: bmm over parts of a full batch that fit in cache. The dense FLOPs of a step are samples x (6 x weights
- 2 x first-layer weights); their rate stands beside that of a 1024^3 float32 product on all cores, measured in the same
turns. Above 1 is possible: tables of partial sums do the same step in fewer operations.
"""


@dataclass(frozen=True)
class Report:
    """Everything measured."""

    effort: Effort
    results: Sequence[Result]
    growths: Sequence[Growth] = ()
    memory: Sequence[tuple[str, float]] = ()
    start_up: StartUp | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One a workload and peer: the content of benchmark.json."""
        out = []
        for result in self.results:
            for peer in PEERS:
                if peer not in result.rates:
                    continue
                ratio, low, high = result.ratio(peer)
                out.append(
                    {
                        "workload": result.workload.letter,
                        "variant": result.workload.variant,
                        "engine": result.engine,
                        "peer": peer,
                        "ratio": ratio,
                        "low": low,
                        "high": high,
                        "fraction_of_gemm": result.fraction_of_gemm,
                        "commit": commit(),
                        "steps_per_second": result.rate,
                        "peer_steps_per_second": float(np.median(result.rates[peer])),
                        "peer_setup": result.setups[peer],
                        "members": result.workload.members,
                        "seconds_apart": result.seconds_apart,
                        "peak_memory_bytes": result.peak_memory,
                        "repeats": self.effort.repeats,
                        "quick": self.effort.quick,
                    }
                )
        return out

    def markdown(self) -> str:
        """The page docs/results/benchmark.md."""
        kind = "`make bench QUICK=1`" if self.effort.quick else "`make bench`"
        about = ", ".join(f"{name} {version}" for name, version in versions().items())
        parts = [
            "# Benchmark",
            f"Written by {kind} at commit {commit()} on {machine()}; {about}. "
            f"{self.effort.repeats} repeats of about {self.effort.seconds:g} s each.",
            EXPLANATION.strip(),
            "## Rates",
            _table(*self._rates()),
            "## The set-ups measured",
            _table(["workload", "peer", "model-steps/s", "set-up"], self._setups()),
        ]
        if absent := self._absent():
            parts += ["Absent:", "\n".join(absent)]
        if self.growths:
            growth = [[g.what, g.ends, _times(g.seconds), f"{g.exponent:.2f}"] for g in self.growths]
            parts += [
                "## Growth",
                "Our time for a step of all members (against steps: for all of them), and p of time ~ size^p.",
                _table(["size", "from .. to", "seconds", "p"], growth),
            ]
        if self.memory:
            memory = [[name, f"{size / 1024:.1f}"] for name, size in self.memory]
            parts += ["## Memory of one member", _table(["training on", "KiB a member"], memory)]
        if self.start_up:
            s = self.start_up
            parts += [
                "## Starting",
                f"First call with an empty kernel cache: {s.compile_seconds:.1f} s; cached: {s.cached_seconds:.2f} s. "
                f"`import headstart`: {s.import_seconds:.2f} s; it loads of numba, torch and jax: "
                f"{', '.join(s.imports) or 'none'}.",
            ]
        return "\n\n".join(parts) + "\n"

    def _rates(self) -> tuple[list[str], list[list[str]]]:
        head = ["workload", "members", "engine", "model-steps/s", *PEERS, "of GEMM", "apart", "peak memory (added)"]
        body = []
        for r in self.results:
            ratios = ["{:.2f} ({:.2f}-{:.2f})".format(*r.ratio(p)) if p in r.rates else "" for p in PEERS]
            memory = f"{r.peak_memory / 2**20:.0f} MiB ({r.added_memory / 2**20:.0f})"
            start = [r.workload.name, str(r.workload.members), r.engine, _rate(r.rate)]
            body.append([*start, *ratios, f"{r.fraction_of_gemm:.2f}", f"{r.seconds_apart:.2f} s", memory])
        return head, body

    def _setups(self) -> list[list[str]]:
        return [
            [r.workload.name, peer, _rate(float(np.median(r.rates[peer]))), r.setups[peer]]
            for r in self.results
            for peer in PEERS
            if peer in r.rates
        ]

    def _absent(self) -> list[str]:
        return [f"- {r.workload.name}, {peer}: {why}" for r in self.results for peer, why in r.absent.items()]

    def write(self, folder: Path) -> None:
        """Both files, whole or not at all."""
        contents = {"benchmark.md": self.markdown(), "benchmark.json": json.dumps(self.rows(), indent=1) + "\n"}
        for name, text in contents.items():
            with replacing(folder / name) as temporary:
                temporary.write_text(text)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _times(seconds: Sequence[float]) -> str:
    return ", ".join(f"{s:.3g}" for s in seconds)


def _table(head: list[str], body: list[list[str]]) -> str:
    """A Markdown table with even columns, readable in a terminal too."""
    widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
    lines = [head, ["-" * w for w in widths], *body]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)
