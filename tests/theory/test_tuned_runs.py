"""Runs at their best rate: chosen on others, paired with runs at any rate, and never dropped."""

from dataclasses import replace

import numpy as np
import pytest

from headstart import HeadstartError
from headstart.tasks import Erf, Hermite
from headstart.theory import ReducedSGD, TunedRuns, simulate

PROCESS = ReducedSGD(Hermite(2), Hermite(2), 40, 60, 0.5)
PART = TunedRuns(PROCESS, 32)
FOUND = PART.compute()


def test_the_best_rate_has_the_least_mean_time_of_those_tried_and_is_below_its_limit():
    best = FOUND["tried_times"].argmin()
    assert FOUND["rate"] == FOUND["tried_rates"][best]
    assert FOUND["limit"] > FOUND["rate"]


def test_measured_runs_are_those_of_simulate_at_the_best_rate_and_do_not_choose_it():
    process = replace(PROCESS, rate=float(FOUND["rate"]))
    own = simulate(process, 32, int(FOUND["horizon"]), stop_at=0.5, right_side_only=True)
    assert (own.first == FOUND["first"]).all()
    few = replace(PART, num_runs=4).compute()
    assert few["rate"] == FOUND["rate"]
    assert (few["first"] == FOUND["first"][:4]).all()


def test_the_search_comes_to_the_same_rate_from_far_away():
    far = replace(PART, num_runs=2, process=replace(PROCESS, rate=0.5 / 64)).compute()
    assert abs(np.log2(far["rate"] / FOUND["rate"])) <= 0.5


def test_a_run_that_does_not_get_there_is_censored_at_the_steps_allowed():
    found = replace(PART, steps=3, level=0.9).compute()
    assert found["horizon"] == 3
    assert (found["first"] == -1).any()
    assert (found["samples"][found["first"] == -1] == 3 * 60).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_runs": 0}, "num_runs=0"),
        ({"num_choosing": 1}, "num_choosing=1"),
        ({"level": 0.0}, "level=0"),
        ({"level": 1.5}, "level=1.5"),
        ({"steps": 0}, "steps=0"),
        ({"process": "He2"}, "give a ReducedSGD of one neuron"),
        ({"process": replace(PROCESS, num_neurons=2)}, "give a ReducedSGD of one neuron"),
        ({"process": replace(PROCESS, student=Erf())}, "cannot be learned"),
    ],
)
def test_what_cannot_be_tuned_is_said_with_the_reason(change, words):
    with pytest.raises(HeadstartError, match=words):
        replace(PART, **change)
