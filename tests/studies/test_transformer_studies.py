"""The Transformer studies of Less Data, Faster Training: shared arms, small pools, and claims on made-up curves."""

import numpy as np
import pytest

import headstart as hs
from headstart.lab.store import summarise
from headstart.studies import find, select
from headstart.studies.less_data._transformers import OfTimes

KNOBS = find("less_data/query_key").knobs("smoke")


def made_up(study, knobs, times, later=64):
    """Results in which every seed of an arm is at the target from its time on; of arms not named, from `later`."""
    arms = {arm.name: arm for arm in study.arms(knobs)}
    assert set(times) <= set(arms)
    traces = {}
    for name, arm in arms.items():
        steps = np.array(arm.run.budget.recorded_steps())
        curve = np.where(steps >= times.get(name, later), 1.0, 0.5)
        curves = {"test_accuracy": curve, "train_accuracy": np.ones(len(steps)), "train_loss": -steps}
        traces[name] = hs.Traces(tuple(hs.Trace(arm.run.cell, seed, steps, steps, steps, curves) for seed in range(3)))
    summaries = {name: [summarise(arms[name].run, trace) for trace in traces[name]] for name in arms}
    return hs.Results(arms, summaries, traces, {}, knobs)


def test_identical_arms_have_one_sweep_and_the_same_seeds_in_every_study():
    found = {}
    for study in select("less_data", only="transformer"):
        knobs = study.knobs("laptop")
        for arm in study.arms(knobs):
            alike = (arm.sweep, tuple(arm.claim_seeds(knobs)), tuple(arm.selection_seeds(knobs)))
            found.setdefault(arm.run.cell, {}).setdefault(alike, set()).add(study.name)
    assert all(len(ways) == 1 for ways in found.values())
    assert max(len(names) for ways in found.values() for names in ways.values()) >= 8


def test_every_pool_of_parity_is_a_small_part_of_its_points_at_twenty_coordinates():
    knobs = find("less_data/mini_batch_transformers").knobs("laptop")
    for arm in find("less_data/mini_batch_transformers").arms(knobs):
        if isinstance(arm.run.task, hs.Parity) and arm.run.task.dim == 20:
            legs = arm.run.plan.course(arm.run.batch, knobs.steps).legs
            assert all((leg.pool.size or 0) < 0.01 * 2**20 for leg in legs)


def test_a_multiple_that_helps_online_training_alone_narrows_the_gap_and_is_its_best():
    study = find("less_data/query_key")
    results = made_up(study, KNOBS, {"parity_six": 16, "parity_online": 32, "parity_online_rate2": 16})
    found = {checked.claim.id: checked for checked in study.check(results)}
    fast, slow = (
        hs.TimeRatio(arm, arm, KNOBS.accuracy).times(results, arm)[0] for arm in ("parity_six", "parity_online")
    )
    assert found["rate_narrows_parity_six"].estimate.value == pytest.approx(slow / fast)
    assert found["rate_narrows_parity_six"].verdict is hs.Verdict.HOLDS
    assert found["rate_order"].estimate.value == 2.0
    assert found["init_narrows_parity_six"].estimate.value == 1.0
    assert found["norm_parity_six"].estimate.value > 1  # the normalised arms do not arrive


def test_a_number_made_of_times_is_none_where_no_run_arrives():
    study = find("less_data/query_key")
    estimate = OfTimes(("parity_six", "parity_online"), KNOBS.accuracy, lambda times: times[0])
    nothing = estimate(made_up(study, KNOBS, {}))
    assert np.isnan(nothing.value)
    assert nothing.arrivals == 0
    assert hs.below(1.0).verdict(nothing) is hs.Verdict.UNDECIDED
