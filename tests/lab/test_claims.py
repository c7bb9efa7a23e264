from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from small_runs import parity_run

import headstart as hs
from headstart.lab.arms import Arm
from headstart.lab.claims import check_claim
from headstart.lab.estimates import GapRatio, StatisticRatio
from headstart.lab.results import Results
from headstart.lab.store import summarise
from headstart.lab.sweep import Tuned
from headstart.measures import Estimate, bootstrap

HOLDS, FAILS, UNDECIDED = hs.Verdict.HOLDS, hs.Verdict.DOES_NOT_HOLD, hs.Verdict.UNDECIDED
ABSENT = hs.Verdict.ABSENT
curve_ratio = partial(hs.TimeRatio, of=hs.Typical.MEAN_CURVE)


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

    sweep, tuned = hs.rates(0.1, 0.2), Tuned({"optimizer.lr": 0.1})
    arms = {n: Arm(n, n, run, sweep) for n in ("s", "l")}
    pair = {"s": traces(small_times, batch[0]), "l": traces(large_times, batch[1])}
    short = {name: [summarise(run, trace) for trace in traces] for name, traces in pair.items()}
    return Results(arms, short, pair, {"s": tuned, "l": tuned}, None)


def test_equal_arms_have_a_ratio_of_exactly_one():
    estimate = curve_ratio("s", "l", 0.9)(results([20, 30, 40], [20, 30, 40]))
    assert (estimate.value, estimate.low, estimate.high) == (1, 1, 1)


def test_compute_differs_from_steps_by_the_samples_a_step():
    made = results([20, 30, 40], [20, 30, 40], batch=(1, 64))
    assert curve_ratio("s", "l", 0.9, "samples")(made).value == pytest.approx(1 / 64)


def test_a_large_arm_that_misses_the_target_bounds_the_ratio_from_above():
    estimate = curve_ratio("s", "l", 0.9)(results([20] * 4, [None] * 4))
    assert estimate.low == 0
    assert estimate.high == estimate.value < 0.3
    assert hs.below(1).verdict(estimate) is HOLDS


def test_a_small_arm_that_misses_the_target_never_holds():
    estimate = curve_ratio("s", "l", 0.9)(results([None] * 4, [20] * 4))
    assert estimate.high == float("inf")
    assert estimate.low > 1
    assert hs.below(1).verdict(estimate) is FAILS


def test_when_both_arms_miss_the_target_nothing_is_decided():
    estimate = curve_ratio("s", "l", 0.9)(results([None] * 4, [None] * 4))
    assert hs.below(1).verdict(estimate) is UNDECIDED
    assert np.isnan(estimate.value)


def test_missing_runs_are_censored_not_dropped():
    all_learn = curve_ratio("s", "l", 0.7)(results([20] * 8, [50] * 8)).value
    some_miss = curve_ratio("s", "l", 0.7)(results([20] * 4 + [None] * 4, [50] * 8)).value
    assert some_miss > all_learn


def test_the_ratio_of_a_gap_to_itself_is_one_and_censoring_bounds_it():
    one = curve_ratio("s", "l", 0.9)
    made = results([20, 30, 40], [40, 50, 80])
    assert GapRatio(one, one)(made).value == pytest.approx(1)
    other = curve_ratio("l", "l", 0.9)
    assert GapRatio(one, other)(made).value == pytest.approx(one(made).value)
    censored = GapRatio(one, other)(results([20, 30, 40], [None] * 3))
    assert censored.low == 0
    assert censored.high == float("inf")


def test_the_median_seed_is_not_moved_by_a_few_runs_that_never_learn():
    found = results([20] * 18 + [None] * 2, [80] * 20)
    assert curve_ratio("s", "l", 0.95)(found).high == float("inf")
    median = hs.TimeRatio("s", "l", 0.95, of=hs.Typical.MEDIAN_SEED)(found)
    # A jump between two records is crossed linearly, at nine tenths.
    assert median.value == pytest.approx(19 / 79)
    assert median.high < 1


def test_the_median_is_censored_once_half_of_the_runs_are():
    found = results([20] * 9 + [None] * 11, [80] * 20)
    median = hs.TimeRatio("s", "l", 0.95, of=hs.Typical.MEDIAN_SEED)(found)
    assert (median.known, median.high) == ("at least", float("inf"))
    assert median.value == pytest.approx(100 / 79)


def test_an_arm_of_like_runs_has_the_same_time_by_every_rule():
    found = results([20] * 4, [60] * 4)
    values = [hs.TimeRatio("s", "l", 0.95, of=of)(found) for of in hs.Typical]
    assert len({(estimate.value, estimate.low, estimate.high) for estimate in values}) == 1


def test_whose_time_is_meant_may_be_said_in_words_and_other_words_are_refused():
    assert hs.TimeRatio("s", "l", 0.9, of="restricted mean") == hs.TimeRatio("s", "l", 0.9)
    with pytest.raises(hs.HeadstartError, match=r"of='median'.*choose one of restricted mean, mean curve, median seed"):
        hs.TimeRatio("s", "l", 0.9, of="median")


def test_a_statistic_of_traces_is_compared_by_its_means():
    made = results([20, 30, 40], [40, 50, 80])
    ratio = StatisticRatio("s", "l", lambda trace: float(trace.seed + 1))(made)
    assert (ratio.value, ratio.low, ratio.high) == (1, 1, 1)


def test_arms_with_other_seeds_cannot_be_paired():
    made = results([20, 30], [20, 30])
    moved = [replace(summary, seed=summary.seed + 1) for summary in made.summaries["l"]]
    with pytest.raises(hs.HeadstartError, match="different seeds"):
        curve_ratio("s", "l", 0.9)(replace(made, summaries={"s": made.summaries["s"], "l": moved}))


def test_pairing_by_seed_narrows_the_interval():
    times = [20, 30, 40, 50, 60, 70, 80, 90]
    paired = curve_ratio("s", "l", 0.74)(results(times, times))
    crossed = curve_ratio("s", "l", 0.74)(results(times, times[::-1]))
    assert paired.high - paired.low < crossed.high - crossed.low


def test_a_claim_reports_an_unbounded_end_as_null():
    claim = hs.Claim("id", "small is faster", "yes", hs.below(1), curve_ratio("s", "l", 0.9))
    data = check_claim(claim, results([None] * 3, [20] * 3)).to_json()
    assert data["high"] is None
    assert list(data) == CLAIM_FIELDS
    assert data["kind"] == "secondary"


CLAIM_FIELDS = ["id", "kind", "statement", "paper", "estimate", "low", "high"]
CLAIM_FIELDS += ["known", "arrivals", "horizon", "axis", "beside", "verdict"]


# The primary endpoint: the restricted mean time to a target.


def test_runs_that_miss_the_target_count_with_the_horizon():
    estimate = hs.TimeRatio("s", "l", 0.74)(results([20, 20, 20, None], [80, 80, None, None]))
    # A jump from 0.5 to 1 between two records is crossed at 0.48 of the way.
    assert estimate.value == pytest.approx((3 * 14.8 + 100) / (2 * 74.8 + 2 * 100))
    assert (estimate.arrivals, estimate.horizon) == (0.5, 100)


def test_the_horizon_is_common_to_both_arms_on_the_axis_shown():
    made = results([20, 30], [40, None], batch=(1, 64))
    samples = hs.TimeRatio("s", "l", 0.74, "samples")
    assert samples.common_horizon(made) == 100
    assert samples(made).horizon == 100
    assert samples(made).arrivals == 0
    assert hs.TimeRatio("s", "l", 0.74, horizon=50)(made).horizon == 50
    with pytest.raises(hs.HeadstartError, match="only the restricted mean"):
        hs.TimeRatio("s", "l", 0.74, of="median seed", horizon=50)


def test_a_later_horizon_holds_where_all_runs_of_the_arm_that_ends_first_arrive():
    ratio = hs.TimeRatio("s", "l", 0.74, "samples", horizon=6400)
    arrived = ratio(results([20, 30], [40, 50], batch=(1, 64)))
    assert (arrived.horizon, arrived.arrivals) == (6400, 1)
    # An accuracy of 0.74 lies 5.2 steps before the end of each jump, which takes 10.
    assert arrived.value == pytest.approx(19.8 / (64 * 39.8))
    assert ratio(results([20, None], [40, 50], batch=(1, 64))).horizon == 100
    assert ratio(results([20, 30], [40, None], batch=(1, 64))).horizon == 6400


def test_the_cost_of_sources_is_on_the_axis_if_it_is_asked_for():
    made = results([20, 30, 20], [60, 60, 60])
    costly = hs.Traces(tuple(replace(trace, before=hs.Cost(steps=40)) for trace in made.traces["s"]))
    made = replace(made, traces={**made.traces, "s": costly})
    own, total = (hs.TimeRatio("s", "l", 0.74, total=total)(made) for total in (False, True))
    assert own.value < 0.5
    assert total.value == pytest.approx(own.value + 40 / 54.8)


def test_when_no_run_arrives_nothing_is_decided():
    estimate = hs.TimeRatio("s", "l", 0.9)(results([None] * 4, [None] * 4))
    assert np.isnan(estimate.value)
    assert estimate.arrivals == 0
    for rule in (hs.below(1), hs.above(0.9), hs.closed()):
        assert rule.verdict(estimate) is UNDECIDED


@pytest.mark.parametrize(
    ("low", "high", "arrivals", "verdict"),
    [
        (0.96, 0.99, 1.0, ABSENT),  # it excludes 1, and does not matter
        (0.96, 1.04, 0.8, ABSENT),
        (0.96, 1.04, 0.79, UNDECIDED),
        (0.96, 1.04, None, ABSENT),
        (0.90, 0.99, 1.0, HOLDS),
        (0.90, 0.99, 0.2, HOLDS),  # censoring pulls to 1, so that a direction is safe
        (0.90, 1.02, 1.0, UNDECIDED),
        (1.10, 1.20, 1.0, FAILS),
    ],
)
def test_absence_is_tested_first_and_needs_arrivals(low, high, arrivals, verdict):
    claim = hs.Claim("id", "faster", "yes", hs.below(1), curve_ratio("s", "l", 0.9), smallest=hs.Within(0.95, 1.05))
    assert claim.verdict(Estimate((low + high) / 2, low, high, arrivals=arrivals)) is verdict


@pytest.mark.parametrize(
    ("low", "arrivals", "verdict"), [(0.91, 0.8, HOLDS), (0.91, 0.7, UNDECIDED), (0.89, 1.0, UNDECIDED)]
)
def test_a_closed_gap_is_one_sided_and_needs_arrivals(low, arrivals, verdict):
    assert hs.closed().verdict(Estimate(1.1, low, 1.3, arrivals=arrivals)) is verdict


def simulated(ratio, num_seeds, share, rng):
    """Restricted mean times of two paired arms whose times differ by a factor, a share of the slower one censored."""
    common = rng.normal(size=num_seeds)
    slow = np.exp(0.3 * common + 0.3 * rng.normal(size=num_seeds))
    fast = ratio * np.exp(0.3 * common + 0.3 * rng.normal(size=num_seeds))
    spread = 0.3 * np.sqrt(2)
    horizon = np.exp(spread * ndtri(1 - share)) if share else np.inf
    return np.minimum(fast, horizon), np.minimum(slow, horizon), horizon


def restricted_mean(ratio, horizon):
    """E min(ratio exp(s Z), horizon), Z standard normal, s as in `simulated`."""
    s = 0.3 * np.sqrt(2)
    if not np.isfinite(horizon):
        return ratio * np.exp(s * s / 2)
    c = np.log(horizon / ratio) / s
    return ratio * np.exp(s * s / 2) * ndtr(c - s) + horizon * (1 - ndtr(c))


@pytest.mark.parametrize(("num_seeds", "share"), [(16, 0.0), (16, 0.3), (24, 0.5), (8, 0.2)])
def test_the_interval_of_a_restricted_mean_ratio_covers_the_truth(num_seeds, share):
    rng = np.random.Generator(np.random.Philox(key=4))
    covered, trials = 0, 250
    for _ in range(trials):
        small, large, horizon = simulated(0.7, num_seeds, share, rng)
        found = bootstrap(lambda rows: float(small[rows].mean() / large[rows].mean()), num_seeds, resamples=300)  # noqa: B023
        truth = restricted_mean(0.7, horizon) / restricted_mean(1.0, horizon)
        covered += found.low <= truth <= found.high
    assert covered / trials > 0.92


def test_absence_is_rarely_said_of_an_effect_that_is_there_and_often_where_none_is():
    rng = np.random.Generator(np.random.Philox(key=5))
    claim = hs.Claim("id", "faster", "yes", hs.below(1), curve_ratio("s", "l", 0.9), smallest=hs.Within(0.9, 1.1))
    said = {}
    for ratio in (0.85, 1.0):
        verdicts = []
        for _ in range(150):
            small, large, horizon = simulated(ratio, 200, 0.1, rng)
            found = bootstrap(lambda rows: float(small[rows].mean() / large[rows].mean()), 200, resamples=300)  # noqa: B023
            verdicts.append(claim.verdict(replace(found, arrivals=float((large < horizon).mean()))))
        said[ratio] = np.mean([verdict is ABSENT for verdict in verdicts])
    assert said[0.85] < 0.03
    assert said[1.0] > 0.7


def test_the_median_seed_and_the_mean_curve_stand_beside_the_endpoint_and_decide_nothing():
    made = results([20] * 18 + [None] * 2, [80] * 20)
    claim = hs.Claim("c", "sooner", "-", hs.below(1), hs.TimeRatio("s", "l", 0.95))
    checked = check_claim(claim, made)
    assert checked.verdict is HOLDS
    assert checked.beside.keys() == {"median seed", "mean curve"}
    assert checked.beside["mean curve"].high == float("inf")
    assert checked.to_json()["beside"]["median seed"]["estimate"] == pytest.approx(0.25, abs=0.02)
    assert check_claim(replace(claim, estimate=curve_ratio("s", "l", 0.95)), made).to_json()["beside"] == {}
