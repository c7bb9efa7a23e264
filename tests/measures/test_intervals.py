"""Bootstrap intervals."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.measures import Estimate, bootstrap, bootstrap_bounds, mean_band


@pytest.mark.parametrize("size", [6, 8, 30])
def test_the_interval_of_a_mean_covers_it_as_often_as_it_says(size):
    rng, covered, num = np.random.default_rng(0), 0, 400
    for _ in range(num):
        sample = rng.normal(3.0, 2.0, size=size)
        estimate = bootstrap(lambda rows, sample=sample: sample[rows].mean(), size, resamples=600)
        covered += estimate.low <= 3.0 <= estimate.high
    assert 0.925 <= covered / num <= 0.98  # plain percentiles of 6 values cover 0.86


def test_the_interval_of_a_mean_has_the_width_of_theory():
    sample = np.random.default_rng(1).normal(0, 2.0, size=400)
    estimate = bootstrap(lambda rows: sample[rows].mean(), 400)
    assert estimate.value == sample.mean()
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * sample.std() / 20, rel=0.1)


def test_a_lower_level_gives_a_shorter_interval():
    sample = np.random.default_rng(1).normal(size=50)
    wide, narrow = (bootstrap(lambda rows: sample[rows].mean(), 50, level=level) for level in (0.95, 0.5))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_same_data_give_the_same_interval():
    sample = np.random.default_rng(2).normal(size=20)
    one, two = (bootstrap(lambda rows: np.median(sample[rows]), 20) for _ in range(2))
    assert one == two


def test_arms_of_one_comparison_are_paired_by_seed():
    small = np.random.default_rng(3).normal(size=20)
    large = small + 1.0
    estimate = bootstrap(lambda rows: large[rows].mean() - small[rows].mean(), 20)
    assert estimate.low == pytest.approx(1.0)
    assert estimate.high == pytest.approx(1.0)


def test_infinite_values_stay_at_the_end_they_belong_to():
    times = np.array([10.0, 12.0, 11.0, 13.0, np.inf, np.inf, 12.0, 14.0])
    estimate = bootstrap(lambda rows: float(np.quantile(times[rows], 0.5, method="inverted_cdf")), len(times))
    assert estimate.value == 12.0
    assert 10.0 <= estimate.low <= 12.0
    assert estimate.high == np.inf
    assert bootstrap(lambda rows: float("inf"), 4) == Estimate(np.inf, np.inf, np.inf)
    assert bootstrap(lambda rows: float("-inf"), 4) == Estimate(-np.inf, -np.inf, -np.inf)


@pytest.mark.parametrize(("ends", "known"), [((1, 1), "exactly"), ((0, 2), "at most"), ((2, np.inf), "at least")])
def test_a_value_says_whether_it_is_a_bound(ends, known):
    assert bootstrap_bounds(lambda rows: ends, 4).known == known


def test_limits_are_values_that_occurred():
    estimate = bootstrap(lambda rows: float(rows.max()), 6)
    assert {estimate.low, estimate.high} <= set(range(6))


@pytest.mark.parametrize("num_seeds", [0, 1])
def test_one_seed_has_no_interval(num_seeds):
    with pytest.raises(HeadstartError, match=f"at least 2 seeds, there is {num_seeds}"):
        bootstrap(lambda rows: 0.0, num_seeds)


def test_a_band_holds_the_mean_and_narrows_with_more_members():
    curves = np.random.default_rng(4).normal(loc=[0, 5, 10], size=(400, 3))
    low, high = mean_band(curves)
    assert low.shape == high.shape == (3,)
    assert ((low < curves.mean(axis=0)) & (curves.mean(axis=0) < high)).all()
    few_low, few_high = mean_band(curves[:25])
    np.testing.assert_allclose((few_high - few_low) / (high - low), 4, rtol=0.4)


def test_a_band_of_equal_curves_has_no_width():
    low, high = mean_band(np.tile([1.0, 2.0], (5, 1)))
    np.testing.assert_allclose(low, [1, 2])
    np.testing.assert_allclose(high, [1, 2])
