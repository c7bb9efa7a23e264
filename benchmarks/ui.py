"""The page in a real Chromium, beside TensorBoard: first paint, a study, a record on its way to a curve, memory.

python -m benchmarks.ui [--runs 1000] [--records 2000] [--peer-runs 100]

The store is generated: 10 arms at equally many seeds, every curve with noise of its own. The budgets: first paint below
1 s, a study below 0.5 s, from a record to a curve below 1 s, 150 MB of memory. Times of ours are the least of several
servers, each with an empty cache. Peers get the leading curve of each run alone, ours all that a run records; they
need minutes to take the curves in, so they have fewer runs by default, and ours is measured on as many too.

It needs Chromium and `pip install 'headstart[ui,tensorboard]' playwright`. trackio, if `--trackio PYTHON` names an
interpreter that has it, logs the same curves from there: it has many dependencies, so it wants an environment of its
own (python -m venv trackio; trackio/bin/pip install trackio).
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

import headstart as hs
from headstart.core.trace import Trace
from headstart.core.units import Cost
from headstart.engines import Outcome, value_names
from headstart.lab.ledger import Edition, Serving
from headstart.lab.live import LiveFile
from headstart.lab.workers import Recorded

STUDY, NUM_ARMS = "generated/curves", 10
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]
BUDGETS = {"first paint": 1.0, "scoreboard drawn": 1.0, "a study": 0.5, "record to curve": 1.0, "server memory": 150e6}


def generate(path: Path, runs: int, records: int) -> list[Trace]:
    """A store with a study of so many runs; returns the traces."""
    rng = np.random.Generator(np.random.Philox(key=22))
    run = hs.Run(hs.Parity(20, 6), hs.MLP(64), hs.Online(), hs.MSE(), hs.SGD(0.1), budget=hs.Budget(10 * records, 10))
    steps = np.arange(records) * 10
    arms, traces, seeds = {}, [], runs // NUM_ARMS
    with hs.open_store(path) as store:
        for number in range(NUM_ARMS):
            cell = replace(run, optimizer=hs.SGD(0.1 * (number + 1)))
            outcomes = []
            for seed in range(seeds):
                rise = 0.5 + 0.5 / (1 + np.exp(-(steps - (3 + number + rng.normal()) * records / 2) / (records / 4)))
                values = {name: rise + 0.02 * rng.normal(size=records) for name in value_names(cell)}
                trace = Trace(cell.cell, seed, steps, 128 * steps, 1e4 * steps, values, labels={"arm": f"arm{number}"})
                outcomes.append(Outcome(cell.at(seed), trace))
            store.add(outcomes, "generated")
            traces += [outcome.trace for outcome in outcomes]
            metric = {"name": "accuracy", "label": "test accuracy", "chance": 0.5, "higher_is_better": True}
            arms[f"arm{number}"] = {
                "label": f"rate {cell.optimizer.lr:g}",
                "colour": None,
                "cell": cell.cell,
                "metric": metric,
                "phases": [],
            }
        claims = [_claim(number) for number in range(20)]
        report = {
            "study": STUDY,
            "title": "Generated curves",
            "paper": "None",
            "figures": "",
            "finding": "Generated.",
            "preset": "laptop",
            "knobs": "{}",
            "seeds": seeds,
            "minutes": 1.0,
            "choices": {},
            "arms": arms,
            "claims": claims,
            "contrasts": {c["id"]: {"arms": ["arm0", "arm9"], "target": 0.9, "axis": "steps"} for c in claims[:1]},
        }
        served = [Serving(arm, "claim", said["cell"], list(range(seeds))) for arm, said in arms.items()]
        store.studies.finish(Edition(STUDY, "laptop", "{}"), served, report)
    return traces


def _claim(number: int) -> dict:
    return {
        "id": f"claim{number}",
        "kind": "primary",
        "statement": f"Claim {number}: small is faster",
        "paper": "2 times",
        "estimate": 0.5,
        "low": 0.4,
        "high": 0.7,
        "known": "exactly",
        "verdict": "holds",
    }


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


@contextmanager
def serving(command: list[str], port: int):
    """A server in a process of its own; gives (process id, seconds until it answers)."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() - began > 120:
                    raise RuntimeError(f"{command[0]} does not answer") from None
                time.sleep(0.05)
        yield process.pid, time.monotonic() - began
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def memory_of(pid: int) -> int:
    """The most bytes that a process and those it started have held, each at its own time."""
    total = 0
    for each in [
        pid,
        *map(int, subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()),
    ]:
        for line in Path(f"/proc/{each}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                total += 1024 * int(line.split()[1])
    return total


def painted(page) -> float:
    """Seconds from the start of the page to its first contents."""
    return page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN") / 1000


WAIT = """([hash, what]) => new Promise((resolve) => {
  const began = performance.now();
  location.hash = hash;
  const look = () => document.querySelector(what) ? resolve((performance.now() - began) / 1000) : setTimeout(look, 4);
  look();
})"""


def measure_ours(browser, path: Path, run: hs.Run) -> dict[str, float]:
    port = free_port()
    command = [sys.executable, "-m", "headstart", "ui", "--store", str(path), "--port", str(port)]
    with serving(command, port) as (pid, ready):
        page = browser.new_page()
        began = time.monotonic()
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector(".claim .dot")
        out = {"server ready": ready, "first paint": painted(page), "scoreboard drawn": time.monotonic() - began}
        out["a study"] = page.evaluate(WAIT, [f"#/study/{STUDY}", ".panels[data-ready] canvas"])
        page.wait_for_selector(".panels.two canvas")
        page.evaluate(WAIT, ["#/cells", "table.cells tbody tr"])
        page.evaluate(WAIT, ["#/now", ".sessions .nothing"])
        out["record to curve"] = _record_to_curve(page, path, run)
        out["server memory"] = memory_of(pid)
        page.close()
    return out


def _record_to_curve(page, path: Path, run: hs.Run, repeats: int = 9) -> float:
    """The median of so many: seconds from a record that is written to a curve that has it."""
    live = LiveFile(path, {"study": STUDY, "preset": "laptop"}, lambda each: "arm0")
    try:
        live.begin([run])
        live.record([Recorded(run.cell, run.seed, Cost(0, 0, 0.0), {"test_accuracy": 0.5})])
        page.wait_for_selector(".session[data-records='1'] canvas")
        times = []
        for number in range(repeats):
            time.sleep(0.13 * (number % 4))
            began = time.monotonic()
            live.record([Recorded(run.cell, run.seed, Cost(number + 1, 8, 1.0), {"test_accuracy": 0.6})])
            page.wait_for_selector(f".session[data-records='{number + 2}'] canvas")
            times.append(time.monotonic() - began)
        return float(np.median(times))
    finally:
        live.close()


def measure_tensorboard(browser, traces: list[Trace], folder: Path) -> dict[str, float]:
    from headstart.integrations.tensorboard import export_events

    class Kept:
        def traces(self, study):
            return [replace(t, values={"test_accuracy": t.values["test_accuracy"]}) for t in traces]

    began = time.monotonic()
    export_events(Kept(), STUDY, folder)
    out = {"events written": time.monotonic() - began}
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(folder),
        "--port",
        str(port),
        "--reload_interval",
        "1",
        "--max_reload_threads",
        "2",
    ]
    with serving(command, port) as (pid, ready):
        page = browser.new_page()
        began = time.monotonic()
        page.goto(f"http://127.0.0.1:{port}/#timeseries", wait_until="commit")
        page.wait_for_load_state("load")
        out |= {"server ready": ready, "first paint": painted(page)}
        page.wait_for_selector("scalar-card, tb-line-chart, line-chart", timeout=300_000)
        out["a study"] = time.monotonic() - began
        out["server memory"] = memory_of(pid)
        page.close()
    return out


TRACKIO = """
import json, sys, time, trackio
runs = json.load(open(sys.argv[1]))
began = time.monotonic()
for name, curve in runs.items():
    trackio.init(project="curves", name=name, embed=False)
    for step, value in enumerate(curve):
        trackio.log({"test_accuracy": value}, step=10 * step)
    trackio.finish()
print(time.monotonic() - began)
"""


def measure_trackio(browser, traces: list[Trace], folder: Path, python: str) -> dict[str, float]:
    folder.mkdir()
    data, script = folder / "curves.json", folder / "log.py"
    data.write_text(json.dumps({f"{t.labels['arm']} {t.seed}": t.values["test_accuracy"].tolist() for t in traces}))
    script.write_text(TRACKIO)
    env = os.environ | {"TRACKIO_DIR": str(folder / "store"), "HF_HOME": str(folder / "hf"), "PYTHONPATH": ""}
    done = subprocess.run([python, str(script), str(data)], env=env, capture_output=True, text=True, check=True)
    out, port = {"events written": float(done.stdout.split()[-1])}, free_port()
    command = [
        "env",
        f"TRACKIO_DIR={folder / 'store'}",
        f"GRADIO_SERVER_PORT={port}",
        "PYTHONPATH=",
        python,
        "-c",
        "import trackio; trackio.show(project='curves', open_browser=False)",
    ]
    with serving(command, port) as (pid, ready):
        page = browser.new_page()
        began = time.monotonic()
        page.goto(f"http://127.0.0.1:{port}/?project=curves", wait_until="commit")
        page.wait_for_selector("canvas, svg.marks, .plot, .vega-embed", timeout=300_000)
        out |= {
            "server ready": ready,
            "first paint": painted(page),
            "a study": time.monotonic() - began,
            "server memory": memory_of(pid),
        }
        page.close()
    return out


def show(name: str, runs: int, records: int, measured: dict[str, float], budgets: bool) -> None:
    load = f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores"
    print(f"\n{name}, {runs} runs of {records} records ({load} meanwhile)")
    for what, value in measured.items():
        said = f"{value / 1e6:6.0f} MB" if what == "server memory" else f"{value:6.2f} s"
        budget = BUDGETS.get(what) if budgets else None
        kept = "" if budget is None else f"  budget {budget / 1e6:g} MB" if budget > 1e3 else f"  budget {budget:g} s"
        print(
            f"  {what:18} {said}{kept}{'' if budget is None else '  kept' if value < budget else '  MISSED'}",
            flush=True,
        )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ui", description="The page beside TensorBoard and trackio."
    )
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument(
        "--peer-runs", type=int, default=100, help="runs of the peers, and of ours beside them; 0: no peers"
    )
    parser.add_argument("--repeats", type=int, default=3, help="servers and pages of ours; times are the least of them")
    parser.add_argument("--trackio", metavar="PYTHON", help="an interpreter that has trackio")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    found = os.environ.get("HEADSTART_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        print("the page was not measured: there is no Chromium; apt-get install chromium, or set HEADSTART_CHROMIUM")
        return 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        for runs in dict.fromkeys((options.runs, *([options.peer_runs] if options.peer_runs else []))):
            path = Path(folder) / f"{runs}.sqlite"
            traces = generate(path, runs, options.records)
            run = hs.Run(hs.Parity(20, 6), hs.MLP(64), hs.Online(), hs.MSE(), hs.SGD(0.77))
            tries = [measure_ours(browser, path, run) for _ in range(options.repeats)]
            ours = {name: (max if name == "server memory" else min)(each[name] for each in tries) for name in tries[0]}
            show("headstart ui", runs, options.records, ours, budgets=True)
            if runs == options.peer_runs:
                theirs = measure_tensorboard(browser, traces, Path(folder) / "events")
                show("TensorBoard", runs, options.records, theirs, budgets=False)
                if options.trackio:
                    show(
                        "trackio",
                        runs,
                        options.records,
                        measure_trackio(browser, traces, Path(folder) / "trackio", options.trackio),
                        budgets=False,
                    )
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
