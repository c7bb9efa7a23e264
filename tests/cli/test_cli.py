import json
import sqlite3

import pytest

import headstart as hs
from headstart.cli import main
from headstart.lab.ledger import Edition

STUDY = "less_data/mini_and_full_batch_mlp"
COMMANDS = [
    "data",
    "list",
    "run",
    "show",
    "figure",
    "check",
    "explain",
    "export",
    "report",
    "version",
    "gc",
    "check-store",
    "ui",
]
CLAIM_FIELDS = ["id", "kind", "statement", "paper", "estimate", "low", "high"]
CLAIM_FIELDS += ["known", "arrivals", "horizon", "axis", "beside", "verdict"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(call, command):
    code, out, _ = call(command, "--help")
    assert code == 0
    assert f"Try: headstart {command}" in " ".join(out.split())


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["run", "less_data/mini_and_ful_batch"], ["'less_data/mini_and_ful_batch'", STUDY]),
        (["run", STUDY, "--set", "width=-3"], ["width=-3", "at least 1"]),
        (["run", STUDY, "--set", "width=wide"], ["width=wide", "integer"]),
        (["run", STUDY, "--set", "widht=3"], ["widht=3", "did you mean width"]),
        (["run", STUDY, "--set", "width"], ["width", "NAME=VALUE"]),
        (["run", STUDY, "--set", "sgd_index_steps=50"], ["step 100", "50 steps", "shorten"]),
        (["run", STUDY, "--set", "gd_parity_samples=0"], ["Fixed(size=0)", "at least 1"]),
        (["run", STUDY, "--set", "gd_parity_degree=99"], ["degree=99", "at most the dimension"]),
        (["run", STUDY, "--preset", "lptop"], ["lptop", "laptop"]),
        (["run", STUDY, "--seeds", "0"], ["num_seeds=0"]),
        (["run", STUDY, "--jobs", "0"], ["--jobs 0"]),
        (["run", STUDY, "--device", "abacus"], ["--device abacus", "cpu"]),
        (["run", STUDY, "--only", "convnet"], ["--only convnet", "mlp"]),
        (["run", "./nowhere.py"], ["nowhere.py", "STUDY"]),
        (["run", STUDY, "--store", "/dev/null/store"], ["/dev/null/store", "--store PATH"]),
        (["show", "nothing"], ["'nothing'", "headstart list"]),
        (["show", STUDY, "--json"], ["not complete", f"headstart run {STUDY}"]),
        (["figure", STUDY, "--out", "x.gif"], ["not complete"]),
        (["export", STUDY, "--out", "x.txt"], ["--to txt", "parquet or csv"]),
        (["report", STUDY], ["is in store", "headstart run"]),
        (["check", "--store", "no.sqlite"], ["no.sqlite", "run a study"]),
    ],
)
def test_a_mistake_in_the_call_is_one_line_that_names_the_value_and_the_fix(call, args, parts):
    code, _, err = call(*args)
    assert code == 2
    assert err.count("\n") == 1
    assert err.startswith("headstart: ")
    for part in parts:
        assert part in err


@pytest.mark.parametrize("args", [["fly"], ["run"], ["run", STUDY, "--fast"], []])
def test_a_call_that_does_not_parse_exits_with_2(call, args):
    assert call(*args)[0] == 2


def test_list_gives_a_program_what_it_needs(call, smoke_store):
    code, out, _ = call("list", "--json", "--store", smoke_store)
    row = next(row for row in json.loads(out) if row["study"] == STUDY)
    assert code == 0
    assert {"study", "paper", "figures", "presets", "num_claims", "verdicts"} <= set(row)
    assert set(row["presets"]) == {"smoke", "laptop", "paper"}
    assert len(row["verdicts"]) == row["num_claims"]


def test_list_works_before_anything_was_run(call):
    code, out, _ = call("list")
    assert code == 0
    assert "not run" in out


def test_show_prints_the_study_with_its_claims(call, smoke_store):
    code, out, _ = call("show", STUDY, "--json", "--store", smoke_store)
    data = json.loads(out)
    assert code == 0
    assert {"study", "paper", "figures", "preset", "seeds", "commit", "machine", "minutes", "claims"} <= set(data)
    assert data["preset"] == "smoke"
    assert all(list(claim) == CLAIM_FIELDS for claim in data["claims"])
    choices = data["choices"].values()
    assert all(choice["inside"] or not choice["learned"] for choice in choices)
    assert all(len(choice["tries"]) >= 4 for choice in choices)


def test_show_before_a_run_prints_the_method_and_the_command(call):
    code, out, _ = call("show", STUDY)
    assert code == 0
    assert "Paper" in out
    assert f"headstart run {STUDY}" in out


def test_check_prints_the_same_claims_as_show(call, smoke_store):
    shown = json.loads(call("show", STUDY, "--json", "--store", smoke_store)[1])["claims"]
    checked = json.loads(call("check", "--json", "--store", smoke_store)[1])[0]["claims"]
    assert checked == shown


def test_check_strict_exits_with_1_exactly_when_a_claim_does_not_hold(call, smoke_store, tmp_path):
    path = tmp_path / "verdicts.sqlite"
    report = json.loads(call("check", "--json", "--store", smoke_store)[1])[0]
    for preset, verdict, code in [
        ("smoke", "does not hold", 0),
        ("laptop", "undecided", 0),
        ("laptop", "holds", 0),
        ("laptop", "does not hold", 1),
    ]:
        claims = [{**claim, "verdict": verdict} for claim in report["claims"]]
        with hs.open_store(path) as store:
            store.studies.finish(Edition(STUDY, preset, "{}"), [], {**report, "preset": preset, "claims": claims})
        assert call("check", "--strict", "--store", str(path))[0] == code
        assert call("check", "--store", str(path))[0] == 0


def test_check_strict_asks_primary_claims_where_there_are_some_and_names_those_that_failed(call, smoke_store, tmp_path):
    path = tmp_path / "kinds.sqlite"
    report = json.loads(call("check", "--json", "--store", smoke_store)[1])[0]
    first, second, *others = [{**claim, "verdict": "holds", "kind": "secondary"} for claim in report["claims"]]
    no, primary, rest = {"verdict": "does not hold"}, {"kind": "primary"}, len(others)
    for claims, failed, said in [
        ([{**first, **primary}, {**second, **no}], [], f"1 holds; others: {rest} hold, 1 does not hold"),
        ([{**first, **primary, **no}, second], ["1"], f"1 does not hold; others: {rest + 1} hold"),
        ([{**first, **no}, {**second, **no}], ["1", "2"], f"none; others: {rest} hold, 2 do not hold"),
    ]:
        claims = [{**claim, "id": str(i)} for i, claim in enumerate([*claims, *others], 1)]
        with hs.open_store(path) as store:
            store.studies.finish(Edition(STUDY, "laptop", "{}"), [], {**report, "preset": "laptop", "claims": claims})
        code, out, err = call("check", "--strict", "--store", str(path))
        assert code == bool(failed)
        assert [line.partition(f"{STUDY} (laptop): ")[2].partition(",")[0] for line in err.splitlines()] == failed
        assert out.splitlines()[-1] == f"primary claims: {said}"


@pytest.mark.parametrize(("format", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_figure_is_drawn_in_every_format_from_the_store_alone(call, smoke_store, tmp_path, format, magic):
    path = tmp_path / f"gap.{format}"
    assert call("figure", STUDY, "--out", str(path), "--store", smoke_store)[0] == 0
    assert path.read_bytes().startswith(magic)


def test_a_paper_is_drawn_as_the_primary_claims_of_its_stored_studies(call, smoke_store, tmp_path):
    path = tmp_path / "less_data.svg"
    assert call("figure", "less_data", "--out", str(path), "--store", smoke_store)[0] == 0
    text = path.read_text()
    assert all(f"mini and full batch mlp: {id}".split(": ")[1] in text for id in ("sgd parity steps", "gd index steps"))
    code, _, err = call("figure", "less_data", "--preset", "paper", "--out", str(path), "--store", smoke_store)
    assert code == 2
    assert "run them first" in err


def test_claims_of_published_pages_are_shown_and_drawn_without_a_store(call, smoke_store, tmp_path):
    assert call("report", STUDY, "--preset", "smoke", "--store", smoke_store)[0] == 0
    published, empty = str(tmp_path / "docs" / "results"), str(tmp_path / "empty.sqlite")
    assert (tmp_path / "docs" / "results" / "less_data" / "claims.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads(call("check", "less_data", "--json", "--store", smoke_store)[1])
    code, out, _ = call("check", "less_data", "--preset", "smoke", "--json", "--results", published)
    assert code == 0
    assert [r["claims"] for r in json.loads(out)] == [r["claims"] for r in stored]
    path = tmp_path / "claims.svg"
    assert call("figure", "less_data", "--results", published, "--out", str(path))[0] == 0
    assert "mini and full batch mlp (smoke): sgd parity steps" in path.read_text()
    for wrong, said in [
        (("check", "less_dat", "--results", published), "no claim of 'less_dat'"),
        (("check", "less_data", "--results", str(tmp_path)), "no report is in it"),
        (("check", "less_data", "--results", published, "--store", empty), "name one of them"),
        (("check", "less_data", "--preset", "desk", "--results", published), "--preset desk"),
        (("figure", STUDY, "--results", published, "--out", str(path)), "drawn from its traces"),
    ]:
        code, _, err = call(*wrong)
        assert (code, err.count("\n")) == (2, 1)
        assert said in err
    (tmp_path / "docs" / "results" / "less_data" / "no_report.json").write_text("[]")
    assert "it is no report" in call("check", "--results", published)[2]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_export_writes_one_row_a_record(call, smoke_store, tmp_path, kind):
    import pandas as pd

    path = tmp_path / f"traces.{kind}"
    assert call("export", STUDY, "--to", kind, "--out", str(path), "--store", smoke_store)[0] == 0
    frame = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    assert {"arm", "seed", "step", "samples", "flops", "test_loss", "norm_readout"} <= set(frame.columns)
    assert frame.groupby("arm")["seed"].nunique().eq(3).all()


def test_explain_names_engine_time_and_memory_without_training(call):
    code, out, _ = call("explain", STUDY, "--json")
    rows = json.loads(out)
    assert code == 0
    assert len(rows) == 8
    assert all({"arm", "engine", "runs", "seconds_a_run", "megabytes_a_run"} <= set(row) for row in rows)


@pytest.mark.usefixtures("no_pictures")
def test_a_second_run_trains_nothing_and_more_seeds_extend_it(call, smoke_store, tmp_path):
    path = tmp_path / "own.sqlite"  # other tests count the seeds of the shared one
    with sqlite3.connect(smoke_store) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    args = ["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(path), "--json"]
    (first,) = json.loads(call("check", "--json", "--store", str(path))[1])  # as the first run left it
    code, out, err = call(*args)
    assert code == 0
    assert json.loads(out)["claims"] == first["claims"]
    assert err == ""
    more = json.loads(call(*args, "--seeds", "4")[1])
    assert more["seeds"] == 4
    assert more["choices"] == first["choices"]


def test_report_writes_picture_page_and_json_and_renews_the_readme(call, smoke_store, tmp_path):
    from headstart.lab.overview import BEGIN, END

    (tmp_path / "README.md").write_text(f"before\n{BEGIN}\nstale\n{END}\nafter\n")
    assert call("report", "less_data", "--preset", "smoke", "--store", smoke_store)[0] == 0
    base = tmp_path / "docs" / "results" / f"{STUDY}-smoke"
    data = json.loads(base.with_suffix(".json").read_text())
    assert all(list(claim) == CLAIM_FIELDS for claim in data["claims"])
    assert f"`headstart run {STUDY} --preset smoke`" in base.with_suffix(".md").read_text()
    assert base.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "stale" not in text

    def counts(primary):
        verdicts = [claim["verdict"] for claim in data["claims"] if (claim["kind"] == "primary") == primary]
        return [str(verdicts.count(v)) for v in ("holds", "absent", "undecided", "does not hold")]

    primary, others = " | ".join(counts(True)), " / ".join(counts(False))
    assert f"{STUDY}-smoke.md), smoke | {data['figures']} | {primary} | {others} |" in text
    for claim in data["claims"]:
        assert claim["statement"].replace("|", "\\|") in base.with_suffix(".md").read_text()


def damaged(path, statement):
    db = sqlite3.connect(path)
    db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.usefixtures("no_pictures")
def test_a_corrupt_chunk_and_a_newer_format_are_one_line_errors_and_repair_mends_the_first(call, smoke_store, tmp_path):
    path = tmp_path / "copy.sqlite"
    with sqlite3.connect(smoke_store) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    source.close()
    copy.close()
    args = ["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(path), "--json", "--repair"]
    before = json.loads(call("check", "--json", "--store", str(path))[1])[0]["claims"]
    damaged(path, "UPDATE curves SET data = zeroblob(length(data)) WHERE metric = 'test_accuracy'")
    code, _, err = call("show", STUDY, "--store", str(path))
    assert (code, err.count("\n")) == (2, 1)
    assert "corrupt" in err
    assert "--repair" in err
    assert json.loads(call(*args)[1])["claims"] == before
    damaged(path, "UPDATE meta SET value = '7'")
    code, _, err = call("show", STUDY, "--store", str(path))
    assert (code, err.count("\n")) == (2, 1)
    assert "format 7" in err


def test_explain_counts_runs_that_studies_share_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "s.sqlite"))

    def rows(*names):
        main(["explain", *names, "--json"])
        return json.loads(capsys.readouterr().out)

    together = [row for row in rows("less_data", "--only", "mlp") if row["study"] == "less_data/random_labels"]
    alone = rows("less_data/random_labels")
    assert sum(row["runs"] for row in together) < sum(row["runs"] for row in alone)
    main(["explain", "less_data", "--only", "mlp"])
    assert "count once" in capsys.readouterr().out
