"""A filter with a soft threshold: closed forms against samples, the reduced chain against training, and lemmas."""

from dataclasses import replace
from itertools import product
from math import log, sqrt

import numpy as np
import pytest
from scipy import stats

from headstart.core.errors import HeadstartError
from headstart.core.kernels.compile import kernels
from headstart.core.roles import Role
from headstart.core.units import Batch, Budget
from headstart.engines import Job
from headstart.engines.loop import Loop
from headstart.losses import Logistic
from headstart.methods import LayerScale
from headstart.models import ThresholdFilter
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run, Step
from headstart.tasks import LocalSignal
from headstart.theory import FilterFlow, Filters, FilterSGD
from headstart.theory.local_signal import (
    events,
    largest_exceeds,
    mills_bounds,
    mills_ratio,
    parts_given_sum,
    small_ball,
    truncated_normal,
)

STATES = {
    "negative": (0.5, 0.2, -0.1),
    "positive": (0.5, 0.2, 0.1),
    "high": (0.5, 0.2, -0.4),
    "wrong": (-0.3, 0.2, -0.1),
}
SMALL = LocalSignal(30, 4, noise=0.6, num_test=8)


def sampled(k, sigma, state, num=20_000):
    """What one sample adds to each mean, [num, 8], written out from the network's formula."""
    rng, (c, v, b) = np.random.default_rng(3), state
    a, across = sigma * rng.standard_normal((2, num, k))
    z = c * a + v * across
    parts = np.maximum(z + b, 0) - np.maximum(b - z, 0)
    g = max(c + b, 0) - max(b - c, 0)
    f = g + parts.sum(1)
    slope, ind = 1 / (1 + np.exp(f)), (z > -b) * 1.0 + (-z > -b)
    by_bias = ((z > -b) * 1.0 - (-z > -b)).sum(1) + (c > -b) - (-c > -b)
    return np.stack(
        [
            -slope * ((a * ind).sum(1) + (c > -b) + (-c > -b)),
            -slope * (across * ind).sum(1),
            -slope * by_bias,
            slope,
            (f < 0) + 0.5 * (f == 0),
            np.abs(parts).mean(1),
            (parts**2).mean(1),
            np.abs(parts.sum(1)) < 1.0,
        ],
        axis=1,
    )


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_error_gradients_and_moments_are_those_of_samples(state):
    drawn = sampled(60, 0.3, state)
    filters = Filters(60, 0.3, *(np.array(x) for x in state))
    found = filters.gradients()
    exact = [found.signal, found.rest, found.bias, found.slope, filters.error(), *filters.moments()]
    exact = np.array([*exact, filters.stays_within(1.0)])
    errors = drawn.std(axis=0) / sqrt(len(drawn)) + 2e-5
    assert (np.abs(drawn.mean(axis=0) - exact) < 4 * errors).all()


def test_the_error_of_an_aligned_filter_depends_on_the_ratio_of_bias_and_signal_alone():
    ratios = np.linspace(0, 0.95, 7)
    small, large = (Filters.on(LocalSignal(), c, 0.0, -ratios * c).error() for c in (0.1, 3.0))
    np.testing.assert_allclose(small, large, atol=1e-9)
    assert (np.diff(small) < 0).all()
    # Without a threshold the sum is a normal: the linear classifier, Phi(1 / log k).
    assert 1 - small[0] == pytest.approx(stats.norm.cdf(1 / log(1000)), abs=1e-8)
    assert 1 - small[0] == pytest.approx(0.5575, abs=1e-4)


def test_the_flow_is_the_limit_of_steps_on_the_population():
    task = LocalSignal(100, 2, noise=0.5)
    flow = FilterFlow(task, 0.05, end=20.0, points=8).compute()
    c, b, rate = 1e-6, 0.0, 0.01
    for _ in range(2000):
        slope = Filters.on(task, c, 0.0, b).gradients()
        c, b = c - rate * float(slope.signal), b - 0.05 * rate * float(slope.bias)
    np.testing.assert_allclose([flow["signal"][-1], flow["bias"][-1]], [c, b], rtol=2e-3)
    assert float(flow["arrived"]) == np.inf


def test_the_flow_arrives_where_its_error_is_the_target():
    flow = FilterFlow(LocalSignal(3000, 2, noise=0.4), 1 / 3000).compute()
    assert flow["error"][-1] == pytest.approx(0.01, abs=1e-5)
    assert (flow["error"][:-1] > 0.01).all()
    assert flow["time"][-1] == pytest.approx(float(flow["arrived"]))


def direct(task, part, seeds):
    """(c, v, b) at the end of actual training by the loop, [seeds, 3]."""
    run = Run(task, ThresholdFilter(part.std), Online(), Logistic(), SGD(part.rate), batch=Batch(part.batch),
              methods=(LayerScale(rate={Role.BIAS: part.bias_rate / part.rate}),),
              budget=Budget(part.steps, part.steps))  # fmt: skip
    out = []
    for seed in seeds:
        (outcome,) = Loop().train([Job(replace(run, seed=seed), keep=(Step(part.steps),))])
        weights, teacher = outcome.states[Step(part.steps)].weights, task.teacher(seed)
        w = weights["filter.weight"][0].astype(np.float64)
        c = w @ teacher
        out.append((c, np.linalg.norm(w - c * teacher), float(weights["threshold.bias"][0])))
    return np.array(out)


@pytest.mark.parametrize(("noise", "bias_rate"), [(0.6, 0.02), (0.3, 0.05)], ids=["every patch", "survivors alone"])
def test_the_reduced_chain_has_the_law_of_actual_training(noise, bias_rate):
    task = replace(SMALL, noise=noise)
    part = FilterSGD(task, rate=0.2, bias_rate=bias_rate, batch=6, std=0.05, steps=60)
    trained = direct(task, part, range(40))
    reduced = np.array([replace(part, seed=seed).path()[1][-1] for seed in range(1000, 1400)])
    for name, one, other in zip("cvb", trained.T, reduced.T, strict=True):
        assert stats.ks_2samp(one, other).pvalue > 1e-3, name
    # So many runs can tell a wrong law: that of other rates.
    wrong = replace(part, rate=0.3, bias_rate=bias_rate / 2)
    wrong = np.array([replace(wrong, seed=seed).path()[1][-1] for seed in range(40)])
    assert min(stats.ks_2samp(one, other).pvalue for one, other in zip(wrong.T, reduced.T, strict=True)) < 1e-4
    few = (Filters.on(task, *reduced.T).passing < kernels("theory.local_signal.kernels").FEW) & (reduced[:, 2] < 0)
    assert few.mean() > 0.1 if noise < 0.5 else few.mean() < 0.1


def test_recorded_states_do_not_depend_on_what_else_is_recorded():
    often, seldom = (FilterSGD(SMALL, batch=8, steps=50, ratio=r, seed=2).path() for r in (1.05, 3.0))
    common = np.isin(often[0], seldom[0])
    assert np.array_equal(often[1][common], seldom[1])
    assert not np.array_equal(seldom[1], FilterSGD(SMALL, batch=8, steps=50, ratio=3.0, seed=3).path()[1])


def test_a_run_stops_where_its_error_is_low_enough():
    part = FilterSGD(LocalSignal(300, 3, noise=0.3), bias_rate=0.01, batch=50, steps=5000, stop_at=0.1)
    found = part.compute()
    assert found["step"][-1] < 5000
    assert found["error"][-1] <= 0.1 < found["error"][1:-1].min()


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 3.0, 8.0])
def test_truncated_normals_and_mills_ratio(alpha):
    s = 0.7
    found, law = truncated_normal(s, s * alpha), stats.truncnorm(alpha, np.inf, scale=s)
    np.testing.assert_allclose(found, [law.mean(), law.var(), law.var() + law.mean() ** 2], rtol=1e-7)
    below, above = mills_bounds(alpha)
    assert below <= mills_ratio(alpha) <= above or alpha == 0
    assert mills_ratio(alpha) == pytest.approx(stats.norm.sf(alpha) / stats.norm.pdf(alpha))


def test_the_parts_of_a_sum_share_it_by_their_variances():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 100_000))
    z = 2 * a + 0.5 * b
    slopes = (2 * a @ z / (z @ z), 0.5 * b @ z / (z @ z))
    np.testing.assert_allclose(slopes, parts_given_sum(2.0, 0.5), atol=0.01)


@pytest.mark.parametrize("two_sided", [False, True])
def test_the_largest_of_many_normals_exceeds_its_level_no_more_often_than_the_lemma_says(two_sided):
    for num in (2, 10, 1000, 10**6):
        chance, bound = largest_exceeds(num, two_sided)
        assert 0 < chance <= bound


def test_small_balls_are_largest_for_equal_weights():
    for n, half in ((5, 1.0), (8, 1.0), (8, 2.0), (9, 2.5)):
        signs = np.array(list(product((-1, 1), repeat=n)))
        for weights in (np.ones(n), 1 + np.random.default_rng(n).random(n)):
            sums = np.sort(signs @ weights)
            inside = max(((sums > left) & (sums < left + 2 * half)).mean() for left in sums - 1e-9)
            assert inside <= float(small_ball(n, half)) + 1e-12
            if weights[0] == 1:
                assert inside == pytest.approx(float(small_ball(n, half)))
    assert float(small_ball(0, 1.0)) == 1
    assert float(small_ball(10**4, 3.0)) == pytest.approx(3 * sqrt(2 / np.pi / 10**4), rel=1e-3)


def test_the_events_are_those_of_the_lemmas():
    task = LocalSignal(1000)
    found = events(Filters.on(task, [0.001, 0.5], [0.01, 0.01], [1e-6, -0.2]))
    assert found["by_signal"][0] < -0.4
    assert (found["by_rest"] > 0).all()
    assert found["by_bias"][1] > 0.1
    assert ((found["rest_bound"] > 0) & (found["rest_bound"] < 1)).all()
    assert found["threshold"][1] == pytest.approx(0.2 / (task.sigma * sqrt(0.25 + 1e-4)) / (2 * sqrt(log(1000))))
    assert found["bias_by_patches"][0] == pytest.approx(1e-3)


def test_bad_input_is_met_at_the_boundary():
    with pytest.raises(HeadstartError, match="at least 2 dimensions"):
        FilterSGD(LocalSignal(10, 1))
    with pytest.raises(HeadstartError, match="a filter of 0"):
        Filters.on(LocalSignal(), 0.0)
    with pytest.raises(HeadstartError, match=r"ratio=1\.0"):
        FilterSGD(SMALL, ratio=1.0)
    with pytest.raises(HeadstartError, match="at least 0"):
        small_ball(-1, 1.0)
