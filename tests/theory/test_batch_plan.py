"""The batch planner: what it chooses, what it says, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.tasks import Erf, Hermite, Relu
from headstart.theory import BatchChoice, How, Objective, Spread, plan_batch
from headstart.theory.batch_plan import _best
from headstart.theory.batch_search import _seconds
from headstart.theory.reduced_sgd import ReducedSGD, simulate


@pytest.fixture(scope="module")
def plan():
    return plan_batch(Hermite(2), 60, runs=24)


def test_steps_fall_with_the_batch_and_samples_stay_up_to_the_knee(plan):
    for curve in plan.curves.values():
        known = [choice for choice in curve if choice.batch <= 60]
        steps = [choice.steps.median for choice in known]
        assert steps == sorted(steps, reverse=True)
        samples = [choice.samples.median for choice in known]
        assert max(samples) < 3 * min(samples)


def test_the_best_is_the_fastest_of_those_that_are_thrifty(plan):
    every = [choice for curve in plan.curves.values() for choice in curve]
    least = min(choice.samples.median for choice in every)
    allowed = [choice for choice in every if choice.samples.median <= 2 * least]
    assert plan.best.steps.median <= 1.1 * min(choice.steps.median for choice in allowed)
    assert any("no promise for real data" in word for word in plan.words)


def test_a_scaled_batch_has_the_samples_that_the_exact_chain_needs():
    mse = plan_batch(Hermite(2), 60, losses=(Objective.MSE,), runs=64).curves[Objective.MSE]
    scaled = next(choice for choice in mse if choice.how is How.SCALED)
    process = ReducedSGD(Hermite(2), Hermite(2), 60, scaled.batch, scaled.rate)
    drawn = simulate(process, 200, 20_000, seed=5, stop_at=0.5, right_side_only=True)
    assert drawn.reached.all()
    # Medians of 64 and 200 runs with a deviation of about a third: 4 standard errors.
    assert abs(np.median(drawn.first) / scaled.steps.median - 1) < 0.25


def test_a_budget_and_seconds_change_the_choice():
    def choice(batch: int, steps: float, seconds: float) -> BatchChoice:
        spread = Spread(steps, steps, steps)
        return BatchChoice(Objective.MSE, batch, 0.1, spread, spread.times(batch), 1.0, np.inf, How.EXACT,
                           spread.times(seconds))  # fmt: skip

    slow = [choice(10, 100, 1.0), choice(100, 20, 10.0), choice(1000, 15, 100.0)]
    in_steps = [replace(each, seconds=None) for each in slow]
    assert _best(in_steps, None, 0.5).batch == 100
    assert _best(in_steps, 10**6, 0.5).batch == 1000
    assert _best(in_steps, 1500, 0.5).batch == 10
    assert _best(slow, 10**6, 0.5).batch == 10
    with pytest.raises(hs.HeadstartError, match=r"samples=500\): the least that half of the runs need is 1e\+03"):
        _best(in_steps, 500, 0.5)


def test_seconds_of_a_step_are_linear_between_entries_and_in_proportion_above():
    table = {10: 1.0, 20: 2.0}
    assert [_seconds(table, batch) for batch in (1, 10, 15, 20, 40)] == [1.0, 1.0, 1.5, 2.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"link": Hermite(2), "dim": 100, "student": Erf()}, "cannot be learned.*odd"),
        ({"link": Hermite(3), "dim": 100, "student": Relu()}, "cannot be learned.*no He_3"),
        ({"link": Hermite(2), "dim": 1}, r"dim=1"),
        ({"link": Hermite(2), "dim": 100, "samples": 50, "batches": (64,)}, "64 is above the budget, samples=50"),
        ({"link": Hermite(2), "dim": 100, "runs": 2}, "runs=2"),
        ({"link": Hermite(2), "dim": 100, "level": 1.5}, "level=1.5"),
    ],
)
def test_what_cannot_be_planned_is_said_with_the_reason(arguments, words):
    with pytest.raises(hs.HeadstartError, match=words):
        plan_batch(**arguments)
