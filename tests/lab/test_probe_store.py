"""What a probe keeps: finished runs are not trained again, runs under way go on exactly, and changes are noticed."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import probed_problems
import pytest
import torch
from torch import nn

import headstart as hs
from headstart.lab.probe_arms import probe_arms
from headstart.lab.probe_problem import Problem, split
from headstart.lab.probe_store import ProbeStore
from headstart.lab.probe_training import ProbeRun, Stopped, records_of, train_run
from headstart.lab.progress import Silent

QUICK = {"steps": 60, "seeds": 2, "max_seeds": 2, "selection_seeds": 1, "rates": (0.5, 1.0)}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def known(outcome):
    """What an outcome says, without its cost."""
    return {name: value for name, value in outcome.to_json().items() if name != "cost"}


def test_finished_runs_are_not_trained_again_and_more_seeds_add_to_them(tmp_path):
    first = hs.probe(probed_problems.linear_regression, **QUICK, store=tmp_path)
    again = hs.probe(probed_problems.linear_regression, **QUICK, store=tmp_path)
    assert known(again) == known(first)
    assert (first.cost.num_stored, again.cost.num_stored) == (0, first.cost.num_runs)
    assert again.cost.steps == 0
    more = hs.probe(probed_problems.linear_regression, **QUICK | {"seeds": 3, "max_seeds": 3}, store=tmp_path)
    assert more.cost.num_stored == first.cost.num_runs
    assert more.cost.num_runs == first.cost.num_runs + len(first.arms)
    assert len(list(tmp_path.iterdir())) == 1


class Impatient(Silent):
    """Ctrl-C after so many records."""

    def __init__(self, records):
        self.left = records

    def update(self, done, text=""):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_probe_that_is_interrupted_anywhere_ends_as_one_that_is_not(tmp_path):
    whole = hs.probe(probed_problems.linear_regression, **QUICK)
    stops = 0
    for records in count(30, 57):
        try:
            outcome = hs.probe(
                probed_problems.linear_regression, **QUICK, store=tmp_path / "a.sqlite", progress=Impatient(records)
            )
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops > 2
    assert known(outcome) == known(whole)
    assert outcome.cost.num_stored > 0


def noisy_problem():
    """Dropout, momentum and decay: all that a checkpoint must keep."""
    given = probed_problems.linear_regression()
    return given | {
        "model": lambda: nn.Sequential(
            nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1), nn.Flatten(0)
        ),
        "optimizer": torch.optim.AdamW,
        "lr": 0.01,
    }


@pytest.mark.parametrize("stop_at", [1, 7, 15])
def test_a_run_under_way_goes_on_bit_for_bit(stop_at, tmp_path):
    problem = Problem.of(noisy_problem)
    data = split(problem, 0, 256)
    run = ProbeRun(probe_arms(data.num_train, 32, 60)[-1], 0.01, 3, records_of(60, 28))
    whole = train_run(problem, data, run)
    heard = []

    def stops(steps):
        heard.append(steps)
        return len(heard) == stop_at

    with pytest.raises(Stopped):
        train_run(problem, data, run, checkpoint=tmp_path / "run.pt", heard=stops)
    rest = []
    assert train_run(problem, data, run, checkpoint=tmp_path / "run.pt", heard=lambda s: rest.append(s)) == whole
    assert sum(rest) == 60
    assert rest[0] == sum(heard)  # what is done is said at once, and not done again


def test_a_checkpoint_that_is_cut_short_is_begun_again(tmp_path):
    problem = Problem.of(noisy_problem)
    data = split(problem, 0, 256)
    run = ProbeRun(probe_arms(data.num_train, 32, 60)[0], 0.01, 3, records_of(60, 28))
    (tmp_path / "run.pt").write_bytes(b"half a checkpoint")
    assert train_run(problem, data, run, checkpoint=tmp_path / "run.pt") == train_run(problem, data, run)


SCRIPT = """
import os, time
import torch
from torch import nn
from torch.utils.data import TensorDataset

x = torch.randn(5000, 10, generator=torch.Generator().manual_seed(0))

def slowly(prediction, target):
    time.sleep(float(os.environ.get("NAP", "0")))
    return nn.functional.mse_loss(prediction, target)

def factory():
    return {
        "model": lambda: nn.Sequential(nn.Linear(10, 1), nn.Flatten(0)), "dataset": TensorDataset(x, x.sum(dim=1)),
        "loss": slowly, "optimizer": torch.optim.SGD, "lr": 0.05,
    }
"""


SLOW = [pytest.param(way, marks=pytest.mark.slow) for way in (signal.SIGTERM, signal.SIGINT)]


@pytest.mark.parametrize("way", [signal.SIGKILL, *SLOW])
def test_a_probe_in_processes_that_is_killed_goes_on(way, tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    call = [sys.executable, "-m", "headstart", "probe", "mine:factory", "--json", "--steps", "40", "--seeds", "2"]
    call += ["--max-seeds", "2", "--selection-seeds", "1", "--rates", "1", "2", "--store", "kept"]
    paths = [str(Path(hs.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    settings = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*call, "--jobs", "2"], cwd=tmp_path, env=settings | {"NAP": "0.01"}, stderr=subprocess.PIPE, text=True
    )
    while num_stored(tmp_path / "kept") < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(way)
    _, said = process.communicate(timeout=300)
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[way], said
    assert "Traceback" not in said
    before = num_stored(tmp_path / "kept")
    outcome = in_directory(tmp_path, hs.probe, store=tmp_path / "kept")
    assert before <= outcome.cost.num_stored < outcome.cost.num_runs
    assert known(outcome) == known(in_directory(tmp_path, hs.probe))
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".sqlite"]  # no checkpoint is left


def in_directory(folder, probe, **options):
    """The same probe in this process."""
    sys.path.insert(0, str(folder))
    sys.modules.pop("mine", None)
    try:
        return probe("mine:factory", steps=40, seeds=2, max_seeds=2, selection_seeds=1, rates=(1.0, 2.0), **options)
    finally:
        sys.path.remove(str(folder))


def num_stored(folder):
    files = list(folder.glob("*.sqlite")) if folder.exists() else []
    try:
        return sum(sqlite3.connect(file).execute("select count(*) from runs").fetchone()[0] for file in files)
    except sqlite3.Error:
        return 0


def test_two_processes_give_what_one_gives(tmp_path):
    one = hs.probe("probed_problems:linear_regression", **QUICK)
    two = hs.probe(probed_problems.linear_regression, **QUICK, jobs=2, store=tmp_path)
    assert known(two) == known(one)


def test_a_fault_of_the_users_code_in_a_process_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "faulty.py").write_text(
        SCRIPT.replace("time.sleep", "1 / (multiprocessing.parent_process() is None); float").replace(
            "import os,", "import multiprocessing, os,"
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(hs.HeadstartError, match=r"loss=\.\.\.\) raised ZeroDivisionError.*faulty\.py, line"):
        hs.probe("faulty:factory", **QUICK, jobs=2)


def test_a_problem_that_changed_begins_anew(tmp_path):
    given, few = probed_problems.linear_regression(), QUICK | {"steps": 40}
    first = hs.probe(given, **few, store=tmp_path / "a.sqlite")
    x, y = given["dataset"].tensors
    last = y.clone()
    last[-1] += 1
    changes = [
        {"dataset": torch.utils.data.TensorDataset(x, last)},
        {"optimizer": lambda parameters, lr: torch.optim.SGD(parameters, lr, weight_decay=1e-9)},
        {"model": lambda: nn.Sequential(nn.Linear(10, 1, bias=False), nn.Flatten(0))},
        {"loss": nn.functional.l1_loss},
        {"batch_size": 31},
    ]
    for change in changes:
        assert hs.probe(given | change, **few, store=tmp_path / "a.sqlite").cost.num_stored == 0, change
    assert hs.probe(given, **few, store=tmp_path / "a.sqlite").cost.num_stored == first.cost.num_runs


def test_a_damaged_run_is_trained_again(tmp_path):
    file = tmp_path / "a.sqlite"
    first = hs.probe(probed_problems.linear_regression, **QUICK, store=file)
    with sqlite3.connect(file) as database:
        key, curve = database.execute("select key, curve from runs limit 1").fetchone()
        database.execute("update runs set curve = ? where key = ?", (bytes([curve[0] ^ 1]) + curve[1:], key))
    again = hs.probe(probed_problems.linear_regression, **QUICK, store=file)
    assert again.cost.num_stored == first.cost.num_runs - 1
    assert known(again) == known(first)


def test_a_file_that_is_no_store_of_probes_is_refused_and_stays_as_it_is(tmp_path):
    other, text = tmp_path / "other.sqlite", tmp_path / "notes.txt"
    with sqlite3.connect(other) as database:
        database.execute("create table mine (x)")
    text.write_text("not a database, but long enough to be looked at" * 20)
    for file in (other, text):
        before = file.read_bytes()
        with pytest.raises(hs.HeadstartError, match=file.name):
            ProbeStore(file, "probe", 0)
        assert file.read_bytes() == before
    (tmp_path / "plain").write_text("")
    with pytest.raises(hs.HeadstartError, match="name another with --store"):
        ProbeStore(tmp_path / "plain" / "below.sqlite", "probe", 0)
