"""The live file: what is training now, written beside the store and removed at the end."""

import json
import os
import threading

import pytest
from small_runs import parity_run

import headstart as hs
from headstart.core.units import Cost
from headstart.engines import Job, choose
from headstart.lab import live as module
from headstart.lab.ledger import Edition
from headstart.lab.live import Followed, LiveFile, find_arm, following, live_files
from headstart.lab.progress import Silent
from headstart.lab.runner import execute
from headstart.lab.workers import Group, Recorded, Serial, workers

EDITION = Edition("a/study", "smoke", "{}")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def recorded(run, step, value=0.5):
    return Recorded(run.cell, run.seed, Cost(step, 8 * step, 100.0 * step), {"test_accuracy": value})


@pytest.fixture
def live(tmp_path):
    made = LiveFile(tmp_path / "s.sqlite", {"study": "a/study"}, lambda run: "small")
    yield made
    made.close()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_study_under_way_is_noted_and_the_file_is_gone_at_the_end(tmp_path, jobs, monkeypatch):
    monkeypatch.setattr(module.LiveFile, "close", lambda self: kept.extend(lines(self.path)) or self.path.unlink())
    kept, run = [], parity_run()
    with hs.open_store(tmp_path / "s.sqlite") as store, workers(jobs) as pool:
        arms = [hs.Arm("only", "the only one", run, None)]
        with following(store.path, EDITION, arms, pool, Silent()) as (followed, noted):
            assert execute([run.at(seed) for seed in range(3)], store, followed, progress=noted) == 3
        assert live_files(store.path) == []
        (trace,) = store.cell_traces(run.cell, [0])
    assert kept[0]["session"]["study"] == "a/study"
    assert kept[0]["session"]["labels"] == {"only": "the only one"}
    cell = next(line["cell"] for line in kept if "cell" in line)
    assert (cell["cell"], cell["arm"], cell["steps"]) == (run.cell, "only", run.budget.steps)
    begun = [key for line in kept for key in line.get("begun", ())]
    ended = [key for line in kept for key in line.get("ended", ())]
    assert sorted(begun) == sorted(ended) == [[run.cell, seed] for seed in range(3)]
    first = next(line["record"] for line in kept if "record" in line and line["record"][1] == 0)
    at = trace.steps.tolist().index(first[2])
    assert first[3:5] == [trace.samples[at], trace.flops[at]]
    assert first[5]["test_loss"] == pytest.approx(trace["test_loss"][at], rel=1e-5)


def test_records_are_told_while_this_process_itself_trains(tmp_path, live):
    class Slow(Serial):
        def submit(self, group):
            self.queue.put(recorded(run, 4))
            told.wait(5)  # the coordinator is busy here, and another thread writes
            return super().submit(group)

    run, told = parity_run(), threading.Event()
    live.record = lambda messages, record=live.record: (record(messages), told.set())[0]
    Followed(Slow(), live).submit(Group(choose(run).engine, [Job(run)], 1.0))
    assert told.is_set()


def test_a_file_that_grows_is_written_anew_without_runs_that_have_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 20_000)
    live = LiveFile(tmp_path / "s.sqlite", {}, lambda run: None)
    gone, going = parity_run().at(1), parity_run().at(2)
    live.begin([gone, going])
    for step in range(20):
        live.record([recorded(gone, step), recorded(going, step)])
    live.end([(gone.cell, gone.seed)])
    for step in range(20, 300):
        live.record([recorded(going, step)])
    assert live.path.stat().st_size <= 50_000
    seeds = {line["record"][1] for line in lines(live.path) if "record" in line}
    assert seeds == {2}


def test_a_long_run_keeps_a_bounded_number_of_records(live):
    run = parity_run()
    live.begin([run])
    live.record([recorded(run, step) for step in range(5000)])
    kept = live.records[run.cell, run.seed]
    assert len(kept) <= 512
    assert kept[0][2] == 0


def test_a_disk_that_refuses_stops_nothing(tmp_path):
    live = LiveFile(tmp_path / "no such folder" / "x" / "s.sqlite", {}, lambda run: None)
    live.path.unlink()
    live.path.mkdir()
    live.begin([parity_run()])
    live.record([recorded(parity_run(), 1)])
    live.path.rmdir()
    live.close()


def test_a_file_whose_command_was_killed_is_not_shown_and_goes_with_the_next(tmp_path):
    store = tmp_path / "s.sqlite"
    dead = tmp_path / f"s.sqlite.live-{module._host()}-{2**22 + 7}"
    dead.write_text("{}\n")
    own = tmp_path / f"s.sqlite.live-{module._host()}-{os.getpid()}"
    own.write_text("{}\n")
    assert live_files(store) == [own]
    with following(store, EDITION, [], Serial(), Silent()):
        assert not dead.exists()


def test_a_run_of_a_sweep_serves_its_arm():
    run = parity_run()
    swept = hs.Arm("swept", "swept", run, hs.rates(0.1, 0.2))
    follows = hs.Arm("follows", "follows", parity_run(plan=hs.Fixed(16)), hs.RateOf("swept"))
    other = parity_run(optimizer=hs.SGD(0.777))
    assert find_arm(other, [follows, swept]) == "swept"
    assert find_arm(parity_run(plan=hs.Fixed(16), optimizer=hs.SGD(0.3)), [swept, follows]) == "follows"
    assert find_arm(parity_run(plan=hs.Fixed(32)), [swept, follows]) is None
