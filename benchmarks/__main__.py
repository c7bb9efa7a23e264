"""`python -m benchmarks`: measure everything, print the tables, write docs/results/benchmark.{md,json}."""

import argparse
import sys
import time
from pathlib import Path

from benchmarks.contest import Arena, Effort, contest
from benchmarks.growth import growths, member_memory, start_up
from benchmarks.ours import cores
from benchmarks.report import Report
from benchmarks.workloads import workloads

OUT = Path(__file__).parent.parent / "docs" / "results"
QUICK = Effort(repeats=3, seconds=0.2, seconds_ours=0.4, probe=0.1, quick=True)


def main() -> int:
    """Measure, print, write. Nothing is written when it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Headstart beside its peers.")
    parser.add_argument("--quick", action="store_true", help="under three minutes: fewer repeats, members and set-ups")
    parser.add_argument("--only", help="letters of workloads, such as a,b; leaves out growth, memory and starting")
    parser.add_argument("--out", type=Path, default=OUT, help="where benchmark.md and benchmark.json go")
    options = parser.parse_args()
    letters = options.only.split(",") if options.only else sorted({w.letter for w in workloads()})
    chosen = [w for w in workloads(options.quick) if w.letter in letters]
    if unknown := set(letters) - {w.letter for w in workloads()}:
        parser.error(f"--only: there is no workload {', '.join(sorted(unknown))}; choose from a to g")
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:5.0f} s] {line}", file=sys.stderr, flush=True)

    effort = QUICK if options.quick else Effort()
    arena, finished = Arena(cores()), False
    try:
        results = [contest(workload, arena, effort, say) for workload in chosen]
        if options.only:
            report = Report(effort, results)
        else:
            grown, memory = growths(arena, options.quick, say), member_memory(arena, say)
            report = Report(effort, results, grown, memory, start_up(say, repeats=1 if options.quick else 5))
        finished = True
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        return 130
    finally:
        arena.close(now=not finished)
    print(report.markdown())
    report.write(options.out)
    say(f"wrote {options.out / 'benchmark.md'} and {options.out / 'benchmark.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
