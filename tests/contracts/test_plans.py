"""What every plan must do. A new plan joins by adding one row to PLANS."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headstart.core.encoding import decode, encode
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import Batch, FullBatch
from headstart.plans import AutoPhases, ByRole, Fixed, Online, Phase, Phases, Plan, Pool, TwoSet

STEPS = 60

# The six phases of "Less Data, Faster Training": fractions of the online budget, and epochs over each.
FRACTIONS, EPOCHS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.1), (100, 50, 20, 10, 10, 4)
SIX_PHASES = Phases(tuple(Phase(fraction=f, epochs=e) for f, e in zip(FRACTIONS, EPOCHS, strict=True)))
TWO = (Phase(size=10, steps=25), Phase(size=30))

PLANS = [
    pytest.param(Online(), id="online"),
    pytest.param(Fixed(24), id="fixed"),
    pytest.param(Fixed(25, replacement=False), id="fixed without replacement"),
    pytest.param(Phases(TWO), id="nested phases"),
    pytest.param(Phases(TWO, nested=False), id="independent phases"),
    pytest.param(Phases(TWO, replacement=False), id="phases without replacement"),
    pytest.param(Phases((Phase(size=12, epochs=1), Phase(size=20, epochs=0.5), Phase())), id="phases to everything"),
    pytest.param(Phases((Phase(size=12, steps=7), Phase(steps=13), Phase(size=40))), id="everything in the middle"),
    pytest.param(AutoPhases(), id="auto"),
    pytest.param(AutoPhases(3, sizes=(10, 40), max_epochs=4, replacement=False), id="auto without replacement"),
    pytest.param(AutoPhases(3, sizes=(10, 40), max_epochs=4, nested=False), id="independent auto phases"),
    pytest.param(TwoSet(10, 0.5), id="two sets"),
    pytest.param(ByRole(Phases(TWO), (Role.QUERY, Role.KEY)), id="by role"),
    pytest.param(TwoSet(10, 0.25, total=40), id="two finite sets"),
]
every_plan = pytest.mark.parametrize("plan", PLANS)
BATCHES = [pytest.param(Batch(n), id=f"batch {n}") for n in (1, 8, 10)]
every_batch = pytest.mark.parametrize("batch", BATCHES)


def places(course, seed=0, steps=STEPS, fresh=0):
    """The place of every step."""
    out, place = [], course.start(seed, fresh)
    for step in range(steps):
        place = course.observe(place, step)
        out.append(place)
    return out


def batches(course, seed=0, steps=STEPS, fresh=0):
    """The ids of every step, asked one by one: int64[steps, batch]."""
    return np.stack([course.ids(place, step) for step, place in enumerate(places(course, seed, steps, fresh))])


@every_plan
def test_a_plan_keeps_its_protocol_and_survives_json(plan):
    assert isinstance(plan, Plan)
    assert decode(json.loads(json.dumps(encode(plan)))) == plan


@every_plan
@every_batch
def test_a_step_gives_the_same_ids_whenever_it_is_asked(plan, batch):
    one, two = plan.course(batch, STEPS), plan.course(batch, STEPS)
    ids = batches(one)
    assert ids.shape == (STEPS, batch.size)
    assert ids.dtype == np.int64
    for step in reversed(range(STEPS)):
        assert np.array_equal(two.ids(places(two)[step], step), ids[step])


@every_plan
@every_batch
@settings(max_examples=10, deadline=None)
@given(cuts=st.sets(st.integers(1, STEPS - 1), max_size=6), seed=st.integers(0, 2**32 - 1))
def test_blocks_of_steps_give_the_ids_of_single_steps(plan, batch, cuts, seed):
    course = plan.course(batch, STEPS)
    where, ids = places(course, seed), batches(course, seed)
    edges = [0, *sorted(cuts), STEPS]
    for begin, end in pairwise(edges):
        step = begin
        while step < end:
            left = course.steps_left(where[step], step)
            num = end - step if left is None else min(left, end - step)
            assert np.array_equal(course.ids(where[step], step, num), ids[step : step + num].ravel())
            step += num


@every_plan
@every_batch
def test_observing_a_step_again_changes_nothing(plan, batch):
    course = plan.course(batch, STEPS)
    for step, place in enumerate(places(course)):
        assert course.observe(place, step) == place


@every_plan
@every_batch
def test_ids_lie_in_the_pool(plan, batch):
    course = plan.course(batch, STEPS)
    for step, place in enumerate(places(course)):
        pool, ids = course.pool(place), course.ids(place, step)
        assert ids.min() >= pool.first
        assert pool.size is None or ids.max() < pool.first + pool.size


@every_plan
@every_batch
def test_a_leg_lasts_as_long_as_it_says(plan, batch):
    course = plan.course(batch, STEPS)
    where = places(course)
    for step, place in enumerate(where):
        left = course.steps_left(place, step)
        same_leg = sum(other.leg == place.leg for other in where[step:])
        assert same_leg == STEPS - step if left is None else same_leg == min(left, STEPS - step)


@every_plan
@every_batch
def test_samples_on_everything_are_new(plan, batch):
    course = plan.course(batch, STEPS)
    seen = set()
    for step, place in enumerate(places(course)):
        ids = course.ids(place, step).tolist()
        if (favoured := course.legs[place.leg].favoured) is not None:
            ids = [id for id in ids if id >= favoured]
        if course.pool(place).size is None:
            assert len(set(ids)) == len(ids)
            assert seen.isdisjoint(ids)
        seen.update(ids)


@every_plan
def test_fresh_samples_begin_where_they_are_told_and_finite_sets_stay(plan):
    course = plan.course(Batch(8), STEPS)
    shifted = places(course, fresh=1000)
    for step, (one, two) in enumerate(zip(places(course), shifted, strict=True)):
        plain, later, leg = course.ids(one, step), course.ids(two, step), course.legs[one.leg]
        moved = plain >= (leg.favoured or 0) if leg.pool.size is None else np.zeros(8, dtype=bool)
        assert np.array_equal(later, plain + 1000 * moved)
        assert two == one._replace(fresh=1000)


@every_plan
@pytest.mark.parametrize("end", [1, 25, 26, STEPS])
def test_a_run_that_goes_on_from_another_draws_no_fresh_sample_twice(plan, end):
    course = plan.course(Batch(8), STEPS)
    before = set(batches(course, steps=end).ravel())
    place = course.observe(places(course)[end - 1], end)
    drawn = course.drawn(place, end)
    assert drawn > max(before)
    assert course.drawn(course.start(0), 0) == 0
    for step, there in enumerate(places(course, fresh=drawn)):
        if course.pool(there).size is None:
            favoured = course.legs[there.leg].favoured or 0
            assert before.isdisjoint(id for id in course.ids(there, step).tolist() if id >= favoured)


@every_plan
def test_seeds_decide_the_order(plan):
    course = plan.course(Batch(8), STEPS)
    assert np.array_equal(batches(course, 3), batches(course, 3))
    if all(leg.pool.size or leg.favoured for leg in course.legs):
        assert not np.array_equal(batches(course, 3), batches(course, 4))


@every_plan
def test_a_full_batch_has_pools_and_no_batch_size_or_is_refused(plan):
    if plan == AutoPhases() or isinstance(plan, TwoSet | ByRole):
        with pytest.raises(HeadstartError, match=r"FullBatch\(\)"):
            plan.course(FullBatch(), STEPS)
        return
    course = plan.course(FullBatch(), STEPS)
    assert course.batch is None
    assert len(places(course)) == STEPS


def test_online_counts_through_the_ids():
    assert np.array_equal(batches(Online().course(Batch(8), STEPS)).ravel(), np.arange(8 * STEPS))


def test_one_phase_of_a_size_is_fixed():
    for replacement in (True, False):
        phases, fixed = Phases((Phase(size=24),), replacement=replacement), Fixed(24, replacement=replacement)
        assert phases.course(Batch(8), STEPS) == fixed.course(Batch(8), STEPS)
        assert phases.course(FullBatch(), STEPS) == fixed.course(FullBatch(), STEPS)
    closed = Phases((Phase(size=24, steps=STEPS),)).course(Batch(8), STEPS)
    assert np.array_equal(batches(closed), batches(Fixed(24).course(Batch(8), STEPS)))


def test_one_phase_of_everything_is_online():
    assert Phases((Phase(),)).course(Batch(8), STEPS) == Online().course(Batch(8), STEPS)


@pytest.mark.parametrize(("size", "batch"), [(24, 8), (25, 8), (7, 7), (50, 3)])
def test_without_replacement_every_epoch_is_a_permutation(size, batch):
    ids = batches(Fixed(size, replacement=False).course(Batch(batch), 200), steps=200).ravel()
    epochs = ids[: len(ids) // size * size].reshape(-1, size)
    assert all(np.array_equal(np.sort(epoch), np.arange(size)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1])


def test_without_replacement_each_phase_has_orders_of_its_own():
    course = Phases((Phase(size=20, epochs=1), Phase(size=20)), replacement=False).course(Batch(10), 4)
    ids = batches(course, steps=4)
    assert set(ids[:2].ravel()) == set(ids[2:].ravel()) == set(range(20))
    assert not np.array_equal(ids[:2], ids[2:])


def test_with_replacement_every_sample_is_drawn_equally_often():
    ids = batches(Fixed(20).course(Batch(50), 100), steps=100)
    assert stats.chisquare(np.bincount(ids.ravel(), minlength=20)).pvalue > 1e-3
    assert any(len(set(row)) < len(row) for row in ids[:, :10].tolist())


def test_the_batches_of_nested_phases_before_a_switch_are_those_of_the_smaller_set_alone():
    phases = batches(Phases(TWO).course(Batch(8), STEPS))
    assert np.array_equal(phases[:25], batches(Fixed(10).course(Batch(8), STEPS))[:25])


def test_nested_pools_are_prefixes_and_independent_pools_disjoint():
    three = (Phase(size=10, steps=5), Phase(size=30, steps=5), Phase(size=20))
    nested = [leg.pool for leg in Phases(three).course(Batch(8), STEPS).legs]
    apart = [leg.pool for leg in Phases(three, nested=False).course(Batch(8), STEPS).legs]
    assert nested == [Pool(0, 10), Pool(0, 30), Pool(0, 20)]
    assert apart == [Pool(0, 10), Pool(10, 30), Pool(40, 20)]


@pytest.mark.parametrize(("nested", "first"), [(True, 30), (False, 40)])
def test_everything_after_pools_is_what_they_did_not_hold(nested, first):
    three = (Phase(size=10, steps=5), Phase(size=30, steps=5), Phase())
    assert Phases(three, nested=nested).course(Batch(8), STEPS).legs[-1].pool == Pool(first)


def test_phases_switch_at_the_stated_steps():
    course = Phases((Phase(size=10, steps=25), Phase(size=16, epochs=5), Phase())).course(Batch(8), STEPS)
    where = places(course)
    assert [step for step in range(1, STEPS) if where[step].leg != where[step - 1].leg] == [25, 35]
    assert [place.began for place in (where[0], where[25], where[35])] == [0, 25, 35]


def test_an_epoch_of_a_full_batch_is_one_step():
    course = Phases((Phase(size=10, epochs=3), Phase(size=20))).course(FullBatch(), STEPS)
    assert course.legs[0].steps == 3


def test_boundaries_are_rounded_from_exact_sums():
    legs = Phases((Phase(size=12, epochs=1),) * 4 + (Phase(),)).course(Batch(8), STEPS).legs
    assert np.cumsum([leg.steps for leg in legs[:-1]]).tolist() == [2, 3, 4, 6]  # of 1.5, 3, 4.5, 6


@pytest.mark.parametrize(("batch", "steps"), [(128, 1000), (128, 5000), (100, 1000), (50, 20_000)])
def test_the_six_phases_of_the_paper_fill_the_budget_exactly(batch, steps):
    legs = SIX_PHASES.course(Batch(batch), steps).legs
    assert [leg.pool.size for leg in legs] == [round(f * batch * steps) for f in FRACTIONS]
    assert [leg.steps for leg in legs] == [round(share * steps) for share in (0.1, 0.1, 0.1, 0.1, 0.2, 0.4)]
    assert sum(leg.steps for leg in legs) == steps


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fixed(size=0), r"Fixed\(size=0\)"),
        (lambda: Fixed(size=2.0), r"size=2\.0"),
        (lambda: Phase(size=0), r"Phase\(size=0\)"),
        (lambda: Phase(size=4, fraction=0.5), r"size=4, fraction=0\.5.*one of the two"),
        (lambda: Phase(size=4, steps=3, epochs=2), "steps=3, epochs=2.*one of the two"),
        (lambda: Phase(fraction=0), "fraction=0"),
        (lambda: Phase(fraction=1.5), r"fraction=1\.5"),
        (lambda: Phase(size=4, steps=0), "steps=0"),
        (lambda: Phase(size=4, epochs=-1), "epochs=-1"),
        (lambda: Phase(epochs=3), "epochs=3.*give steps"),
        (lambda: Phases(()), "at least one Phase"),
        (lambda: Phases((Phase(size=4), Phase())), "only the last phase"),
        (lambda: AutoPhases(num_phases=0), r"AutoPhases\(num_phases=0\)"),
        (lambda: AutoPhases(fractions=0.1), r"fractions=0\.1.*two numbers"),
        (lambda: AutoPhases(fractions=(0.1, 0.01)), "smallest comes first"),
        (lambda: AutoPhases(fractions=(0.1, 1.5)), "at most 1"),
        (lambda: AutoPhases(sizes=(10.5, 20)), r"sizes=10\.5"),
        (lambda: AutoPhases(target=0), "target=0"),
        (lambda: AutoPhases(max_epochs=-1), "max_epochs=-1"),
        (lambda: ByRole(Online(), ("querry",)), "'querry'.*roles are input"),
        (lambda: ByRole(ByRole(Online(), ()), (Role.KEY,)), "two plain plans"),
        (lambda: ByRole(Online(), (Role.KEY,), Phases(TWO)).course(Batch(8), STEPS), "without phases"),
        (lambda: TwoSet(0, 0.5), "size=0"),
        (lambda: TwoSet(10, 1.5), r"probability=1\.5"),
        (lambda: TwoSet(10, 0.5, total=10), "total=10.*at least 11"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


@pytest.mark.parametrize(
    ("plan", "batch", "message"),
    [
        (Phases((Phase(size=4, steps=STEPS + 1), Phase())), Batch(8), r"phase 1 of 2 ends at step 61.*budget of 60"),
        (Phases((Phase(size=8, steps=50), Phase(size=8, epochs=20))), Batch(8), "phase 2 of 2 ends at step 70"),
        (Phases((Phase(fraction=0.5),)), FullBatch(), r"fraction=0\.5.*FullBatch\(\).*give size"),
        (Fixed(7, replacement=False), Batch(8), r"Fixed\(size=7\).*Batch\(8\).*at most 7"),
        (Phases(TWO, replacement=False), Batch(11), r"phase 1.*10 samples.*Batch\(11\)"),
        (AutoPhases(replacement=False, sizes=(5, 20)), Batch(8), r"AutoPhases, phase 1.*5 samples.*Batch\(8\)"),
    ],
)
def test_a_plan_that_does_not_fit_its_batch_or_budget_is_refused(plan, batch, message):
    with pytest.raises(HeadstartError, match=message):
        plan.course(batch, STEPS)


SIX_PHASES = Phases(
    tuple(
        Phase(fraction=fraction, epochs=epochs)
        for fraction, epochs in zip((0.001, 0.002, 0.005, 0.01, 0.02, 0.1), (100, 50, 20, 10, 10, 4), strict=True)
    )
)


@pytest.mark.parametrize(("batch", "steps"), [(32, 1998), (8, 1999), (32, 555), (16, 1000), (1, 777)])
def test_the_papers_schedule_fills_any_budget_however_its_pools_round(batch, steps):
    legs = SIX_PHASES.course(Batch(batch), steps).legs
    assert sum(leg.steps for leg in legs) == steps


def drawn_ids(plan, batch, steps):
    course = plan.course(Batch(batch), steps)
    place, out = course.start(0), []
    for step in range(steps):
        place = course.observe(place, step)
        out.append(course.ids(place, step))
    return np.stack(out)


def test_two_fresh_phases_never_repeat_a_sample():
    ids = drawn_ids(Phases((Phase(steps=2), Phase(steps=2))), 4, 4)
    assert len(set(ids.ravel())) == 16


def test_an_independent_pool_shares_nothing_with_the_fresh_samples_before_it():
    ids = drawn_ids(Phases((Phase(steps=2), Phase(size=4)), nested=False), 4, 4)
    assert not set(ids[:2].ravel()) & set(ids[2:].ravel())


def test_a_plan_by_role_has_the_course_of_its_plan_and_another_beside_it():
    plain = Phases(TWO).course(Batch(8), STEPS)
    both = ByRole(Phases(TWO), (Role.QUERY,), Fixed(20)).course(Batch(8), STEPS)
    assert np.array_equal(batches(both), batches(plain))
    aside = both.aside.course
    assert np.array_equal(batches(aside) % 2**40, batches(Fixed(20).course(Batch(8), STEPS)))
    assert set(batches(aside).ravel()).isdisjoint(batches(plain).ravel())
    assert (plain.samples_aside, both.samples_aside) == (0, 8)


def test_a_plan_by_no_role_is_the_plan():
    assert ByRole(Phases(TWO), ()).course(Batch(8), STEPS) == Phases(TWO).course(Batch(8), STEPS)


def test_phases_that_round_up_to_more_steps_than_the_budget_are_refused():
    with pytest.raises(HeadstartError, match="beyond the budget of 3 steps"):
        Phases((Phase(size=1, epochs=1),) * 5).course(Batch(8), 3)
