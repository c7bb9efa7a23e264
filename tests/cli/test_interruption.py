"""Runs that are killed or interrupted lose nothing and end with the same claims."""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import pytest

from headstart.cli import main

# Its sweeps are successive halving, on 1, 2 and 4 seeds, in 52 runs of which 18 explore.
STUDY = Path(__file__).with_name("halving_study.py")
RUN = ["run", str(STUDY), "--preset", "smoke", "--jobs", "2", "--json", "--store"]
# Once so many runs are stored, it does not go on while its note is there: signals always find it in the middle.
HELD = """
import sys, time
from pathlib import Path
from headstart.cli import main
from headstart.lab.store import Store

add, number, note, held = Store.add, int(sys.argv[1]), Path(sys.argv[2]), []

def add_and_wait(store, *args):
    add(store, *args)
    (stored,) = store.database.execute("SELECT COUNT(*) FROM runs").fetchone()
    if stored >= number and not held:
        held.append(note.touch())
        while note.exists():
            time.sleep(0.02)

Store.add = add_and_wait
main(sys.argv[3:])
"""


def hear_ctrl_c():
    """A shell makes its background jobs deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(path, *program, prepare=hear_ctrl_c):
    call = [sys.executable, *(program or ("-m", "headstart")), *RUN, str(path)]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=prepare)


def start_and_hold(path, number, **options):
    """A process that stands still, in the middle, once so many runs are stored."""
    note = path.with_name("held")
    process = start(path, "-c", HELD, str(number), str(note), **options)
    began = time.monotonic()
    while not note.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < 300
        time.sleep(0.02)
    return process


def finished_runs(path):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as db:
        return db.execute("SELECT COUNT(*) FROM runs").fetchone()[0]


def children_of(pid):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(word) for word in out.split()]


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def said(out):
    report = json.loads(out)
    return report["claims"], report["choices"]


def claims(path):
    out = io.StringIO()
    with redirect_stdout(out):
        main([*RUN, str(path)])
    return said(out.getvalue())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return claims(tmp_path_factory.mktemp("whole") / "s.sqlite")


@pytest.mark.parametrize("number", [5, 24], ids=["while exploring", "while halving"])
def test_a_killed_run_started_again_ends_with_the_same_claims_and_choices(tmp_path, undisturbed, number):
    path = tmp_path / "s.sqlite"
    process = start_and_hold(path, number)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert finished_runs(path) >= number
    assert claims(path) == undisturbed


def test_worker_processes_die_with_the_run_that_was_killed(tmp_path):
    study = Path(__file__).parents[1] / "studies" / "users_study.py"
    call = [sys.executable, "-m", "headstart", "run", str(study), "--set", "steps=1000000", "--jobs", "2"]
    process = subprocess.Popen([*call, "--store", str(tmp_path / "s.sqlite")], stderr=subprocess.DEVNULL)
    began = time.monotonic()
    # Two workers and the process that tracks their shared memory.
    while len(workers := children_of(process.pid)) < 2:
        assert process.poll() is None
        assert time.monotonic() - began < 300
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 120
    while (alive := [pid for pid in workers if is_running(pid)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive, "workers outlive the run that was killed"


STOPS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("sent", "code"), STOPS, ids=["ctrl-c", "sigterm", "sighup"])
def test_a_stop_keeps_what_is_finished_and_says_so_in_the_exit_code(tmp_path, undisturbed, sent, code):
    path = tmp_path / "s.sqlite"
    process = start_and_hold(path, 5)
    process.send_signal(sent)
    _, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert finished_runs(path) >= 5
    assert claims(path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), STOPS[1:], ids=["sigterm", "sighup"])
def test_a_signal_to_the_workers_too_lets_them_write_their_checkpoints(tmp_path, sent, code):
    """A batch system ends every process of a job, and so does a terminal that closes."""
    study = Path(__file__).parents[1] / "studies" / "users_study.py"
    path = tmp_path / "s.sqlite"
    call = [sys.executable, "-m", "headstart", "run", str(study), "--set", "steps=2000000", "--jobs", "2"]
    call += ["--store", str(path)]
    process = subprocess.Popen(call, stderr=subprocess.PIPE, text=True, start_new_session=True)
    began = time.monotonic()
    while len(list(path.with_name("s.sqlite.checkpoints").glob("*.safetensors"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < 300
        time.sleep(0.1)
    checkpoints = {p: p.stat().st_mtime_ns for p in path.with_name("s.sqlite.checkpoints").glob("*.safetensors")}
    os.killpg(process.pid, sent)
    _, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert all(p.stat().st_mtime_ns > before for p, before in checkpoints.items())


@pytest.mark.slow
def test_under_nohup_a_closed_terminal_stops_nothing(tmp_path, undisturbed):
    process = start_and_hold(tmp_path / "s.sqlite", 5, prepare=partial(signal.signal, signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    (tmp_path / "held").unlink()
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert said(out) == undisturbed


@pytest.mark.slow
def test_two_runs_of_one_study_into_one_store_lose_nothing(tmp_path, undisturbed):
    path = tmp_path / "s.sqlite"
    processes = [start(path), start(path)]
    outs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outs
    for out, _ in outs:
        assert said(out) == undisturbed


@pytest.mark.slow
def test_killed_simulations_started_again_end_with_the_same_claims(tmp_path):
    def begin(path):
        call = [sys.executable, "-m", "headstart", RUN[0], "less_data/two_phase_theory", *RUN[2:], str(path)]
        return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def finished(path):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as db:
                return db.execute("SELECT COUNT(*) FROM simulations").fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    process, path = begin(tmp_path / "killed.sqlite"), tmp_path / "killed.sqlite"
    began = time.monotonic()
    while finished(path) < 3:
        assert process.poll() is None
        assert time.monotonic() - began < 300
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert finished(path) >= 3
    reports = []
    for store in (path, tmp_path / "whole.sqlite"):
        out, _ = begin(store).communicate(timeout=300)
        reports.append(json.loads(out)["claims"])
    assert reports[0] == reports[1]
