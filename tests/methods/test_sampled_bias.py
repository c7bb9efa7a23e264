"""Fresh samples with the biases of a finite set."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.methods import SampledBias
from headstart.plans import Pool
from headstart.tasks import Parity, SingleIndex

TASK, IDS = Parity(10, 3), np.arange(40_000)


def biased(size, ids=IDS, seed=4):
    return SampledBias(size).samples(TASK, seed, 0, Pool(), ids, TASK.sample(seed, ids))


def test_coordinates_have_the_means_of_the_finite_set_and_are_independent():
    data, mu = biased(16), TASK.sample(4, np.arange(16)).x.mean(axis=0)
    assert np.abs(mu).max() > 0.2
    np.testing.assert_allclose(data.x.mean(axis=0), mu, atol=5 / 200)
    covariance = np.cov(data.x.T)
    np.testing.assert_allclose(covariance, np.diag(1 - mu**2), atol=6 / 200)


def test_labels_are_true_and_samples_depend_on_their_own_id_alone():
    data = biased(16)
    assert np.array_equal(data.y, TASK.label(4, data.x))
    assert np.array_equal(biased(16, IDS[100:200]).x, data.x[100:200])


def test_a_large_set_has_hardly_any_bias():
    assert np.abs(SampledBias(2**14).means(TASK, 4)).max() < 5 / 128


def test_finite_pools_and_other_tasks():
    assert not SampledBias(4).alters(0, Pool(0, 8))
    with pytest.raises(HeadstartError, match="size=0"):
        SampledBias(0)
    with pytest.raises(HeadstartError, match="SingleIndex"):
        SampledBias(4).check(SingleIndex(3))
