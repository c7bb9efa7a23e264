"""Schedules resolve to the lab's plans on a data set of so many rows."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.units import Batch
from headstart.plans import AutoPhases, Fixed, Phase, Phases, PhaseSchedule, Pool, TwoSet

ROWS = 6400


def test_one_phase_of_a_size_is_fixed():
    schedule = PhaseSchedule([Phase(size=320)], steps=50, everything=None)
    assert schedule.route(ROWS, 32).course == Fixed(320, replacement=False).course(Batch(32), 50)


def test_phases_by_size_are_the_labs_phases():
    phases = (Phase(size=320, epochs=2.5), Phase(size=640, steps=20), Phase(size=1280, epochs=1))
    route = PhaseSchedule(phases, everything=None).route(ROWS, 32)
    assert route.steps == 25 + 20 + 40
    assert route.course == Phases(phases, replacement=False).course(Batch(32), route.steps)


def test_an_auto_schedule_is_the_labs_auto_phases():
    schedule = PhaseSchedule.auto(1 / 64, 1 / 4, 3, steps=1000, target=0.8, max_epochs=7, everything=None)
    route = schedule.route(ROWS, 20)
    lab = AutoPhases(3, sizes=(100, 1600), target=0.8, max_epochs=7, replacement=False)
    assert route.course == lab.course(Batch(20), 1000)


def test_two_sets_are_the_labs_two_sets():
    route = PhaseSchedule.two_set(fraction=0.01, probability=0.25, steps=9).route(ROWS, 32)
    assert route.course == TwoSet(64, 0.25, total=ROWS).course(Batch(32), 9)


def test_fractions_are_of_the_data_set_and_a_fraction_of_one_is_everything():
    route = PhaseSchedule([Phase(fraction=0.1, steps=3), Phase(fraction=1, epochs=2)]).route(ROWS, 64)
    assert [leg.pool for leg in route.course.legs] == [Pool(0, 640), Pool(0, ROWS)]
    assert route.steps == 3 + 200


def test_geometric_sizes_run_from_first_to_last_over_the_total_of_steps():
    schedule = PhaseSchedule.geometric(first=1 / 64, last=1 / 4, phases=3, steps=100, everything=None)
    route = schedule.route(ROWS, 32)
    assert [leg.pool.size for leg in route.course.legs] == [100, 400, 1600]
    assert [leg.steps for leg in route.course.legs] == [33, 34, 33]
    assert route.steps == 100


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (PhaseSchedule.geometric(1 / 64, 1 / 4, 2, steps=100, everything=40), [30, 30, None]),
        (PhaseSchedule([Phase(size=64, steps=5)], everything=40), [5, 40]),
        (PhaseSchedule([], everything=40), [40]),
        (PhaseSchedule([Phase(size=64, steps=5), Phase()], steps=45), [5, None]),
        (PhaseSchedule.auto(1 / 64, 1 / 64, 1, max_epochs=32, steps=500, everything=40), [100, None]),
    ],
)
def test_a_last_phase_on_everything_is_one_keyword(schedule, steps):
    """The last leg of a schedule with a total goes on to it."""
    legs = schedule.route(ROWS, 32).course.legs
    assert [leg.steps for leg in legs] == steps
    assert legs[-1].pool == Pool(0, ROWS)


def test_independent_subsets_share_no_row_and_everything_has_them_all():
    schedule = PhaseSchedule([Phase(size=64, steps=1), Phase(size=96, steps=1)], everything=1, nested=False)
    assert [leg.pool for leg in schedule.route(ROWS, 32).course.legs] == [Pool(0, 64), Pool(64, 96), Pool(0, ROWS)]


def test_an_epoch_counts_the_batch_size_of_its_phase():
    schedule = PhaseSchedule(
        [Phase(size=640, epochs=1), Phase(size=640, epochs=1)], everything=None, batch_sizes=[16, 64]
    )
    route = schedule.route(ROWS, 1)
    assert [leg.steps for leg in route.course.legs] == [40, 10]
    assert route.batches == (16, 64)


def test_a_schedule_can_be_changed_with_replace():
    schedule = PhaseSchedule([Phase(size=64, steps=5)], everything=40)
    assert replace(schedule, nested=False).route(ROWS, 8).course.legs[-1].pool == Pool(0, ROWS)
    subset = PhaseSchedule([Phase(size=64, steps=5)], everything=None)
    assert replace(subset, nested=False).route(ROWS, 8).num_rows_used == 64


def test_phases_that_may_end_early_need_not_fit_at_their_longest():
    assert PhaseSchedule.auto(steps=10, max_epochs=1e6).route(100_000, 32).steps == 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PhaseSchedule([]), "at least one Phase"),
        (lambda: PhaseSchedule(Phase(size=3)), "at least one Phase"),
        (lambda: PhaseSchedule([Phase(size=3)]), r"number 1, has no length; give it steps or epochs"),
        (lambda: PhaseSchedule([Phase(size=3), Phase(steps=1)], steps=9), "number 1, has no length"),
        (lambda: PhaseSchedule([Phase(fraction=1.5, steps=3)]), r"fraction=1\.5.*at most 1; give .* size"),
        (lambda: PhaseSchedule([Phase(epochs=3)]), r"Phase\(epochs=3\).*fraction=1"),
        (lambda: PhaseSchedule([Phase(steps=3)], batch_sizes=[1, 2]), r"batch_sizes=\[1, 2\].*1 phases"),
        (lambda: PhaseSchedule([Phase(steps=3)], batch_sizes=[0]), "batch_sizes=0"),
        (lambda: PhaseSchedule([Phase(steps=3)], everything=-1), "everything=-1.*number of steps"),
        (lambda: PhaseSchedule([Phase(size=3, steps=3)], everything="most"), "everything='most'.*'half'.*or None"),
        (lambda: PhaseSchedule([Phase(size=3)], steps=9, everything=9), "everything=9.*at most 8"),
        (lambda: PhaseSchedule([Phase(size=3, steps=3)], batch_sizes=[4]), "the 2 phases, the last being everything"),
        (lambda: PhaseSchedule([Phase(size=3)], steps=9, probability=0.5, everything=3), "two sets have one phase"),
        (lambda: PhaseSchedule.auto(steps=1000, everything=True), "everything=True.*number of steps"),
        (lambda: PhaseSchedule.auto(steps=1000, everything=1000), "everything=1000.*at most 999"),
        (lambda: PhaseSchedule.geometric(steps=10), "everything='half'.*5 steps are left for 6 phases"),
        (lambda: PhaseSchedule([Phase(steps=3)], target=0), "target=0"),
        (lambda: PhaseSchedule.geometric(first=2, steps=10), "first=2.*at most 1"),
        (lambda: PhaseSchedule.geometric(first=0.5, last=0.1, steps=10), r"first=0\.5, last=0\.1.*smallest"),
        (lambda: PhaseSchedule.geometric(steps=10, everything=6), "4 steps are left for 6 phases"),
        (lambda: PhaseSchedule.two_set(steps=3, probability=0.1), "size=None, fraction=None"),
        (lambda: PhaseSchedule.two_set(steps=3, probability=2, size=9).route(ROWS, 3), "probability=2"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            PhaseSchedule([Phase(size=7000, steps=1)]),
            "phase 1 needs 7000 samples, the data set has 6400.*size=6400",
        ),
        (
            PhaseSchedule([Phase(size=4000, steps=1), Phase(size=4000, steps=1)], nested=False),
            "phase 2 needs 4000 samples after 4000.*give size=2400",
        ),
        (
            PhaseSchedule([Phase(size=100, steps=1)]),
            r"phase 1 has 100 rows, fewer than one global batch of 128 \(32 x 4\).*replacement=True",
        ),
        (
            PhaseSchedule([Phase(size=640, steps=9)], steps=8, everything=None),
            "ends at step 9, beyond the budget of 8 steps",
        ),
        (PhaseSchedule([Phase(size=640, steps=5)], steps=8, everything=4), "the phases take 5 steps and leave 3"),
        (PhaseSchedule([Phase(size=640, steps=5), Phase(size=700)], steps=8), "nothing is left for .*number 2"),
        (PhaseSchedule.two_set(size=6400, probability=0.5, steps=3), "leaves nothing.*give size=6399"),
    ],
)
def test_a_schedule_that_does_not_fit_the_data_is_refused(schedule, message):
    with pytest.raises(HeadstartError, match=message):
        schedule.route(ROWS, 32, shares=4)


def test_with_replacement_a_phase_may_be_smaller_than_a_batch():
    route = PhaseSchedule([Phase(size=3, steps=10)], everything=None, replacement=True).route(ROWS, 32)
    assert set(np.unique(route.course.ids(route.course.start(0), 0, 10))) == {0, 1, 2}


@pytest.mark.parametrize(
    ("schedule", "begins", "steps"),
    [
        (PhaseSchedule.geometric(steps=6000), 3000, 6000),
        (PhaseSchedule.geometric(steps=6000, everything=1500), 4500, 6000),
        (PhaseSchedule([Phase(size=640)], steps=200), 100, 200),
        (PhaseSchedule([Phase(size=640)], steps=200, everything=50), 150, 200),
        (PhaseSchedule([Phase(size=640, steps=30)], steps=200), 30, 200),
        (PhaseSchedule([Phase(size=640, epochs=2.5), Phase(size=1280, steps=20)]), 120, 240),
        (PhaseSchedule([], steps=40), 0, 40),
    ],
)
def test_schedules_end_on_everything_for_half_of_their_steps_unless_told_otherwise(schedule, begins, steps):
    route = schedule.route(ROWS, 16)
    assert route.steps == steps
    assert route.num_rows_used == ROWS
    assert sum(leg.steps for leg in route.course.legs[:-1]) == begins


@pytest.mark.parametrize(
    "schedule",
    [
        PhaseSchedule([Phase(size=64, steps=5), Phase(steps=5)]),
        PhaseSchedule([Phase(size=64, steps=5), Phase(fraction=1, epochs=1)]),
        PhaseSchedule([Phase(size=64, steps=5), Phase(size=ROWS, epochs=1)]),
    ],
)
def test_a_schedule_that_ends_on_everything_itself_gets_no_more_of_it(schedule):
    assert [leg.pool.size for leg in schedule.route(ROWS, 32).course.legs] == [64, ROWS]


def test_phases_that_fill_the_total_leave_nothing_for_everything():
    route = PhaseSchedule([Phase(size=64, steps=8)], steps=8).route(ROWS, 32)
    assert (route.num_rows_used, route.steps) == (64, 8)


def test_batch_sizes_include_that_of_everything():
    route = PhaseSchedule([Phase(size=64, steps=5)], batch_sizes=[16, 64]).route(ROWS, 1)
    assert route.batches == (16, 64)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (PhaseSchedule.geometric(steps=60, everything=None), "# uses 2% of the rows"),
        (PhaseSchedule.auto(0.02, 0.2, steps=60, everything=None), "# uses 20% of the rows"),
        (PhaseSchedule([Phase(size=50, steps=5)], everything=None), "# uses 50 rows"),
        (PhaseSchedule([Phase(5, steps=5), Phase(fraction=0.5, steps=5)], everything=0), "# uses 50% of the rows or 5"),
        (
            PhaseSchedule([Phase(fraction=0.1, steps=5), Phase(fraction=0.5, steps=5)], everything=None, nested=False),
            "# uses 60% of the rows",
        ),
    ],
)
def test_a_schedule_that_leaves_rows_out_says_so_in_its_repr(schedule, said):
    assert said in repr(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        PhaseSchedule.geometric(steps=60),
        PhaseSchedule.two_set(size=5, probability=0.5, steps=9),
        PhaseSchedule([Phase(fraction=1, epochs=2)], everything=None),
    ],
)
def test_a_schedule_that_leaves_nothing_out_is_its_own_code(schedule):
    assert "#" not in repr(schedule)
    assert eval(repr(schedule)) == schedule
