"""Looking at a store changes nothing, also where one may only look; and what the system refuses is said in words."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import indent

import pytest
from small_runs import parity_run

import headstart as hs
from headstart.lab.ledger import Edition

NOBODY = 65534


@pytest.fixture
def stored(tmp_path):
    """A store with two runs, closed."""
    path = tmp_path / "s.sqlite"
    with hs.open_store(path) as store:
        hs.train(parity_run(), seeds=2, store=store)
    return path


def listing(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith(("-wal", "-shm"))}


def test_opening_makes_nothing(tmp_path):
    with hs.open_store(tmp_path / "new" / "s.sqlite") as store:
        assert store.traces().seeds == ()
        assert store.studies.reports() == {}
        assert store.states.moment(parity_run(), hs.Step(1)) is None
        assert store.damage() == []
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_somebody_makes_meanwhile_is_seen(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as one, hs.open_store(tmp_path / "s.sqlite") as two:
        assert one.seeds(parity_run().cell) == set()
        hs.train(parity_run(), store=two)
        assert one.seeds(parity_run().cell) == {0}


def test_looking_into_an_unrelated_database_adds_nothing_to_it_and_is_refused(tmp_path):
    path = tmp_path / "bookmarks.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(hs.HeadstartError, match=r"bookmarks.*no store of headstart's.*--store"):
        hs.open_store(path)
    assert listing(tmp_path) == {"bookmarks.sqlite": before}


@pytest.mark.parametrize("written", ["one", "", "0", "-1", "2.5", None])
def test_a_format_that_is_none_is_refused(stored, written):
    with sqlite3.connect(stored) as db:
        if written is None:
            db.execute("DELETE FROM meta")
        else:
            db.execute("UPDATE meta SET value = ?", (written,))
    db.close()
    with pytest.raises(hs.HeadstartError, match=r"its format is .*, which is none"):
        hs.open_store(stored)


@pytest.mark.parametrize("path", ["x" * 300, "~nobody_of_that_name/s.sqlite", "a\0b", "/dev/null/s.sqlite"])
def test_a_place_that_cannot_be_is_named(path):
    with pytest.raises(hs.HeadstartError, match="cannot be used"):
        hs.open_store(path)


@pytest.mark.parametrize("path", [3, b"s.sqlite", ["s.sqlite"]])
def test_what_is_no_path_is_named(path):
    with pytest.raises(hs.HeadstartError, match=r"open_store\(path="):
        hs.open_store(path)


def test_a_full_disk_is_a_sentence_and_loses_nothing(stored):
    with hs.open_store(stored) as store:
        session = store.studies.begin(Edition("study", "smoke", "{}"))
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(hs.HeadstartError, match=r"full; free some space and run the same command again"):
            hs.train(parity_run(optimizer=hs.SGD(0.3)), seeds=200, store=store)
        store._db.execute("PRAGMA max_page_count=100000")
        store.studies.set_seconds(session, 1.0)
        assert len(hs.train(parity_run(optimizer=hs.SGD(0.3)), seeds=200, store=store)) == 200
        assert store.damage() == []


# As somebody else, since root may do everything.

HEAD = """
import contextlib, io, os, sys, tempfile
import headstart as hs
from pathlib import Path
sys.path.insert(0, {here!r})
from small_runs import parity_run

def work(path):
{code}

# Once as oneself, so that all is imported that another user may not read.
with tempfile.TemporaryDirectory() as own, contextlib.redirect_stdout(io.StringIO()):
    hs.train(parity_run(), seeds=2, store=os.path.join(own, "s.sqlite"))
    work(os.path.join(own, "s.sqlite"))
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid({nobody})
    os.setuid({nobody})
work({path!r})
"""


@pytest.fixture
def shared():
    """A folder that everybody may read, with a store of two runs in it."""
    folder = Path(tempfile.mkdtemp(prefix="headstart-shared-"))
    folder.chmod(0o755)
    with hs.open_store(folder / "s.sqlite") as store:
        hs.train(parity_run(), seeds=2, store=store)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_somebody_else(folder, code):
    """Run code, which has the `path` of the store, in a process of another user; returns what it said."""
    here, path = str(Path(__file__).parent), str(folder / "s.sqlite")
    text = HEAD.format(here=here, path=path, code=indent(code.strip(), "    "), nobody=NOBODY)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    return done.stdout + done.stderr


READ = """
try:
    with hs.open_store(path) as store:
        print(store.cell_traces(parity_run().cell).seeds, len(store.damage()))
except hs.HeadstartError as error:
    print("refused:", error)
"""
WRITE = """
try:
    hs.train(parity_run(), seeds=3, store=path)
except hs.HeadstartError as error:
    print("refused:", error)
"""


def test_a_store_in_a_folder_that_one_may_not_write_to_is_read_and_left_alone(shared):
    shared.chmod(0o555)
    before = listing(shared)
    assert as_somebody_else(shared, READ) == "(0, 1) 0\n"
    assert listing(shared) == before
    assert sorted(p.name for p in shared.iterdir()) == ["s.sqlite"]


def test_writing_where_one_may_only_read_is_refused_in_words(shared):
    shared.chmod(0o555)
    said = as_somebody_else(shared, WRITE)
    assert said.startswith("refused: store ")
    assert "--store PATH" in said
    assert "Traceback" not in said


def test_a_store_that_somebody_is_writing_is_read_by_one_who_may_not_write(shared):
    with hs.open_store(shared / "s.sqlite") as writer:
        hs.train(parity_run(), seeds=3, store=writer)
        assert (shared / "s.sqlite-wal").exists()
        assert as_somebody_else(shared, READ) == "(0, 1, 2) 0\n"


def test_a_store_that_one_may_not_read_is_refused_in_words(shared):
    (shared / "s.sqlite").chmod(0o600)
    assert as_somebody_else(shared, READ).startswith("refused: store ")
    (shared / "s.sqlite").chmod(0o644)
    shared.chmod(0o700)
    assert as_somebody_else(shared, READ).startswith("refused: store ")


CHECKPOINTS = """
import warnings
from dataclasses import replace
from headstart.engines import Job
from headstart.engines.loop import Loop
run = parity_run(budget=hs.Budget(steps=30, record_every=1))
for folder in ("read only", "closed"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        job = Job(run, checkpoint=Path(path).parent / folder / "x.safetensors")
        (outcome,) = Loop(checkpoint_seconds=0).train([job])
    print(outcome.trace.status, len(outcome.trace.steps), *(str(each.message) for each in caught))
"""


def test_a_checkpoint_that_cannot_be_written_warns_once_and_training_goes_on(shared):
    for name, mode in {"read only": 0o555, "closed": 0o000}.items():
        (shared / name).mkdir()
        (shared / name).chmod(mode)
    said = as_somebody_else(shared, CHECKPOINTS).splitlines()
    assert len(said) == 2
    for line in said:
        assert line.startswith("finished 31 checkpoints cannot be written to "), line
        assert line.count("cannot be written") == 1
