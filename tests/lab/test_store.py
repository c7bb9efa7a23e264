import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import parity_run

import headstart as hs
from headstart.engines import Outcome, choose
from headstart.engines.engine import Job


def outcomes(run, seeds, keep=()):
    return list(choose(run).engine.train([Job(run.at(seed), keep=keep) for seed in seeds]))


def same(one, other):
    return (
        np.array_equal(one.steps, other.steps)
        and np.array_equal(one.samples, other.samples)
        and one.values.keys() == other.values.keys()
        and all(np.array_equal(one[name], other[name]) for name in one.values)
        and one.status == other.status
    )


def test_traces_come_back_as_they_went_in(tmp_path):
    run = parity_run()
    trained = outcomes(run, range(3))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add(trained, "loop")
        back = store.cell_traces(run.cell)
    assert back.seeds == (0, 1, 2)
    assert all(same(trace, outcome.trace) for trace, outcome in zip(back, trained, strict=True))


def test_members_of_one_chunk_may_end_at_different_records(tmp_path):
    run = parity_run()
    whole, cut = outcomes(run, range(2))
    t = cut.trace
    short = hs.Trace(
        t.cell, 1, t.steps[:2], t.samples[:2], t.flops[:2], {k: v[:2] for k, v in t.values.items()}, hs.Status.DIVERGED
    )
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add([whole, Outcome(cut.run, short)], "loop")
        back = store.cell_traces(run.cell)
    assert same(back[0], whole.trace)
    assert same(back[1], short)


def test_a_stored_seed_is_never_overwritten(tmp_path):
    run = parity_run()
    first = outcomes(run, [0])[0]
    t = first.trace
    other = hs.Trace(t.cell, 0, t.steps, t.samples, t.flops, {k: v + 1 for k, v in t.values.items()})
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add([first], "loop")
        store.add([Outcome(run, other)], "loop")
        assert same(store.cell_traces(run.cell)[0], t)


def test_a_stored_cell_gives_back_its_run(tmp_path):
    run = parity_run(plan=hs.Phases((hs.Phase(size=32, steps=5), hs.Phase())), optimizer=hs.AdamW(1e-3))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add(outcomes(run, [4]), "loop")
        assert store.run_of(run.cell) == run


def test_weights_come_back_bit_for_bit_and_none_says_never_reached(tmp_path):
    run = parity_run()
    reached, never = hs.Step(10), hs.Reaches("test_loss", -1.0)
    trained = outcomes(run, [0], keep=(reached, never))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add(trained, "loop")
        weights = store.weights(run, reached)
        assert all(np.array_equal(weights[name], value) for name, value in trained[0].weights[reached].items())
        assert store.weights(run, never) is None


def test_a_store_of_a_newer_format_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    hs.open_store(path).close()
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET value = '999'")
    db.commit()
    db.close()
    with pytest.raises(hs.HeadstartError, match=r"format 999.*upgrade"):
        hs.open_store(path)
    db = sqlite3.connect(path)
    assert db.execute("SELECT value FROM meta").fetchone() == ("999",)
    db.close()


@pytest.mark.parametrize("content", [b"this is not a database, it is a letter to a friend " * 50, b"\0" * 5000])
def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "letter"
    path.write_bytes(content)
    with pytest.raises(hs.HeadstartError, match=r"letter cannot be used.*--store"):
        hs.open_store(path)
    assert path.read_bytes() == content


def test_an_unwritable_place_is_named_with_the_fix(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(hs.HeadstartError, match="HEADSTART_STORE"):
        hs.open_store(blocked / "store.sqlite")


def test_a_directory_holds_its_store(tmp_path):
    with hs.open_store(tmp_path) as store:
        assert store.path == tmp_path / "store.sqlite"


def test_a_corrupt_chunk_is_named_and_repair_drops_only_it(tmp_path):
    run, path = parity_run(), tmp_path / "s.sqlite"
    with hs.open_store(path) as store:
        store.add(outcomes(run, [0]), "loop")
        store.add(outcomes(run, [1]), "loop")
    db = sqlite3.connect(path)
    db.execute("UPDATE curves SET data = zeroblob(length(data)) WHERE chunk = 1 AND metric = 'test_loss'")
    db.commit()
    db.close()
    with hs.open_store(path) as store:
        with pytest.raises(hs.HeadstartError, match=r"chunk 1 \(test_loss\).*--repair"):
            store.cell_traces(run.cell)
        assert store.repair() == [1]
        assert store.cell_traces(run.cell).seeds == (1,)
        assert hs.train(run, seeds=[0, 1], store=store).seeds == (0, 1)


WRITER = """
import sys; sys.path.insert(0, sys.argv[3])
from small_runs import parity_run
import headstart as hs
with hs.open_store(sys.argv[1]) as store:
    for start in range(0, 40, 4):
        hs.train(parity_run(), seeds=range(start + int(sys.argv[2]), start + int(sys.argv[2]) + 4), store=store)
"""


def test_two_processes_writing_one_store_lose_nothing(tmp_path):
    path, here = tmp_path / "s.sqlite", str(Path(__file__).parent)
    with ThreadPoolExecutor() as pool:
        calls = [[sys.executable, "-c", WRITER, str(path), offset, here] for offset in ("0", "2")]
        done = list(pool.map(lambda call: subprocess.run(call, capture_output=True, text=True), calls))
    assert [d.returncode for d in done] == [0, 0], done[0].stderr + done[1].stderr
    with hs.open_store(path) as store:
        traces = store.cell_traces(parity_run().cell)
        assert traces.seeds == tuple(range(42))
        assert same(traces[17], outcomes(parity_run(), [17])[0].trace)
        rows = store._db.execute("SELECT COUNT(*), COUNT(DISTINCT seed) FROM runs").fetchone()
    assert rows == (42, 42)


def test_a_summary_is_kept_without_curves_and_curves_asked_for_later_are_trained(tmp_path):
    from headstart.lab.runner import execute
    from headstart.lab.store import Keep
    from headstart.lab.workers import Serial

    run = parity_run()
    with hs.open_store(tmp_path / "s.sqlite") as store:
        assert execute([run.at(s) for s in range(3)], store, Serial(), keep=Keep.SUMMARY) == 3
        short = store.summaries(run.cell)
        assert store.seeds(run.cell) == set()
        assert execute([run.at(s) for s in range(3)], store, Serial(), keep=Keep.SUMMARY) == 0
        assert execute([run.at(s) for s in range(3)], store, Serial()) == 3
        traces = store.cell_traces(run.cell)
        assert [s.final for s in short] == [t["test_accuracy"][-1] for t in traces]
        assert [(s.area, s.final) for s in store.summaries(run.cell)] == [(s.area, s.final) for s in short]


def test_a_hundred_thousand_summaries_take_seconds_and_megabytes(tmp_path):
    import time

    run = parity_run()
    trained = outcomes(run, [0])[0]
    many = [Outcome(run.at(seed), replace(trained.trace, seed=seed)) for seed in range(100_000)]
    began = time.monotonic()
    with hs.open_store(tmp_path / "s.sqlite") as store:
        from headstart.lab.store import Keep

        store.add(many, "loop", Keep.SUMMARY)
        assert len(store.summaries(run.cell)) == 100_000
    assert time.monotonic() - began < 30
    assert (tmp_path / "s.sqlite").stat().st_size < 20e6
