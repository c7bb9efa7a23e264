import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import parity_run

import headstart as hs
from headstart.core.trace import Summary
from headstart.lab.conduct import conduct, gather
from headstart.lab.progress import Silent
from headstart.lab.runner import execute
from headstart.lab.store import summarise
from headstart.lab.sweep import FIRST_SELECTION_SEED, Search, selection_seeds, with_rate
from headstart.lab.workers import workers
from headstart.measures import area_under


def made_trace(run, accuracy, num_records=3):
    axis = np.array([0, 10, 20])[:num_records]
    return hs.Trace(run.cell, 0, axis, axis, axis * 1.0, {"test_accuracy": np.full(num_records, accuracy)})


def settle(search, area_of):
    rounds = 0

    def summaries_of(run):
        area = area_of(run.optimizer.lr)
        status = hs.Status.DIVERGED if area is None else hs.Status.FINISHED
        return [Summary(run.cell, 0, status, 0.5 if area is None else area, 0.5, 0.0)]

    while not search.learn(summaries_of):
        rounds += 1
        assert rounds < 100
    return search.tuned()


@given(st.floats(0.001, 10), st.floats(1, 30))
def test_neighbouring_rates_are_at_most_a_factor_of_one_point_two_apart(lowest, span):
    sweep = hs.Sweep(lowest, lowest * span)
    rates = [sweep.rate(i) for i in sweep.indices()]
    assert rates[-1] >= lowest * span * 0.999
    assert all(b / a <= 1.2 * 1.001 for a, b in itertools.pairwise(rates))


@pytest.mark.parametrize("best", [0.02, 0.11, 3.0])
def test_the_chosen_rate_is_inside_the_grid_however_far_the_search_began(best):
    tuned = settle(Search(parity_run(), hs.Sweep(0.1, 0.2)), lambda lr: -abs(np.log(lr / best)))
    assert tuned.rates[0] < tuned.rate < tuned.rates[-1]
    assert abs(np.log(tuned.rate / best)) <= np.log(1.2) / 2 + 1e-3


def test_a_search_that_never_turns_says_so():
    with pytest.raises(hs.HeadstartError, match="still at the end of the grid"):
        settle(Search(parity_run(), hs.Sweep(0.1, 0.2)), lambda lr: 1 + lr)


def test_a_grid_that_diverges_altogether_is_left_for_lower_rates():
    tuned = settle(Search(parity_run(), hs.Sweep(0.1, 0.2)), lambda lr: None if lr > 0.01 else 0.6 + lr)
    assert tuned.rate <= 0.01
    assert tuned.rate * 1.2 > 0.01


def test_a_grid_on_which_nothing_is_learned_is_left_for_lower_rates():
    tuned = settle(Search(parity_run(), hs.Sweep(0.1, 0.2)), lambda lr: 0.5 if lr > 0.01 else 0.6 + lr)
    assert 0.01 / 1.2 < tuned.rate <= 0.01


def test_a_task_that_cannot_be_learned_keeps_the_middle_of_its_first_grid():
    tuned = settle(Search(parity_run(), hs.Sweep(0.1, 0.144)), lambda lr: 0.5 - 0.001 * abs(np.log(lr / 0.02)))
    assert tuned.rates[0] < 0.1 / 30
    assert tuned.rate == 0.12


def test_a_wider_ratio_is_refused():
    with pytest.raises(hs.HeadstartError, match=r"ratio=1\.5"):
        hs.Sweep(0.1, 1.0, ratio=1.5)


def test_selection_seeds_are_none_of_the_claims_seeds():
    assert min(selection_seeds(100)) > 100_000


def test_a_diverged_run_counts_as_chance_from_then_on():
    run = parity_run(budget=hs.Budget(20, 10))
    assert summarise(run, made_trace(run, 0.9)).area == pytest.approx(0.9)
    fallen = summarise(run, made_trace(run, 0.9, num_records=1))
    assert fallen.area == pytest.approx((0.9 + 3 * 0.5) / 4)
    assert fallen.final == 0.5


def test_the_mean_of_the_areas_is_the_area_under_the_mean_curve():
    run = parity_run()
    traces = hs.train(run, seeds=range(4))
    mean = area_under(traces.grid().steps, traces.stack("test_accuracy").mean(axis=0))
    assert np.mean([summarise(run, trace).area for trace in traces]) == pytest.approx(mean)


def test_only_the_learning_rate_changes():
    run = parity_run(optimizer=hs.AdamW(0.1, beta2=0.95))
    assert with_rate(run, 0.2).optimizer == hs.AdamW(0.2, beta2=0.95)


def test_a_second_beta_is_tuned_jointly_with_the_rate():
    run = parity_run(optimizer=hs.AdamW(0.1))
    best = {0.9: 0.1, 0.95: 0.3}

    def summaries_of(cell):
        o = cell.optimizer
        area = 0.9 + (o.beta2 == 0.95) * 0.05 - 0.1 * abs(np.log(o.lr / best[o.beta2]))
        return [Summary(cell.cell, 0, hs.Status.FINISHED, area, 0.5, 0.0)]

    search = Search(run, hs.Sweep(0.1, 0.2, beta2=(0.9, 0.95)))
    while not search.learn(summaries_of):
        pass
    tuned = search.tuned()
    assert tuned.beta2 == 0.95
    assert abs(np.log(tuned.rate / 0.3)) <= np.log(1.2)
    assert tuned.num_tried > len(tuned.rates)
    assert tuned.to_json()["beta2"] == 0.95
    with pytest.raises(hs.HeadstartError, match="beta2 is a constant of AdamW"):
        Search(parity_run(), hs.Sweep(0.1, 0.2, beta2=(0.9,)))


def test_an_arm_without_a_sweep_keeps_its_rate():
    search = Search(parity_run(), None)
    assert search.needed() == []
    assert search.learn(lambda cell: [])
    assert search.tuned().rate == parity_run().optimizer.lr


def test_a_grid_on_which_nothing_is_learned_is_probed_on_both_sides():
    tuned = settle(Search(parity_run(), hs.Sweep(0.1, 0.144)), lambda lr: 0.5 - 0.001 * abs(np.log(lr / 0.02)))
    rates = np.array(tuned.rates)
    assert rates[0] < 0.1 / 30
    assert rates[-1] > 0.144 * 1.4
    near = rates[rates > 0.1 / 4.4]
    assert len(near) == 8
    assert (near[1:] / near[:-1] < 1.441).all()
    assert len(rates) == 10
    assert not tuned.learned


@pytest.mark.parametrize("low", [0.03, 0.05, 0.08, 0.16])
def test_a_narrow_window_of_rates_that_learn_is_found(low):
    tuned = settle(Search(parity_run(), hs.Sweep(0.1, 0.144)), lambda lr: 0.7 if low <= lr <= 1.5 * low else 0.5)
    assert tuned.learned
    assert low <= tuned.rate <= 1.5 * low


def test_a_rate_that_learns_was_chosen():
    assert settle(Search(parity_run(), hs.Sweep(0.1, 0.144)), lambda lr: 0.6 + lr if lr < 0.13 else 0.5).learned


def borrowing_study(arm="swept"):
    run = parity_run()
    return hs.Study(
        name="borrowing",
        title="An arm that takes its rate from another",
        paper="none",
        figures="none",
        presets={"laptop": hs.Knobs(num_seeds=2, num_selection_seeds=1)},
        minutes={"laptop": 0},
        arms=lambda knobs: [
            hs.Arm("swept", "swept", run, hs.Sweep(0.1, 0.144)),
            hs.Arm("borrows", "borrows", replace(run, plan=hs.Fixed(8)), hs.RateOf(arm)),
        ],
        claims=lambda knobs: [],
        figure=lambda results, figure: None,
    )


def test_an_arm_may_have_the_rate_that_another_arm_chose(tmp_path):
    study = borrowing_study()
    with hs.open_store(tmp_path / "s.sqlite") as store:
        outcome = conduct(study, "laptop", study.knobs(), store, Silent())
    tuned = outcome.results.tuned
    assert tuned["borrows"].rate == tuned["swept"].rate == outcome.results.arms["borrows"].run.optimizer.lr
    assert tuned["borrows"].rates == (tuned["swept"].rate,)
    assert tuned["borrows"].areas == ()
    assert len(outcome.results.summaries["borrows"]) == 2


def test_a_rate_cannot_be_borrowed_from_an_arm_without_one():
    for arm in ("borrows", "nobody"):
        with pytest.raises(hs.HeadstartError, match=f"'borrows' has the rate of '{arm}'; arms with their own: swept"):
            borrowing_study(arm).validate(hs.Knobs())


def test_arms_with_a_rate_train_beside_sweeps_that_go_on(tmp_path):
    run, calls = parity_run(), []
    study = replace(
        borrowing_study(),
        arms=lambda knobs: [
            hs.Arm("slow", "slow", run, hs.Sweep(1e-6, 1.2e-6)),
            hs.Arm("settled", "settled", replace(run, plan=hs.Fixed(8)), None),
        ],
    )
    with hs.open_store(tmp_path / "s.sqlite") as store, workers(1) as pool:

        def train(runs, keep, title):
            missing = [run for run in runs if run.seed not in store.seeds(run.cell, keep)]
            calls.append({run.seed >= FIRST_SELECTION_SEED for run in missing})
            execute(runs, store, pool, keep=keep)

        gather(study, study.knobs(), store, train, lambda simulations: None)
    assert calls[0] == {True}
    assert {True, False} in calls[1:]
