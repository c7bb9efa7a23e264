"""Images on backgrounds."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.streams import Stream
from headstart.data.directory import Tables, write
from headstart.tasks import Distractors, GaussianNoise, Images, MadeImages, Pasted, Photographs

SMALL = MadeImages(50, 30, side=4, channels=3, rows=100)
TASK = Pasted(SMALL, GaussianNoise(), strength=1.0, side=10)
IDS = np.arange(50)


def found(task, seed=0, stream=Stream.DATA, num=50):
    """Where each image of a black background lies: first rows and columns."""
    black = replace(task, strength=0.0).sample(seed, np.arange(num), stream).x
    seen = np.abs(black).sum(axis=1) > 0
    return np.array([(np.flatnonzero(s.any(1))[0], np.flatnonzero(s.any(0))[0]) for s in seen])


def test_the_image_is_there_as_it_is_and_the_rest_is_background():
    samples, images = TASK.sample(3, IDS), SMALL.sample(3, IDS)
    places = found(TASK, 3)
    for x, image, (top, left) in zip(samples.x, images.x, places, strict=True):
        np.testing.assert_array_equal(x[:, top : top + 4, left : left + 4], image)
        outside = x.copy()
        outside[:, top : top + 4, left : left + 4] = np.nan
        assert 0.8 < np.nanstd(outside) < 1.2
    np.testing.assert_array_equal(samples.y, images.y)


def test_strength_scales_the_background_and_moves_nothing():
    one, half, none = (replace(TASK, strength=s).sample(0, IDS).x for s in (1.0, 0.5, 0.0))
    image = none != 0
    np.testing.assert_allclose(half, np.where(image, one, one / 2), rtol=1e-6)


@pytest.mark.parametrize(
    ("placement", "expected"),
    [("random", set(range(7))), ("corner", {0, 6}), ("fixed", {6})],
)
def test_images_lie_where_the_placement_says(placement, expected):
    places = found(replace(TASK, placement=placement))
    assert set(places[:, 0]) == set(places[:, 1]) == expected
    if placement != "fixed":
        assert (places[:, 0] != places[:, 1]).any()
        assert (places != found(replace(TASK, placement=placement), stream=Stream.EVALUATION, num=30)[0]).any()


def test_on_a_background_of_its_own_size_it_is_the_task():
    np.testing.assert_array_equal(replace(TASK, side=4).sample(1, IDS).x, SMALL.sample(1, IDS).x)


def test_training_and_test_rows_have_backgrounds_of_their_own():
    fixed = replace(TASK, placement="fixed")
    train, test = (fixed.sample(0, np.arange(30), s).x[:, :, :6, :6] for s in (Stream.DATA, Stream.EVALUATION))
    assert not np.isclose(train, test).any(axis=(1, 2, 3)).all()


def test_distractors_fill_all_quarters_but_that_of_the_image():
    others = MadeImages(20, 10, side=4, channels=3, rows=40)
    task = Pasted(SMALL, Distractors(others), side=8, placement="fixed")
    for stream, num in ((Stream.DATA, 20), (Stream.EVALUATION, 10)):
        rows = others.sample(5, np.arange(num), stream).x.reshape(num, -1)
        for x in task.sample(5, np.arange(10), stream).x:
            for top, left in ((0, 0), (0, 4), (4, 0)):
                quarter = x[:, top : top + 4, left : left + 4].ravel()
                assert np.abs(rows - quarter).max(axis=1).min() < 1e-6


def test_photographs_are_made_as_small_as_the_background(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path))
    square = np.arange(3 * 64 * 64, dtype=np.uint64).reshape(1, 3, 64, 64) % 251
    write("mine", Tables({"photographs": square.astype(np.uint8)}), origin="this test")
    task = Pasted(SMALL, Photographs("mine"), strength=0.5, side=32, placement="fixed")
    means = square[0].reshape(3, 32, 2, 32, 2).mean(axis=(2, 4)) / 255
    np.testing.assert_allclose(task.sample(0, IDS).x[7, :, :28, :28], 0.5 * means[:, :28, :28], rtol=1e-5)
    with pytest.raises(HeadstartError, match="side that divides 64"):
        replace(task, side=48).sample(0, IDS)


def test_groups_number_the_classes_anew_and_leave_others_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path))
    y = np.arange(60, dtype=np.uint8) % 5
    x = np.broadcast_to(y[:, None, None, None], (60, 1, 2, 2)).astype(np.uint8)
    arrays = {"train_x": x, "train_y": y, "test_x": x, "test_y": y}
    write("five", Tables(arrays, classes=tuple("abcde")), origin="this test")
    task = Images("five", 36, 36, flat=False, groups=((4, 0), (2,)))
    rows = task.sample(0, np.arange(36))
    assert dict(zip(np.rint(rows.x[:, 0, 0, 0] * 255).tolist(), rows.y.tolist(), strict=True)) == {4: 0, 0: 0, 2: 1}
    assert task.signature.outputs == (2,)
    with pytest.raises(HeadstartError, match="five has 36 images for train"):
        replace(task, train=37).sample(0, np.arange(37))
    with pytest.raises(HeadstartError, match="classes 0 to 4"):
        _ = replace(task, groups=((0,), (9,))).signature


@pytest.mark.parametrize("groups", [((0,),), ((0,), ()), ((0, 1), (1,)), (0, 1), ((0.5,), (1,))])
def test_groups_that_make_no_classes_are_refused(groups):
    with pytest.raises(HeadstartError, match="groups="):
        Images("mnist", groups=groups)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": Images("mnist")}, "flat=False"),
        ({"background": "noise"}, "GaussianNoise"),
        ({"strength": -1.0}, "at least 0"),
        ({"placement": "middle"}, "random, corner, fixed"),
    ],
)
def test_bad_settings_name_the_value_and_the_fix(change, message):
    with pytest.raises(HeadstartError, match=message):
        replace(TASK, **change)
    with pytest.raises(HeadstartError, match="4 or more"):
        _ = replace(TASK, side=3).signature
