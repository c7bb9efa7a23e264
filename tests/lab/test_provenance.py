"""The commit of a number: marked where the code that made it is in no commit."""

import subprocess

import pytest

from headstart.lab import provenance


def git(folder, *args):
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *who, *args], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A checkout with a package that calls itself this one."""
    lab = tmp_path / "src" / "headstart" / "lab"
    lab.mkdir(parents=True)
    (lab / "provenance.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text(".venv/\n")
    (tmp_path / "README.md").write_text("by hand\n<!-- results: begin (it) -->\n<!-- results: end -->\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    monkeypatch.setattr(provenance, "__file__", str(lab / "provenance.py"))
    return tmp_path


def found():
    return provenance.commit.__wrapped__()  # what it says now, not what it said first


def head(package):
    return git(package, "rev-parse", "--short=10", "HEAD").strip()


def test_a_clean_checkout_is_known_by_its_commit(package):
    assert found() == head(package)
    assert len(found()) == 10


@pytest.mark.parametrize("name", ["src/headstart/lab/provenance.py", "src/headstart/new.py", "README.md", ".gitignore"])
def test_a_change_to_what_is_committed_and_a_new_file_of_the_package_mark_the_commit(package, name):
    (package / name).write_text("other\n")
    assert found() == f"{head(package)}-dirty"
    git(package, "add", ".")
    assert found().endswith("-dirty")
    git(package, "commit", "-m", "second")
    assert found() == head(package)


def test_pages_of_results_and_notes_beside_the_package_do_not_mark_it(package):
    (package / "docs" / "results").mkdir(parents=True)
    (package / "docs" / "results" / "page.md").write_text("a page")
    (package / "README.md").write_text("by hand\n<!-- results: begin (it) -->\n| 1 |\n<!-- results: end -->\n")
    (package / "notes.txt").write_text("mine")
    assert found() == head(package)


def test_a_package_installed_into_the_checkout_of_another_project_is_known_by_its_version(package, monkeypatch):
    installed = package / ".venv" / "headstart" / "lab" / "provenance.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("x = 1\n")
    monkeypatch.setattr(provenance, "__file__", str(installed))
    (package / "README.md").write_text("changed\n")
    assert found() == f"v{provenance.versions()['headstart']}"


def test_outside_git_it_is_known_by_its_version(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "lab" / "provenance.py"))
    (tmp_path / "lab").mkdir()
    assert found() == f"v{provenance.versions()['headstart']}"
