"""Learning-rate schedules are arrays."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.optimizers import Constant, Cosine, PartOf, StepDecay, WarmUp, WarmUpStableDecay


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (Constant(), [1, 1, 1, 1]),
        (WarmUp(2), [0.5, 1, 1, 1]),
        (WarmUp(8), [1 / 8, 2 / 8, 3 / 8, 4 / 8]),
        (WarmUp(0, Cosine()), Cosine().factors(4)),
        (StepDecay((0.5, 0.75), 0.1), [1, 1, 0.1, 0.01]),
        (Cosine(), [1, (1 + np.sqrt(0.5)) / 2, 0.5, (1 - np.sqrt(0.5)) / 2]),
        (Cosine(0.5), [1, 0.5 + (1 + np.sqrt(0.5)) / 4, 0.75, 0.5 + (1 - np.sqrt(0.5)) / 4]),
        (WarmUpStableDecay(0.5, 0.5), [0.5, 1, 1, 0.5]),
        (WarmUpStableDecay(0, 0), [1, 1, 1, 1]),
        (WarmUpStableDecay(0.25, 0.5, end=0.5), [1, 1, 1, 0.75]),
    ],
)
def test_a_schedule_is_one_factor_per_step(schedule, factors):
    np.testing.assert_allclose(schedule.factors(4), factors)


def test_a_warm_up_is_followed_by_a_schedule_of_the_steps_that_are_left():
    np.testing.assert_allclose(WarmUp(3, Cosine()).factors(10)[3:], Cosine().factors(7))


def test_two_parts_have_the_rates_of_the_whole():
    whole = WarmUp(4, Cosine(0.1))
    parts = [PartOf(whole, 20).factors(13), PartOf(whole, 20, 13).factors(7)]
    assert np.array_equal(np.concatenate(parts), whole.factors(20))
    with pytest.raises(HeadstartError, match=r"PartOf\(total=20, first=13\): a run of 8 steps .* at least 21"):
        PartOf(whole, 20, 13).factors(8)


@pytest.mark.parametrize("schedule", [Constant(), WarmUp(5), StepDecay((0.5,)), Cosine(), WarmUpStableDecay()])
def test_no_factor_is_negative_and_a_run_of_one_step_has_one(schedule):
    assert (schedule.factors(50) >= 0).all()
    assert schedule.factors(1).shape == (1,)
