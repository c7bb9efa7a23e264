"""Fresh samples of a run that starts from another are none that the chain of sources drew."""

import numpy as np
import pytest

from headstart.core.roles import Role
from headstart.core.units import Batch, FullBatch
from headstart.plans import ByRole, Fixed, Online, Phase, Phases, TwoSet

PLANS = {
    "online": Online(),
    "fixed": Fixed(50),
    "phases": Phases((Phase(size=16, steps=3), Phase(size=40, steps=4), Phase())),
    "apart": Phases((Phase(size=16, steps=3), Phase(steps=4), Phase(size=30)), nested=False),
    "two sets": TwoSet(12, 0.5),
    "two finite sets": TwoSet(12, 0.5, total=60),
}


def ids_of(course, steps, fresh=0):
    """All ids of steps 0 .. steps - 1, and the place afterwards."""
    place, out = course.start(5, fresh), []
    for step in range(steps):
        place = course.observe(place, step)
        out.append(course.ids(place, step))
    return np.concatenate(out), course.observe(place, steps)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("steps", [1, 3, 5, 9])
def test_the_first_id_that_was_not_drawn_is_above_all_that_were(plan, steps):
    course = plan.course(Batch(8), 10)
    ids, place = ids_of(course, steps)
    assert ids.max() < course.drawn(place, steps) <= max(60, 8 * steps + 40)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_fresh_ids_shift_and_finite_sets_do_not(plan):
    course = plan.course(Batch(8), 10)
    (plain, _), (shifted, place) = ids_of(course, 10), ids_of(course, 10, fresh=1000)
    moved = shifted - plain
    assert set(moved.tolist()) <= {0, 1000}
    finite = all(leg.pool.size is not None for leg in course.legs)
    assert (moved.max() == 0) == finite
    assert shifted.max() < course.drawn(place, 10)


def test_nothing_is_drawn_before_the_first_step_or_from_an_exact_population():
    assert Online().course(Batch(8), 10).drawn(Online().course(Batch(8), 10).start(0), 0) == 0
    population = Online().course(FullBatch(), 10)
    assert population.drawn(population.start(0), 10) == 0


def test_batches_aside_shift_too():
    course = ByRole(Fixed(20), (Role.READOUT,)).course(Batch(8), 10)
    assert course.drawn(course.start(0), 10) == 80
    beside = course.aside.course
    one, two = (beside.ids(beside.start(0, fresh), 0) for fresh in (0, 80))
    assert (two - one == 80).all()
