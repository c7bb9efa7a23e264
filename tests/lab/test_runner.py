import signal
import subprocess
import sys
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import parity_run

import headstart as hs
from headstart.engines import Interrupted
from headstart.lab.runner import _Queue, _Work, execute
from headstart.lab.workers import Parallel, Serial


class Counting(Serial):
    """Trains in this process and remembers what it was given; may stop after some groups."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.trained, self.num_calls, self.stop_after = [], 0, stop_after

    def submit(self, group):
        if self.stop_after is not None and len(self.trained) >= self.stop_after:
            raise KeyboardInterrupt
        self.num_calls += 1
        self.trained += [(job.run.cell, job.run.seed) for job in group.jobs]
        return super().submit(group)


@dataclass(frozen=True)
class Negate:
    semantics = 1
    uses_fresh = False

    def __call__(self, source, site):
        return replace(source, weights={name: -value for name, value in source.weights.items()})


@pytest.fixture
def store(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as opened:
        yield opened


def test_what_is_stored_is_not_trained_again_and_more_seeds_extend_it(store):
    run, pool = parity_run(), Counting()
    assert execute([run.at(s) for s in range(3)], store, pool) == 3
    assert execute([run.at(s) for s in range(5)], store, pool) == 2
    assert execute([run.at(s) for s in range(5)], store, pool) == 0
    assert sorted(seed for _, seed in pool.trained) == [0, 1, 2, 3, 4]


def test_the_same_run_asked_twice_is_trained_once(store):
    assert execute([parity_run(), parity_run()], store, Serial()) == 1


def test_a_child_starts_from_its_sources_weights(store):
    source = parity_run()
    child = parity_run(start=hs.From(source, at=hs.Step(10)))
    execute([child.at(3)], store, Serial())
    before = store.cell_traces(source.cell, [3])[0]
    after = store.cell_traces(child.cell, [3])[0]
    assert after["test_loss"][0] == before["test_loss"][list(before.steps).index(10)]


def test_a_moment_between_records_is_kept_too(store):
    source = parity_run(plan=hs.Fixed(32), batch=hs.FullBatch())
    child = parity_run(plan=hs.Fixed(32), batch=hs.FullBatch(), start=hs.From(source, at=hs.Step(7)))
    execute([child], store, Serial())
    went_on = store.cell_traces(child.cell)[0]
    straight = hs.train(parity_run(plan=hs.Fixed(32), batch=hs.FullBatch(), budget=hs.Budget(27, 1)))[0]
    assert went_on["test_loss"][-1] == straight["test_loss"][-1]


def test_a_shared_source_is_trained_once_for_all_that_start_from_it(store):
    source, pool = parity_run(), Counting()
    children = [parity_run(start=hs.From(source, at=hs.Step(5 * k)), optimizer=hs.SGD(0.2)) for k in (1, 2, 3)]
    grandchild = parity_run(start=hs.From(children[0]), optimizer=hs.SGD(0.3))
    assert execute([run.at(1) for run in [grandchild, *children]], store, pool) == 5
    assert pool.trained.count((source.cell, 1)) == 1
    order = [cell for cell, _ in pool.trained]
    assert order.index(source.cell) < order.index(children[0].cell) < order.index(grandchild.cell)


def test_weights_pass_through_the_transformation(store):
    source = parity_run(model=hs.MLP(width=4, depth=1, bias=False))
    child = parity_run(model=hs.MLP(width=4, depth=1, bias=False), start=hs.From(source, hs.Step(0), Negate()))
    execute([child], store, Serial())
    plain = hs.train(source)[0]
    negated = store.cell_traces(child.cell)[0]
    assert negated["norm_readout"][0] == plain["norm_readout"][0]
    # A linear model of parity has zero mean prediction: negation mirrors the correlation with the labels.
    assert negated["test_loss"][0] != plain["test_loss"][0]


def test_a_source_that_was_stored_without_its_state_is_trained_again_to_the_same_numbers(store):
    source, pool = parity_run(), Counting()
    execute([source], store, pool)
    before = store.cell_traces(source.cell)[0]
    execute([parity_run(start=hs.From(source, at=hs.Step(5)))], store, pool)
    assert pool.trained.count((source.cell, 0)) == 2
    assert np.array_equal(store.cell_traces(source.cell)[0]["test_loss"], before["test_loss"])


def test_a_run_starts_at_a_metric_and_one_whose_source_never_gets_there_is_recorded_as_such(store):
    source = parity_run(budget=hs.Budget(200, 5), optimizer=hs.SGD(0.3))
    easy = parity_run(start=hs.From(source, at=hs.Reaches("test_accuracy", 0.9)))
    hard = parity_run(start=hs.From(source, at=hs.Reaches("test_loss", -1.0)))
    execute([easy, hard], store, Serial())
    assert store.cell_traces(easy.cell)[0]["test_accuracy"][0] >= 0.9
    assert store.cell_traces(hard.cell)[0].status is hs.Status.UNREACHED


def test_an_interrupted_call_keeps_what_is_finished_and_the_next_goes_on(store):
    runs = [parity_run(model=hs.MLP(width=width)) for width in range(2, 8)]
    with pytest.raises(KeyboardInterrupt):
        execute(runs, store, Counting(stop_after=4))
    finished = sum(len(store.seeds(run.cell)) for run in runs)
    assert finished == 4
    pool = Counting()
    execute(runs, store, pool)
    assert len(pool.trained) == 6 - finished


def test_a_run_stopped_in_the_middle_goes_on_from_its_checkpoint_to_the_same_numbers(store):
    run = parity_run(optimizer=hs.AdamW(1e-2))
    plain = hs.train(run)[0]
    stopping = Serial()
    stopping.stop()
    with pytest.raises(Interrupted):
        execute([run], store, stopping)
    assert store.checkpoint_path(run).exists()
    assert store.seeds(run.cell) == set()
    execute([run], store, Serial())
    assert not store.checkpoint_path(run).exists()
    assert np.array_equal(store.cell_traces(run.cell)[0]["test_loss"], plain["test_loss"])


def test_a_diverging_run_is_recorded_and_the_others_go_on(store):
    wild = parity_run(optimizer=hs.SGD(1e6))
    execute([wild, parity_run()], store, Serial())
    trace = store.cell_traces(wild.cell)[0]
    assert trace.status is hs.Status.DIVERGED
    assert np.isfinite(trace["test_loss"]).all()
    assert store.cell_traces(parity_run().cell)[0].status is hs.Status.FINISHED


def test_processes_and_this_process_give_the_same_numbers(store, tmp_path):
    runs = [parity_run().at(s) for s in range(4)]
    execute(runs, store, Serial())
    with hs.open_store(tmp_path / "other.sqlite") as other:
        with Parallel(2) as pool:
            execute(runs, other, pool)
        for one, two in zip(store.cell_traces(runs[0].cell), other.cell_traces(runs[0].cell), strict=True):
            assert np.array_equal(one["test_loss"], two["test_loss"])


def test_a_broken_task_raises_its_own_error_and_keeps_what_is_stored(store):
    from broken_task import BrokenTask

    execute([parity_run()], store, Serial())
    with pytest.raises(RuntimeError, match="the disk of this task is empty"):
        execute([parity_run(task=BrokenTask(6, 2))], store, Serial())
    assert store.seeds(parity_run().cell) == {0}


def test_runs_that_can_share_a_call_are_trained_together_and_stored_as_one_chunk_a_cell(store):
    pool = Counting()
    runs = [parity_run(optimizer=hs.SGD(lr)).at(seed) for lr in (0.1, 0.2) for seed in range(5)]
    execute(runs, store, pool)
    assert pool.num_calls == 1
    (num_chunks,) = store._db.execute("SELECT COUNT(*) FROM chunks").fetchone()
    assert num_chunks == 2


def test_what_was_finished_before_an_interruption_of_its_group_is_stored(store):
    class Half(Serial):
        """Stops a group after three of its runs."""

        def submit(self, group):
            finished = super().submit(replace(group, jobs=group.jobs[:3])).result()
            future = Future()
            future.set_exception(Interrupted(finished))
            return future

    with pytest.raises(Interrupted):
        execute([parity_run().at(seed) for seed in range(6)], store, Half())
    assert len(store.seeds(parity_run().cell)) == 3


def calls_of(queues, slots):
    """How many runs every call takes, by queue, when none of the calls ends before the last is made."""
    ready = {name: _Queue(None, s, most, deque([name] * num)) for name, (num, most, s) in enumerate(queues)}
    work = _Work(None, ready=ready)
    calls = {name: [] for name in work.ready}
    num_calls = 0
    while work.ready:
        _, group = work.take(slots - num_calls % slots, slots)
        calls[group[0]].append(len(group))
        num_calls += 1
    return calls


@given(st.integers(1, 200), st.integers(1, 12), st.integers(1, 5))
def test_runs_of_one_kind_are_dealt_in_equal_calls_that_fill_the_slots(num, most, slots):
    (calls,) = calls_of([(num, most, 3.0)], slots).values()
    assert sum(calls) == num
    assert max(calls) <= most
    assert max(calls) - min(calls) <= 1
    assert min(num, slots) <= len(calls) <= -(-num // (most * slots)) * slots


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12), st.floats(0.01, 100)), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_every_run_is_dealt_once_and_no_call_is_too_large(queues, slots):
    calls = calls_of(queues, slots)
    assert [sum(its) for its in calls.values()] == [num for num, _, _ in queues]
    assert all(max(its) <= most for its, (_, most, _) in zip(calls.values(), queues, strict=True))


def test_two_small_groups_on_two_slots_stay_whole():
    assert calls_of([(2, 8, 1.0), (2, 8, 1.0)], slots=2) == {0: [2], 1: [2]}


def test_one_small_group_on_two_slots_is_shared():
    assert calls_of([(8, 8, 1.0)], slots=2) == {0: [4, 4]}
    assert calls_of([(24, 8, 1.0)], slots=2) == {0: [6, 6, 6, 6]}


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import headstart as hs
from headstart.core.files import replacing
from small_runs import parity_run
with hs.open_store(sys.argv[1]) as store:
    hs.train(parity_run(), store=store)
    for run in (parity_run(), parity_run().at(5)):
        store.checkpoint_path(run).parent.mkdir(exist_ok=True)
        store.checkpoint_path(run).write_bytes(b"left behind")
    with replacing(store.checkpoint_path(run)):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_kill_left_in_the_folder_of_checkpoints_is_swept(tmp_path):
    call = [sys.executable, "-c", KILLED, str(tmp_path / "s.sqlite"), str(Path(__file__).parent)]
    assert subprocess.run(call).returncode == -signal.SIGKILL
    with hs.open_store(tmp_path / "s.sqlite") as store:
        folder = store.checkpoint_path(parity_run()).parent
        assert len(list(folder.iterdir())) == 3
        hs.train(parity_run().at(1), store=store)
        # The checkpoint of a run that is not stored stays: whoever asks for it goes on from there.
        assert list(folder.iterdir()) == [store.checkpoint_path(parity_run().at(5))]
