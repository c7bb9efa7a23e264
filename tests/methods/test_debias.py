"""Sets without sampling biases: the moments are matched by construction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.core.errors import HeadstartError
from headstart.methods import Whiten, ZeroMean
from headstart.plans import Pool
from headstart.tasks import Hermite, Parity, SingleIndex


def debiased(method, task, size, seed=1, first=0):
    method.check(task)
    ids, pool = np.arange(first, first + size), Pool(first, size)
    assert method.alters(0, pool)
    return method.samples(task, seed, 0, pool, ids, task.sample(seed, ids))


@given(dim=st.integers(1, 12), half=st.integers(1, 40), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_column_has_as_many_of_each_sign(dim, half, seed):
    data = debiased(ZeroMean(), Parity(dim, min(2, dim)), 2 * half, seed)
    assert (data.x.sum(axis=0) == 0).all()
    assert set(np.unique(data.x)) == {-1.0, 1.0}


@given(degree=st.integers(2, 7), more=st.integers(0, 4), eighths=st.integers(4, 40), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_column_is_balanced_in_each_class_and_the_classes_are_equal(degree, more, eighths, seed):
    task = Parity(degree + more, degree)
    data = debiased(ZeroMean(by_class=True), task, 8 * eighths, seed)
    assert data.y.sum() == 0
    for y in (-1, 1):
        assert (data.x[data.y == y].sum(axis=0) == 0).all()
    assert np.array_equal(data.y, task.label(seed, data.x))


def test_pairwise_moments_stay_those_of_random_sets():
    """Only the means are removed: second moments still have size 1/sqrt(N), and the third do not vanish."""
    task = Parity(10, 6)
    for method in (ZeroMean(), ZeroMean(by_class=True)):
        x = np.stack([debiased(method, task, 1024, seed).x for seed in range(40)])
        second = (x[:, :, 7] * x[:, :, 8]).mean(axis=1) * 32
        third = (x[:, :, 7] * x[:, :, 8] * x[:, :, 9]).mean(axis=1) * 32
        assert 0.6 < second.std() < 1.4
        assert 0.6 < third.std() < 1.4


def test_a_set_differs_by_seed():
    one, two = (debiased(ZeroMean(), Parity(8, 2), 64, seed) for seed in (0, 1))
    assert not np.array_equal(one.x, two.x)


def test_whitened_inputs_have_mean_zero_and_covariance_one_and_their_own_labels():
    task = SingleIndex(7, Hermite(3))
    data = debiased(Whiten(), task, 200, seed=3, first=50)
    assert np.abs(data.x.mean(axis=0)).max() < 1e-6
    np.testing.assert_allclose(data.x.T @ data.x / 200, np.eye(7), atol=1e-5)
    assert np.array_equal(data.y, task.label(3, data.x))
    # Whitening moves the points as little as it can.
    assert np.corrcoef(data.x.ravel(), task.sample(3, np.arange(50, 250)).x.ravel())[0, 1] > 0.98


@pytest.mark.parametrize(
    ("method", "task", "size", "message"),
    [
        (ZeroMean(), Parity(5, 2), 7, "7 samples.*multiple of 2"),
        (ZeroMean(by_class=True), Parity(5, 2), 6, "6 samples.*multiple of 4"),
        (ZeroMean(by_class=True), Parity(5, 3), 12, "12 samples.*multiple of 8"),
        (ZeroMean(by_class=True), Parity(5, 1), 8, "y = x_i"),
        (ZeroMean(), SingleIndex(5), 8, "Whiten"),
        (Whiten(), Parity(5, 2), 8, "ZeroMean"),
        (Whiten(), SingleIndex(5), 5, "5 samples of dimension 5"),
    ],
)
def test_what_cannot_be_balanced_is_refused(method, task, size, message):
    with pytest.raises(HeadstartError, match=message):
        debiased(method, task, size)


def test_fresh_samples_are_left_alone():
    assert not ZeroMean().alters(0, Pool())
    assert not Whiten().alters(0, Pool())
