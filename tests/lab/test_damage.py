"""Damage is seen, said, and mended: no claim is ever computed from rows that are not as they were written."""

import json
import random
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from small_runs import Powers, parity_run

import headstart as hs
from headstart.cli import experiment, main
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.schema import SEALED
from headstart.lab.store import repair_store
from headstart.lab.workers import Serial

sys.path.insert(0, str(Path(__file__).parents[1] / "studies"))
CHOICES = []
STUDY = str(Path(__file__).parents[1] / "studies" / "users_study.py")


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Runs of the study draw it too, which takes longer than the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "save_figure", lambda figure, path: path)
        patch.setattr(hs.Study, "draw", lambda study, results: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with a study, a State, a run that starts from it, and a simulation."""
    path = tmp_path_factory.mktemp("whole") / "s.sqlite"
    main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(path)])
    with hs.open_store(path) as store:
        hs.train(child(), seeds=3, store=store)
        store.add_computed(Powers(2.0), Powers(2.0).compute())
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        CHOICES[:] = [key for (key,) in db.execute("SELECT choice FROM choices ORDER BY choice")]
    db.close()
    return path


def child():
    return parity_run(start=hs.From(parity_run(), hs.Step(10)))


@pytest.fixture
def copy(whole, tmp_path):
    return Path(shutil.copy(whole, tmp_path / "s.sqlite"))


def change(path, statement):
    with sqlite3.connect(path) as db:
        assert db.execute(statement).rowcount > 0
    db.close()


def everything(store):
    """All that a claim or a user may read."""
    out = [
        store.studies.reports(),
        [(t.cell, t.seed, t.status, t.before.steps, t.seconds, t.before) for t in store.traces()],
    ]
    out.append([{name: curve.tolist() for name, curve in t.values.items()} for t in store.traces()])
    seeds = {}
    for trace in store.traces():
        seeds.setdefault(trace.cell, []).append(trace.seed)
    stored = [store.summaries(cell, seeds[cell]) for cell in sorted(seeds)]
    out += [[(s.seed, s.status, s.area, s.final, s.seconds, s.last) for s in some] for some in stored]
    out += [t.labels for t in store.traces(study="users_study")]
    for seed in range(3):
        state, known = (f(parity_run().at(seed), hs.Step(10)) for f in (store.states.get, store.states.moment))
        out += [known, {name: array.tolist() for name, array in state.flat().items()}]
    out.append({name: array.tolist() for name, array in store.computed(Powers(2.0)).items()})
    out.append({"choices": [store.choices.get(key) for key in CHOICES]})
    if None in out[-1]["choices"]:  # as if it had not been chosen yet
        raise hs.HeadstartError("a choice is missing")
    return out


CHANGES = {
    "an area": "UPDATE summaries SET area = area + 1e-9",
    "a final value": "UPDATE summaries SET final = 1 - final",
    "the status of a summary": "UPDATE summaries SET status = 'diverged'",
    "the last values": "UPDATE summaries SET last = zeroblob(length(last))",
    "the seed of a summary": "UPDATE summaries SET seed = seed + 100",
    "the cost of sources": "UPDATE runs SET before_steps = 0 WHERE before_steps > 0",
    "the records of a run": "UPDATE runs SET num_records = num_records - 1",
    "the place of a run": "UPDATE runs SET place = 1 - place WHERE place < 2",
    "the name of a curve": "UPDATE curves SET metric = 'test_accuracz' WHERE metric = 'test_accuracy'",
    "the type of a curve": "UPDATE curves SET dtype = '<i8' WHERE metric = 'test_accuracy'",
    "an object for a type": "UPDATE curves SET dtype = 'O' WHERE metric = 'test_accuracy'",
    "a curve": "UPDATE curves SET data = zeroblob(length(data)) WHERE metric = 'test_loss'",
    "the names of a cell": "UPDATE cells SET names = '[]'",
    "a moment's counters": "UPDATE states SET counters = replace(counters, '10', '11')",
    "the arrays of a simulation": "UPDATE simulations SET data = zeroblob(length(data))",
    "the seeds of an arm": "UPDATE arms SET seeds = '[0]'",
    "a verdict": "UPDATE reports SET json = replace(json, 'undecided', 'holds')",
    "a choice": "UPDATE choices SET json = replace(json, '0.1', '0.2')",
    "a seal": "UPDATE summaries SET seal = seal + 1",
    "no seal": "UPDATE summaries SET seal = NULL",
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_row_is_refused_named_and_mended(copy, whole, what):
    with hs.open_store(whole) as store:
        before = everything(store)
    change(copy, CHANGES[what])
    with hs.open_store(copy) as store:
        with pytest.raises(hs.HeadstartError, match=r"corrupt.*check-store.*--repair|missing|not in store"):
            everything(store)
        assert store.damage()
        contents = dump(copy)
        assert store.damage()
        assert dump(copy) == contents
        assert store.repair()
        assert store.damage() == []
    # What was dropped is trained again, and all is as it was but for the seconds.
    main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(copy)])
    with hs.open_store(copy) as store:
        hs.train(child(), seeds=3, store=store)
        store.add_computed(Powers(2.0), Powers(2.0).compute())
        if "moment" not in what:  # a State is trained again when somebody starts from it
            assert without_seconds(everything(store)) == without_seconds(before)
        again = parity_run(start=hs.From(parity_run(), hs.Step(10)), optimizer=hs.SGD(0.3))
        assert [t.before.steps for t in hs.train(again, seeds=3, store=store)] == [10, 10, 10]


def dump(path):
    with sqlite3.connect(path) as db:
        rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in SEALED}
    db.close()
    return rows


def without_seconds(found):
    """What is the same however often it is trained, of the seeds of claims: a choice that is kept needs no others."""
    reports, traces, curves, *rest = found
    reports = {k: {n: v for n, v in r.items() if n not in ("minutes", "commit")} for k, r in reports.items()}
    kept = [(t[:4], c) for t, c in zip(traces, curves, strict=True) if t[1] < FIRST_SELECTION_SEED]
    summed = [(*s[:4], str(s[5])) for each in rest if isinstance(each, list) for s in each]
    others = [each for each in rest if not isinstance(each, list) and not isinstance(each, tuple)]
    others = [{n: v for n, v in each.items() if n != "counters/seconds"} for each in others]
    return json.dumps(reports), kept, [s for s in summed if s[0] < FIRST_SELECTION_SEED], others


def test_a_flipped_bit_in_the_summaries_does_not_turn_a_verdict(copy):
    main(["show", STUDY, "--store", str(copy)])
    change(copy, f"UPDATE summaries SET final = final / 2 WHERE seed < {FIRST_SELECTION_SEED}")
    with pytest.raises(SystemExit) as stop:
        main(["show", STUDY, "--store", str(copy)])
    assert stop.value.code == 2


def test_rows_that_are_gone_are_seen_and_mended(copy):
    for statement in (
        "DELETE FROM summaries WHERE seed = 0",
        "DELETE FROM curves WHERE metric = 'test_loss'",
        "DELETE FROM cells WHERE length(cell) = 20",
        "DELETE FROM arms WHERE arm = 'small'",
    ):
        change(copy, statement)
        with hs.open_store(copy) as store:
            if "arms" in statement:
                with pytest.raises(hs.HeadstartError, match="has lost the rows of small of users_study"):
                    store.traces(study="users_study")
            else:
                assert store.damage()
                store.repair()
                assert store.damage() == []
        main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(copy)])
    with hs.open_store(copy) as store:
        assert len(store.traces(study="users_study")) == 4


def flip(path, rng, num):
    """Flip bits anywhere behind the header, or overwrite a stretch of the file."""
    data = bytearray(path.read_bytes())
    if rng.random() < 0.25:
        begin, length = rng.randrange(100, len(data)), rng.randrange(1, 5000)
        data[begin : begin + length] = rng.randbytes(len(data[begin : begin + length]))
    for _ in range(num):
        data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def examined(path):
    """What can be read of a store; None if it is refused in words."""
    try:
        with hs.open_store(path) as store:
            return everything(store)
    except hs.HeadstartError:
        return None


def check_flipped_bits(whole, folder, seeds):
    with hs.open_store(whole) as store:
        before = everything(store)
    refused, hopeless = 0, []
    for seed in seeds:
        path = folder / f"{seed}.sqlite"
        shutil.copy(whole, path)
        flip(path, random.Random(seed), num=1 + seed % 3)
        found = examined(path)
        refused += found is None
        # Whatever was hit, a number that comes back is the one that was stored.
        assert found is None or found == before, seed
        try:
            repair_store(path)
        except hs.HeadstartError as error:
            hopeless.append(str(error))
            continue
        with hs.open_store(path) as store:
            assert store.damage() == [], seed
            hs.train(child(), seeds=3, store=store)
    # Damage to the list of tables, in the first of some forty pages, leaves nothing to repair.
    assert all("nothing can be read" in said or "cannot be used" in said for said in hopeless)
    assert len(hopeless) < 0.2 * len(seeds)
    return refused


def test_flipped_bits_give_the_same_numbers_or_a_sentence(whole, tmp_path):
    assert check_flipped_bits(whole, tmp_path, range(40)) > 5


@pytest.mark.slow
def test_four_hundred_stores_with_flipped_bits_give_the_same_numbers_or_a_sentence(whole, tmp_path):
    check_flipped_bits(whole, tmp_path, range(1000, 1400))


@pytest.mark.parametrize("page", ["summaries", "curves", "runs", "cells"])
def test_pages_that_cannot_be_read_are_left_behind_and_the_rest_is_salvaged(copy, page):
    with sqlite3.connect(copy) as db:
        (size,) = db.execute("PRAGMA page_size").fetchone()
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (page,)).fetchone()
    db.close()
    data = bytearray(copy.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    copy.write_bytes(data)
    said = " ".join(repair_store(copy))
    assert "salvaged into a new file" in said
    kept = copy.with_name("s.sqlite.damaged-1")
    assert f"the damaged file is kept as {kept}" in said
    assert kept.read_bytes() == bytes(data)
    with hs.open_store(copy) as store:
        assert store.damage() == []
        # Reports and simulations lie in other tables, so they are still there.
        assert store.studies.last("users_study") is not None
        assert store.has_computed(Powers(2.0))
    main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(copy)])


def test_a_store_of_which_nothing_can_be_read_is_kept_and_said(copy):
    data = bytearray(copy.read_bytes())
    data[100:4096] = b"\xff" * 3996
    copy.write_bytes(data)
    with pytest.raises(hs.HeadstartError, match=r"nothing can be read of it.*put a copy in its place"):
        repair_store(copy)
    assert copy.read_bytes() == bytes(data)
    assert sorted(p.name for p in copy.parent.iterdir() if "damaged" in p.name or p.suffix == ".tmp") == []


def test_repair_of_a_store_that_is_well_changes_nothing(copy):
    before = dump(copy)
    assert repair_store(copy) == []
    assert dump(copy) == before


def test_a_simulation_dropped_from_a_store_is_computed_again(copy):
    from headstart.lab.computed import compute_missing
    from headstart.lab.progress import Silent

    change(copy, CHANGES["the arrays of a simulation"])
    with hs.open_store(copy) as store:
        assert len(store.repair()) == 1
        assert compute_missing([Powers(2.0)], store, Serial(), Silent()) == 1
