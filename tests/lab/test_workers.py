"""Who trains: messages of progress that add up, and workers that die."""

import os
import signal
from functools import partial

import pytest
from small_runs import numbered_run, parity_run

import headstart as hs
from headstart.engines import Interrupted, Job, choose
from headstart.lab.runner import execute
from headstart.lab.workers import Group, Parallel, Recorded, Serial, WorkerLost, advanced, workers


def group_of(*runs, seconds=3.0):
    return Group(choose(runs[0]).engine, [Job(run) for run in runs], seconds)


def die():
    """What the kernel does to a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


class Dying(Parallel):
    """Workers that die as soon as they are given something."""

    def submit(self, group):
        return self.call(die)


class Shown:
    """What a bar was told."""

    def __init__(self):
        self.total, self.done = None, []

    def begin(self, title, total):
        self.total = total

    def update(self, done, text=""):
        self.done.append(done)


@pytest.fixture
def store(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as opened:
        yield opened


def test_one_job_is_this_process_and_several_are_others():
    assert isinstance(workers(1), Serial)
    assert workers(3).slots == 3


@pytest.mark.parametrize("run", [parity_run(), numbered_run()], ids=["threads", "processes"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_messages_add_up_to_the_estimated_seconds_of_a_group(jobs, run):
    with workers(jobs) as pool:
        outcomes = pool.submit(group_of(*(run.at(seed) for seed in range(4)))).result()
        said = pool.messages()
        assert advanced(said) == pytest.approx(4 * 3.0)
        assert pool.messages() == []
    assert [outcome.run.seed for outcome in outcomes] == [0, 1, 2, 3]


@pytest.mark.parametrize("run", [parity_run(), numbered_run()], ids=["threads", "processes"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_what_runs_record_is_told_on_the_way(jobs, run):
    with workers(jobs) as pool:
        (outcome,) = pool.submit(group_of(run.at(5))).result()
        told = [message for message in pool.messages() if isinstance(message, Recorded)]
    assert told
    assert {(each.cell, each.seed) for each in told} == {(run.cell, 5)}
    trace = outcome.trace
    for each in told:
        at = trace.steps.tolist().index(each.cost.steps)
        assert (each.cost.samples, each.cost.flops) == (trace.samples[at], trace.flops[at])
        assert each.values == {name: curve[at] for name, curve in trace.values.items()}


def test_a_run_that_diverges_is_not_missing_from_the_messages():
    with workers(1) as pool:
        (outcome,) = pool.submit(group_of(parity_run(optimizer=hs.SGD(1e6)))).result()
        assert outcome.trace.status is hs.Status.DIVERGED
        assert advanced(pool.messages()) == pytest.approx(3.0)


def test_the_bar_of_runs_without_sources_ends_at_its_total(store):
    shown = Shown()
    execute([parity_run().at(seed) for seed in range(3)], store, Serial(), progress=shown)
    assert shown.done == sorted(shown.done)
    assert shown.done[-1] == pytest.approx(shown.total)


def test_the_bar_of_runs_that_start_from_others_ends_at_its_total(store):
    shown = Shown()
    execute([parity_run(start=hs.From(parity_run()))], store, Serial(), progress=shown)
    assert shown.done[-1] == pytest.approx(shown.total)


def test_a_worker_that_was_killed_is_lost_and_says_so_in_our_words(store):
    with Parallel(2) as pool:
        with pytest.raises(WorkerLost):
            pool.call(die).result()
        # The pool is broken for good, and says the same at once.
        with pytest.raises(WorkerLost):
            pool.call(os.getpid).result()
        with pytest.raises(WorkerLost):
            pool.submit(group_of(numbered_run())).result()


def test_a_call_whose_worker_was_killed_ends_with_an_error_that_says_what_to_do(store):
    execute([parity_run()], store, Serial())
    with Dying(2) as pool, pytest.raises(hs.HeadstartError, match=r"worker process died.*what was finished is stored"):
        execute([parity_run(), numbered_run()], store, pool)
    assert store.seeds(parity_run().cell) == {0}
    assert execute([numbered_run()], store, Serial()) == 1


def test_an_error_in_a_worker_is_its_own():
    with Parallel(2) as pool, pytest.raises(ValueError, match="invalid literal"):
        pool.call(partial(int, "three")).result()


def test_groups_stop_at_their_next_record_when_asked():
    for pool, run in ((Serial(), parity_run()), (Parallel(2), parity_run()), (Parallel(2), numbered_run())):
        with pool:
            pool.stop()
            with pytest.raises(Interrupted):
                pool.submit(group_of(run)).result()
