"""When a curve first reaches a target, and how many curves do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headstart.measures import monotone, success_probability, time_to_target

STEPS = [0, 10, 20, 40]


@pytest.mark.parametrize(
    ("curve", "target", "time"),
    [
        ([0.5, 0.6, 0.8, 1.0], 0.8, 20),
        ([0.5, 0.6, 0.8, 1.0], 0.7, 15),
        ([0.5, 0.6, 0.8, 1.0], 0.95, 35),
        ([0.9, 0.6, 0.8, 1.0], 0.8, 0),
        ([0.5, 0.9, 0.5, 1.0], 0.7, 5),
        ([0.5, 0.5, 0.5, 0.5], 0.5, 0),
    ],
)
def test_the_first_crossing_is_found_linearly_between_records(curve, target, time):
    assert time_to_target(STEPS, curve, target, higher_is_better=True) == pytest.approx(time)


@pytest.mark.parametrize(("target", "time"), [(0.6, 20), (0.8, 10), (0.7, 15), (1.0, 0), (0.1, 40)])
def test_a_loss_reaches_its_target_from_above(target, time):
    curve = [1.0, 0.8, 0.6, 0.1]
    assert time_to_target(STEPS, curve, target, higher_is_better=False) == pytest.approx(time)


def test_a_target_that_is_never_reached_takes_for_ever():
    assert time_to_target(STEPS, [0.5, 0.6, 0.7, 0.8], 0.81, higher_is_better=True) == float("inf")
    assert time_to_target(STEPS, [0.5, 0.6, 0.7, 0.8], 0.4, higher_is_better=False) == float("inf")
    assert time_to_target([], [], 0.4, higher_is_better=False) == float("inf")


def test_a_record_that_is_missing_is_not_a_success():
    assert time_to_target(STEPS, [0.5, np.nan, np.nan, np.nan], 0.6, higher_is_better=True) == float("inf")


@given(
    curve=st.lists(st.floats(0, 1), min_size=2, max_size=8),
    low=st.floats(0, 1),
    high=st.floats(0, 1),
)
def test_a_harder_target_is_never_reached_sooner(curve, low, high):
    low, high = sorted((low, high))
    steps = np.arange(len(curve)) * 10
    times = [time_to_target(steps, curve, target, higher_is_better=True) for target in (low, high)]
    assert times[0] <= times[1] + 1e-9
    assert times[1] == float("inf") or times[1] <= steps[-1] + 1e-9


@given(curve=st.lists(st.floats(-1, 1), min_size=1, max_size=8), target=st.floats(-1, 1))
def test_lower_is_better_is_the_mirror_of_higher_is_better(curve, target):
    steps = np.arange(len(curve))
    up = time_to_target(steps, curve, target, higher_is_better=True)
    assert up == time_to_target(steps, -np.array(curve), -target, higher_is_better=False)


def test_the_success_probability_is_the_share_of_runs_that_ever_reach_the_target():
    curves = np.array([[0.5, 0.9, 0.6], [0.5, 0.5, 0.5], [0.5, 0.6, 0.8], [0.5, 0.6, 0.79]])
    assert success_probability(curves, 0.8, higher_is_better=True) == 0.5
    assert success_probability(curves, 0.5, higher_is_better=False) == 1.0
    assert success_probability(curves, 0.49, higher_is_better=False) == 0.0


def test_a_monotone_fit_never_gets_worse_and_leaves_a_monotone_curve_alone():
    rng = np.random.Generator(np.random.Philox(key=1))
    curve = np.linspace(0.5, 1, 50) + 0.1 * rng.standard_normal(50)
    fit = monotone(curve, True)
    assert (np.diff(fit) >= 0).all()
    assert fit.mean() == pytest.approx(curve.mean())
    assert np.allclose(monotone(fit, True), fit)
    assert np.allclose(monotone(-fit, False), -fit)


def test_a_lucky_flicker_does_not_count_as_reaching_the_target():
    curve = np.full(20, 0.8)
    curve[7] = 0.97
    assert time_to_target(np.arange(20), curve, 0.95, True) < 10
    assert time_to_target(np.arange(20), monotone(curve, True), 0.95, True) == float("inf")
