"""Whether an arm is better at every step, and how gaps change from panel to panel."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.lab.deficits import LargestDeficit
from headstart.lab.estimates import GapTrend
from headstart.lab.store import summarise
from headstart.measures import simultaneous_band

RUN = hs.Run(hs.Parity(4, 2), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), budget=hs.Budget(30, 10))
STEPS = np.array([0, 10, 20, 30])


def results(**curves):
    """Results with an arm for each of the curves given, [seeds, records]."""
    arms = {name: hs.Arm(name, name, RUN, None) for name in curves}
    traces = {}
    for name, rows in curves.items():
        made = [
            hs.Trace(
                RUN.cell,
                seed,
                STEPS[: len(row)],
                STEPS[: len(row)] * 8,
                STEPS[: len(row)] * 1.0,
                {"test_accuracy": np.array(row)},
            )
            for seed, row in enumerate(rows)
        ]
        traces[name] = hs.Traces(tuple(made))
    summaries = {name: [summarise(RUN, trace) for trace in traces[name]] for name in arms}
    return hs.Results(arms, summaries, traces, {}, None)


def noisy(curve, seed, size=0.01, num=40):
    """Seeds around a curve that begins without noise."""
    noise = np.random.default_rng(seed).normal(0, size, (num, len(curve)))
    noise[:, 0] = 0
    return np.array(curve) + noise


def test_an_arm_that_is_behind_at_first_and_ahead_later_has_a_deficit_and_says_where():
    made = results(small=noisy((0.5, 0.6, 0.95, 1.0), 0), large=noisy((0.5, 0.7, 0.8, 0.9), 1))
    found = LargestDeficit("small", "large")(made)
    assert found.low < 0.1 < found.high
    assert found.low > 0.08
    beside = LargestDeficit("small", "large").beside(made)
    assert {name: e.value for name, e in beside.items()} == {"worse first at step": 10, "worse last at step": 10}
    assert list(LargestDeficit("large", "small").where(made)) == [20, 30]


def test_an_arm_that_is_nowhere_behind_has_no_deficit():
    made = results(small=noisy((0.5, 0.7, 0.9, 1.0), 0), large=noisy((0.5, 0.6, 0.7, 0.8), 1))
    found = LargestDeficit("small", "large")(made)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert LargestDeficit("small", "large").beside(made) == {}


def test_an_arm_whose_runs_all_ended_early_is_at_chance_from_then_on():
    made = results(small=np.tile([0.5, 0.6], (4, 1)), large=np.tile([0.5, 0.6, 0.8, 1.0], (4, 1)))
    assert LargestDeficit("small", "large")(made).value == pytest.approx(0.5)


def test_a_simultaneous_band_holds_all_means_together_in_95_of_100_draws():
    rng, held = np.random.default_rng(0), 0
    for _ in range(200):
        low, high = simultaneous_band(rng.normal(0, [1.0, 3.0, 0.1] * 7, (30, 21)), resamples=400)
        held += bool(((low <= 0) & (high >= 0)).all())
    assert 0.9 <= held / 200 <= 0.99
    with pytest.raises(hs.HeadstartError, match="at least 2 members"):
        simultaneous_band(np.zeros((1, 3)))


def rising(step):
    """Four seeds that reach 0.9 at a step."""
    return np.tile(0.5 + 0.4 * STEPS / step, (4, 1))


def test_a_gap_that_halves_with_every_doubling_has_a_trend_of_one_half():
    made = results(a=rising(24), b=rising(24), c=rising(12), d=rising(24))
    ratios = tuple(hs.TimeRatio(one, other, 0.9) for one, other in ("ab", "cd"))
    found = GapTrend(ratios, (32, 64))(made)
    assert found.value == pytest.approx(0.5, abs=0.02)
    assert found.arrivals == 1
    assert GapTrend(ratios[:1] * 2, (1, 2))(made).value == pytest.approx(1.0)
    never = results(a=np.full((4, 4), 0.5), b=np.full((4, 4), 0.5), c=rising(12), d=rising(24))
    assert np.isnan(GapTrend(ratios, (1, 2))(never).value)
    with pytest.raises(hs.HeadstartError, match="two apart"):
        replace(GapTrend(ratios, (1, 2)), at=(1, 1))
