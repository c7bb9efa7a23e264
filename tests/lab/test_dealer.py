"""Who does what on other machines: workers that come, leave and are lost."""

import pickle
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import parity_run

import headstart as hs
from headstart.engines import Interrupted, Job, choose
from headstart.lab.backends.dealer import Answer, Dealer
from headstart.lab.backends.greeting import Greeting, edition
from headstart.lab.workers import Group, Serial, WorkerLost


def dealt(dealer):
    return [(name, task.number) for name, task in dealer.deal()]


def group(num):
    runs = [parity_run().at(seed) for seed in range(num)]
    return Group(choose(runs[0]).engine, [Job(run) for run in runs], 1.0)


def outcomes(work):
    return Serial().submit(work).result()


def test_tasks_go_to_the_emptiest_worker_up_to_its_room():
    dealer = Dealer()
    for _ in range(6):
        dealer.add(int)
    assert dealt(dealer) == []
    dealer.join("a", 2)
    dealer.join("b", 3)
    assert dealt(dealer) == [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("b", 4)]
    dealer.answer("a", Answer(0, "value"))
    assert dealt(dealer) == [("a", 5)]


@given(st.lists(st.tuples(st.sampled_from("jadl"), st.integers(0, 4)), max_size=60))
def test_whoever_comes_and_goes_every_task_is_answered_once(events):
    """j: a worker joins, a: one answers, d: more work, l: one is lost, which counts as no loss of the task here."""
    dealer, futures, doing = Dealer(), [], {}
    for number, (kind, which) in enumerate(events):
        if kind == "j":
            dealer.join(f"worker {number}", which + 1)
        elif kind == "d":
            futures.append(dealer.add(int).future)
        elif dealer.given:
            name = sorted(dealer.given)[which % len(dealer.given)]
            if kind == "l":
                for task in dealer.given[name].values():
                    task.losses = 0
                dealer.lose(name, "gone")
                doing = {task: who for task, who in doing.items() if who != name}
            elif dealer.given[name]:
                task = next(iter(dealer.given[name]))
                dealer.answer(name, Answer(task, task))
                del doing[task]
        for name, task in dealer.deal():
            assert task.number not in doing
            doing[task.number] = name
    dealer.join("last", len(futures) + 1)
    doing |= {task.number: name for name, task in dealer.deal()}
    for task, name in doing.items():
        dealer.answer(name, Answer(task, task))
    assert [future.result(timeout=0) for future in futures] == list(range(len(futures)))
    assert dealer.num_tasks == 0


def test_a_task_that_loses_three_workers_says_so_and_the_others_go_on():
    dealer = Dealer()
    future, other = dealer.add(int).future, dealer.add(int).future
    for name in "abc":
        dealer.join(name, 1)
        dealer.deal()
        dealer.lose(name, "a worker died")
    with pytest.raises(WorkerLost, match="a worker died; 3 workers were lost with the same work"):
        future.result(timeout=0)
    dealer.join("d", 1)
    assert dealt(dealer) == [("d", 1)]
    dealer.answer("d", Answer(1, "done"))
    assert other.result(timeout=0) == "done"


def test_what_a_leaving_worker_had_finished_is_not_trained_again():
    dealer, work = Dealer(), group(4)
    task = dealer.add(work)
    dealer.join("a", 1)
    dealer.deal()
    dealer.answer("a", Answer(0, None, Interrupted(outcomes(work)[:3])))
    dealer.lose("a", "its time was over")
    dealer.join("b", 1)
    ((_, again),) = dealer.deal()
    assert [job.run.seed for job in again.work.jobs] == [3]
    dealer.answer("b", Answer(0, outcomes(again.work)))
    assert [o.run.seed for o in task.future.result(timeout=0)] == [0, 1, 2, 3]


def test_after_a_stop_a_group_says_what_it_had_finished():
    dealer, work = Dealer(), group(2)
    task = dealer.add(work)
    dealer.join("a", 1)
    dealer.deal()
    dealer.stopping = True
    dealer.answer("a", Answer(0, None, Interrupted(outcomes(work)[:1])))
    with pytest.raises(Interrupted) as stopped:
        task.future.result(timeout=0)
    assert len(stopped.value.finished) == 1


def test_a_cancelled_task_is_not_given_to_anybody():
    dealer = Dealer()
    assert dealer.add(int).future.cancel()
    dealer.add(int)
    dealer.join("a", 2)
    assert dealt(dealer) == [("a", 1)]


class Unpicklable(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def test_an_error_that_cannot_be_sent_arrives_as_its_words():
    future = Future()
    future.set_exception(Unpicklable("the disk of this task is empty", 2))
    answer = pickle.loads(Answer.of(3, future).to_bytes())
    assert answer.number == 3
    assert str(answer.error) == "Unpicklable: the disk of this task is empty"
    assert "Unpicklable" in answer.tb


def test_a_worker_of_another_version_is_refused_in_words():
    assert Greeting().refusal() is None
    older = Greeting(edition={**edition(), "headstart": "0.1.0"})
    assert "which is not the coordinator's 0.1.0" in older.refusal()
    assert "install the same version on all machines" in older.refusal()
    assert "another source of headstart" in Greeting(edition={**edition(), "source": "0"}).refusal()


def test_a_worker_without_the_device_is_refused_in_words():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    assert "cuda" in Greeting("cuda").refusal()


def test_checkpoints_are_written_only_where_their_folder_is_shared(tmp_path):
    (tmp_path / "mark").touch()
    work = Group(choose(parity_run()).engine, [Job(parity_run(), checkpoint=tmp_path / "c")], 1.0)
    assert Greeting(shared=tmp_path / "mark").fit(work) == work
    assert Greeting(shared=tmp_path / "elsewhere").fit(work).jobs[0].checkpoint is None


def test_the_same_study_asks_for_calls_of_seconds_where_sending_costs():
    from collections import deque

    from headstart.lab.runner import _Queue, _Work
    from headstart.lab.workers import Pace

    def calls(pace, num, slots=1000):
        work = _Work(None, pace=pace, ready={0: _Queue(None, 0.01, 10_000, deque([hs] * num))})
        out = []
        while work.ready:
            out.append(len(work.take(slots - len(out) % slots, slots)[1]))
        return out

    assert calls(Pace(), 5000) == [5] * 1000
    assert calls(Pace(least=1.0), 5000) == [100] * 50
    assert calls(Pace(least=1.0), 30) == [30]
