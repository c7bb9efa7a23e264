import pytest


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """An empty data directory."""
    folder = tmp_path / "data"
    monkeypatch.setenv("HEADSTART_DATA", str(folder))
    return folder
