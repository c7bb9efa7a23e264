import json
import sqlite3
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import parity_run

import headstart as hs
from headstart.core.encoding import canonical, identity
from headstart.engines import Outcome, choose
from headstart.engines.engine import Job
from headstart.lab.ledger import Edition


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


def test_a_state_comes_back_bit_for_bit_and_none_says_never_reached(tmp_path):
    run = parity_run(optimizer=hs.AdamW(1e-2))
    reached, never = hs.Step(10), hs.Reaches("test_loss", -1.0)
    trained = outcomes(run, [0], keep=(reached, never))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add(trained, "loop")
        kept, back = trained[0].states[reached].flat(), store.states.get(run, reached).flat()
        assert kept.keys() == back.keys()
        assert all(
            np.array_equal(back[name], value) and back[name].dtype == value.dtype for name, value in kept.items()
        )
        assert {name.split("/")[0] for name in back} == {"weights", "moments", "place", "counters"}
        assert store.states.get(run, never) is None
        assert not store.states.moment(run, never).reached


def test_a_store_of_a_newer_format_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    with hs.open_store(path) as store:
        store.studies.begin(Edition("study", "smoke", "{}"))
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
        assert store.repair() == ["chunk 1: its curves are damaged or incomplete"]
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


@pytest.mark.slow
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
    # About 140 bytes each, half of them the last values of all metrics.
    assert (tmp_path / "s.sqlite").stat().st_size < 20e6


def test_a_summary_has_the_last_value_of_every_metric(tmp_path):
    run = parity_run()
    wild = parity_run(optimizer=hs.SGD(1e6))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        for each in (run, wild):
            store.add(outcomes(each, [0]), "loop")
            (summary,), (trace,) = store.summaries(each.cell), store.cell_traces(each.cell)
            assert summary.last == {name: curve[-1] for name, curve in trace.values.items()}
        assert summary.status is hs.Status.DIVERGED
        assert summary.final == 0.5


# States: small ones in the file, large ones beside it.

WIDE = parity_run(model=hs.MLP(width=400, depth=3), precision="float64", budget=hs.Budget(steps=1, record_every=1))
END = hs.Step(1)


@pytest.fixture
def wide(tmp_path):
    """A store with a small and a large State, and the path of the file that the large one lies in."""
    with hs.open_store(tmp_path / "s.sqlite") as store:
        store.add(outcomes(parity_run(), [0], keep=(hs.Step(10),)), "loop")
        store.add(outcomes(WIDE, [0], keep=(END,)), "loop")
        (path,) = store.states.folder.iterdir()
        yield store, path


def test_a_state_above_a_mebibyte_lies_in_a_file_that_its_row_names_with_a_checksum(wide):
    store, path = wide
    assert path.stat().st_size > 2**20
    assert store.states.folder == store.path.with_name("s.sqlite.states")
    query = "SELECT file, data, checksum FROM states WHERE cell = ?"
    assert store._db.execute(query, (WIDE.cell,)).fetchone() == (path.name, None, zlib.crc32(path.read_bytes()))
    file, data, _ = store._db.execute(query, (parity_run().cell,)).fetchone()
    assert (file, len(data) < 2**20) == (None, True)
    (trained,) = outcomes(WIDE, [0], keep=(END,))
    back = store.states.get(WIDE, END)
    assert all(np.array_equal(back.weights[name], value) for name, value in trained.states[END].weights.items())
    assert store.states.moment(WIDE, END).cost.steps == 1


@pytest.mark.parametrize("damage", ["deleted", "changed"])
def test_a_damaged_file_is_named_with_the_fix_and_repair_drops_its_state_alone(wide, damage):
    store, path = wide
    if damage == "deleted":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    with pytest.raises(hs.HeadstartError, match=f"cell {WIDE.cell} seed 0 .*missing or corrupt; add --repair"):
        store.states.get(WIDE, END)
    assert len(store.repair()) == 1
    with pytest.raises(hs.HeadstartError, match="holds no State"):
        store.states.get(WIDE, END)
    assert store.states.moment(WIDE, END) is None
    assert store.states.get(parity_run(), hs.Step(10)) is not None
    # What starts from it trains the source again.
    child = replace(WIDE, start=hs.From(WIDE))
    assert hs.train(child, store=store)[0].before.steps == 1


def test_a_state_in_the_database_that_was_damaged_is_dropped_too(wide):
    store, _ = wide
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE states SET data = zeroblob(length(data)) WHERE data IS NOT NULL")
    db.close()
    with pytest.raises(hs.HeadstartError, match="add --repair"):
        store.states.get(parity_run(), hs.Step(10))
    store.repair()
    assert store.states.moment(parity_run(), hs.Step(10)) is None
    assert store.states.get(WIDE, END) is not None


def test_garbage_is_what_nothing_needs(wide):
    store, path = wide
    run = parity_run(optimizer=hs.SGD(0.3))
    orphan = path.with_name("orphan.safetensors")
    under_way, finished = store.checkpoint_path(run), store.checkpoint_path(parity_run())
    old = under_way.with_suffix(".pt")
    under_way.parent.mkdir()
    for file in (orphan, under_way, finished, old):
        file.write_bytes(b"123")
    assert store.old_checkpoints() == [old]
    assert store.collect_garbage() == (3, 9)
    assert [file.exists() for file in (path, under_way, orphan, finished, old)] == [True, True, False, False, False]
    assert store.states.get(WIDE, END) is not None
    assert store.collect_garbage() == (0, 0)


def test_all_states_go_if_asked_and_the_traces_stay(wide):
    store, path = wide
    size = path.stat().st_size
    num, freed = store.collect_garbage(states=True)
    assert num == 2
    assert freed > size
    assert not path.exists()
    assert store.states.moment(parity_run(), hs.Step(10)) is None
    assert store.seeds(WIDE.cell) == store.seeds(parity_run().cell) == {0}
    assert hs.train(parity_run(start=hs.From(parity_run(), hs.Step(10))), store=store)[0].before.steps == 10


# Stores of version 0.1.

FORMAT_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE cells (cell TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batches (
  id INTEGER PRIMARY KEY, engine TEXT NOT NULL, provenance TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE summaries (
  cell TEXT, seed INTEGER, status TEXT NOT NULL, area REAL NOT NULL, final REAL NOT NULL, seconds REAL NOT NULL,
  batch INTEGER NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE chunks (id INTEGER PRIMARY KEY, cell TEXT NOT NULL, batch INTEGER NOT NULL);
CREATE TABLE curves (
  chunk INTEGER, metric TEXT, dtype TEXT NOT NULL, checksum INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (chunk, metric)) WITHOUT ROWID;
CREATE TABLE runs (
  cell TEXT, seed INTEGER, chunk INTEGER NOT NULL, place INTEGER NOT NULL, num_records INTEGER NOT NULL,
  status TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
CREATE TABLE weights (
  cell TEXT, seed INTEGER, moment TEXT, checksum INTEGER, data BLOB, PRIMARY KEY (cell, seed, moment)) WITHOUT ROWID;
CREATE TABLE simulations (
  simulation TEXT PRIMARY KEY, json TEXT NOT NULL, batch INTEGER NOT NULL, checksum INTEGER NOT NULL,
  data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE arms (
  study TEXT, preset TEXT, knobs TEXT, arm TEXT, kind TEXT, cell TEXT, seeds TEXT NOT NULL,
  PRIMARY KEY (study, preset, knobs, arm, kind, cell)) WITHOUT ROWID;
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, study TEXT, preset TEXT, knobs TEXT, started REAL, seconds REAL);
CREATE TABLE reports (
  study TEXT, preset TEXT, knobs TEXT, json TEXT NOT NULL, created REAL NOT NULL,
  PRIMARY KEY (study, preset, knobs)) WITHOUT ROWID;
INSERT INTO meta VALUES ('format', '1');
INSERT INTO batches VALUES (1, 'fused', '{"commit": "abc"}', 1700000000.0);
INSERT INTO chunks VALUES (1, 'oldcell', 1);
INSERT INTO runs VALUES ('oldcell', 7, 1, 0, 3, 'finished', 0.5);
INSERT INTO summaries VALUES ('oldcell', 7, 'finished', 0.7, 0.9, 0.5, 1);
INSERT INTO weights VALUES ('oldcell', 7, '{}', NULL, NULL);
INSERT INTO arms VALUES ('mine', 'laptop', '{}', 'small', 'claim', 'oldcell', '[7]');
INSERT INTO reports VALUES ('mine', 'laptop', '{}', '{"study": "mine"}', 1700000000.0);
"""
# A cell as version 0.1 wrote it: without a format.
OLD_JSON = '{"type":"headstart.run:Run","task":{"type":"headstart.tasks.parity:Parity","dim":6,"degree":2}}'


@pytest.fixture
def old(tmp_path):
    """A store of version 0.1 with one run."""
    path = tmp_path / "old.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(FORMAT_1)
    db.execute("INSERT INTO cells VALUES ('oldcell', ?)", (OLD_JSON,))
    curves = {"step": np.array([0, 10, 20]), "samples": np.array([0, 160, 320]), "flops": np.array([0.0, 1.0, 2.0])}
    for name, array in {**curves, "test_accuracy": np.array([0.5, 0.7, 0.9])}.items():
        data = array.tobytes()
        db.execute("INSERT INTO curves VALUES (1, ?, ?, ?, ?)", (name, array.dtype.str, zlib.crc32(data), data))
    db.commit()
    db.close()
    return path


def dump(path):
    """All of a store but what format 2 adds to it."""
    db = sqlite3.connect(path)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    db.close()
    return rows


def assert_old_run_is_there(store):
    (trace,) = store.cell_traces("oldcell")
    assert (trace.seed, trace.steps.tolist(), trace["test_accuracy"].tolist()) == (7, [0, 10, 20], [0.5, 0.7, 0.9])
    assert trace.before == hs.Cost()
    (summary,) = store.summaries("oldcell")
    assert (summary.area, summary.final, summary.last) == (0.7, 0.9, {})
    assert store.traces("mine")[0].labels == {"study": "mine", "arm": "small"}
    assert len(store.traces("mine")) == 1


def test_an_old_store_is_read_and_left_as_it_is(old):
    before = dump(old)
    with hs.open_store(old) as store:
        assert_old_run_is_there(store)
        assert store.states.moment(parity_run(), hs.Step(10)) is None
        assert len(store.traces()) == 1
    assert dump(old) == before
    assert before["meta"] == [("format", "1")]
    assert [p.name for p in old.parent.iterdir() if p.suffix == ".format-1"] == []


def test_the_first_write_keeps_a_copy_of_an_old_store_and_brings_it_to_the_new_format(old):
    before = dump(old)
    with hs.open_store(old) as store:
        child = parity_run(start=hs.From(parity_run(), hs.Step(10)))
        assert hs.train(child, store=store)[0].before.steps == 10
        assert_old_run_is_there(store)
        assert store.summaries(child.cell)[0].last
    copy = old.with_name("old.sqlite.format-1")
    assert dump(copy) == before
    after = dump(old)
    assert after["meta"] == [("format", "2")]
    for table in before.keys() - {"meta"}:  # columns were added after those that were there
        assert all(any(row == now[: len(row)] for now in after[table]) for row in before[table]), table
    with hs.open_store(old) as store:
        assert_old_run_is_there(store)
        assert store.states.moment(parity_run(), hs.Step(10)).reached
        store.repair()
    assert dump(copy) == before


def test_two_that_have_an_old_store_open_may_both_write(old):
    with hs.open_store(old) as one, hs.open_store(old) as two:
        hs.train(parity_run(), seeds=[0], store=one)
        hs.train(parity_run(), seeds=[1], store=two)
        assert one.seeds(parity_run().cell) == two.seeds(parity_run().cell) == {0, 1}
        assert two.summaries(parity_run().cell)[0].last
        assert_old_run_is_there(two)


# Drafts of format 2, which had no seals, and a table of costs.

DRAFT = """
CREATE TABLE states (
  cell TEXT, seed INTEGER, moment TEXT, counters TEXT NOT NULL, checksum INTEGER, data BLOB, file TEXT,
  PRIMARY KEY (cell, seed, moment)) WITHOUT ROWID;
CREATE TABLE costs (
  cell TEXT, seed INTEGER, steps INTEGER NOT NULL, samples INTEGER NOT NULL, flops REAL NOT NULL,
  seconds REAL NOT NULL, PRIMARY KEY (cell, seed)) WITHOUT ROWID;
ALTER TABLE summaries ADD COLUMN last BLOB NOT NULL DEFAULT x'';
ALTER TABLE cells ADD COLUMN names TEXT NOT NULL DEFAULT '[]';
UPDATE meta SET value = '2';
INSERT INTO costs VALUES ('oldcell', 7, 10, 160, 960.0, 0.25);
"""


def test_a_store_of_a_draft_of_this_format_is_read_and_sealed_by_the_first_write(old):
    with sqlite3.connect(old) as db:
        db.executescript(DRAFT)
    db.close()
    before = dump(old)
    with hs.open_store(old) as store:
        (trace,) = store.cell_traces("oldcell")
        assert trace.before == hs.Cost(10, 160, 960.0, 0.25)
        assert store.traces("mine")[0].labels == {"study": "mine", "arm": "small"}
        assert store.damage() == []
    assert dump(old) == before
    with hs.open_store(old) as store:
        hs.train(parity_run(), store=store)
        assert store.cell_traces("oldcell")[0].before == trace.before
        assert store.damage() == []
    assert dump(old.with_name("old.sqlite.before-seals")) == before
    after = dump(old)
    assert "costs" not in after
    with sqlite3.connect(old) as db:
        assert db.execute("SELECT COUNT(*) FROM runs WHERE seal IS NULL").fetchone() == (0,)
        db.execute("UPDATE runs SET before_steps = 11 WHERE cell = 'oldcell'")
    db.close()
    with hs.open_store(old) as store, pytest.raises(hs.HeadstartError, match=r"runs \(oldcell, 7\).*corrupt"):
        store.cell_traces("oldcell")


def test_an_old_cell_is_never_a_new_ones(old):
    run = parity_run()
    assert json.loads(run.json)["format"] == 2
    without = {key: value for key, value in json.loads(run.json).items() if key != "format"}
    assert identity(canonical(without)) != run.cell


def test_the_run_of_an_old_cell_cannot_be_built_and_the_error_says_so(old):
    with hs.open_store(old) as store, pytest.raises(hs.HeadstartError, match=r"oldcell was stored by headstart 0\.1"):
        store.run_of("oldcell")


def test_repair_drops_the_states_of_runs_whose_curves_are_damaged_too(tmp_path):
    source, child = parity_run(), parity_run(start=hs.From(hs.Best((parity_run(),), "test_loss")))
    path = tmp_path / "s.sqlite"
    with hs.open_store(path) as store:
        hs.train(source, store=store)
        store.add([replace(o, states={hs.Step(20): None}) for o in outcomes(source, [1])], "loop")
        hs.train(child, store=store)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE curves SET data = zeroblob(length(data)) WHERE metric = 'test_loss' AND chunk IN "
            "(SELECT chunk FROM runs WHERE cell = ?)",
            (source.cell,),
        )
    with hs.open_store(path) as store:
        assert store.repair()
        assert store.states.moment(source, hs.Step(20)) is None
        assert store.summaries(source.cell) == []
        other = parity_run(start=hs.From(hs.Best((source,), "test_loss")), budget=hs.Budget(10, 5))
        assert hs.train(other, store=store)[0].status is hs.Status.FINISHED


def test_a_stop_right_after_a_transaction_began_leaves_none_open(tmp_path, monkeypatch):
    from headstart.lab.database import Connection

    class Stopped(KeyboardInterrupt):
        pass

    execute = Connection.execute

    def interrupted(self, query, *values):
        made = execute(self, query, *values)
        if query.startswith("BEGIN"):
            raise Stopped
        return made

    with hs.open_store(tmp_path / "s.sqlite") as store:
        hs.train(parity_run(), store=store)
        monkeypatch.setattr(Connection, "execute", interrupted)
        with pytest.raises(Stopped):
            hs.train(parity_run(), seeds=[1], store=store)
        monkeypatch.undo()
        assert len(hs.train(parity_run(), seeds=[1, 2], store=store)) == 2
