from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import parity_run

import headstart as hs
from headstart.lab.claims import GapRatio, StatisticRatio, check_claim
from headstart.lab.store import summarise
from headstart.lab.study import Arm, Results
from headstart.lab.sweep import Tuned
from headstart.measures import Estimate

HOLDS, FAILS, UNDECIDED = hs.Verdict.HOLDS, hs.Verdict.DOES_NOT_HOLD, hs.Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("rule", "low", "high", "verdict"),
    [
        (hs.below(1), 0.2, 0.9, HOLDS),
        (hs.below(1), 0.2, 1.1, UNDECIDED),
        (hs.below(1), 1.1, 2.0, FAILS),
        (hs.below(1), 0.2, float("inf"), UNDECIDED),
        (hs.above(0), 0.1, float("inf"), HOLDS),
        (hs.above(0), 0.1, 7.0, HOLDS),
        (hs.above(0), -2.0, -1.0, FAILS),
        (hs.Within(0.9, 1.1), 0.95, 1.05, HOLDS),
        (hs.Within(0.9, 1.1), 0.95, 1.2, UNDECIDED),
        (hs.Within(0.9, 1.1), 0.5, 1.5, UNDECIDED),
        (hs.Within(0.9, 1.1), 1.2, 1.3, FAILS),
        (hs.below(1), float("nan"), float("nan"), UNDECIDED),
    ],
)
def test_the_verdict_follows_the_whole_interval(rule, low, high, verdict):
    assert rule.verdict(Estimate((low + high) / 2, low, high)) is verdict


@given(st.floats(-5, 5), st.floats(0, 5), st.floats(-5, 5))
def test_a_direction_and_its_opposite_never_both_hold(low, width, bound):
    estimate = Estimate(low, low, low + width)
    assert (hs.below(bound).verdict(estimate), hs.above(bound).verdict(estimate)) != (HOLDS, HOLDS)


def results(small_times, large_times, steps=100, batch=(10, 10)):
    """Two arms whose accuracy jumps from 0.5 to 1 at the given step of each seed (None: never)."""
    run = parity_run(budget=hs.Budget(steps, 10))
    axis = np.arange(0, steps + 1, 10)

    def traces(times, size):
        out = []
        for seed, time in enumerate(times):
            curve = np.where(axis >= (np.inf if time is None else time), 1.0, 0.5)
            out.append(hs.Trace(run.cell, seed, axis, axis * size, axis * 1.0, {"test_accuracy": curve}))
        return hs.Traces(tuple(out))

    sweep, tuned = hs.Sweep(0.1, 0.2), Tuned(0.1, (0.1,), (0.5,))
    arms = {n: Arm(n, n, run, sweep, side) for n, side in zip(("s", "l"), hs.Side, strict=True)}
    pair = {"s": traces(small_times, batch[0]), "l": traces(large_times, batch[1])}
    short = {name: [summarise(run, trace) for trace in traces] for name, traces in pair.items()}
    return Results(arms, short, pair, {"s": tuned, "l": tuned}, None)


def test_equal_arms_have_a_ratio_of_exactly_one():
    estimate = hs.TimeRatio("s", "l", 0.9)(results([20, 30, 40], [20, 30, 40]))
    assert (estimate.value, estimate.low, estimate.high) == (1, 1, 1)


def test_compute_differs_from_steps_by_the_samples_a_step():
    made = results([20, 30, 40], [20, 30, 40], batch=(1, 64))
    assert hs.TimeRatio("s", "l", 0.9, "samples")(made).value == pytest.approx(1 / 64)


def test_a_large_arm_that_misses_the_target_bounds_the_ratio_from_above():
    estimate = hs.TimeRatio("s", "l", 0.9)(results([20] * 4, [None] * 4))
    assert estimate.low == 0
    assert estimate.high == estimate.value < 0.3
    assert hs.below(1).verdict(estimate) is HOLDS


def test_a_small_arm_that_misses_the_target_never_holds():
    estimate = hs.TimeRatio("s", "l", 0.9)(results([None] * 4, [20] * 4))
    assert estimate.high == float("inf")
    assert estimate.low > 1
    assert hs.below(1).verdict(estimate) is FAILS


def test_when_both_arms_miss_the_target_nothing_is_decided():
    estimate = hs.TimeRatio("s", "l", 0.9)(results([None] * 4, [None] * 4))
    assert hs.below(1).verdict(estimate) is UNDECIDED
    assert np.isnan(estimate.value)


def test_missing_runs_are_censored_not_dropped():
    all_learn = hs.TimeRatio("s", "l", 0.7)(results([20] * 8, [50] * 8)).value
    some_miss = hs.TimeRatio("s", "l", 0.7)(results([20] * 4 + [None] * 4, [50] * 8)).value
    assert some_miss > all_learn


def test_the_ratio_of_a_gap_to_itself_is_one_and_censoring_bounds_it():
    one = hs.TimeRatio("s", "l", 0.9)
    made = results([20, 30, 40], [40, 50, 80])
    assert GapRatio(one, one)(made).value == pytest.approx(1)
    other = hs.TimeRatio("l", "l", 0.9)
    assert GapRatio(one, other)(made).value == pytest.approx(one(made).value)
    censored = GapRatio(one, other)(results([20, 30, 40], [None] * 3))
    assert censored.low == 0
    assert censored.high == float("inf")


def test_the_median_seed_is_not_moved_by_a_few_runs_that_never_learn():
    found = results([20] * 18 + [None] * 2, [80] * 20)
    assert hs.TimeRatio("s", "l", 0.95)(found).high == float("inf")
    median = hs.TimeRatio("s", "l", 0.95, of=hs.Typical.MEDIAN_SEED)(found)
    # A jump between two records is crossed linearly, at nine tenths.
    assert median.value == pytest.approx(19 / 79)
    assert median.high < 1


def test_the_median_is_censored_once_half_of_the_runs_are():
    found = results([20] * 9 + [None] * 11, [80] * 20)
    median = hs.TimeRatio("s", "l", 0.95, of=hs.Typical.MEDIAN_SEED)(found)
    assert (median.known, median.high) == ("at least", float("inf"))
    assert median.value == pytest.approx(100 / 79)


def test_an_arm_of_like_runs_has_the_same_time_by_its_mean_curve_and_by_its_median():
    found = results([20] * 4, [60] * 4)
    by_mean, by_median = (hs.TimeRatio("s", "l", 0.95, of=of)(found) for of in hs.Typical)
    assert by_median == by_mean


def test_whose_time_is_meant_may_be_said_in_words_and_other_words_are_refused():
    assert hs.TimeRatio("s", "l", 0.9, of="mean curve") == hs.TimeRatio("s", "l", 0.9)
    with pytest.raises(hs.HeadstartError, match=r"of='median'.*choose one of mean curve, median seed"):
        hs.TimeRatio("s", "l", 0.9, of="median")


def test_a_statistic_of_traces_is_compared_by_its_means():
    made = results([20, 30, 40], [40, 50, 80])
    ratio = StatisticRatio("s", "l", lambda trace: float(trace.seed + 1))(made)
    assert (ratio.value, ratio.low, ratio.high) == (1, 1, 1)


def test_arms_with_other_seeds_cannot_be_paired():
    made = results([20, 30], [20, 30])
    moved = [replace(summary, seed=summary.seed + 1) for summary in made.summaries["l"]]
    with pytest.raises(hs.HeadstartError, match="different seeds"):
        hs.TimeRatio("s", "l", 0.9)(replace(made, summaries={"s": made.summaries["s"], "l": moved}))


def test_pairing_by_seed_narrows_the_interval():
    times = [20, 30, 40, 50, 60, 70, 80, 90]
    paired = hs.TimeRatio("s", "l", 0.74)(results(times, times))
    crossed = hs.TimeRatio("s", "l", 0.74)(results(times, times[::-1]))
    assert paired.high - paired.low < crossed.high - crossed.low


def test_a_claim_reports_an_unbounded_end_as_null():
    claim = hs.Claim("id", "small is faster", "yes", hs.below(1), hs.TimeRatio("s", "l", 0.9))
    data = check_claim(claim, results([None] * 3, [20] * 3)).to_json()
    assert data["high"] is None
    assert list(data) == ["id", "statement", "paper", "estimate", "low", "high", "known", "verdict"]
