import numpy as np
import pytest

from headstart import HeadstartError
from headstart.measures import exponent, medians, share

X = np.array([10.0, 100.0, 1000.0])


def test_the_exponent_of_an_exact_power_law_is_exact():
    found = exponent(X, 3.0 * X[:, None] ** 0.5 * np.ones(20))
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_noise_widens_the_interval_around_the_exponent():
    rng = np.random.Generator(np.random.Philox(key=1))
    found = exponent(X, X[:, None] ** -1.0 * np.exp(rng.normal(size=(3, 300))))
    assert found.low < -1.0 < found.high
    assert 0.01 < found.high - found.low < 0.3


def test_only_what_is_kept_counts_and_a_few_censored_members_do_not_matter():
    values = X[:, None] ** 2 * np.ones(61)
    values[:, :5] = np.inf
    values[:, 60] = 0.5
    kept = np.ones_like(values, dtype=bool)
    kept[:, 60] = False
    assert exponent(X, values, kept).value == pytest.approx(2.0)
    assert np.isnan(exponent(X, np.full((3, 4), np.inf)).value)
    assert np.isnan(exponent(X, values, np.zeros_like(kept)).value)
    assert np.isnan(medians(values, np.zeros_like(kept))).all()


def test_an_exponent_needs_two_settings():
    with pytest.raises(HeadstartError, match="two distinct settings"):
        exponent([5.0, 5.0], np.ones((2, 4)))


@pytest.mark.parametrize(("happened", "trials"), [(0, 30), (30, 30), (7, 30), (1, 2)])
def test_a_share_has_the_exact_interval_of_scipy(happened, trials):
    from scipy.stats import binomtest

    exact = binomtest(happened, trials).proportion_ci(method="exact")
    found = share(happened, trials)
    assert (found.value, found.low, found.high) == pytest.approx((happened / trials, exact.low, exact.high))


def test_no_trials_say_nothing_and_more_cases_than_trials_are_refused():
    assert np.isnan(share(0, 0).value)
    with pytest.raises(HeadstartError, match="happened=3"):
        share(3, 2)
