"""Pages of results: they open with what was found, primary claims come first, and they come from committed code."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from reported_study import STUDY

import headstart as hs
from headstart.cli import main
from headstart.lab import provenance
from headstart.lab.checkout import without_blocks
from headstart.lab.conduct import conduct
from headstart.lab.finding import check_finding, fill_finding
from headstart.lab.overview import BEGIN, END, SPEED_BEGIN, SPEED_END, results_table, studies_table
from headstart.lab.progress import Silent
from headstart.lab.report import claims_table, write_report
from headstart.lab.wording import counted, endpoint

STUDY_FILE = str(Path(__file__).parent / "reported_study.py")
FASTER = {
    "id": "faster",
    "kind": "primary",
    "statement": "small is faster",
    "paper": "1.4x",
    "estimate": 0.7,
    "low": 0.61234,
    "high": None,
    "arrivals": None,
    "horizon": None,
    "axis": None,
    "known": "exactly",
    "verdict": "holds",
}


@pytest.mark.parametrize(
    ("finding", "filled"),
    [
        ("It takes {faster} of the steps.", "It takes 0.7 [0.612, ∞] of the steps."),
        ("{faster.estimate}, {faster.low}, {faster.high}", "0.7, 0.612, ∞"),
        ("{faster.verdict}; {faster.says}; the paper: {faster.paper}", "holds; holds; the paper: 1.4x"),
        ("{dot_0.25}, {dot_0.25.says}", "0.7 [0.612, ∞], is undecided"),
        ("the set {{1, 2}}", "the set {1, 2}"),
        ("", ""),
    ],
)
def test_slots_of_a_finding_are_filled_from_claims(finding, filled):
    claims = [FASTER, {**FASTER, "id": "dot_0.25", "verdict": "undecided"}]
    check_finding(finding, ["faster", "dot_0.25"])
    assert fill_finding(finding, claims) == filled


@pytest.mark.parametrize(
    ("verdict", "said"),
    [("holds", "holds"), ("does not hold", "does not hold"), ("undecided", "is undecided"), ("absent", "is absent")],
)
def test_a_verdict_is_a_verb_in_a_sentence(verdict, said):
    assert fill_finding("It {faster.says}.", [{**FASTER, "verdict": verdict}]) == f"It {said}."


def test_a_bound_and_a_target_that_nobody_reached_are_said_as_in_tables():
    assert fill_finding("{faster.estimate}", [{**FASTER, "known": "at most"}]) == "≤ 0.7"
    assert fill_finding("{faster.estimate}", [{**FASTER, "estimate": None}]) == "not reached"


@pytest.mark.parametrize(
    ("finding", "parts"),
    [
        ("{slower}", ["{slower}", "control, large, more"]),
        ("{slower.says}", ["{slower.says}", "control, large, more"]),
        ("{large.size}", ["{large.size}", "'size'", "estimate, low, high, verdict, says, paper"]),
        ("{large:.2f}", ["{large}", "format"]),
        ("{}", ["{}", "control, large, more"]),
        ("{large", ["{large", "twice"]),
    ],
)
def test_a_slot_without_a_claim_is_met_before_anything_is_trained(finding, parts):
    study = replace(STUDY, finding=finding)
    with pytest.raises(hs.HeadstartError) as error:
        study.validate(study.knobs())
    assert all(part in str(error.value) for part in parts)


@pytest.fixture
def reported(tmp_path):
    """(page, JSON) of a study once it has been reported."""

    def write(study=STUDY):
        with hs.open_store(tmp_path / "s.sqlite") as store:
            outcome = conduct(study, "laptop", study.knobs(), store, Silent())
        picture, page, data = write_report(study, outcome.results, outcome.report, tmp_path / "results")
        assert picture.read_bytes().startswith(b"\x89PNG")
        return page.read_text(), json.loads(data.read_text())

    return write


def blocks(page):
    """What GitHub and MyST see in a page, from top to bottom: paragraphs, tables as lists of rows, raw HTML."""
    found, row, inside = [], [], False
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if token.type == "table_open":
            found.append([])
            inside = True
        elif token.type == "table_close":
            inside = False
        elif token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            found[-1].append(row)
        elif token.type == "inline":
            (row if inside else found).append(token.content)
        elif token.type == "html_block":
            found.append(token.content.strip())
    return found


def test_a_page_opens_with_its_finding_and_folds_what_is_not_primary(reported):
    page, report = reported()
    title, finding, source, picture, primary, begin, others, end = blocks(page)
    assert title == "A study with a finding"
    assert finding == "That the largest is above 10 holds: it is 27 [26, 28]. The paper has no number."
    assert report["finding"] == finding
    assert source.startswith("no paper, no figure. `headstart run tests/reported")
    assert picture.startswith("![A study")
    note = "<br><small>min(T, 2500 steps), at least 92% arrive</small>"
    assert primary == [
        ["claim", "ours [95% interval]", "paper", "verdict"],
        ["|the largest| is above 10", f"27 [26, 28]{note}", "no number", "**holds**"],
    ]
    summary = "2 other claims (control, secondary): 1 is undecided, 1 does not hold"
    assert begin == f"<details>\n<summary>{summary}</summary>"
    assert others == [
        ["claim", "ours [95% interval]", "paper", "kind", "verdict"],
        ["a control that does not hold", f"27 [26, 28]{note}", "none", "control", "**does not hold**"],
        ["another look", "not reached [1, ∞]", "none", "secondary", "**undecided**"],
    ]
    assert end == "</details>"


def test_other_readings_of_a_time_stand_beside_it(tmp_path):
    reading = {"estimate": 0.8, "low": 0.7, "high": 0.9, "known": "exactly"}
    with hs.open_store(tmp_path / "s.sqlite") as store:
        outcome = conduct(STUDY, "laptop", STUDY.knobs(), store, Silent())
    outcome.report["claims"][2]["beside"] = {"median seed": reading, "mean": reading}
    page = write_report(STUDY, outcome.results, outcome.report, tmp_path / "results")[1].read_text()
    small = "<small>median seed 0.8 [0.7, 0.9]</small><br><small>mean 0.8 [0.7, 0.9]</small>"
    assert f"| another look | not reached [1, ∞]<br>{small} | none |" in page


def test_another_preset_has_a_page_beside_the_usual_one(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        outcome = conduct(STUDY, "laptop", STUDY.knobs(), store, Silent())
    results = tmp_path / "results"
    other = replace(STUDY, presets={"paper": STUDY.presets["laptop"]})
    write_report(other, outcome.results, {**outcome.report, "preset": "paper"}, results)
    write_report(STUDY, outcome.results, outcome.report, results)
    table = studies_table(results)
    assert f"/{STUDY.name}.md), laptop" in table
    assert f"/{STUDY.name}-paper.md), paper" in table


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(4.83, "4.8 minutes on"), (0.0, "under 0.1 minutes beside runs shared with other studies on")],
)
def test_a_study_whose_runs_others_made_does_not_say_that_it_took_no_time(tmp_path, minutes, said):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        outcome = conduct(STUDY, "laptop", STUDY.knobs(), store, Silent())
    report = {**outcome.report, "minutes": minutes}
    assert said in write_report(STUDY, outcome.results, report, tmp_path / "results")[1].read_text()


def test_a_page_without_a_finding_and_without_primary_claims_is_as_before(reported):
    old = replace(STUDY, finding="", claims=lambda k: [replace(c, kind=hs.Kind.SECONDARY) for c in STUDY.claims(k)])
    page, _ = reported(old)
    assert page.startswith("# A study with a finding\n\nno paper, no figure. `headstart run")
    assert "<details>" not in page
    table = blocks(page)[3]
    assert table[0] == ["claim", "ours [95% interval]", "paper", "verdict"]
    assert len(table) == 4


def test_myst_renders_the_folded_claims_as_a_table(reported):
    docutils = pytest.importorskip("docutils.core")
    parsers = pytest.importorskip("myst_parser.parsers.docutils_")
    page = reported()[0].replace("![A study with a finding](reported.png)", "")
    html = docutils.publish_string(
        page, parser=parsers.Parser(), writer="html5", settings_overrides={"output_encoding": "unicode"}
    )
    folded = html.partition("<details>")[2].partition("</details>")[0]
    assert folded.count("<tr") == 3
    assert "min(T, 2500 steps)" in folded
    assert "|---" not in html


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ({"horizon": 2500.0, "axis": "steps", "arrivals": 1.0}, "min(T, 2500 steps), all arrive"),
        ({"horizon": 2.5e9, "axis": "flops", "arrivals": 0.999}, "min(T, 2.5e+09 FLOPs), at least 99% arrive"),
        ({"horizon": 640.0, "axis": "samples", "arrivals": 0.0}, "min(T, 640 samples), of an arm none arrive"),
        ({"horizon": None, "axis": None, "arrivals": 0.29}, "at least 29% arrive"),
        ({"horizon": None, "axis": None, "arrivals": None}, ""),
        ({}, ""),
    ],
)
def test_a_time_says_where_it_ends_and_how_many_arrive(claim, said):
    assert endpoint(claim) == said


def test_a_claim_of_a_time_names_the_axis_of_its_horizon_and_others_name_none(reported):
    axes = {claim["id"]: claim["axis"] for claim in reported()[1]["claims"]}
    assert axes == {"control": "steps", "large": "steps", "more": None}


def test_primary_claims_are_first_in_the_terminal_too(reported):
    report = reported()[1]
    kinds = list(claims_table(report).columns[3].cells)
    assert kinds == ["primary", "control", "secondary"]
    assert counted(report["claims"]) == "primary claims: 1 holds; others: 1 is undecided, 1 does not hold"


def test_the_tables_of_all_studies_count_primary_claims_and_show_what_was_found(reported, tmp_path):
    _, report = reported()
    row = studies_table(tmp_path / "results").splitlines()[2]
    assert "| no figure | 1 | 0 | 0 | 0 | 0 / 0 / 1 / 1 |" in row
    lines = results_table(tmp_path / "results").splitlines()
    assert lines[0] == f"- [tests/reported](results/tests/reported.md): {report['finding']}"
    assert [line.split(" | ")[4] for line in lines[4:]] == ["primary", "control", "secondary"]


def git(folder, *args):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *args], check=True, capture_output=True)


README = f"# Mine\n\n{BEGIN}\n{END}\n\nby hand\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A committed checkout to report into, as the working folder."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "README.md").write_text(README)
    (folder / "code.py").write_text("x = 1\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Run the study at a commit and report it; returns (exit code, standard error)."""
    store = str(tmp_path / "runs.sqlite")

    def call(*args, commit="0123456789"):
        monkeypatch.setattr(provenance, "commit", lambda: commit)
        main(["run", STUDY_FILE, "--jobs", "1", "--store", store])
        capsys.readouterr()
        try:
            main(["report", STUDY_FILE, "--store", store, *args])
        except SystemExit as stop:
            return stop.code, capsys.readouterr().err
        return 0, capsys.readouterr().err

    return call


PAGE = Path("docs/results/tests/reported.md")


def test_a_report_is_written_beside_earlier_ones_and_the_tables_of_the_readme(checkout, call):
    (checkout / "ignored.log").write_text("git ignores it")
    assert call() == (0, "")
    assert PAGE.read_text().startswith("# A study with a finding\n\nThat the largest")
    assert "tests/reported" in Path("README.md").read_text()
    assert call() == (0, "")  # neither its own page nor the README's table is a change


@pytest.mark.parametrize(
    ("name", "text"),
    [("code.py", "x = 2\n"), ("new.py", ""), ("README.md", README + "more"), ("docs/results/plot.py", "")],
)
def test_a_report_is_refused_beside_changes_and_names_them(checkout, call, name, text):
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text(text)
    code, said = call()
    assert code == 2
    assert said.count("\n") == 1
    assert f"not committed: {name};" in said
    assert "commit or stash" in said
    assert not PAGE.exists()
    git(checkout, "add", ".")
    assert call()[0] == 2  # staged is not committed
    git(checkout, "commit", "-m", "second")
    assert call() == (0, "")


def test_a_renamed_and_a_deleted_file_are_changes(checkout, call):
    git(checkout, "mv", "code.py", "renamed.py")
    assert "not committed: code.py, renamed.py;" in call()[1]
    git(checkout, "commit", "-m", "renamed")
    (checkout / "renamed.py").unlink()
    assert "not committed: renamed.py;" in call()[1]


def test_a_readme_in_a_checkout_with_changes_is_not_renewed_from_results_elsewhere(checkout, call, tmp_path):
    (checkout / "code.py").write_text("x = 2\n")
    elsewhere = ("--out", str(tmp_path / "elsewhere"))
    assert call(*elsewhere)[0] == 2
    assert call(*elsewhere, "--readme", str(tmp_path / "none.md")) == (0, "")


def test_results_of_a_tree_with_changes_are_refused_outside_git_too(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, said = call(commit="0123456789-dirty")
    assert code == 2
    assert said.count("\n") == 1
    assert all(part in said for part in ("tests/reported not written", "0123456789-dirty", "new store (--store FILE)"))
    assert not PAGE.exists()


@pytest.mark.parametrize("commit", ["0123456789", "v0.2.0", "unknown"])
def test_outside_git_a_user_reports_own_studies(call, tmp_path, monkeypatch, commit):
    monkeypatch.chdir(tmp_path)
    assert call(commit=commit) == (0, "")
    assert f"commit {commit}." in PAGE.read_text()


def test_a_draft_says_so_in_its_first_line_and_leaves_the_readme_alone(checkout, call):
    (checkout / "code.py").write_text("x = 2\n")
    assert call("--draft", commit="0123456789-dirty") == (0, "")
    first, _, second = PAGE.read_text().splitlines()[:3]
    assert first == "# Draft: A study with a finding"
    assert "0123456789-dirty" in second
    assert "code.py" in second
    assert Path("README.md").read_text() == README
    assert "laptop, draft |" in studies_table(Path("docs/results"))


def test_a_draft_without_changes_is_a_page_like_any_other(checkout, call):
    assert call("--draft") == (0, "")
    assert PAGE.read_text().startswith("# A study with a finding")
    assert "tests/reported" in Path("README.md").read_text()


def test_show_prints_the_finding_before_the_claims(call, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call()
    main(["show", STUDY_FILE, "--store", str(tmp_path / "runs.sqlite")])
    said = " ".join(capsys.readouterr().out.split())
    assert said.index("it is 27 [26, 28]. The paper has no number.") < said.index("ours [95% interval]")


@pytest.mark.parametrize(("begin", "end"), [(BEGIN, END), (SPEED_BEGIN, SPEED_END)])
def test_what_stands_between_the_marks_of_a_readme_is_no_change_and_what_stands_around_is(begin, end):
    one, other = (f"a\n{begin}\n{table}\n{end}\nb\n" for table in ("| 1 |", "| 2 |\n| 3 |"))
    assert without_blocks(one) == without_blocks(other) == f"a\n{begin}{end}\nb\n"
    assert without_blocks(one) != without_blocks(one + "c")
    quote = '[{}](results/paper/study.md "gap: holds")'
    assert without_blocks(quote.format("0.81 [0.77, 0.85]")) == without_blocks(quote.format("1"))
    assert without_blocks(quote.format("1")) != without_blocks(quote.replace("holds", "undecided").format("1"))
    assert without_blocks(f"{one}{BEGIN}x") == without_blocks(one) + f"{BEGIN}x"  # a block without an end
