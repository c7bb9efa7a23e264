"""Random labels."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.samples import Samples
from headstart.methods import RandomLabels
from headstart.plans import Pool
from headstart.tasks import Hermite, Parity, SingleIndex

IDS = np.arange(4096)
POOL = Pool(0, len(IDS))
DEFAULT = RandomLabels()


def relabelled(task, method=DEFAULT, seed=2, leg=0, ids=IDS):
    return method.samples(task, seed, leg, POOL, ids, task.sample(seed, ids))


def test_random_labels_of_a_parity_are_fair_signs_unrelated_to_the_true_ones():
    task = Parity(12, 3)
    data, true = relabelled(task), task.sample(2, IDS)
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    assert np.array_equal(data.x, true.x)
    assert abs(data.y.mean()) < 5 / 64
    assert abs((data.y * true.y).mean()) < 5 / 64


def test_a_sample_keeps_its_random_label_in_every_set():
    task = Parity(12, 3)
    assert np.array_equal(relabelled(task, ids=IDS[:100]).y, relabelled(task).y[:100])
    assert not np.array_equal(relabelled(task, seed=3).y, relabelled(task).y)


def test_random_labels_of_a_single_index_model_are_the_link_of_another_direction_as_long():
    task = SingleIndex(10, Hermite(1), norm=2.0)
    data = relabelled(task)
    direction = np.linalg.lstsq(data.x.astype(float), data.y.astype(float), rcond=None)[0]
    assert np.allclose(data.x @ direction, data.y, atol=1e-4)
    assert np.isclose(np.linalg.norm(direction), 2.0, atol=1e-4)
    assert abs(direction @ task.teacher(2)) < 0.9 * 4


def test_permuted_labels_are_the_same_labels_in_another_order():
    task = SingleIndex(10, Hermite(3))
    data, true = relabelled(task, RandomLabels(permuted=True)), task.sample(2, IDS)
    assert np.array_equal(np.sort(data.y), np.sort(true.y))
    assert abs(np.corrcoef(data.y, true.y)[0, 1]) < 0.1


def test_other_phases_keep_their_labels():
    task, method = Parity(12, 3), RandomLabels(phases=(1,))
    assert not method.alters(0, POOL)
    assert method.alters(1, POOL)
    assert np.array_equal(relabelled(task, method).y, task.sample(2, IDS).y)


def test_bad_input_is_refused():
    with pytest.raises(HeadstartError, match=r"phases=\(-1,\)"):
        RandomLabels(phases=(-1,))
    with pytest.raises(HeadstartError, match="phases=0"):
        RandomLabels(phases=0)
    with pytest.raises(HeadstartError, match="fresh samples"):
        RandomLabels(permuted=True).alters(0, Pool())

    class Mute:
        pass

    with pytest.raises(HeadstartError, match="Mute does not say"):
        RandomLabels().check(Mute())
    RandomLabels(permuted=True).check(Mute())
    assert isinstance(relabelled(Parity(3, 1)), Samples)
