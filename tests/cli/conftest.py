"""The command line in an empty place, and a store to look at."""

import pytest

from headstart.cli import main
from headstart.lab import provenance

STUDY = "less_data/mini_and_full_batch_mlp"


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Call the command line in an empty place; returns (exit code, standard output, standard error)."""
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.chdir(tmp_path)

    def call(*args):
        code = 0
        try:
            main(args)
        except SystemExit as exit:
            code = exit.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def smoke_store(tmp_path_factory):
    """A store that holds the smoke preset of the first study."""
    path = tmp_path_factory.mktemp("smoke") / "store.sqlite"
    with pytest.MonkeyPatch.context() as patch:  # as from a clean checkout, whatever is being worked on
        patch.setattr(provenance, "commit", lambda: "0123456789")
        main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(path)])
    return str(path)
