"""The README stays true: its example runs, its commands exist, its table and its names are what the project has."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import headstart as hs
from headstart.lab.overview import BEGIN, END, SPEED_BEGIN, SPEED_END, speed_table, studies_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


# What a reader has of their own when they copy the three lines.
OWN = """
import torch
dataset = torch.utils.data.TensorDataset(torch.arange(64_000.0))
seen = []
def training_step(batch):
    seen.extend(batch[0].tolist())
"""
LINES, WIN, LAB = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.fixture
def printed_by(tmp_path, monkeypatch, capsys):
    """Run code in an empty folder; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()

    def printed_by(code):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        return capsys.readouterr().out

    yield printed_by
    torch.set_num_threads(threads)


def test_the_three_lines_train_on_a_few_rows_first_and_on_all_in_the_end(printed_by):
    shorter = LINES.replace("10_000", "2_400")
    assert shorter != LINES
    said = printed_by(f"{OWN}{shorter}\nprint(len(seen), len(set(seen[:6400])), len(set(seen)))")
    assert said.split()[0] == str(2400 * 64)
    assert int(said.split()[1]) == 200  # 1/320 of all
    assert int(said.split()[2]) == 64_000


def test_subsets_first_win_as_the_first_example_shows(printed_by):
    printed, shown = (
        {line[:14].strip(): [float(number) for number in line[14:].split()] for line in text.splitlines()}
        for text in (printed_by(WIN), re.search(r"```text\n(all rows.*?)```", README, re.S)[1])
    )
    assert printed.keys() == shown.keys() == {"all rows", "subsets first"}
    for name, numbers in shown.items():
        assert printed[name] == pytest.approx(numbers, abs=0.15)  # another processor rounds otherwise
    assert min(printed["subsets first"]) > max(printed["all rows"])


def test_a_small_set_wins_in_the_example_of_a_run(printed_by):
    assert len(LAB.strip().splitlines()) <= 20
    online, small = re.findall(r"^600 +(\S+)$", printed_by(LAB), re.M)
    assert float(small) > 0.95 > 0.85 > float(online)


def test_a_run_is_changed_by_replace_whether_its_cell_was_read_or_not():
    run = hs.Run(hs.Parity(6, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1))
    before = replace(run, plan=hs.Fixed(size=8))
    assert run.cell
    after = replace(run, plan=hs.Fixed(size=8))
    assert after == before
    assert after.cell == before.cell != run.cell


def test_its_two_commands_are_targets_of_the_makefile():
    targets = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.M))
    commands = re.findall(r"^make ([\w-]+)", README, re.M)
    assert {"demo", "test"} <= set(commands) <= targets


def test_its_tables_are_those_that_the_results_give(monkeypatch):
    monkeypatch.chdir(ROOT)
    for begin, end, table in [(BEGIN, END, studies_table), (SPEED_BEGIN, SPEED_END, speed_table)]:
        assert README.split(begin)[1].split(end)[0].strip() == table(Path("docs/results")).strip()


def test_its_file_tree_names_what_is_there():
    tree = re.search(r"## File tree\n\n```text\n(.*?)```", README, re.S)[1]
    for name in re.findall(r"^  (\w+/|\w+\.py)", tree, re.M):
        assert (ROOT / "src" / "headstart" / name.rstrip("/")).exists(), name


def test_every_public_name_is_there_and_none_is_missing_from_the_list():
    assert all(hasattr(hs, name) for name in hs.__all__)
    ours = {name for name, value in vars(hs).items() if getattr(value, "__module__", "").startswith("headstart.")}
    assert {name for name in ours if not name.startswith("_")} <= set(hs.__all__)


def test_nothing_in_the_project_points_outside_it():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    # Spelt in two halves, so that this file is not its own exception.
    words = ["../sha" + "red", "/ro" + "ot/", "/wo" + "rk/"]
    for name in files:
        path = ROOT / name
        if not path.exists():  # deleted, and not committed yet
            continue
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".txt", ".json"} or path.name == "Makefile":
            text = path.read_text()
            assert not [w for w in words if w in text], name
