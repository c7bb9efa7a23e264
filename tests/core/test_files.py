"""Files are whole or not there, their temporaries cannot be foreseen, and names lead nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headstart.core.files import inside, left_behind, replacing, replacing_folder


def test_a_temporary_file_cannot_be_foreseen_and_is_made_by_nobody_else(tmp_path):
    names = set()
    for _ in range(3):
        with replacing(tmp_path / "a.txt") as temporary:
            assert temporary.exists()
            assert temporary.parent == tmp_path
            temporary.write_text("whole")
            names.add(temporary.name)
    assert len(names) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_that_lies_where_the_temporary_file_goes_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr("headstart.core.files.secrets.token_hex", lambda n: "foreseen")
    (tmp_path / f".headstart-{os.getpid()}-foreseen.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError), replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("theirs")
    assert victim.read_text() == "mine"


def test_modes_follow_the_umask_of_the_user(tmp_path):
    old = os.umask(0o027)
    try:
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(old)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(path) as temporary:
        temporary.write_text(f"half {1 / 0}")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


KILLED = """
import os, signal, sys
from pathlib import Path
from headstart.core.files import replacing
with replacing(Path(sys.argv[1]) / "a") as temporary:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_kill_left_behind_is_known_and_what_is_in_use_is_not_touched(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)])
    with replacing(tmp_path / "b"):
        (stale,) = left_behind(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        stale.unlink()
        assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("less_data/gap", "less_data/gap.png"),
        ("../../etc/passwd", "_/_/etc/passwd.png"),
        ("/etc/passwd", "etc/passwd.png"),
        ("a/../b", "a/_/b.png"),
        ("v1.2", "v1.2.png"),
        ("", "_.png"),
        ("..", "_.png"),
        ("a\\b\0c\nd", "a_b_c_d.png"),
        ("~", "_.png"),
        ("x" * 300, "x" * 100 + ".png"),
    ],
)
def test_a_name_leads_nowhere_else(name, path):
    found = inside(Path("/figures"), name, ".png")
    assert str(found) == f"/figures/{path}"
    assert found.is_relative_to("/figures")


def test_a_folder_is_whole_or_not_there_and_takes_the_place_of_another(tmp_path):
    place = tmp_path / "rows" / "set"
    for text in ("one", "two"):
        with replacing_folder(place) as temporary:
            assert temporary.parent == place.parent
            (temporary / "a.txt").write_text(text)
        assert (place / "a.txt").read_text() == text
    with pytest.raises(TypeError), replacing_folder(place) as temporary:
        (temporary / "b.txt").write_text(None)  # opens the file before it fails
    assert [path.name for path in place.parent.iterdir()] == ["set"]
    assert [path.name for path in place.iterdir()] == ["a.txt"]


def test_a_folder_that_somebody_else_finished_first_stays(tmp_path):
    place = tmp_path / "set"
    with replacing_folder(place) as temporary:
        (temporary / "a.txt").write_text("second")
        with replacing_folder(place) as other:
            (other / "a.txt").write_text("first")
    assert (place / "a.txt").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
