"""What studies of batch size share: times that may be censored, and estimates of them."""

from types import SimpleNamespace

import matplotlib.figure
import numpy as np
import pytest

import headstart.lab as lab
from headstart import HeadstartError
from headstart.studies.batch_size import (
    Recovered,
    StepsExponent,
    StepsMean,
    StepsRatio,
    draw_overlaps,
    draw_times,
    overlap_curves,
    steps_of,
)


def results(**parts):
    """Parts by name, each (first, horizon, batch) or with arrays besides."""
    arrays = {name: {"first": np.array(first), **(more[0] if more else {})} for name, (first, _, _, *more) in
              parts.items()}  # fmt: skip
    made = {
        name: SimpleNamespace(steps=horizon, process=SimpleNamespace(batch=batch))
        for name, (_, horizon, batch, *_) in parts.items()
    }
    return lab.Results({}, {}, {}, {}, None, arrays, made)


def test_a_run_that_does_not_get_there_counts_with_the_horizon_and_is_marked():
    times = steps_of(results(a=([4, -1, 6], 10, 5)), "a")
    assert times.restricted.tolist() == [4, 10, 6]
    assert times.reached.tolist() == [True, False, True]
    assert times.censored.tolist() == [4, np.inf, 6]
    assert times.in_samples().restricted.tolist() == [20, 50, 30]
    assert times.within(5).restricted.tolist() == [4, 5, 5]
    assert times.within(5).arrivals == pytest.approx(1 / 3)


def test_a_horizon_that_a_part_computed_is_the_one_that_counts():
    assert steps_of(results(a=([-1], None, 5, {"horizon": np.array(7)})), "a").horizon == 7
    with pytest.raises(HeadstartError, match="no such part"):
        steps_of(results(), "a")


def test_a_ratio_is_of_restricted_means_with_one_horizon_and_pairs_runs():
    rng = np.random.default_rng(0)
    start = rng.integers(10, 1000, size=50)
    found = StepsRatio("a", "b")(results(a=(2 * start, 5000, 1), b=(start, 4000, 3)))
    assert found.value == found.low == found.high == 2
    assert found.arrivals == 1
    samples = StepsRatio("a", "b", "samples")(results(a=(2 * start, 5000, 1), b=(start, 4000, 3)))
    assert samples.value == pytest.approx(2 / 3)
    cut = StepsRatio("a", "b")(results(a=([-1, -1], 20, 1), b=([5, -1], 10, 1)))
    assert cut.value == pytest.approx(10 / 7.5)
    assert cut.horizon == 10
    assert cut.arrivals == 0
    assert np.isnan(StepsRatio("a", "b")(results(a=([-1, -1], 20, 1), b=([-1, -1], 10, 1))).value)
    with pytest.raises(HeadstartError, match="one number of runs"):
        StepsRatio("a", "b")(results(a=([1], 20, 1), b=([1, 2], 10, 1)))


def test_the_median_run_stands_beside_a_ratio():
    beside = StepsRatio("a", "b").beside(results(a=([4, 4, -1], 9, 1), b=([2, 2, 2], 9, 1)))
    assert beside["median run"].value == 2


def test_an_exponent_is_that_of_medians_in_steps_or_samples():
    base = np.arange(100, 140)
    parts = {f"d{d}": ((base * d**2).tolist(), 10**9, d) for d in (4, 8, 16)}
    names, x = tuple(parts), (4, 8, 16)
    assert StepsExponent(names, x)(results(**parts)).value == pytest.approx(2)
    assert StepsExponent(names, x, of="samples")(results(**parts)).value == pytest.approx(3)
    parts["d4"] = ([-1] * 40, 10**9, 4)
    assert np.isnan(StepsExponent(names, x)(results(**parts)).value)


def test_shares_and_means_count_every_run():
    found = results(a=([3, -1, -1, 5], 10, 2))
    assert Recovered("a")(found).value == 0.5
    assert StepsMean("a")(found).value == 7
    assert StepsMean("a", "samples")(found).value == 14


def test_a_run_that_has_stopped_stays_where_it_was_and_both_figures_are_drawn():
    overlaps = np.array([[0.1, 0.6, np.nan], [0.1, 0.2, 0.3]])[:, :, None, None]
    found = results(a=([1, -1], 2, 7, {"overlaps": overlaps, "step": np.arange(3)}))
    assert overlap_curves(found, "a")[1].tolist() == [[0.1, 0.6, 0.6], [0.1, 0.2, 0.3]]
    ax = matplotlib.figure.Figure().subplots()
    draw_overlaps(ax, found, "a", "#0072B2", "a", axis="samples")
    assert ax.lines[0].get_xdata().tolist() == [0, 7, 14]
    draw_times(ax, found, ["a"], [1.0], "#0072B2", "a")
