"""XOR clusters and a transferred embedding: who can represent them, and Theorem 3.2's step against direct training."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from headstart import HeadstartError
from headstart.core.streams import Stream, normals, signs
from headstart.measures import norm_ratio
from headstart.theory import (
    EVENTS,
    FEATURES,
    Draw,
    IdealStep,
    NetworkSearch,
    Rows,
    Target,
    assumptions,
    cluster_mean_ratio,
    descend,
    embedded,
    initial_target,
    learned_features,
    least_constant,
    least_log_samples,
    noise_bound,
    one_number_ceiling,
    outputs,
    unit_features,
    width_ceiling,
)

CORNERS = np.array(list(product((-1.0, 1.0), repeat=2)))
LABELS = CORNERS[:, 0] * CORNERS[:, 1]


def accuracy(weights, readout, sign_of_zero=0):
    f = np.maximum(CORNERS @ np.array(weights, dtype=float).T, 0.0) @ np.array(readout, dtype=float)
    return (np.where(f == 0, sign_of_zero, np.sign(f)) == LABELS).mean()


def clusters(num, dim, noise, stream=Stream.DATA, seed=3):
    x = signs(seed, stream, np.arange(num), dim).astype(np.float64)
    x[:, 2:] *= noise
    return x


@pytest.mark.parametrize(("width", "most"), [(1, 0.25), (2, 0.5), (3, 0.75), (4, 1.0)])
def test_lemma_3_1_every_neuron_can_have_one_more_quarter_right_and_no_more(width, most):
    assert width_ceiling(width) == most
    features, readout = [(1, 1), (-1, -1), (1, -1), (-1, 1)], [1, 1, -1, -1]
    assert accuracy(features[:width], readout[:width]) == most


@pytest.mark.parametrize(("dim", "noise"), [(2, 0.0), (5, 0.4)])
def test_a_search_never_passes_the_ceiling_and_attains_it(dim, noise):
    for width in (1, 2, 3, 4):
        found = NetworkSearch(width, dim, noise, num_starts=96, num_moves=80).compute()["accuracy"]
        assert found.max() == width_ceiling(width)


def test_lemma_3_1_is_false_where_the_sign_of_zero_counts_as_positive():
    # Both negative corners, tilted so that mu_1 is silent, and one positive neuron for -mu_1.
    three, readout = [(-1.2, 0.8), (0.8, -1.2), (-1, -1)], [-1, -1, 2]
    assert accuracy(three, readout, sign_of_zero=1) == width_ceiling(3, sign_of_zero=1, generic=True) == 1.0
    assert accuracy(three, readout) == 0.75
    assert width_ceiling(2, sign_of_zero=1, generic=True) == 0.75
    assert width_ceiling(2, sign_of_zero=1) == accuracy([(-1, 1), (1, -1)], [-1, -1], sign_of_zero=1) == 1.0


def test_a_network_on_one_number_never_passes_half_whatever_it_is():
    assert one_number_ceiling() == 0.5
    for seed in range(40):
        u, v, a = (normals(seed, Stream.INIT, [id], 8)[0].astype(np.float64) for id in range(3))
        f = np.maximum(np.outer(CORNERS @ u[:2], v), 0.0) @ a
        assert (np.sign(f) == LABELS).mean() == 0.5


def test_two_numbers_are_enough_where_the_features_are_not_opposite():
    z = CORNERS @ np.array([(-1, 1), (-1, -1)]).T
    f = np.maximum(z @ np.array([(1, 0), (-1, 0), (0, 1), (0, -1)]).T, 0.0) @ np.array([-1, -1, 1, 1])
    assert (np.sign(f) == LABELS).all()


def test_the_assumptions_hold_at_the_papers_numbers_with_a_constant_of_ten_and_not_of_eight():
    numbers = {"samples": 400, "dim": 80_000, "noise": 0.05, "width": 2048}
    numbers |= {"complement": 6.76, "init": 0.4, "rate": 2.0}
    assert all(each.holds for each in assumptions(**numbers, constant=10.0).values())
    assert [name for name, each in assumptions(**numbers, constant=8.0).items() if not each.holds] == ["A2", "A4_low"]
    checked = assumptions(**numbers)
    assert checked["A3"].least_constant == pytest.approx(0.4 * np.log(400) ** 1.5)
    assert checked["A4_low"].least_constant == pytest.approx(np.sqrt(2048) * 0.4 / 2)
    assert least_constant(checked) == checked["A2"].least_constant == pytest.approx(6.76 / (0.05 * np.sqrt(200)))
    assert least_constant(assumptions(**{**numbers, "noise": 0.1})) == float("inf")
    assert least_constant(assumptions(**{**numbers, "width": 400})) == float("inf")


def test_the_last_lines_of_the_proof_turn_at_the_stated_number_of_samples():
    for constant in (1.0, 3.0, 10.0):
        logs = least_log_samples(constant)
        # (24) and (26), a little before and after.
        holds = [
            4 * (constant + 1) / at < 1 / 40 and 10 * (constant + 1) / at + constant / np.sqrt(at) < 1 / 8
            for at in (0.999 * logs, 1.001 * logs)
        ]
        assert holds == [False, True]
    assert least_log_samples(float("inf")) == float("inf")


def test_a_mean_of_a_clusters_rows_has_the_predicted_norm_ratio():
    x = clusters(1600, 4000, 0.1)
    mean = np.array([x[(x[:, :2] == corner).all(axis=1)].sum(axis=0) for corner in CORNERS[:3]])
    assert norm_ratio(mean) == pytest.approx(cluster_mean_ratio(0.1, 1600), rel=0.05)


def test_the_norm_ratio_is_that_of_its_formula_and_does_not_see_the_scale():
    w = np.array([[3.0, 4.0, 1.0, 1.0, 1.0, 1.0]])
    assert norm_ratio(w) == pytest.approx((2 / np.sqrt(4)) / (5 / np.sqrt(2)))
    assert norm_ratio(7 * w) == pytest.approx(norm_ratio(w))
    for bad in (np.zeros((3, 5)), np.ones((3, 2)), np.ones(4)):
        with pytest.raises(HeadstartError, match="norm_ratio"):
            norm_ratio(bad)


@pytest.mark.parametrize("trained", [(), ("readout",), ("embedding",), ("readout", "embedding")])
def test_a_step_is_that_of_torch_on_the_whole_network(trained):
    torch = pytest.importorskip("torch")
    x, test = clusters(24, 60, 0.2), clusters(40, 60, 0.2, Stream.EVALUATION)
    weak = normals(1, Stream.INIT, np.arange(3), 60).astype(np.float64) / 8
    start = initial_target(16, 3, 0.4, seed=2)
    flags = {f"train_{name}": True for name in trained}
    end, errors = descend(start, embedded(weak, x, x), embedded(weak, test, x), 0.7, 4, **flags)
    leaves = {"u": weak, "v": start.hidden, "a": start.readout}
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in leaves.items()}
    moved = ["v", *({"readout": "a", "embedding": "u"}[name] for name in trained)]

    def f(rows):
        return torch.relu(torch.tensor(rows) @ leaves["u"].T @ leaves["v"].T) @ leaves["a"]

    for _ in range(4):
        y = torch.tensor(x[:, 0] * x[:, 1])
        grads = torch.autograd.grad(torch.exp(-y * f(x)).mean(), [leaves[name] for name in moved])
        with torch.no_grad():
            for name, grad in zip(moved, grads, strict=True):
                leaves[name] -= 0.7 * grad
    np.testing.assert_allclose(end.hidden, leaves["v"].detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(end.readout, leaves["a"].detach().numpy(), rtol=1e-10, atol=1e-12)
    wrong = (f(test).detach().numpy() * test[:, 0] * test[:, 1] <= 0).mean()
    assert errors[-1, 1] == wrong


def test_a_loss_that_runs_away_counts_as_wrong_everywhere():
    rows = Rows(30 * CORNERS @ np.array(FEATURES).T, CORNERS)
    errors = descend(initial_target(16, 3, 0.4, 0), rows, rows, 1e4, 5)[1]
    assert (errors[-1] == 1).all()


def test_the_ideal_rows_have_the_law_of_rows_through_such_an_embedding():
    part = IdealStep(samples=64, dim=402, noise=0.3, ratio=0.05)
    z = part.rows(0, 4000, Stream.DATA)
    table = np.array([(1, 1, 1), (1, -1, 1), (1, 1, -1), (1, -1, -1)])
    weights = np.concatenate([np.array(FEATURES).T, 0.05 * table[np.arange(400) % 4]]).T
    direct = embedded(weights, clusters(4000, 402, 0.3))
    assert norm_ratio(weights) == pytest.approx(0.05)
    assert np.linalg.norm(weights[:, 2:]) == pytest.approx(part.complement)
    noises = [rows.z - rows.corner @ np.array(FEATURES).T for rows in (z, direct)]
    for one, other in zip(*(noise.T for noise in noises), strict=True):
        np.testing.assert_allclose(np.quantile(one, (0.1, 0.5, 0.9)), np.quantile(other, (0.1, 0.5, 0.9)), atol=0.03)
    for noise in noises:
        np.testing.assert_allclose(np.cov(noise.T), (0.3 * 0.05) ** 2 * 400 * np.eye(3), atol=0.006)


def test_without_noise_one_step_at_the_theorems_scale_classifies_everything():
    part = IdealStep(noise=0.0, init=0.05, rate=2.0, width=512, num_test=200, num_draws=4)
    arrays = part.compute()
    assert arrays["test_error"][:, 0].max() > 0
    assert (arrays["test_error"][:, 1] == 0).all()
    assert (arrays["train_error"][:, 1] == 0).all()


def test_any_three_of_the_four_features_do_as_well_and_a_single_one_never_passes_half():
    small = IdealStep(noise=0.02, init=0.05, width=256, num_test=100, num_draws=2)
    for features in ((FEATURES[0], FEATURES[1], (1, 1)), ((1, 1), (-1, -1), (1, -1)), ((1, 1), (-1, -1), (-1, 1))):
        assert replace(small, features=features).compute()["test_error"][:, 1].max() == 0
    one = replace(small, features=((1, -1),), steps=10).compute()
    assert one["test_error"][:, -1].min() > 0.4


def test_a_draw_does_not_depend_on_how_many_others_there_are():
    few, many = (IdealStep(width=64, num_test=50, num_draws=n).compute() for n in (2, 3))
    for name, values in few.items():
        assert values.tolist() == many[name][:2].tolist()


def test_the_events_hold_without_noise_and_each_can_be_broken():
    part = IdealStep(noise=0.001, width=2048, num_test=50)
    features = np.array(FEATURES, dtype=float)
    rows = [part.rows(0, num, stream) for num, stream in ((400, Stream.DATA), (50, Stream.EVALUATION))]
    draw = Draw(*rows, part.start(0), features, part.dim, part.noise)
    calm = replace(draw, noise=0.05)
    assert {name for name, event in EVENTS.items() if event.share(calm) == 1.0} == set(EVENTS)
    train, test = rows
    loud = replace(draw, train=replace(train, z=-train.z), test=replace(test, z=-test.z))
    lopsided = replace(draw, start=Target(np.abs(part.start(0).readout), np.abs(part.start(0).hidden)))
    large = replace(draw, start=Target(np.abs(draw.start.readout), draw.start.hidden))
    onesided = replace(draw, train=replace(train, z=train.corner @ features.T + 0.01))
    empty = replace(draw, train=Rows(train.z[:100], np.ones((100, 2))))
    broken = {
        **dict.fromkeys(("A1_sides", "A2", "A3"), loud),
        **dict.fromkeys(("A4_B1", "A4_B2", "A4_B3"), lopsided),
        "A1_halves": onesided,
        "inequality_1": large,
        "A4_B4": empty,
    }
    for name, event in EVENTS.items():
        assert event.share(broken[name]) == 0.0, name


def test_the_bounds_are_those_of_the_proof():
    assert noise_bound(400, 80_000, 0.05, 0.05 * np.sqrt(200)) == pytest.approx(6 * np.exp(-(np.log(400) ** 2) / 2))
    assert EVENTS["A4_B1"].least(400, 431, 80_000, 0.05, 1.0) == pytest.approx(1 - 4 / 400**4, abs=1e-9)
    assert EVENTS["A2"].least(400, 431, 80_000, 0.05, 6.8) == 0.0
    assert noise_bound(400, 80_000, 0.05, 0.0) == 0.0


def test_features_are_read_off_the_signal_and_small_or_slanted_neurons_are_none():
    signal = np.array([[0.5, -0.5], [0.4, -0.5], [-0.5, -0.6], [0.01, 0.01], [0.5, 0.1]])
    assert learned_features(signal) == {(1, -1), (-1, -1)}
    scaled = unit_features(np.array([[0.5, -0.5, 0.1], [2.0, 2.0, 0.1]]))
    assert scaled.tolist() == [[1.0, -1.0, 0.2], [1.0, 1.0, 0.05]]
    for order in permutations(FEATURES):
        assert learned_features(np.array(order)) == set(FEATURES)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: width_ceiling(6), "width=6"),
        (lambda: width_ceiling(3, sign_of_zero=2), "sign_of_zero=2"),
        (lambda: NetworkSearch(3, dim=13), "dim=13"),
        (lambda: IdealStep(features=((0, 1),)), "features"),
        (lambda: IdealStep(rate=0.0), "rate"),
        (lambda: IdealStep(dim=5), "dim=5"),
        (lambda: assumptions(1, 10, 0.1, 1.0, 0.1, 0.1, 4), "samples=1"),
        (lambda: least_log_samples(0.0), "constant"),
        (lambda: embedded(np.ones((3, 4)), np.ones((2, 5))), "columns"),
        (lambda: unit_features(np.zeros((1, 3))), "no weight"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(HeadstartError, match=named):
        call()


def test_an_embedding_is_trained_only_with_its_inner_products():
    rows = Rows(CORNERS @ np.array(FEATURES).T, CORNERS)
    target = initial_target(4, 3, 0.1, 0)
    with pytest.raises(HeadstartError, match="gram"):
        descend(target, rows, rows, 0.1, 1, train_embedding=True)
    assert outputs(target, rows.z).shape == (4,)
