"""headstart data: what is there, whose it is, how to fill it, and whether it is whole."""

import json

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty data directory, and a folder of images that somebody has."""
    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path / "data"))
    for part in ("train", "test"):
        for kind in ("cat", "dog"):
            folder = tmp_path / "pets" / part / kind
            folder.mkdir(parents=True)
            pixels = np.random.default_rng(len(part + kind)).integers(0, 256, (3, 4), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "a.png")
    return tmp_path


def test_an_empty_directory_lists_every_known_set_with_its_source_and_licence(call, place):
    code, out, _ = call("data", "list", "--json")
    listed = json.loads(out)
    assert code == 0
    assert listed["directory"] == str(place / "data")
    rows = {row["set"]: row for row in listed["sets"]}
    assert set(rows) == {
        *("mnist", "cifar10", "svhn", "backgrounds", "shakespeare", "gutenberg", "numerals", "stories15m")
    }
    assert not any(row["there"] for row in rows.values())
    assert all(row["source"] and row["licence"] for row in rows.values())
    assert rows["mnist"]["fix"] == "headstart data get mnist"
    assert "put its files into" in rows["svhn"]["fix"]
    assert not (place / "data").exists()


def test_get_reads_files_that_the_user_has_and_list_path_and_check_know_them(call, place):
    code, out, _ = call("data", "get", "pets", "--from", str(place / "pets"))
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines()] == ["pets", "pets"]
    _, out, _ = call("data", "list")
    assert "pets" in out
    assert "2 + 2" in out
    _, out, _ = call("data", "path", "pets")
    folder = place / "data" / "rows" / "pets"
    assert out.strip() == str(folder)
    assert call("data", "path")[1].strip() == str(place / "data")
    assert call("data", "check")[:2] == (0, "pets: all is as it was written\n")
    (folder / "train_x.npy").write_bytes(b"")
    code, out, _ = call("data", "check", "pets", "--json")
    assert code == 1
    assert "headstart data get pets" in json.loads(out)["pets"][0]


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["get"], ["name a set", "mnist", "--from FOLDER"]),
        (["get", "Pets"], ["'Pets'", "small letters"]),
        (["get", "pets", "--from", "nowhere"], ["--from nowhere", "idx files"]),
        (["list", "--from", "nowhere"], ["--from nowhere", "headstart data get NAME"]),
        (["check", "mnist"], ["mnist is not in", "headstart data get mnist"]),
    ],
)
def test_a_mistake_is_one_line_with_the_fix(call, place, args, parts):
    code, _, err = call("data", *args)
    assert code == 2
    assert err.count("\n") == 1
    assert all(part in err for part in parts)


def test_check_of_an_empty_directory_says_so(call, place):
    code, out, _ = call("data", "check")
    assert code == 0
    assert "no set to check" in out
