"""What the pages say is so: their code runs, their files run, their commands exist, and the site builds."""

import importlib
import importlib.util
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import headstart
from headstart.cli import main
from headstart.lab import provenance

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")])

FILE = re.compile(r"^```\{code-block\} python\n:caption: (?P<name>\w+\.py)\n\n(?P<code>.*?)^```$", re.M | re.S)
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<printed>.*?)^```$)?", re.M | re.S)
SHELL = re.compile(r"^```(?:console|sh)\n(?P<code>.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*headstart (?P<args>[^#\n]+)", re.M)


def page(name):
    return (DOCS / f"{name}.md").read_text()


def reference():
    return "".join(path.read_text() for path in sorted(DOCS.glob("api/*.md")))


def blocks(text):
    return [match["code"] for match in PYTHON.finditer(text)]


def commands(text):
    return [shlex.split(match["args"]) for block in SHELL.finditer(text) for match in COMMAND.finditer(block["code"])]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder to work in, with a store of its own; modules imported from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def write_files(text, folder):
    for match in FILE.finditer(text):
        (folder / match["name"]).write_text(match["code"])


def headstart_says(capsys, *args):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert stop.value.code in (0, None), args
    return capsys.readouterr().out


def with_code():
    """The pages with code of their own: that of the first page is the README's, whose tests run it."""
    own = [path for path in PAGES if path.stem != "index" and blocks(path.read_text())]
    slow = {path for path in own if path.parent.name == "tutorials" or path.stem == "how_stable"}
    return [pytest.param(p, id=p.stem, marks=pytest.mark.slow if p in slow else ()) for p in own]


def run_page(path, capsys, changed=lambda code: code):
    """Run the code of a page from top to bottom; yields what each block prints with what the page shows of it."""
    namespace = {"__name__": "page"}
    threads = torch.get_num_threads()
    try:
        for block in PYTHON.finditer(path.read_text()):
            exec(compile(changed(block["code"]), path.name, "exec"), namespace)
            yield capsys.readouterr().out, block["printed"]
    finally:
        torch.set_num_threads(threads)


# Lightning's own, on a machine of its liking or not.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning", "ignore:.*does not have many workers.*")
@pytest.mark.parametrize("path", with_code())
def test_the_code_of_a_page_runs_from_top_to_bottom_and_prints_what_the_page_shows(path, desk, capsys):
    write_files(path.read_text(), desk)
    for printed, shown in run_page(path, capsys):
        if shown:
            assert_alike(printed, shown)


@pytest.mark.parametrize("path", sorted(DOCS.glob("tutorials/*.md")), ids=lambda path: path.stem)
def test_the_code_of_a_tutorial_runs_with_one_seed_and_prints_what_the_page_shows_of_it(path, desk, capsys):
    compared = 0
    for printed, shown in run_page(path, capsys, partial(re.sub, r"(seeds=|in range\()\d\b", r"\g<1>1")):
        lines = zip(printed.splitlines(), (shown or "").splitlines(), strict=True)
        for mine, whole in lines:
            # A number per seed, of which this is the first, or a mean over seeds, of which none is far.
            assert_alike(mine, " ".join(whole.split()[: len(mine.split())]))
            compared += 1
    assert compared >= 4


def assert_alike(printed, shown):
    """The same words in the same places, and numbers as near as another processor may give them."""
    printed, shown = printed.split(), shown.split()
    for mine, theirs in zip(printed, shown, strict=True):
        try:
            assert float(mine) == pytest.approx(float(theirs), rel=0.15), f"{printed} instead of {shown}"
        except ValueError:
            assert mine == theirs


def test_another_output_would_be_seen():
    assert_alike("all rows 0.51\n", "all  rows 0.52")
    for other in ("all rows 0.99", "all rows", "all row 0.52"):
        with pytest.raises((AssertionError, ValueError)):
            assert_alike(other, "all rows 0.52")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_command_on_a_page_exists_with_its_flags(path, capsys):
    for command, *args in commands(path.read_text()):
        flags = {arg.partition("=")[0] for arg in args if arg.startswith("--")}
        known = set(re.findall(r"--[a-z][a-z-]*", headstart_says(capsys, command, "--help")))
        assert flags <= known, f"headstart {command} has no {', '.join(flags - known)}"


def test_the_first_page_names_the_two_commands_of_the_makefile():
    targets = set(re.findall(r"^make (\w+)", page("index"), re.M))
    assert targets == {"demo", "test"}
    assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M) for target in targets)


def test_the_first_page_shows_the_code_of_the_readme_and_what_it_prints():
    shown = re.findall(r"^```(?:python|text)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)[:3]
    assert shown[2].startswith("all rows")
    assert all(code in page("index") for code in shown)


def test_the_tour_names_every_command(capsys):
    offered = re.findall(r"•\s+([\w-]+) ", headstart_says(capsys, "--help"))
    assert set(offered) - {"version"} == {command for command, *_ in commands(page("first_steps"))}


def follow(text, file):
    """Do what a page shows of a study file, on its smoke preset."""
    for command, *args in (call for call in commands(text) if f"./{file}" in call):
        # Without a preset `run` and `explain` would take the laptop's, which is for people.
        smoke = ["--preset", "smoke"] if command in ("run", "explain") and "--preset" not in args else []
        main([command, *args, *smoke, *(["--jobs", "1"] if command == "run" else [])])


def test_the_example_study_does_what_its_page_shows(desk, capsys):
    text = page("add_a_study")
    write_files(text, desk)
    follow(text, "my_study.py")
    main(["check", "mine"])
    printed = capsys.readouterr().out
    assert '"study": "mine/half_of_parity"' in printed
    assert "primary claims: 1" in printed
    assert (desk / "half.svg").read_text().startswith("<?xml")
    assert len((desk / "half.csv").read_text().splitlines()) > 2


def test_the_second_study_sweeps_two_axes_measures_on_the_way_and_starts_from_another_run(desk, capsys):
    text = page("add_a_study")
    write_files(text, desk)
    follow(text, "begin_small.py")
    assert "every claim comes out as published" in capsys.readouterr().out
    main(["show", "./begin_small.py", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert {claim["id"]: claim["kind"] for claim in report["claims"]} == {"samples": "primary", "support": "control"}
    assert all(claim["low"] <= claim["estimate"] <= claim["high"] for claim in report["claims"])
    for choice in report["choices"].values():
        values = [each["values"] for each in choice["tries"]]
        assert {each["optimizer.weight_decay"] for each in values} == {0.0, 0.1}
        assert len({each["optimizer.lr"] for each in values}) >= 5
        assert {each["num_seeds"] for each in choice["tries"]} == {2, 4}  # halved once
        assert choice["by"] == "the restricted mean time to 0.9, in steps"
    from begin_small import OnSupport

    with headstart.open_store() as store:
        begun, fresh = (store.traces(study="mine/begin_small", arm=arm) for arm in ("begun", "fresh"))
        seen = [store.measured.get(trace.cell, trace.seed, OnSupport()) for trace in (*begun, *fresh)]
    assert {(trace.before.steps, trace.before.samples) for trace in begun} == {(6, 6 * 32)}
    assert {trace.before.steps for trace in fresh} == {0}
    assert all(arrays["step"].tolist() == [0, 10, 20, 30, 40, 50, 60] for arrays in seen)
    assert all(((arrays["share"] > 0) & (arrays["share"] < 1)).all() for arrays in seen)


@pytest.fixture
def contract(monkeypatch):
    """The contract tests of a noun as a module."""

    def load(noun):
        spec = importlib.util.spec_from_file_location(f"contract_of_{noun}", ROOT / f"tests/contracts/test_{noun}.py")
        module = importlib.util.module_from_spec(spec)
        # Its dataclasses look themselves up here.
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


def joined(contract, rows):
    """The tests of the contract of tasks that all of these rows join."""
    tests = [f for name, f in vars(contract).items() if name.startswith("test_")]
    tests = [test for test in tests if list(inspect.signature(test).parameters) == ["row"]]
    return [test for test in tests if all(row in test.pytestmark[0].args[1] for row in rows)]


def loudest_channel(task, seed, x):
    return np.square(x).reshape(-1, task.channels, task.length).sum(axis=2).argmax(axis=1)


def test_the_example_tasks_keep_the_contract_of_tasks(desk, contract):
    write_files(page("add_a_task"), desk)
    from loudest import Loudest
    from majority import Majority

    contract = contract("tasks")
    majority = contract.Row(Majority(7), 0, 1, lambda task, seed, x: np.sign(x.sum(axis=1)))
    loudest = contract.Row(Loudest(3, 4), 1, 2 / 3, loudest_channel)
    for row, others in ((majority, contract.TASKS), (loudest, contract.CLASSES)):
        tests = joined(contract, others)
        assert len(tests) > 5
        for test in tests:
            test(row)
        for stream in (headstart.Stream.DATA, headstart.Stream.EVALUATION):
            contract.test_a_target_is_the_stated_function_of_its_point(row, stream)


def test_the_example_methods_keep_the_contract_of_methods(desk, contract, tmp_path):
    write_files(page("add_a_method"), desk)
    from flipped_labels import FlippedLabels
    from waiting import Waiting

    contract = contract("methods")
    loop, ensemble, fused = (each.values[0] for each in contract.ENGINES)
    flipped = replace(contract.PARITY, methods=(FlippedLabels(0.2),))
    waiting = replace(contract.DEEP, methods=(Waiting(steps=15),))
    assert fused.supports(waiting) == "it lacks transformed gradients"
    for run, engines in ((flipped, (loop, ensemble, fused)), (waiting, (loop, ensemble))):
        for engine in engines:
            contract.test_a_method_changes_the_run_and_leaves_the_test_set(engine, run)
            folder = tmp_path / f"{type(run.methods[0]).__name__}_{engine.name}"
            folder.mkdir()
            contract.test_an_interrupted_run_goes_on_exactly(engine, run, folder)
        for engine in engines[1:]:
            contract.test_an_engine_agrees_with_the_loop_on_every_record(engine, run)
    contract.test_members_of_the_fused_engine_do_not_depend_on_who_they_share_a_call_with(flipped)
    for method in (FlippedLabels(0.0), Waiting(steps=0)):
        for engine in (loop, ensemble, fused):
            contract.test_the_neutral_element_of_a_method_is_the_untouched_run(engine, method)


def test_the_reference_has_every_public_name():
    documented = set(re.findall(r"^\.\. auto\w+:: headstart\.(\w+)$", reference(), re.M))
    assert documented == set(headstart.__all__)


def test_the_nouns_table_leads_to_names_of_the_reference():
    linked = set(re.findall(r"\{py:\w+\}`~?(headstart[\w.]+)`", "".join(path.read_text() for path in PAGES)))
    assert linked <= set(re.findall(r"^\.\. auto\w+:: (\S+)$", reference(), re.M))


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_what_a_page_says_of_results_leads_to_a_page_of_results(path):
    for link in re.findall(r"\]\((results/[^)# ]+)", path.read_text()):
        assert (DOCS / link).exists(), link


def build(source, target):
    call = [sys.executable, "-m", "sphinx", "-W", "-q", str(source), str(target)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (target / "results.html").read_text()


@pytest.mark.slow
def test_the_site_builds_without_a_warning_before_and_after_a_study_is_reported(desk, monkeypatch):
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason="make docs installs it")
    source, target = desk / "docs", desk / "html"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("_build", "results"))
    shutil.copytree(ROOT / "examples", desk / "examples")
    for path in source.glob("*.md"):  # what links to a page of results goes to all of them, which are none
        path.write_text(re.sub(r"\]\(results/[^)]+\)", "](results.md)", path.read_text()))
    assert "No study has been reported yet" in build(source, target)
    write_files(page("add_a_study"), desk)
    monkeypatch.setattr(provenance, "commit", lambda: "0123456789")  # a page of results needs committed code
    main(["run", "./my_study.py", "--preset", "smoke", "--jobs", "1"])
    main(["report", "./my_study.py", "--out", str(source / "results")])
    page_of_results = build(source, target)
    assert "No study has been reported yet" not in page_of_results
    assert "Half of parity" in page_of_results
    assert re.search(r'<img alt="Half of parity[^>]*half_of_parity-smoke.png', (target / "gallery.html").read_text())
