"""Slurm workers, by submitit's local executor: jobs are processes of this machine, all else is as on a cluster."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from small_runs import Powers, numbered_run, parity_run

import headstart as hs
from headstart.engines import Job, choose
from headstart.lab.backends import Slurm
from headstart.lab.backends.greeting import Greeting, edition
from headstart.lab.backends.slurm_pool import SlurmWorkers
from headstart.lab.backends.slurm_session import Session, abandoned, recover, sessions
from headstart.lab.computed import Computation
from headstart.lab.runner import execute
from headstart.lab.workers import Group

pytest.importorskip("submitit", reason='submitit is not installed: pip install "headstart[slurm]"')
KEY = bytes(32)
LOCAL = Slurm(cluster="local", minutes=10)
# A second or two of the fused engine.
LONG = {"model": hs.MLP(width=32), "budget": hs.Budget(steps=60_000, record_every=200)}


@pytest.fixture
def store(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as opened:
        yield opened


def start(store, jobs=1, slurm=LOCAL, greeting=None):
    return SlurmWorkers(store.path, slurm, jobs, greeting or Greeting(), KEY)


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found


def group_of(store, *runs):
    return Group(choose(runs[0]).engine, [Job(run, checkpoint=store.checkpoint_path(run)) for run in runs], 2.0)


def the_worker(pool):
    """The one that is here and has taken all that it was given."""
    here = [w for name, w in dict(pool.workers).items() if not w.gone and pool.dealer.given.get(name)]
    waiting = list((pool.session.folder / "inbox").rglob("*.task"))
    return here[0].hello if here and not waiting else None


def same(traces, run):
    plain = hs.train(run, seeds=[trace.seed for trace in traces])
    for one, two in zip(traces, plain, strict=True):
        for name in two.values:
            assert np.array_equal(one[name], two[name]), name


@pytest.mark.slow
def test_runs_end_with_the_same_numbers_though_a_worker_is_killed_and_then_the_coordinator(store):
    run = parity_run(**LONG)
    with start(store) as pool:
        assert pool.slots == 1
        call = pool.submit(group_of(store, run))
        os.kill(until(lambda: the_worker(pool)).pid, signal.SIGKILL)
        (outcome,) = call.result(timeout=120)
        same([outcome.trace], run)
        assert sum(worker.gone for worker in pool.workers.values()) == 1
        assert execute([parity_run().at(seed) for seed in range(3)], store, pool) == 3
        with pytest.raises(ValueError, match="invalid literal"):
            pool.call(partial(int, "three")).result(timeout=60)
        # The coordinator dies: nobody reads the segments any more. The worker goes on.
        pool.closing = True
        pool.thread.join()
        last = group_of(store, parity_run().at(7))
        (name,) = pool.dealer.given
        pool.session.give(name, 99, last, KEY)
        pool.session.give(name, 100, Computation(Powers(2.0)), KEY)
        (pool.session.folder / "inbox" / name / "000000101.task").write_bytes(b"no task of ours".ljust(64))
        assert list(abandoned(store.path)) == []  # as long as it lives, nobody else takes it for dead
        time.sleep(0.5)
        pool.session.release()
        assert recover(store, LOCAL, KEY)[1] == []
        assert store.seeds(parity_run().cell) == {0, 1, 2, 7}
        assert store.has_computed(Powers(2.0))
        assert list(sessions(store.path).iterdir()) == []
        assert recover(store, LOCAL, KEY) == (0, [])
    same(store.cell_traces(parity_run().cell), parity_run())


@pytest.mark.slow
def test_near_its_time_limit_a_worker_writes_checkpoints_and_goes_on_when_it_is_queued_again(store):
    run = parity_run(**(LONG | {"budget": hs.Budget(steps=600_000, record_every=200)}))
    with start(store) as pool:
        call = pool.submit(group_of(store, run))
        worker = until(lambda: the_worker(pool))
        time.sleep(1.0)
        os.kill(worker.pid, signal.SIGUSR2)
        again = until(lambda: next((w.hello for w in dict(pool.workers).values() if w.hello and not w.gone), None))
        until(lambda: store.checkpoint_path(run).exists())
        until(lambda: the_worker(pool) or again)
        (outcome,) = call.result(timeout=200)
        assert {w.hello.job for w in pool.workers.values()} == {worker.job}  # the same job, twice
        assert len(pool.workers) == 2
    same([outcome.trace], run)


@pytest.mark.slow
def test_a_stop_lets_workers_write_their_checkpoints_and_the_next_coordinator_goes_on(store):
    run = parity_run(**(LONG | {"budget": hs.Budget(steps=600_000, record_every=200)}))

    class Stopping:
        """A bar that is interrupted once a worker is at it."""

        def begin(self, title, total): ...

        def update(self, done, text=""):
            if done:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), start(store) as pool:
        execute([run], store, pool, progress=Stopping())
    assert store.checkpoint_path(run).exists()
    assert recover(store, LOCAL, KEY) == (0, [])
    with start(store) as pool:
        assert execute([run], store, pool) == 1
    same(store.cell_traces(run.cell), run)


@pytest.mark.slow
def test_a_process_of_a_worker_that_dies_is_replaced_with_its_worker(store):
    run = numbered_run(budget=hs.Budget(steps=20_000, record_every=20_000))  # in a process: no fused engine

    def children(worker):
        out = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(worker.pid)], capture_output=True, text=True)
        return [int(line.split()[0]) for line in out.stdout.splitlines() if "multiprocessing.spawn" in line]

    with start(store) as pool:
        call = pool.submit(group_of(store, run))
        worker = until(lambda: the_worker(pool))
        os.kill(until(lambda: children(worker))[0], signal.SIGKILL)
        (outcome,) = call.result(timeout=200)
        assert len(pool.workers) == 2
    same([outcome.trace], run)


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused_and_the_command_says_so(store):
    older = Greeting(edition={**edition(), "torch": "1.0"})
    with start(store, greeting=older) as pool, pytest.raises(hs.HeadstartError, match="which is not the coordinator's"):
        execute([parity_run()], store, pool)


@pytest.mark.slow
def test_jobs_that_never_begin_are_no_endless_wait(store, monkeypatch):
    with start(store) as pool:
        pool.worker = replace(pool.worker, session=Path("/proc/nowhere"))
        with pytest.raises(hs.HeadstartError, match=r"jobs ended before they began; logs are in .*logs"):
            execute([parity_run()], store, pool)


TWO = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import headstart as hs
from headstart.lab.runner import execute
from small_runs import parity_run
from test_slurm_workers import LOCAL, KEY, start
if __name__ == "__main__":
    with hs.open_store(sys.argv[1]) as store, start(store) as pool:
        execute([parity_run(optimizer=hs.SGD(lr)).at(s) for lr in (0.1, 0.2) for s in range(4)], store, pool)
"""


@pytest.mark.slow
def test_two_coordinators_on_one_store_each_have_their_own_workers_and_lose_nothing(store):
    call = [sys.executable, "-c", TWO, str(store.path), str(Path(__file__).parent)]
    both = [subprocess.Popen(call, stderr=subprocess.PIPE) for _ in range(2)]
    said = [each.communicate(timeout=300)[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    for lr in (0.1, 0.2):
        run = parity_run(optimizer=hs.SGD(lr))
        same(store.cell_traces(run.cell, range(4)), run)
    assert list(sessions(store.path).iterdir()) == []


def test_the_session_of_a_live_coordinator_is_not_taken_for_dead(tmp_path):
    session = Session.new(tmp_path / "s.sqlite")
    assert list(abandoned(tmp_path / "s.sqlite")) == []
    session.release()
    (found,) = abandoned(tmp_path / "s.sqlite")
    assert found.folder == session.folder
    found.release()


def test_a_damaged_segment_of_a_dead_coordinator_is_kept_and_named(store):
    session = Session.new(store.path)
    (session.folder / "segments" / "1-ab.segment").write_bytes(bytes(64))
    session.release()
    num, problems = recover(store, LOCAL, KEY)
    assert num == 0
    assert "is damaged at byte 0" in problems[0]
    assert session.folder.exists()
