"""Phases that end when the training set is learned."""

import pytest

from headstart.core.errors import HeadstartError
from headstart.core.units import Batch, FullBatch
from headstart.losses import MSE
from headstart.models import MLP
from headstart.optimizers import SGD
from headstart.plans import AutoPhases, Fixed, Pool
from headstart.run import Run
from headstart.tasks import SingleIndex


def legs_by_step(course, metrics):
    """The leg of every step when these metrics are observed after step 0, 1, ..."""
    place, legs = course.observe(course.start(0), 0), []
    for step, metric in enumerate(metrics, start=1):
        legs.append(place.leg)
        place = course.observe(place, step, metric)
    return [*legs, place.leg]


def test_the_sizes_are_geometric_between_a_320th_and_a_50th_of_the_online_budget():
    sizes = AutoPhases().pool_sizes(Batch(32), 10_000)
    assert sizes == (1000, 1450, 2101, 3046, 4415, 6400)
    assert [leg.pool for leg in AutoPhases().course(Batch(32), 10_000).legs] == [Pool(0, size) for size in sizes]


def test_the_longest_schedule_takes_2_88_budgets_so_the_budget_ends_the_run():
    legs = AutoPhases().course(Batch(32), 10_000).legs
    assert legs[-1].steps is None
    assert sum(leg.steps for leg in legs[:-1]) + 50 * 6400 / 32 == pytest.approx(2.88 * 10_000, rel=1e-2)


def test_one_phase_is_fixed():
    assert AutoPhases(1, sizes=(24, 24)).course(Batch(8), 60) == Fixed(24).course(Batch(8), 60)


def test_a_phase_ends_after_the_first_epoch_whose_mean_metric_is_at_the_target():
    course = AutoPhases(2, sizes=(16, 32), max_epochs=10).course(Batch(8), 60)  # an epoch of the first pool is 2 steps
    assert legs_by_step(course, [0.7, 0.7, 0.75, 0.75, 1.0, 1.0]) == [0, 0, 0, 0, 1, 1, 1]
    # A mean over one epoch, not over two halves of different ones, and not a single batch.
    assert legs_by_step(course, [0.5, 0.9, 0.9, 0.5, 1.0, 0.4]) == [0, 0, 0, 0, 0, 0, 0]
    assert legs_by_step(course, [0.5, 1.0]) == [0, 0, 1]


def test_a_phase_that_is_not_learned_ends_after_its_longest_time():
    course = AutoPhases(3, sizes=(16, 64), max_epochs=2).course(Batch(8), 60)
    assert legs_by_step(course, [0.5] * 30) == [0] * 4 + [1] * 8 + [2] * 19


def test_the_last_phase_has_no_exit():
    course = AutoPhases(2, sizes=(8, 16)).course(Batch(8), 60)
    assert legs_by_step(course, [1.0] * 20) == [0] + [1] * 20


def test_an_epoch_of_a_full_batch_is_one_step_of_auto_phases():
    course = AutoPhases(3, sizes=(16, 64)).course(FullBatch(), 60)
    assert legs_by_step(course, [0.8, 0.5, 0.8]) == [0, 1, 1, 2]


def test_a_place_in_the_middle_of_an_epoch_can_be_observed_again():
    course = AutoPhases(2, sizes=(32, 64)).course(Batch(8), 60)
    place = course.start(0)
    for step, metric in enumerate([None, 1.0, 1.0, 0.5, 0.5]):
        place = course.observe(place, step, metric)
        assert course.observe(place, step) == place
    assert place.leg == 1  # the mean over four steps is .75


def test_auto_phases_are_refused_where_the_leading_metric_falls():
    with pytest.raises(HeadstartError, match=r"AutoPhases.*waits for a metric to rise.*relative_loss"):
        Run(SingleIndex(8), MLP(8), AutoPhases(), MSE(), SGD(0.1))


def test_a_leg_may_end_on_a_metric_that_falls():
    plan = AutoPhases(2, sizes=(8, 16), target=0.5, max_epochs=100, falling=True)
    course = plan.course(Batch(8), 100)
    place = course.start(0)
    for step, metric in enumerate([None, 0.9, 0.7, 0.5]):
        place = course.observe(place, step, metric)
    assert (place.leg, place.began) == (1, 3)
    waiting = course.start(0)
    for step in range(20):
        waiting = course.observe(waiting, step)  # without a metric it goes on
    assert waiting.leg == 0
