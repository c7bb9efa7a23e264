"""Two-set training."""

import numpy as np
import pytest
from scipy import stats

from headstart.core.units import Batch
from headstart.plans import Fixed, TwoSet


def drawn(plan, batch=64, steps=500, seed=0):
    """The ids of every step, int64[steps, batch]."""
    course = plan.course(Batch(batch), steps)
    return course.ids(course.start(seed), 0, steps).reshape(steps, batch)


def test_probability_one_is_fixed():
    assert np.array_equal(drawn(TwoSet(20, 1)), drawn(Fixed(20)))
    assert np.array_equal(drawn(TwoSet(20, 1, total=50)), drawn(Fixed(20)))


def test_probability_zero_never_draws_from_the_small_set():
    assert np.array_equal(drawn(TwoSet(20, 0)).ravel(), 20 + np.arange(500 * 64))
    finite = drawn(TwoSet(20, 0, total=50))
    assert (finite.min(), finite.max()) == (20, 49)


@pytest.mark.parametrize("total", [None, 60])
def test_each_example_is_from_the_small_set_with_the_probability_asked_for(total):
    small = drawn(TwoSet(20, 0.3, total)) < 20
    assert stats.binomtest(int(small.sum()), small.size, 0.3).pvalue > 1e-3
    # Both kinds share a batch: the number in a batch is binomial, not all or nothing.
    assert small.sum(axis=1).var() == pytest.approx(64 * 0.3 * 0.7, rel=0.2)


def test_both_finite_sets_are_drawn_uniformly():
    counts = np.bincount(drawn(TwoSet(20, 0.3, total=60)).ravel(), minlength=60)
    assert stats.chisquare(counts[:20]).pvalue > 1e-3
    assert stats.chisquare(counts[20:]).pvalue > 1e-3


def test_where_an_example_comes_from_says_nothing_about_which_one_it_is():
    ids = drawn(TwoSet(2, 0.5), batch=64, steps=2000)
    previous, following = ids[:, :-1] < 2, ids[:, 1:]
    ones = [(following[(following < 2) & (previous == small)] == 1).mean() for small in (True, False)]
    assert ones == pytest.approx([0.5, 0.5], abs=0.02)
