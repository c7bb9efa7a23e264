"""What the pages say is so: their code runs, their files run, their commands exist, and the site builds."""

import importlib
import importlib.util
import inspect
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headstart
from headstart.cli import main
from headstart.lab import provenance

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))

FILE = re.compile(r"^```\{code-block\} python\n:caption: (?P<name>\w+\.py)\n\n(?P<code>.*?)^```$", re.M | re.S)
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```$", re.M | re.S)
SHELL = re.compile(r"^```(?:console|sh)\n(?P<code>.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*headstart (?P<args>[^#\n]+)", re.M)


def page(name):
    return (DOCS / f"{name}.md").read_text()


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


# Lightning's own, on a machine of its liking or not.
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning", "ignore:.*does not have many workers.*")
@pytest.mark.parametrize("path", [p for p in PAGES if blocks(p.read_text())], ids=lambda path: path.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(path, desk):
    text = path.read_text()
    write_files(text, desk)
    namespace = {"__name__": "page"}
    for code in blocks(text):
        exec(compile(code, path.name, "exec"), namespace)


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


def test_the_tour_names_every_command(capsys):
    offered = re.findall(r"•\s+(\w+) ", headstart_says(capsys, "--help"))
    assert set(offered) - {"version"} == {command for command, *_ in commands(page("first_steps"))}


def test_the_example_study_does_what_its_page_shows(desk, capsys):
    text = page("add_a_study")
    write_files(text, desk)
    for command, *args in commands(text):
        # Without a preset `run` and `explain` would take the laptop's, which is for people.
        smoke = ["--preset", "smoke"] if command in ("run", "explain") and "--preset" not in args else []
        main([command, *args, *smoke, *(["--jobs", "1"] if command == "run" else [])])
    printed = capsys.readouterr().out
    assert '"study": "mine/half_of_parity"' in printed
    assert (desk / "half.svg").read_text().startswith("<?xml")
    assert len((desk / "half.csv").read_text().splitlines()) > 2


def test_the_example_task_keeps_the_contract_of_tasks(desk, monkeypatch):
    write_files(page("add_a_task"), desk)
    from majority import Majority

    spec = importlib.util.spec_from_file_location("contract_of_tasks", ROOT / "tests/contracts/test_tasks.py")
    contract = importlib.util.module_from_spec(spec)
    # Its dataclasses look themselves up here.
    monkeypatch.setitem(sys.modules, spec.name, contract)
    spec.loader.exec_module(contract)
    row = contract.Row(Majority(7), 0, 1, lambda task, seed, x: np.sign(x.sum(axis=1)))
    tests = [f for name, f in vars(contract).items() if name.startswith("test_")]
    tests = [test for test in tests if list(inspect.signature(test).parameters) == ["row"]]
    # Those that every row of TASKS joins: others are of finite data, of classes, or of single-index models alone.
    joined = [test for test in tests if all(row in test.pytestmark[0].args[1] for row in contract.TASKS)]
    assert len(joined) > 5
    for test in joined:
        test(row)


def test_the_reference_has_every_public_name():
    documented = set(re.findall(r"^\.\. auto\w+:: headstart\.(\w+)$", page("api"), re.M))
    assert documented == set(headstart.__all__)


def test_the_nouns_table_leads_to_names_of_the_reference():
    linked = set(re.findall(r"\{py:\w+\}`~?(headstart[\w.]+)`", "".join(path.read_text() for path in PAGES)))
    assert linked <= set(re.findall(r"^\.\. auto\w+:: (\S+)$", page("api"), re.M))


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
    assert "No study has been reported yet" in build(source, target)
    write_files(page("add_a_study"), desk)
    monkeypatch.setattr(provenance, "commit", lambda: "0123456789")  # a page of results needs committed code
    main(["run", "./my_study.py", "--preset", "smoke", "--jobs", "1"])
    main(["report", "./my_study.py", "--out", str(source / "results")])
    page_of_results = build(source, target)
    assert "No study has been reported yet" not in page_of_results
    assert "Half of parity" in page_of_results
