"""Rules on random channels: covariances against samples, the search against the exact optimum of one channel."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.tasks import LocalSignal
from headstart.theory.local_signal import (
    ChannelRule,
    OneChannel,
    best_error,
    channel_covariance,
    proven_error,
    rule_error,
    share_below,
)

TASK = LocalSignal.matched(200)


def directions(m, d, seed=0):
    u = np.random.default_rng(seed).standard_normal((m, d))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def test_covariances_of_channels_are_those_of_samples():
    u, tau = directions(3, 4), np.array([0.5, 1.2, 0.0])
    x = np.random.default_rng(1).standard_normal((200_000, 4))
    passed = np.abs(x @ u.T) >= tau
    sampled = np.einsum("nj,nl,na,nb->jlab", passed, passed, x, x, optimize=True) / len(x)
    exact = channel_covariance(u, tau)
    assert np.abs(sampled - exact).max() < 0.02
    np.testing.assert_allclose(channel_covariance(u, tau, np.array([1]))[0], exact[1])
    np.testing.assert_allclose(exact[2, 2], np.eye(4), atol=1e-12)


def test_the_error_of_a_rule_on_one_channel_is_that_of_samples():
    overlap, tau, angle, num = 1.3, 1.1, 0.7, 20_000
    rng = np.random.default_rng(2)
    xi, eta = rng.standard_normal((2, num, TASK.patches), dtype=np.float32)
    along = TASK.sigma * overlap
    level = np.cos(angle) * along + np.sin(angle) * np.sqrt(1 - along**2)
    noise = ((np.cos(angle) * xi + np.sin(angle) * eta) * (np.abs(xi) >= tau)).sum(axis=1)
    wrong = (level + TASK.sigma * noise <= 0).mean()
    assert abs(wrong - rule_error(TASK, overlap, tau, angle)) < 4 * np.sqrt(0.25 / num)
    assert rule_error(TASK, overlap, 1.31, angle) == 0.5


def test_the_best_rule_beats_others_and_gets_better_with_the_overlap():
    errors = [best_error(TASK, z) for z in (0.3, 1.0, 2.0)]
    assert errors[0] > errors[1] > errors[2]
    for tau, angle in ((1.0, 0.3), (0.5, 0.8), (1.0, 1.2), (0.0, 0.8)):
        assert rule_error(TASK, 1.0, tau, angle) >= errors[1] - 1e-4


def test_the_share_of_good_draws_is_that_of_random_directions():
    task = LocalSignal.matched(1000)
    share, overlap = share_below(task, 0.3)
    drawn = np.abs(directions(100_000, task.dim)[:, 0]) / task.sigma
    assert abs((drawn > overlap).mean() - share) < 4 * np.sqrt(share / 100_000)
    assert best_error(task, overlap) == pytest.approx(0.3, abs=1e-3)
    assert float(OneChannel(LocalSignal.matched(50), 0.001).compute()["share"]) == 0


def test_the_search_finds_the_best_rule_on_one_channel():
    rule = ChannelRule(TASK, 1, num_train=500, num_test=4000, seed=3).compute()
    exact = best_error(TASK, float(rule["overlap"][0]))
    assert abs(float(rule["error"]) - exact) < 4 * np.sqrt(0.25 / 4000)
    assert float(rule["tau"][0]) == pytest.approx(float(rule["overlap"][0]))


def test_rules_with_thresholds_beat_those_without_and_their_error_is_above_what_is_proven():
    rule = ChannelRule(TASK, 3, num_train=500, num_test=4000, seed=1).compute()
    linear = rule_error(TASK, 0.0, 0.0, np.pi / 2)  # w* itself, all patches pass
    assert float(rule["error"]) < linear
    assert float(rule["error"]) >= float(rule["bound"])
    assert abs(float(rule["error"]) - float(rule["gaussian"])) < 0.05
    again = ChannelRule(TASK, 3, num_train=500, num_test=4000, seed=1).compute()
    assert all(np.array_equal(value, again[name]) for name, value in rule.items())


def test_what_is_proven_is_nothing_without_large_patches_and_at_most_a_quarter():
    assert proven_error(TASK, 0.0) == 0
    assert 0 < proven_error(TASK, 0.3) < proven_error(TASK, 1.0) < 0.25
    with pytest.raises(HeadstartError, match="matched"):
        ChannelRule(LocalSignal(10, 1), 2)
