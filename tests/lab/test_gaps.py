"""Time gaps, total costs, seconds, shares and correlations, on made-up curves."""

from dataclasses import replace

import numpy as np
import pytest
from small_runs import parity_run

import headstart as hs
from headstart.lab.claims import check_claim
from headstart.lab.costs import training_cost, tuning_cost
from headstart.lab.scores import Scored
from headstart.lab.store import summarise
from headstart.lab.sweep import Tuned
from headstart.lab.wording import endpoint
from headstart.measures import quotient

AXIS = np.arange(0, 101, 10)


def jump(time):
    """An accuracy that goes from 0.5 to 1 at a step, None: never; a curve is itself."""
    if isinstance(time, list):
        return np.array(time, dtype=float)
    there = np.inf if time is None else time
    return np.where(there <= AXIS, 1.0, 0.5)


def made(changes=None, **arms):
    """Results of arms, each a list of (train, test) per seed; `changes` are fields of an arm's traces."""
    run = parity_run(budget=hs.Budget(100, 10))
    traces = {
        name: hs.Traces(
            tuple(
                hs.Trace(
                    run.cell,
                    seed,
                    AXIS,
                    AXIS * 16,
                    AXIS * 2.0,
                    {"train_accuracy": jump(train), "test_accuracy": jump(test)},
                    **(changes or {}).get(name, {}),
                )
                for seed, (train, test) in enumerate(times)
            )
        )
        for name, times in arms.items()
    }
    return hs.Results(
        {name: hs.Arm(name, name, run, None) for name in arms},
        {name: [summarise(run, trace) for trace in each] for name, each in traces.items()},
        traces,
        {name: Tuned({"optimizer.lr": 0.1}) for name in arms},
        None,
    )


def test_the_gap_is_the_time_from_fitting_the_training_rows_to_fitting_the_test_rows():
    found = hs.TimeGap("a")(made(a=[(20, 60), (20, 80), (30, 30)]))
    assert found.value == pytest.approx((40 + 60 + 0) / 3)
    assert (found.arrivals, found.horizon) == (1, 100)
    assert found.low <= found.value <= found.high


def test_a_run_that_never_generalises_counts_with_what_is_left_of_the_horizon():
    gap = hs.TimeGap("a")
    results = made(a=[(20, None), (20, 60)])
    assert gap.gaps(results) == pytest.approx([100 - 19, 40])  # a jump to 1 is at 0.95 at nine tenths
    assert gap(results).arrivals == 0.5
    assert replace(gap, horizon=50).gaps(results) == pytest.approx([31, 31])


def test_a_run_that_never_fits_its_training_rows_leaves_the_gap_open_and_decides_nothing():
    results = made(a=[(None, None)] * 3, b=[(20, 60)] * 3)
    assert hs.TimeGap("a").gaps(results) == pytest.approx([100] * 3)
    found = hs.TimeGap("a")(results)
    assert (found.low, found.high, found.known, found.arrivals) == (0, 100, "at most", 0)
    assert hs.above(0).verdict(found) is hs.below(50).verdict(found) is hs.Verdict.UNDECIDED
    ratio = hs.TimeGapRatio("a", "b")(results)
    assert (ratio.low, ratio.high) == pytest.approx((0, 100 / 40))
    assert hs.below(1).verdict(ratio) is hs.Verdict.UNDECIDED
    assert hs.TimeGapRatio("b", "a")(results).high == pytest.approx(40 / 10)


def test_a_flicker_moves_the_first_crossing_and_not_the_monotone_fit():
    flicker = [0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0]
    results = made(a=[(20, flicker), (20, flicker)])
    gap = hs.TimeGap("a")
    assert gap.gaps(results) == pytest.approx([10, 10])
    assert (replace(gap, first=False).gaps(results) > 50).all()
    beside = check_claim(hs.Claim("c", "short", "-", hs.below(20), gap), results).beside
    assert beside["monotone fit"].value > 50
    assert beside["time to 0.95 on test rows"].value == pytest.approx(29)


def test_the_ratio_of_gaps_has_one_horizon_and_compares_their_means():
    results = made(s=[(20, 30), (20, 40)], l=[(20, 60), (20, None)])
    ratio = hs.TimeGapRatio("s", "l")
    assert ratio(results).value == pytest.approx((10 + 20) / (40 + 81))
    assert ratio(results).arrivals == 0.5
    assert replace(ratio, horizon=50)(results).value == pytest.approx((10 + 20) / (31 + 31))
    assert ratio.beside(results).keys() == {"monotone fit"}


def test_a_large_arm_without_a_gap_counts_with_one_interval_between_records():
    found = hs.TimeGapRatio("s", "l")(made(s=[(20, 50), (20, 50)], l=[(20, 20), (20, 20)]))
    assert found.value == pytest.approx(30 / 10)


def test_a_test_time_before_the_training_time_is_a_gap_below_0_and_keeps_the_order_of_bounds():
    found = hs.TimeGapRatio("s", "l")(made(s=[(60, 20)] * 2, l=[(20, 60), (None, None)]))
    # The gap of -40 over a mean gap from (40 + 0) / 2 to (40 + 100) / 2.
    assert found.value == pytest.approx(-40 / 70)
    assert found.low < -1 < found.value <= found.high < 0
    assert quotient((-6.0, 3.0), (2.0, 3.0)) == (-3.0, 1.5)
    assert quotient((2.0, 6.0), (2.0, 3.0)) == (2 / 3, 3.0)
    assert quotient((2.0, 6.0), (0.0, float("inf"))) == (0.0, float("inf"))


def test_where_no_run_of_either_arm_arrives_the_ratio_of_gaps_is_undecided():
    found = hs.TimeGapRatio("s", "l")(made(s=[(20, None)] * 2, l=[(20, None)] * 2))
    assert np.isnan(found.value)
    assert hs.below(1).verdict(found) is hs.Verdict.UNDECIDED


def test_the_inverse_gap_of_a_failed_run_is_0_and_of_no_gap_one_over_the_resolution():
    values = hs.InverseGap("a").values(made(a=[(20, 60), (20, None), (20, 20), (None, None)]))
    assert values == pytest.approx([1 / 40, 0, 1 / 10, 0])
    assert hs.InverseGap("a")(made(a=[(20, 60), (20, None)])).arrivals == 0.5


def tuned(results, arm, num_seeds):
    tries = tuple(
        ({"optimizer.lr": lr}, Scored(1.0, 0.5, 0.0, 1.0, n)) for lr, n in zip((0.1, 0.2), num_seeds, strict=True)
    )
    arms = {**results.arms, arm: replace(results.arms[arm], sweep=hs.rates(0.1, 0.2))}
    return replace(results, arms=arms, tuned={**results.tuned, arm: Tuned({"optimizer.lr": 0.1}, tries)})


def test_tuning_costs_every_selection_run_to_its_end_and_its_sources_once_per_seed():
    results = made({"s": {"before": hs.Cost(steps=7, flops=5.0)}}, s=[(20, 30)] * 2, l=[(20, 60)] * 2)
    results = tuned(results, "s", (2, 4))
    one = training_cost(results.arms["s"].run)
    assert (one.steps, one.samples) == (100, 1600)
    cost = tuning_cost(results, "s")
    assert cost.steps == 6 * 100 + 4 * 7
    assert cost.flops == pytest.approx(6 * one.flops + 4 * 5.0)
    assert tuning_cost(results, "l") == hs.Cost()
    lent = replace(results, arms={**results.arms, "l": replace(results.arms["l"], sweep=hs.RateOf("s"))})
    assert tuning_cost(lent, "l") == cost
    with pytest.raises(hs.HeadstartError, match=r"arm='other'.*the study has s, l"):
        tuning_cost(results, "other")


def test_the_total_cost_adds_sources_and_tuning_to_the_time_to_the_target():
    results = made({"s": {"before": hs.Cost(steps=10)}}, s=[(20, 30)] * 2, l=[(20, 60)] * 2, weak=[(20, None)] * 2)
    ratio = hs.TotalCostRatio("s", "l", 0.95, axis="steps")
    assert ratio(results).value == pytest.approx(39 / 59)
    results = tuned(tuned(results, "s", (2, 2)), "weak", (1, 1))
    assert ratio(results).value == pytest.approx((39 + 400 + 20) / 59)
    assert ratio.beside(results)["without tuning"].value == pytest.approx(39 / 59)
    assert replace(ratio, runs=10)(results).value == pytest.approx((39 + 42) / 59)
    assert replace(ratio, small_needs=("weak",))(results).value == pytest.approx((39 + 420 + 200) / 59)
    assert np.isnan(ratio(made(s=[(20, None)] * 2, l=[(20, None)] * 2)).value)
    with pytest.raises(hs.HeadstartError, match="runs"):
        replace(ratio, runs=0)


def test_seconds_are_a_share_of_those_of_the_run_with_what_it_started_from():
    changes = {"s": {"seconds": 5.0, "before": hs.Cost(seconds=1.0)}, "l": {"seconds": 10.0}}
    results = made(changes, s=[(20, 30)] * 2, l=[(20, 60)] * 2)
    ratio = hs.SecondsRatio("s", "l", 0.95)
    found = ratio(results)
    # The runs are there after 29 and 59 of 100 steps.
    assert found.value == pytest.approx((1 + 0.29 * 5) / (0.59 * 10))
    assert found.horizon == 6
    assert replace(ratio, total=False)(results).value == pytest.approx(0.29 * 5 / 5)
    claim = hs.Claim("c", "fewer seconds", "-", hs.below(1), ratio)
    assert endpoint(check_claim(claim, results).to_json()) == "min(T, 6 seconds), all arrive"


def test_a_run_that_diverged_has_the_pace_of_the_others_and_counts_with_the_horizon():
    results = made({"s": {"seconds": 5.0}, "l": {"seconds": 5.0}}, s=[(20, 30)] * 2, l=[(20, 60)] * 2)
    early = replace(results.traces["s"][1], steps=AXIS[:1], values={"test_accuracy": np.array([0.5])}, seconds=0.1)
    early = replace(early, status=hs.Status.DIVERGED)
    traces = {**results.traces, "s": hs.Traces((results.traces["s"][0], early))}
    found = hs.SecondsRatio("s", "l", 0.95)(replace(results, traces=traces))
    assert found.value == pytest.approx((0.29 * 5 + 5) / (2 * 0.59 * 5))
    assert found.arrivals == 0.5


def test_seconds_of_runs_that_end_when_settled_are_refused():
    results = made(s=[(20, 30)] * 2, l=[(20, 60)] * 2)
    arm = results.arms["s"]
    ending = replace(arm, run=replace(arm.run, budget=replace(arm.run.budget, settled=hs.Settled(0.95))))
    with pytest.raises(hs.HeadstartError, match=r"arm 's' end once they are settled"):
        hs.SecondsRatio("s", "l", 0.95)(replace(results, arms={**results.arms, "s": ending}))


def test_a_share_of_runs_has_an_exact_interval():
    results = made(a=[(20, 30), (20, None), (20, None), (20, None)])
    found = hs.Share("a", lambda trace: trace["test_accuracy"][-1] > 0.9)(results)
    assert found.value == 0.25
    assert 0 < found.low < 0.25 < found.high < 1


def test_the_mean_of_final_values_has_an_interval():
    found = hs.FinalMean("a")(made(a=[(20, 30), (20, None), (20, 30), (20, 30)]))
    assert found.value == 0.875
    assert found.low < 0.875 < found.high


def test_arms_correlate_by_the_means_of_their_seeds():
    results = made(a=[(20, 90), (20, 90)], b=[(20, 60), (20, 70)], c=[(20, 30), (20, 20)])

    def gap(results, arm):
        return hs.TimeGap(arm).gaps(results)

    found = hs.ArmCorrelation(("a", "b", "c"), gap, lambda *given: 5 - 2 * gap(*given))
    assert found(results).value == pytest.approx(-1)
    assert found(results).high == pytest.approx(-1)
    assert found.beside(results)["run by run"].value == pytest.approx(-1)
    flat = replace(found, other=lambda results, arm: np.zeros(2))
    assert np.isnan(flat(results).value)
    # Where the seed that tells the arms apart is not drawn there is no correlation, which counts as none.
    seldom = {"a": (0, 0), "b": (0, 1), "c": (0, 2)}
    rare = replace(
        found, one=lambda results, arm: np.array(seldom[arm]), other=lambda results, arm: np.array(seldom[arm])
    )
    assert (rare(results).value, rare(results).low) == (pytest.approx(1), 0)
    for few in (("a", "b"), "abc"):
        with pytest.raises(hs.HeadstartError, match="at least 3 arms"):
            hs.ArmCorrelation(few, gap, gap)


def test_an_axis_or_a_horizon_that_is_none_is_refused():
    with pytest.raises(hs.HeadstartError, match=r"TimeGap\(axis='epochs'\): choose steps, samples, flops"):
        hs.TimeGap("a", axis="epochs")
    with pytest.raises(hs.HeadstartError, match=r"TimeGap\(target='x'\): give a number"):
        hs.TimeGap("a", target="x")
    with pytest.raises(hs.HeadstartError, match=r"Share\(condition=3\): give a function"):
        hs.Share("a", condition=3)
    with pytest.raises(hs.HeadstartError, match=r"InverseGap\(horizon=0\)"):
        hs.InverseGap("a", horizon=0)
