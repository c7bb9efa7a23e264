"""Fits of power laws to maxima, and the interval that a maximum allows."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

from headstart.core.errors import HeadstartError
from headstart.measures import Maxima, PowerLaw, exponent_of_maxima, fit_exponents, fit_power_law

SIZES = np.array([800.0, 1600, 3200, 6400, 12800])
QUICK = Maxima(logs=True, resamples=100)


def draws(seed, shape, scale=0.6):
    """Log-normal draws, each setting's over its size."""
    return np.exp(scale * np.random.default_rng(seed).standard_normal(shape)) / SIZES[:, None]


@pytest.mark.parametrize("logs", [False, True])
def test_a_power_law_is_found_again(logs):
    law = fit_power_law(SIZES, 300 * SIZES**-1.13, logs)
    assert law == PowerLaw(pytest.approx(300, rel=1e-5), pytest.approx(-1.13, rel=1e-6))
    np.testing.assert_allclose(law(SIZES), 300 * SIZES**-1.13, rtol=1e-5)


def test_the_fit_is_that_of_curve_fit_and_in_logarithms_that_of_polyfit():
    y = draws(0, (5, 1))[:, 0]
    (a, b), _ = curve_fit(lambda x, a, b: a * x**b, SIZES, y, p0=(1, -1))
    law = fit_power_law(SIZES, y)
    np.testing.assert_allclose((law.factor, law.exponent), (a, b), rtol=1e-4)
    slope = np.polyfit(np.log(SIZES), np.log(y), 1)[0]
    assert fit_power_law(SIZES, y, logs=True).exponent == pytest.approx(slope)
    assert law.exponent != pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("logs", [False, True])
def test_many_fits_at_once_are_those_one_by_one(logs):
    y = draws(6, (5, 400)).T.reshape(20, 20, 5)
    found = fit_exponents(SIZES, y, logs)
    alone = [fit_power_law(SIZES, row, logs).exponent for row in y.reshape(-1, 5)]
    np.testing.assert_allclose(found.ravel(), alone, atol=2e-3)
    y[3, 4, 0] = 0.0
    assert np.argwhere(np.isnan(fit_exponents(SIZES, y, logs))).tolist() == [[3, 4]]


def test_what_is_not_above_zero_has_no_power_law():
    assert np.isnan(fit_power_law(SIZES, [1, 2, 0, 1, 1]).exponent)
    assert np.isnan(fit_power_law(SIZES, [1, 2, np.nan, 1, 1]).exponent)
    assert np.isnan(exponent_of_maxima(SIZES, np.zeros((5, 9)), how=QUICK).estimate.value)


def test_the_exponent_is_the_mean_over_trials_of_fits_to_maxima():
    values = draws(1, (3, 5, 20))
    found = exponent_of_maxima(SIZES, values, how=Maxima(resamples=20))
    fits = [fit_power_law(SIZES, trial.max(axis=1)).exponent for trial in values]
    assert found.trials == pytest.approx(fits, abs=1e-4)
    assert found.estimate.value == pytest.approx(np.mean(fits), abs=1e-4)
    assert found.estimate.low < found.estimate.value < found.estimate.high


def test_a_quantile_may_take_the_place_of_the_maximum():
    values = draws(2, (1, 5, 40))
    found = exponent_of_maxima(SIZES, values, how=Maxima(logs=True, quantile=0.9, resamples=20))
    ninth = np.sort(values[0], axis=1)[:, 35]
    assert found.estimate.value == pytest.approx(fit_power_law(SIZES, ninth, logs=True).exponent)


def test_a_difference_of_exponents_resamples_both_together():
    values = draws(3, (2, 5, 30))
    same = exponent_of_maxima(SIZES, values, less=2 * values, how=QUICK)
    assert abs(same.estimate.value) < 1e-12
    assert same.sd < 1e-12
    tilted = exponent_of_maxima(SIZES, values, less=values * SIZES[:, None] ** -0.25, how=QUICK)
    assert tilted.estimate.value == pytest.approx(0.25)
    assert tilted.estimate.high == pytest.approx(0.25)


def test_a_difference_of_two_differences_resamples_all_four_together():
    values, gap = draws(3, (2, 5, 30)), draws(4, (2, 5, 30))
    later = (values * SIZES[:, None] ** -0.25, 3 * gap)
    found = exponent_of_maxima(SIZES, values, gap, QUICK, over=later)
    assert found.estimate.value == pytest.approx(0.25)
    assert found.sd < 1e-12


def test_below_a_floor_an_exponent_is_the_floor():
    values = draws(5, (5, 30))
    floored = exponent_of_maxima(SIZES, values, how=QUICK, floor=-0.25)
    assert (floored.estimate.value, floored.estimate.low, floored.estimate.high) == (-0.25, -0.25, -0.25)
    apart = exponent_of_maxima(SIZES, values, less=values, how=QUICK, floor=-0.25)
    plain = exponent_of_maxima(SIZES, values, how=QUICK)
    assert apart.estimate.value == pytest.approx(-0.25 - plain.estimate.value)


def test_the_interval_has_the_exponent_as_often_as_it_says_and_the_ordinary_bootstrap_s_does_not():
    """150 experiments of 30 draws: 95% would be missed by more than 14 with probability 0.01 (binomial)."""
    inside = {2 / 3: 0, 0.999: 0}
    for seed in range(150):
        for share in inside:
            found = exponent_of_maxima(SIZES, draws(seed, (5, 30)), how=Maxima(logs=True, share=share, resamples=60))
            inside[share] += found.estimate.low < -1 < found.estimate.high
    assert inside[2 / 3] >= 136
    assert inside[0.999] < 136


def test_an_interval_is_the_same_whenever_it_is_computed():
    values = draws(4, (5, 12))
    assert exponent_of_maxima(SIZES, values, how=QUICK) == exponent_of_maxima(SIZES, values, how=QUICK)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit_power_law([1, 1], [1, 2]), "two distinct x"),
        (lambda: fit_power_law([1, 2, 3], [1, 2]), "a y for each"),
        (lambda: fit_power_law([0, 1], [1, 2]), "above 0"),
        (lambda: Maxima(quantile=1.0), r"quantile=1\.0"),
        (lambda: Maxima(resamples=1), "resamples=1"),
        (lambda: exponent_of_maxima(SIZES, np.ones((4, 9))), r"\(1, 4, 9\).*one setting an x"),
        (lambda: exponent_of_maxima(SIZES, np.ones((5, 9)), np.ones((5, 8))), "give the shape of values"),
        (lambda: exponent_of_maxima(SIZES, np.ones((5, 9)), over=(np.ones((5, 9)),) * 2), "give less too"),
    ],
)
def test_a_fit_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()
