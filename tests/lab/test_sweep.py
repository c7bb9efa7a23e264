import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import parity_run

import headstart as hs
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.axes import with_values
from headstart.lab.conduct import conduct, gather
from headstart.lab.progress import Silent
from headstart.lab.runner import execute
from headstart.lab.scores import Scored
from headstart.lab.search import Search, deciding
from headstart.lab.store import summarise
from headstart.lab.sweep import Tuned
from headstart.lab.workers import workers
from headstart.measures import area_under


def made_trace(run, accuracy, num_records=3):
    axis = np.array([0, 10, 20])[:num_records]
    return hs.Trace(run.cell, 0, axis, axis, axis * 1.0, {"test_accuracy": np.full(num_records, accuracy)})


def sweep_of(*grid, **options):
    return hs.rates(*grid, **{"tries": 1, **options})


def search_of(sweep, run=None, seeds=(FIRST_SELECTION_SEED,)):
    return Search(run or parity_run(), sweep, list(seeds))


def settle(search, area_of, tries=None):
    """Explore and narrow with made-up areas: a function of the rate, None for a run that diverged."""

    def look(score, run, seeds):
        area = area_of(run.optimizer.lr)
        return Scored(-0.5 if area is None else -area, 0.5 if area is None else area, float(area is None))

    rounds = 0
    while not search.done:
        search.learn(look)
        if search.explored and search.rung == 0:
            search.narrow()
        rounds += 1
        assert rounds < 100
    return search.tuned()


def rates_of(tuned):
    return [values["optimizer.lr"] for values, _ in tuned.tries]


@given(st.floats(0.001, 10), st.floats(1, 30))
def test_neighbouring_rates_are_at_most_a_factor_of_one_point_two_apart(lowest, span):
    axis = hs.Axis("optimizer.lr", lowest, lowest * span)
    rates = [axis.value(i) for i in axis.indices]
    assert rates[-1] >= lowest * span * 0.999
    assert all(b / a <= 1.2 * 1.001 for a, b in itertools.pairwise(rates))


@pytest.mark.parametrize("best", [0.02, 0.11, 3.0])
def test_the_chosen_rate_is_inside_the_grid_however_far_the_search_began(best):
    tuned = settle(search_of(sweep_of(0.1, 0.2)), lambda lr: -abs(np.log(lr / best)))
    assert min(rates_of(tuned)) < tuned.rate < max(rates_of(tuned))
    assert tuned.inside
    assert abs(np.log(tuned.rate / best)) <= np.log(1.2) / 2 + 1e-3


def test_a_search_that_never_turns_says_so():
    with pytest.raises(hs.HeadstartError, match="still at the end of the grid"):
        settle(search_of(sweep_of(0.1, 0.2)), lambda lr: 1 + lr)


def test_a_grid_that_diverges_altogether_is_left_for_lower_rates():
    tuned = settle(search_of(sweep_of(0.1, 0.2)), lambda lr: None if lr > 0.01 else 0.6 + lr)
    assert tuned.rate <= 0.01
    assert tuned.rate * 1.2 > 0.01


def test_a_grid_on_which_nothing_is_learned_is_left_for_lower_rates():
    tuned = settle(search_of(sweep_of(0.1, 0.2)), lambda lr: 0.5 if lr > 0.01 else 0.6 + lr)
    assert 0.01 / 1.2 < tuned.rate <= 0.01


def test_a_task_that_cannot_be_learned_keeps_the_middle_of_its_first_grid():
    tuned = settle(search_of(sweep_of(0.1, 0.144)), lambda lr: 0.5 - 0.001 * abs(np.log(lr / 0.02)))
    assert rates_of(tuned)[0] < 0.1 / 30
    assert tuned.rate == 0.12


def test_selection_seeds_are_none_of_the_claims_seeds_and_as_many_for_every_arm():
    arm = hs.Arm("a", "a", parity_run(), None, seeds_factor=4)
    knobs = hs.Knobs(num_seeds=2, num_selection_seeds=16)
    assert not set(arm.selection_seeds(knobs)) & set(arm.claim_seeds(knobs))
    assert (len(arm.selection_seeds(knobs)), len(arm.claim_seeds(knobs))) == (16, 8)


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
    assert with_values(run, {"optimizer.lr": 0.2}).optimizer == hs.AdamW(0.2, beta2=0.95)


def test_a_second_beta_is_tuned_jointly_with_the_rate():
    run = parity_run(optimizer=hs.AdamW(0.1))
    best = {0.9: 0.1, 0.95: 0.3}

    def look(score, cell, seeds):
        o = cell.optimizer
        area = 0.9 + (o.beta2 == 0.95) * 0.05 - 0.1 * abs(np.log(o.lr / best[o.beta2]))
        return Scored(-area, area, 0.0)

    search = search_of(hs.rates(0.1, 0.2, beta2=(0.9, 0.95)), run)
    while not search.done:
        search.learn(look)
        if search.explored:
            search.narrow()
    tuned = search.tuned()
    assert tuned.values["optimizer.beta2"] == 0.95
    assert abs(np.log(tuned.rate / 0.3)) <= np.log(1.2)
    assert len(tuned.tries) >= 2 * 8
    assert tuned.to_json()["values"] == {"optimizer.lr": tuned.rate, "optimizer.beta2": 0.95}
    assert Tuned.from_json(json.loads(json.dumps(tuned.to_json())), search.sweep) == tuned
    with pytest.raises(hs.HeadstartError, match=r"Axis\('optimizer.beta2'\): SGD has no field 'beta2'"):
        hs.rates(0.1, 0.2, beta2=(0.9,)).check(parity_run())


def test_a_grid_on_which_nothing_is_learned_is_probed_on_both_sides():
    tuned = settle(search_of(sweep_of(0.1, 0.144)), lambda lr: 0.5 - 0.001 * abs(np.log(lr / 0.02)))
    rates = np.array(rates_of(tuned))
    assert rates[0] < 0.1 / 30
    assert rates[-1] > 0.144 * 1.4
    near = rates[rates > 0.1 / 4.4]
    assert len(near) == 8
    assert (near[1:] / near[:-1] < 1.441).all()
    assert len(rates) == 10
    assert not tuned.learned


@pytest.mark.parametrize("low", [0.03, 0.05, 0.08, 0.16])
def test_a_narrow_window_of_rates_that_learn_is_found(low):
    tuned = settle(search_of(sweep_of(0.1, 0.144)), lambda lr: 0.7 if low <= lr <= 1.5 * low else 0.5)
    assert tuned.learned
    assert low <= tuned.rate <= 1.5 * low


def test_a_rate_that_learns_was_chosen():
    assert settle(search_of(sweep_of(0.1, 0.144)), lambda lr: 0.6 + lr if lr < 0.13 else 0.5).learned


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
            hs.Arm("swept", "swept", run, hs.rates(0.1, 0.144)),
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
    assert tuned["borrows"].tries == ()
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
            hs.Arm("slow", "slow", run, sweep_of(1e-6, 1.2e-6)),
            hs.Arm("settled", "settled", replace(run, plan=hs.Fixed(8)), None),
        ],
    )
    with hs.open_store(tmp_path / "s.sqlite") as store, workers(1) as pool:

        def train(runs, keep, title, measures):
            missing = [run for run in runs if run.seed not in store.seeds(run.cell, keep)]
            calls.append({run.seed >= FIRST_SELECTION_SEED for run in missing})
            execute(runs, store, pool, keep=keep)

        gather(study, study.knobs(), store, train, lambda simulations: None)
    assert calls[0] == {True, False}
    assert calls[1] == {True}


def test_axes_are_paths_of_field_names_and_methods_are_addressed_by_their_class():
    run = parity_run(optimizer=hs.AdamW(0.1), methods=(hs.LayerScale(rate={0: 2.0}),))
    sweep = hs.Sweep(
        (
            hs.Axis("optimizer.lr", 0.1, 0.1),
            hs.Axis("optimizer.weight_decay", values=(0.1, 1.0)),
            hs.Axis("methods.LayerScale.init", values=({"readout": 0.5}, {"readout": 2.0}, {0: 3.0})),
        )
    )
    sweep.check(run)
    cells = [cell for cell, _ in search_of(sweep, run).needed()]
    assert len(cells) == sweep.num_combinations == 6
    assert {(c.optimizer.weight_decay, c.methods[0].init) for c in cells} == set(
        itertools.product((0.1, 1.0), ((("readout", 0.5),), (("readout", 2.0),), ((0, 3.0),)))
    )
    assert all(c.methods[0].rate == ((0, 2.0),) for c in cells)


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        (hs.Axis("optimizer.lrr", 0.1, 0.2), r"Axis\('optimizer.lrr'\): SGD has no field 'lrr'; did you mean lr"),
        (hs.Axis("methods.MuP.base_width", values=(1,)), "there must be one MuP, and there are: none"),
        (hs.Axis("model.width", values=(0,)), "width=0"),
    ],
)
def test_a_path_that_leads_nowhere_or_a_value_that_does_not_fit_is_met_before_training(axis, said):
    with pytest.raises(hs.HeadstartError, match=said):
        hs.Sweep((axis,)).check(parity_run())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: hs.Axis("optimizer.lr"), "give lowest and highest, or values"),
        (lambda: hs.Axis("optimizer.lr", 0.2, 0.1), "lowest=0.2 is above highest=0.1"),
        (lambda: hs.Axis("optimizer.lr", 0.1, 0.2, ratio=1.0), "ratio=1.0"),
        (lambda: hs.Axis("optimizer.lr", values="ab"), "values='ab'"),
        (lambda: hs.Sweep(()), r"axes=\(\)"),
        (lambda: hs.Sweep((hs.Axis("optimizer.lr", values=(1,)),) * 2), "each path may appear once"),
        (lambda: hs.rates(0.1, 0.2, rungs=(4, 2)), r"rungs=\(4, 2\)"),
        (lambda: hs.rates(0.1, 0.2, tries=0), "tries=0"),
        (lambda: hs.TimeToTarget(0.9, "hours"), "axis='hours'"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(hs.HeadstartError, match=said):
        wrong()


def test_on_an_exact_tie_the_lower_rate_wins():
    tuned = settle(search_of(sweep_of(0.1, 0.2)), lambda lr: 0.8 if 0.11 < lr < 0.18 else 0.6)
    assert tuned.rate == min(rate for rate in rates_of(tuned) if 0.11 < rate < 0.18)


def test_a_grid_on_which_all_rates_are_the_same_is_not_extended():
    tuned = settle(search_of(sweep_of(0.1, 0.2)), lambda lr: 0.8)
    assert rates_of(tuned) == [0.1, 0.12, 0.144, 0.1728, 0.2074]
    assert tuned.rate == 0.1
    assert not tuned.inside


def by_time(time_of, arrivals_of):
    def look(score, run, seeds):
        lr = run.optimizer.lr
        return Scored(time_of(lr), 0.6 + 0.1 * lr, 0.0, arrivals_of(lr), len(seeds))

    search = search_of(hs.rates(0.1, 0.2, score=hs.TimeToTarget(0.9), tries=1))
    while not search.done:
        search.learn(look)
        if search.explored:
            search.narrow()
        if len(search.grids[0].scores) > 20:
            return None, search
    return search.tuned(), search


def test_the_rate_that_arrives_first_is_chosen_whatever_its_area():
    tuned, _ = by_time(lambda lr: abs(np.log(lr / 0.12)), lambda lr: 0.5)
    assert tuned.rate == 0.12
    assert tuned.by == "the restricted mean time to 0.9, in steps"


def test_where_fewer_than_half_arrive_at_every_rate_the_area_chooses_and_the_choice_says_so():
    _, search = by_time(lambda lr: abs(np.log(lr / 0.12)), lambda lr: 0.49)
    rates = sorted(search.grids[0].scores)
    assert search.grids[0].best == rates[-1]  # areas grow with the rate for ever
    assert "area" in deciding(hs.TimeToTarget(0.9), list(search.grids[0].scores.values())).words


def test_the_time_of_a_cell_is_the_mean_over_its_seeds_and_misses_count_with_the_budget():
    run = parity_run(budget=hs.Budget(20, 10))
    steps = np.array([0, 10, 20])

    def trace(seed, values):
        kept = len(values)
        return hs.Trace(
            run.cell, seed, steps[:kept], steps[:kept], steps[:kept] * 2.0, {"test_accuracy": np.array(values)}
        )

    traces = hs.Traces((trace(0, [0.5, 0.7, 1.0]), trace(1, [0.5, 0.6, 0.6]), trace(2, [0.5])))
    assert hs.TimeToTarget(0.7)(run, [], traces) == (pytest.approx((10 + 20 + 20) / 3), pytest.approx(1 / 3))
    assert hs.TimeToTarget(0.7, "flops")(run, [], traces)[0] == pytest.approx((20 + 40 + 40) / 3)
    assert hs.TimeToTarget(0.7)(run, [], hs.Traces((trace(0, [0.5]),))) == (float("inf"), 0.0)


def two_arms(**sweeps):
    run = parity_run()
    plans = {"small": hs.Fixed(8), "large": hs.Online()}
    return hs.Study(
        name="two",
        title="Two arms that are compared",
        paper="none",
        figures="none",
        presets={"laptop": hs.Knobs(num_seeds=2, num_selection_seeds=4)},
        minutes={"laptop": 0},
        arms=lambda knobs: [
            hs.Arm(name, name, replace(run, plan=plans[name]), sweep) for name, sweep in sweeps.items()
        ],
        claims=lambda knobs: [hs.Claim("c", "c", "-", hs.below(1), hs.FinalRatio("small", "large"))],
        figure=lambda results, figure: None,
    )


def test_arms_that_are_compared_have_the_same_number_of_tries(tmp_path):
    study = two_arms(small=sweep_of(1e-4, 1e-4), large=sweep_of(0.1, 0.3))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        tuned = conduct(study, "laptop", study.knobs(), store, Silent()).results.tuned
    assert len(tuned["small"].tries) == len(tuned["large"].tries) >= 7


def test_arms_that_are_compared_must_have_as_many_combinations():
    second = hs.Axis("optimizer.momentum", values=(0.0, 0.5))
    study = two_arms(small=hs.Sweep((hs.Axis("optimizer.lr", 0.1, 0.2), second)), large=hs.rates(0.1, 0.2))
    with pytest.raises(hs.HeadstartError, match="'large' and 'small' are compared, and their sweeps try 1 and 2 comb"):
        study.validate(study.knobs())


def test_a_sweep_by_time_needs_curves():
    arm = hs.Arm("a", "a", parity_run(), hs.rates(0.1, 0.2, score=hs.TimeToTarget(0.9)), keep=hs.Keep.SUMMARY)
    with pytest.raises(hs.HeadstartError, match="needs curves; use keep=Keep"):
        arm.check_sweep(arm.sweep)


def test_identical_arms_share_one_choice_and_another_study_trains_nothing_for_it(tmp_path):
    sweep = hs.rates(0.1, 0.2, tries=5)
    one, other = two_arms(small=sweep, large=sweep), replace(two_arms(small=sweep, large=sweep), name="other")
    with hs.open_store(tmp_path / "s.sqlite") as store:
        first = conduct(one, "laptop", one.knobs(), store, Silent()).results.tuned
        # Without the runs that made it, the choice alone must do.
        store._db.execute("DELETE FROM summaries WHERE seed >= ?", (FIRST_SELECTION_SEED,))
        store._db.execute("DELETE FROM runs WHERE seed >= ?", (FIRST_SELECTION_SEED,))
        second = conduct(other, "laptop", replace(other.knobs(), num_seeds=3), store, Silent()).results
        assert second.tuned == first
        assert max(trace.seed for trace in store.traces()) < FIRST_SELECTION_SEED
        assert store.choices.get("nothing") is None


def test_a_damaged_choice_is_refused_and_repair_drops_it(tmp_path):
    study = two_arms(small=sweep_of(0.1, 0.2), large=sweep_of(0.1, 0.2))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        conduct(study, "laptop", study.knobs(), store, Silent())
        store._db.execute("UPDATE choices SET json = json || ' '")
        with pytest.raises(hs.HeadstartError, match=r"corrupt.*--repair"):
            conduct(study, "laptop", study.knobs(), store, Silent())
        store.repair()
        assert conduct(study, "laptop", study.knobs(), store, Silent()).results.tuned["small"].learned in (True, False)


def halved(quality, num=8, seeds=16):
    """Successive halving of `num` rates whose area is seen with noise that falls with the number of seeds."""
    seen = {}

    def look(score, run, its):
        seen.setdefault(run.optimizer.lr, []).append(len(its))
        noise = np.random.default_rng([int(run.optimizer.lr * 1e6), len(its)]).normal() / np.sqrt(len(its))
        area = 0.8 + quality(run.optimizer.lr) + 0.01 * noise
        return Scored(-area, area, 0.0, None, len(its))

    grid = hs.Axis("optimizer.lr", values=tuple(0.1 * 1.2**i for i in range(num)))
    search = search_of(hs.Sweep((grid,), rungs=(2, 4, 8)), seeds=range(seeds))
    while not search.done:
        search.learn(look)
        if search.rung == 0 and search.explored:
            search.narrow()
    return search.tuned(), seen


def test_halving_goes_on_with_the_better_half_on_twice_the_seeds_at_the_full_budget():
    tuned, seen = halved(lambda lr: -0.1 * abs(np.log(lr / 0.2074)))
    assert tuned.rate == pytest.approx(0.1 * 1.2**4)
    assert sorted(max(seeds) for seeds in seen.values()) == [2, 2, 2, 2, 4, 4, 16, 16]
    assert seen[tuned.rate] == [2, 4, 8, 16]
    # 8 x 2 + 4 x 2 + 2 x 4 + 2 x 8 runs instead of 8 x 16: later rungs reuse the seeds of earlier ones.
    planned = search_of(hs.rates(0.1, 0.2, tries=8, rungs=(2, 4, 8)), seeds=range(16)).num_planned
    assert sum(max(seeds) for seeds in seen.values()) == planned == 48


def seen_by(num_seeds):
    """What so many seeds see: few of them that rates near 0.155 are best, all of them that 0.45 is."""

    def look(score, run, seeds):
        best = 0.155 if len(seeds) < num_seeds else 0.45
        area = 0.9 - 0.1 * abs(np.log(run.optimizer.lr / best))
        return Scored(-area, area, 0.0, None, len(seeds))

    return look


def test_a_best_rate_that_only_all_seeds_show_at_the_end_of_the_grid_has_its_neighbours_tried():
    search, look = search_of(hs.rates(0.1, 0.17, tries=4, rungs=(2,)), seeds=range(8)), seen_by(8)
    search.learn(look)
    while not search.explored:
        search.learn(look)
    search.narrow()
    while not search.done:
        assert all(len(seeds) == 8 for _, seeds in search.needed())
        search.learn(look)
    tuned = search.tuned()
    assert tuned.inside
    assert min(rates_of(tuned)) < tuned.rate < max(rates_of(tuned))
    assert abs(np.log(tuned.rate / 0.45)) <= np.log(1.2) / 2 + 1e-3

    # An arm that it is compared with is raised to as many tries, on all seeds.
    tries = search.num_tries + 2
    search.raise_to(tries)
    assert not search.done
    assert [len(seeds) for _, seeds in search.needed()] == [8, 8]
    search.learn(look)
    assert search.done
    assert search.num_tries == tries
    assert search.tuned().values == tuned.values


def test_halving_ends_inside_with_as_many_tries_for_all_that_are_compared(tmp_path):
    sweep = hs.rates(0.1, 0.2, tries=4, rungs=(1,))
    study = two_arms(small=sweep, large=hs.rates(0.3, 0.5, tries=4, rungs=(1,)))
    with hs.open_store(tmp_path / "store.sqlite") as store:
        tuned = conduct(study, "laptop", study.knobs(), store, Silent()).results.tuned
    assert len({len(each.tries) for each in tuned.values()}) == 1
    assert all(each.inside for each in tuned.values() if each.learned)
    assert any(each.learned for each in tuned.values())


def test_halving_stopped_in_the_middle_goes_on_where_it_was(tmp_path):
    class Killed(BaseException):
        pass

    sweep = hs.rates(0.1, 0.2, tries=6, rungs=(1, 2))
    study = two_arms(small=sweep, large=sweep)
    with hs.open_store(tmp_path / "whole.sqlite") as store:
        whole = conduct(study, "laptop", study.knobs(), store, Silent())
        num = store._db.execute("SELECT COUNT(*) FROM summaries").fetchone()[0]
    stops, trained = 0, 0
    while stops < 50:
        # Killed after every call that trains something, as often as it takes.
        with hs.open_store(tmp_path / "parts.sqlite") as store, workers(1) as pool:

            def train(runs, keep, title, measures, store=store, pool=pool):
                nonlocal trained
                if new := execute(runs, store, pool, keep=keep):
                    trained += new
                    raise Killed

            try:
                results = gather(study, study.knobs(), store, train, lambda simulations: None)
                break
            except Killed:
                stops += 1
    assert stops >= 4
    assert results.tuned == whole.results.tuned
    assert trained == num
