"""Curves for a screen: no spike is lost, and means, differences and speed-ups are what they say."""

import numpy as np
import pytest

from headstart.core.trace import Status, Trace, Traces
from headstart.web.thinning import difference, mean_curve, speed_up, thinned


def traces(curves, every=10, name="test_accuracy", first_seed=0):
    steps = np.arange(curves.shape[1]) * every
    return Traces(
        tuple(Trace("c", first_seed + i, steps, 8 * steps, 100.0 * steps, {name: row}) for i, row in enumerate(curves))
    )


@pytest.mark.parametrize("log", [False, True])
def test_the_least_and_the_greatest_value_of_every_pixel_stay(log):
    x = np.arange(20_000.0)
    y = np.random.Generator(np.random.Philox(key=1)).normal(size=20_000)
    y[12_345], y[7] = 50.0, -50.0
    kept = thinned(x, y, 100, log)
    assert len(kept) <= 204
    assert {0, 7, 12_345, 19_999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()
    if not log:
        for pixel in range(100):
            inside = (x / x[-1] * 100).astype(int).clip(max=99) == pixel
            assert y[inside].max() in y[kept]
            assert y[inside].min() in y[kept]


def test_a_short_curve_is_shown_whole_and_a_range_with_its_neighbours():
    x = np.arange(100.0)
    assert thinned(x, x, 100).tolist() == list(range(100))
    assert thinned(x, x, 100, low=20.5, high=30.5).tolist() == list(range(20, 32))


def test_a_diverged_run_is_at_chance_from_then_on():
    whole = traces(np.full((1, 5), 0.9))[0]
    short = Trace(
        "c", 1, whole.steps[:2], whole.samples[:2], whole.flops[:2], {"test_accuracy": np.full(2, 0.7)}, Status.DIVERGED
    )
    made = mean_curve(Traces((whole, short)), "test_accuracy", 0.5, "steps", 100, False, -np.inf, np.inf)
    np.testing.assert_allclose(made["mean"], [0.8, 0.8, 0.7, 0.7, 0.7])
    assert (made["seeds"], made["diverged"], made["records"]) == (2, 1, 5)


def test_the_difference_is_paired_by_seed_on_a_common_axis():
    rng = np.random.Generator(np.random.Philox(key=2))
    noise = rng.normal(size=(8, 1))
    one, other = traces(noise + np.linspace(0, 2, 21)), traces((noise + np.linspace(0, 1, 11))[::-1], every=20)
    other = Traces(tuple(Trace("d", 7 - t.seed, t.steps, t.samples, t.flops, t.values) for t in other))
    made = difference(one, other, "test_accuracy", None, "steps", 100, False)
    np.testing.assert_allclose(made["mean"], np.linspace(0, 1, 21), atol=1e-12)
    np.testing.assert_allclose(made["high"] - made["low"], 0, atol=1e-12)  # what pairs share cancels


def test_a_run_that_is_twice_as_fast_has_a_speed_up_of_two():
    t = np.linspace(0, 1, 201)
    slow, fast = np.tile(t, (6, 1)), np.tile(np.minimum(2 * t, 1), (6, 1))
    made = speed_up(traces(fast), traces(slow), "test_accuracy", None, True, "steps")
    np.testing.assert_allclose(made["ratio"][2:], 2.0, rtol=0.02)
    assert len(made["target"]) > 30
    lossy = speed_up(
        traces(1 - fast, name="test_loss"), traces(1 - slow, name="test_loss"), "test_loss", None, False, "samples"
    )
    np.testing.assert_allclose(lossy["ratio"][2:], 2.0, rtol=0.02)


def test_there_is_no_speed_up_where_one_side_goes_nowhere():
    flat, rising = np.full((4, 10), 0.5), np.tile(np.linspace(0.5, 1, 10), (4, 1))
    assert speed_up(traces(flat), traces(rising), "test_accuracy", None, True, "steps")["target"] == []
