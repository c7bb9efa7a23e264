"""The command `headstart ui`: mistakes in the call are one line each."""

import socket
import sqlite3

import pytest

from headstart.cli import main


def refused(capsys, *args):
    with pytest.raises(SystemExit) as exit:
        main(["ui", *args])
    assert exit.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_port_in_use_is_said(capsys, smoke):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = refused(capsys, "--store", str(smoke), "--port", port)
    assert port in said
    assert "in use" in said
    assert "--port 0" in said


def test_a_store_that_is_not_there_is_said(capsys, tmp_path):
    assert "there is no such store" in refused(capsys, "--store", str(tmp_path / "none.sqlite"))


def test_a_store_of_a_newer_format_is_refused(capsys, smoke, tmp_path):
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(smoke) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
        copy.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    source.close()
    copy.close()
    said = refused(capsys, "--store", str(path))
    assert "format 99" in said
    assert "upgrade headstart" in said


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--port", "70000"], "0 to 65535"),
        (["--host", "0.0.0.0"], "give --token"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 16"),
        (["--host", "no.such.host.invalid", "--token", "x" * 20, "--port", "0"], "no.such.host.invalid"),
    ],
)
def test_a_mistake_in_the_call_names_the_fix(capsys, smoke, monkeypatch, args, said):
    monkeypatch.delenv("HEADSTART_UI_TOKEN", raising=False)
    with pytest.raises(SystemExit):
        main(["ui", "--store", str(smoke), *args])
    heard = capsys.readouterr()
    assert said in heard.err
    assert "x" * 20 not in heard.err + heard.out


def test_a_folder_with_something_else_is_not_exported_over(capsys, smoke, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    assert "something else" in refused(capsys, "--store", str(smoke), "--export", str(tmp_path))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
