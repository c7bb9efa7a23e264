"""Archives: published numbers can be checked without training."""

import json
import sqlite3
from dataclasses import replace

import pytest
from small_runs import Powers, parity_run

import headstart as hs
from headstart.cli import main
from headstart.lab.archive import recheck, write_archive
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.conduct import conduct
from headstart.lab.progress import Silent
from headstart.lab.schema import SEALED, seal

MEASURE = hs.Distance(hs.Every(10))


def travelled(results):
    far = results.traces["small"].measured(MEASURE)["distance"][:, -1] + results.computed["two"]["power"][0]
    return hs.bootstrap(lambda rows: float(far[rows].mean()), len(far))


def study():
    sweep = hs.rates(0.1, 0.3, score=hs.TimeToTarget(0.55), rungs=(1,), tries=4)
    plans = {"small": hs.Fixed(16), "large": hs.Online()}
    return hs.Study(
        name="tests/archived",
        title="Archived",
        paper="none",
        figures="none",
        presets={"laptop": hs.Knobs(num_seeds=4, num_selection_seeds=2)},
        minutes={"laptop": 0},
        arms=lambda k: [hs.Arm(n, n, parity_run(plan=plan), sweep, measures=(MEASURE,)) for n, plan in plans.items()],
        computed=lambda k, arms: {"two": Powers(2.0)},
        claims=lambda k: [
            hs.Claim("time", "sooner", "-", hs.below(1), hs.TimeRatio("small", "large", 0.55), hs.Kind.PRIMARY),
            hs.Claim("end", "better", "-", hs.above(1), hs.FinalRatio("small", "large")),
            hs.Claim("far", "it moves", "-", hs.above(0), travelled),
        ],
        figure=lambda results, figure: None,
    )


@pytest.fixture
def archived(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        hs.train(parity_run(), seeds=range(9), store=store)  # what the archive should not have
        outcome = conduct(study(), "laptop", study().knobs(), store, Silent())
        return write_archive(study(), "laptop", outcome.results, store, tmp_path / "out" / "archive.sqlite"), outcome


def find(name):
    assert name == "tests/archived"
    return study()


def test_every_verdict_is_computed_again_from_the_archive_alone(archived, tmp_path):
    path, outcome = archived
    (tmp_path / "s.sqlite").unlink()
    (found,) = recheck(path, find)
    assert found.differing == []
    assert found.computed["claims"] == outcome.report["claims"]
    assert found.computed["choices"] == outcome.report["choices"]
    assert found.computed["commit"] == outcome.report["commit"]
    assert [file.name for file in path.parent.iterdir() if "archive" in file.name] == ["archive.sqlite"]


def test_an_archive_has_no_curves_of_sweeps_and_nothing_of_other_runs(archived):
    path, outcome = archived
    with sqlite3.connect(path) as db:
        seeds = {seed for (seed,) in db.execute("SELECT seed FROM runs")}
        cells = {cell for (cell,) in db.execute("SELECT cell FROM runs")}
        tries = db.execute("SELECT COUNT(*) FROM summaries WHERE seed >= ?", (FIRST_SELECTION_SEED,)).fetchone()[0]
    assert seeds == {0, 1, 2, 3}
    assert cells == {arm.run.cell for arm in outcome.results.arms.values()}
    assert tries > 8


def test_a_changed_number_is_seen(archived, capsys):
    path, _ = archived
    with sqlite3.connect(path) as db:
        *key, text, created = db.execute(f"SELECT {', '.join(SEALED['reports'].columns)} FROM reports").fetchone()
        report = json.loads(text)
        report["claims"][0]["verdict"] = "absent"
        db.execute("UPDATE reports SET json = ?", (json.dumps(report),))
        db.commit()
        with pytest.raises(hs.HeadstartError, match="corrupt"):
            recheck(path, find)
        # Somebody who knows how rows are sealed may change a verdict, and is found out all the same.
        db.execute("UPDATE reports SET seal = ?", (seal((*key, json.dumps(report), created)),))
    (found,) = recheck(path, find)
    assert found.differing == ["time"]


def test_a_claim_that_the_code_no_longer_makes_is_seen(archived):
    path, _ = archived
    (found,) = recheck(path, lambda name: replace(study(), claims=lambda k: study().claims(k)[1:]))
    assert found.differing == ["time"]


def test_an_archive_is_written_and_checked_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "s.sqlite"))
    name, path = "less_data/no_gap", tmp_path / "no_gap.archive"
    main(["run", name, "--preset", "smoke", "--jobs", "1"])
    main(["export", name, "--archive", str(path)])
    assert "check it: headstart check" in capsys.readouterr().out
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "nothing.sqlite"))
    main(["check", str(path)])
    assert "every claim comes out as published" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main(["export", name])
    assert stop.value.code == 2
    assert "--archive FILE" in capsys.readouterr().err


def test_a_store_without_a_finished_study_is_no_archive(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        hs.train(parity_run(), store=store)
    with pytest.raises(hs.HeadstartError, match="no study was finished"):
        recheck(tmp_path / "s.sqlite", find)
