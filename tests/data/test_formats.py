"""Data sets in the layouts that people have are found, read to the bit, and refused when they are damaged."""

import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image
from small_files import idx, images, write_cifar, write_folders, write_idx, write_svhn

from headstart.core.errors import HeadstartError
from headstart.data import fill
from headstart.data.photographs import read_squares


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
@pytest.mark.parametrize("place", ["mine", "mine/raw"])
def test_idx_files_are_found_and_read(directory, place, compressed):
    files = write_idx(directory / place, compressed)
    mine = fill("mine", say=lambda line: None)
    assert np.array_equal(mine["train_x"][:, 0], files["train-images-idx3-ubyte"])
    assert np.array_equal(mine["test_x"][:, 0], files["t10k-images-idx3-ubyte"])
    assert np.array_equal(mine["train_y"], files["train-labels-idx1-ubyte"])
    assert np.array_equal(mine["test_y"], files["t10k-labels-idx1-ubyte"])
    assert mine.classes == tuple("0123456789")
    assert isinstance(mine["train_x"], np.memmap)


@pytest.mark.parametrize("protocol", [2, 4])
def test_batches_of_cifar_are_read_with_the_red_plane_first(tmp_path, protocol):
    train, test = write_cifar(tmp_path / "elsewhere" / "cifar-10-batches-py", protocol)
    mine = fill("mine", tmp_path / "elsewhere", say=lambda line: None)
    assert np.array_equal(mine["train_x"], train)
    assert np.array_equal(mine["test_x"], test)
    assert mine["train_y"].tolist() == list(range(10)) * 5
    assert mine.classes[3] == "cat"


def test_a_pickle_that_calls_something_is_refused_and_calls_nothing(tmp_path):
    @dataclass
    class Evil:
        place: str

        def __reduce__(self):
            return os.mkdir, (self.place,)

    write_cifar(tmp_path / "batches")
    (tmp_path / "batches" / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil(str(tmp_path / "harm"))}))
    with pytest.raises(HeadstartError, match=r"data_batch_3 cannot be read.*mkdir"):
        fill("mine", tmp_path / "batches", say=lambda line: None)
    assert not (tmp_path / "harm").exists()


def test_svhn_is_read_with_ten_as_the_digit_zero(directory):
    files = write_svhn(directory / "mine")
    mine = fill("mine", say=lambda line: None)
    assert np.array_equal(mine["train_x"], files["train"].transpose(3, 2, 0, 1))
    assert mine["train_y"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]


@pytest.mark.parametrize(("test", "mode"), [("test", "RGB"), ("val", "L")])
def test_a_folder_of_images_has_its_classes_in_the_order_of_their_names(directory, test, mode):
    files = write_folders(directory / "mine", test, mode=mode)
    mine = fill("mine", say=lambda line: None)
    assert mine.classes == ("cat", "dog")
    assert mine["train_y"].tolist() == mine["test_y"].tolist() == [0, 0, 0, 1, 1]
    channels_first = [f.transpose(2, 0, 1) if mode == "RGB" else f[None] for f in files.values()]
    assert np.array_equal(np.concatenate([mine["train_x"], mine["test_x"]]), np.stack(channels_first))


def test_photographs_of_any_size_become_squares_of_one(directory):
    pixels = images(0, 96, 64, 3)
    grey = np.full((40, 50), 7, dtype=np.uint8)
    for name, array in (("n001/a.JPEG", pixels), ("n002/b.png", grey)):
        path = directory / "plants" / name
        path.parent.mkdir(parents=True)
        Image.fromarray(array).save(path, format="PNG")  # Pillow reads what a file is, not what it is called
    made = fill("plants", say=lambda line: None)["photographs"]
    assert made.shape == (2, 3, 64, 64)
    assert np.array_equal(made[0], pixels[16:80].transpose(2, 0, 1))  # the middle
    assert (made[1] == 7).all()
    Image.fromarray(images(1, 20, 90, 3)).save(directory / "plants" / "n001" / "c.png")
    with pytest.raises(HeadstartError, match=r"c.png: it is 90 x 20; take away those below 32"):
        fill("plants", directory / "plants", say=lambda line: None)


def test_photographs_are_no_images_with_labels(directory):
    (directory / "svhn").mkdir(parents=True)
    Image.fromarray(images(0, 64, 64, 3)).save(directory / "svhn" / "a.png")
    with pytest.raises(HeadstartError, match="svhn is in no package that is known"):
        fill("svhn", say=lambda line: None)


def test_pictures_of_a_package_are_cut_at_several_reductions(tmp_path):
    pixels = images(0, 140, 130, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    squares = read_squares([tmp_path / "a.png"]).arrays["photographs"]
    assert squares.shape == (3 * 3 + 1, 3, 64, 64)  # at full size by half a square, and once at half the size
    assert np.array_equal(squares[1], pixels[:64, 32:96].transpose(2, 0, 1))
    halved = pixels[:128, :128].reshape(64, 2, 64, 2, 3).mean(axis=(1, 3))
    assert np.abs(squares[-1] - halved.transpose(2, 0, 1)).max() <= 0.5


def damaged_idx(folder, name, data):
    write_idx(folder)
    (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: damaged_idx(f, "train-images-idx3-ubyte", b"<html>"), "no idx file"),
        (lambda f: damaged_idx(f, "train-images-idx3-ubyte", b""), "no idx file"),
        (lambda f: damaged_idx(f, "train-images-idx3-ubyte", idx(images(0, 30, 4, 3))[:-5]), r"355 values.*says 360"),
        (lambda f: damaged_idx(f, "train-labels-idx1-ubyte", idx(images(0, 30, 2))), "2 axes instead of 1"),
        (lambda f: damaged_idx(f, "t10k-labels-idx1-ubyte", idx(np.zeros(7, np.uint8))), "20 images and 7 labels"),
        (lambda f: damaged_idx(f, "t10k-images-idx3-ubyte", idx(images(0, 20, 3, 4))), "make all alike"),
        (lambda f: (write_idx(f), (f / "t10k-labels-idx1-ubyte").unlink()), "t10k-labels-idx1-ubyte.*missing"),
        (lambda f: (write_cifar(f), (f / "test_batch").write_bytes(b"no")), "test_batch cannot be read"),
        (lambda f: (write_svhn(f), (f / "test_32x32.mat").write_bytes(b"no" * 99)), "cannot be read as SVHN's"),
        (lambda f: (write_folders(f), (f / "test/dog/9.png").write_bytes(b"no")), "9.png cannot be read as an image"),
        (lambda f: (write_folders(f), (f / "train/dog/9.jpg").write_bytes(b"")), "9.jpg cannot be read as an image"),
    ],
)
def test_files_that_are_damaged_are_refused_by_name_and_nothing_is_written(directory, spoil, message):
    spoil(directory / "mine")
    with pytest.raises(HeadstartError, match=message):
        fill("mine", say=lambda line: None)
    assert not (directory / "rows" / "mine").exists()


def test_images_of_several_sizes_are_refused(directory):
    write_folders(directory / "mine")
    write_folders(directory / "other", size=(6, 4))
    (directory / "other/train/dog/0.png").rename(directory / "mine/train/dog/7.png")
    with pytest.raises(HeadstartError, match=r"7.png: it is \(3, 6, 4\).*make all alike"):
        fill("mine", say=lambda line: None)
