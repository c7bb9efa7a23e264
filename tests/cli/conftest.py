"""The command line in an empty place, and a store to look at."""

import pytest

import headstart as hs
from headstart.cli import experiment, main
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


def draw_nothing(patch):
    """`headstart run` draws its study too, which takes longer than a smoke preset's training."""
    patch.setattr(experiment, "save_figure", lambda figure, path: path)
    patch.setattr(hs.Study, "draw", lambda study, results: None)


@pytest.fixture
def no_pictures(monkeypatch):
    draw_nothing(monkeypatch)


@pytest.fixture(scope="session")
def smoke_store(tmp_path_factory):
    """A store that holds the smoke preset of the first study."""
    path = tmp_path_factory.mktemp("smoke") / "store.sqlite"
    with pytest.MonkeyPatch.context() as patch:  # as from a clean checkout, whatever is being worked on
        patch.setattr(provenance, "commit", lambda: "0123456789")
        draw_nothing(patch)
        main(["run", STUDY, "--preset", "smoke", "--jobs", "1", "--store", str(path)])
    return str(path)
