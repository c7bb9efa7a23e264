"""Whatever is typed, loaded or received, the answer is one line that names the value and the fix, never a traceback."""

import json
import sqlite3
import time

import pytest

import headstart as hs
from headstart.cli import main
from headstart.lab import provenance
from headstart.lab.ledger import Edition
from headstart.lab.schema import SEALED, seal

STUDY = "less_data/mini_and_full_batch_mlp"
FILES = {
    "raises.py": "import headstart\n1 / 0\n",
    "imports.py": "import nothing_of_this_name\n",
    "syntax.py": "def (:\n",
    "exits.py": "import sys\nsys.exit(3)\n",
    "fact.py": """def none():
    return None


def raises():
    raise KeyError('the data')


def leaves():
    exit(4)
""",
}
USERS = """
import headstart as hs
from dataclasses import dataclass


def arms(knobs):
    run = hs.Run(hs.Parity(6, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), budget=hs.Budget(20, 10))
    return [hs.Arm("a", "a", run, None)]


def claims(knobs):
    return []


def figure(results, figure):
    figure.subplots()


NAME = "users"
KNOBS = hs.Knobs(num_seeds=2, num_selection_seeds=1)
{changes}
STUDY = hs.Study(name=NAME, title="t", paper="p", figures="f", presets={{"smoke": KNOBS, "laptop": KNOBS}},
                 minutes={{"smoke": 0, "laptop": 0}}, arms=arms, claims=claims, figure=figure)
"""


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["explain", STUDY, "--jobs", "0"], ["--jobs 0", "at least 1"]),
        (["explain", STUDY, "--jobs", "-3"], ["--jobs -3", "at least 1"]),
        (["explain", STUDY, "--set", f"width={10**11}"], ["width=100000000000", "parameters", "smaller model"]),
        (["explain", STUDY, "--set", f"width={2**63}"], ["width=9223372036854775808", "parameters"]),
        (["run", STUDY, "--set", f"width={10**11}"], ["width=100000000000", "parameters"]),
        (["run", STUDY, "--seeds", str(10**11)], ["num_seeds=100000000000", "at most"]),
        (["explain", STUDY, "--seeds", str(10**11)], ["num_seeds=100000000000", "at most"]),
        (["run", STUDY, "--set", f"sgd_index_steps={10**12}"], ["steps=1000000000000", "at most"]),
        (["run", "raises.py"], ["study file raises.py", "ZeroDivisionError", "line 2"]),
        (["run", "imports.py"], ["study file imports.py", "nothing_of_this_name", "line 1"]),
        (["run", "syntax.py"], ["study file syntax.py", "no Python", "line 1"]),
        (["show", "exits.py"], ["study file exits.py", "SystemExit: 3", "line 2"]),
        (["probe", ".fact:none"], ["'.fact:none'", "package.module:factory"]),
        (["probe", "fact:none"], ["returned a NoneType", "hs.Problem"]),
        (["probe", "fact:raises"], ["KeyError: 'the data'", "fact.py, line 6"]),
        (["probe", "fact:leaves"], ["SystemExit: 4", "fact.py, line 10"]),
        (["probe", "syntax.py:x"], ["syntax.py", "SyntaxError", "line 1"]),
        (["probe", "raises.py:x"], ["raises.py", "ZeroDivisionError", "line 2"]),
        (["probe", "nowhere.py:x"], ["no file nowhere.py"]),
        (["report", STUDY, "--readme", ""], ["--readme '.'", "name the file"]),
        (["list", "--store", "x" * 300], ["cannot be used", "--store PATH"]),
    ],
)
def test_a_bad_value_is_one_line_with_the_fix(call, tmp_path, monkeypatch, args, parts):
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
        monkeypatch.delitem(__import__("sys").modules, name[:-3], raising=False)
    check(call(*args), parts)


def check(answer, parts):
    code, _, err = answer
    assert code == 2, answer
    assert err.count("\n") == 1, err
    assert err.startswith("headstart: ")
    for part in parts:
        assert part in err


READING = ["list", "check", "check-store", "gc"], ["show", "figure", "export", "report", "explain"]


@pytest.mark.parametrize("command", READING[0] + READING[1])
def test_a_named_store_that_is_missing_is_refused_by_every_reading_command_alike(call, tmp_path, command):
    study = [STUDY] if command in READING[1] else []
    out = ["--out", "x.csv"] if command == "export" else ["--out", "x.png"] if command == "figure" else []
    answer = call(command, *study, *out, "--store", "no.sqlite")
    check(answer, ["--store no.sqlite: there is no such store; run a study into it first"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ("def arms(knobs):\n    return 1 / 0", ["ZeroDivisionError", "users_own.py, line 22"]),
        ("def figure(results, figure):\n    return results.arms['b']", ["KeyError", "users_own.py, line 22"]),
        ("def claims(knobs):\n    raise OSError('no disk')", ["OSError: no disk", "users_own.py, line 22"]),
    ],
)
def test_a_study_that_raises_later_is_named_with_its_line(call, tmp_path, monkeypatch, changes, parts):
    monkeypatch.delitem(__import__("sys").modules, "users_own", raising=False)
    (tmp_path / "users_own.py").write_text(USERS.format(changes=changes))
    code, _, err = call("run", "users_own.py", "--jobs", "1")
    assert code == 2
    last = err.splitlines()[-1]
    assert last.startswith("headstart: your code raised ")
    assert all(part in last for part in parts), last


@pytest.mark.parametrize(
    "name", ["../../outside", "/tmp/headstart-outside", "a/../../../b", "x[/red]\x1b[31m", "y" * 400]
)
def test_figures_stay_in_their_folder_whatever_a_study_is_called(call, tmp_path, monkeypatch, name):
    monkeypatch.setattr(provenance, "commit", lambda: "0123456789")
    home = tmp_path / "deep" / "er"
    home.mkdir(parents=True)
    monkeypatch.delitem(__import__("sys").modules, "users_named", raising=False)
    (home / "users_named.py").write_text(USERS.format(changes=f"NAME = {name!r}"))
    code, out, err = call("run", str(home / "users_named.py"), "--jobs", "1", "--store", str(home / "s.sqlite"))
    assert code == 0, err
    (figure,) = tmp_path.rglob("*.png")
    assert figure.is_relative_to(home / "figures")
    assert "\x1b" not in out
    code, out, err = call(
        "report",
        str(home / "users_named.py"),
        "--draft",
        "--out",
        str(home / "pages"),
        "--store",
        str(home / "s.sqlite"),
    )
    assert code == 0, err
    assert len(list((home / "pages").rglob("*.md"))) == 1
    assert len(list(tmp_path.rglob("*.png"))) == 2


def write_report(path, study, report):
    with hs.open_store(path) as store:
        store.studies.finish(Edition(study, "laptop", "{}"), [], report)


CLAIM = {"id": "c", "statement": "s", "paper": "p", "verdict": "holds", "estimate": 1.0, "low": 0.5, "high": None}
REPORT = {"study": "mine", "preset": "laptop", "claims": [CLAIM], "seeds": 2, "seeds_factor": {}}


@pytest.mark.parametrize(
    ("report", "part"),
    [
        ({**REPORT, "claims": [{**CLAIM, "verdict": "maybe"}]}, "verdict 'maybe'; there are holds"),
        ({**REPORT, "claims": [{**CLAIM, "estimate": "many"}]}, "estimate of claim 'c' is 'many'"),
        ({**REPORT, "claims": [3]}, "a claim lacks one of"),
        ({**REPORT, "claims": None}, "has no claims"),
        ({"study": "mine"}, "has no preset"),
        ([1, 2], "no JSON object"),
    ],
)
@pytest.mark.parametrize("command", ["list", "check"])
def test_a_stored_report_that_is_none_is_refused(call, tmp_path, command, report, part):
    write_report(tmp_path / "r.sqlite", "mine", report)
    check(call(command, "--store", str(tmp_path / "r.sqlite")), ["the report of mine", part])


def test_a_stored_report_that_is_no_json_is_refused(call, tmp_path):
    path = tmp_path / "r.sqlite"
    write_report(path, "mine", REPORT)
    with sqlite3.connect(path) as db:
        row = db.execute(f"SELECT {', '.join(SEALED['reports'].columns)} FROM reports").fetchone()
        broken = (*row[:3], "{not json", row[4])
        db.execute("UPDATE reports SET json = ?, seal = ?", (broken[3], seal(broken)))
    db.close()
    for command in ("list", "check"):
        check(call(command, "--store", str(path)), ["the report of mine", "cannot be read", "run the study again"])


def test_markup_and_escapes_in_stored_names_steer_nothing(call, tmp_path):
    evil = "\x1b[31m\x1b]0;title\x07[bold][/red]\n[link=http://x]name\x9b2J"
    claim = {**CLAIM, "id": evil, "statement": evil, "paper": evil}
    write_report(tmp_path / "r.sqlite", evil, {**REPORT, "study": evil, "claims": [claim]})
    for args in (["check"], ["check", "--json"], ["list"], ["check", "nothing"]):
        code, out, err = call(*args, "--store", str(tmp_path / "r.sqlite"))
        assert code in (0, 2), err
        assert not {"\x1b", "\x07", "\x9b"} & set(out + err)
    assert json.loads(call("check", "--json", "--store", str(tmp_path / "r.sqlite"))[1])


@pytest.mark.parametrize("command", ["show", "figure", "export"])
def test_a_curve_of_python_objects_is_refused(call, smoke_store, tmp_path, command):
    path = tmp_path / "o.sqlite"
    with sqlite3.connect(smoke_store) as source, sqlite3.connect(path) as db:
        source.backup(db)
        rows = db.execute("SELECT chunk, metric, 'O', checksum FROM curves").fetchall()
        db.executemany(
            "UPDATE curves SET dtype = 'O', seal = ? WHERE chunk = ? AND metric = ?", [(seal(r), *r[:2]) for r in rows]
        )
    source.close()
    db.close()
    out = [] if command == "show" else ["--out", str(tmp_path / f"x.{'png' if command == 'figure' else 'csv'}")]
    check(call(command, STUDY, *out, "--store", str(path)), ["corrupt", "--repair"])


def test_explaining_transformers_traces_nothing(call, monkeypatch):
    from headstart.engines.ensemble import network

    def refuse(*args):
        raise AssertionError("tracing a step takes seconds")

    network._lacking.cache_clear()
    monkeypatch.setattr(network, "make_fx", refuse)
    code, out, _ = call("explain", "less_data/two_set", "--json", "--preset", "smoke")
    assert code == 0
    assert {row["engine"] for row in json.loads(out)} == {"ensemble"}


@pytest.mark.slow
def test_the_whole_paper_is_explained_in_seconds(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "s.sqlite"))
    began = time.process_time()
    main(["explain", "less_data", "--preset", "paper"])
    assert time.process_time() - began < 30
    assert "count once" in capsys.readouterr().out
