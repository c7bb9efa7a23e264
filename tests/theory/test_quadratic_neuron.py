"""The vectorised neuron against the plain one, against autograd, and against what is known of its moments."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart import HeadstartError, Parity
from headstart.theory import Labels, Shift, TwoPhase, step
from headstart.theory.quadratic_neuron import (
    aligned_within,
    initial_weights,
    moment_matrices,
    on_data,
    on_population,
    readout_reaches,
    run_until,
)

DIM = 6


def drawn(num=5, samples=40, labels=Labels.TRUE, width=10, seed=3):
    ids = np.arange(num)
    w, a = initial_weights(DIM, width, seed, ids)
    matrices, mean_label = moment_matrices(Parity(DIM, 2), samples, labels, seed, ids)
    return w, a, matrices, mean_label


def plain_step(w, a, matrix, eta):
    """(A.3) and (A.4) as they are written, for one neuron."""
    moved = w + eta * a * matrix @ w
    return moved / np.linalg.norm(moved), min(1.0, max(-1.0, a + eta / 2 * w @ matrix @ w))


def population_matrix(dim=DIM):
    matrix = np.zeros((dim, dim))
    matrix[0, 1] = matrix[1, 0] = 1.0
    return matrix


def features(dim=DIM):
    plus, minus = np.zeros(dim), np.zeros(dim)
    plus[:2], minus[:2] = 1 / np.sqrt(2), np.array([1, -1]) / np.sqrt(2)
    return plus, minus


def test_many_neurons_take_the_steps_of_one_plain_neuron():
    w, a, matrices, mean_label = drawn()
    neurons = on_data(matrices, mean_label, w, a)
    plain = list(zip(w, a, strict=True))
    for _ in range(30):
        neurons = step(neurons, 0.3)
        plain = [plain_step(*state, matrix, 0.3) for state, matrix in zip(plain, matrices, strict=True)]
    plus, minus = features()
    np.testing.assert_allclose(neurons.readout, [a for _, a in plain], atol=1e-12)
    np.testing.assert_allclose(neurons.overlaps[0], [w @ plus for w, _ in plain], atol=1e-12)
    np.testing.assert_allclose(neurons.overlaps[1], [w @ minus for w, _ in plain], atol=1e-12)
    np.testing.assert_allclose(
        neurons.drive, [w @ m @ w for (w, _), m in zip(plain, matrices, strict=True)], atol=1e-12
    )


@pytest.mark.parametrize("shift", Shift)
def test_a_step_is_projected_gradient_descent_on_the_correlation_loss(shift):
    samples, seed, eta = 40, 3, 0.3
    w0, a0, matrices, mean_label = drawn(num=1, samples=samples, seed=seed)
    data = Parity(DIM, 2).sample(seed, np.arange(samples))
    x, y = torch.tensor(data.x, dtype=torch.float64), torch.tensor(data.y, dtype=torch.float64)
    w, a = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (w0[0], a0[0]))
    half_square = (x @ w) ** 2 / 2
    outputs = {
        Shift.NONE: a * half_square,
        Shift.OUTPUT: a * half_square - 1,
        Shift.ACTIVATION: a * (half_square - 1),
    }
    (-(y * outputs[shift])).mean().backward()
    with torch.no_grad():
        moved, readout = w - eta * w.grad, torch.clip(a - eta * a.grad, -1, 1)
    if shift is Shift.ACTIVATION:
        # The mean label is not 0 here, so the test can tell the readings apart.
        assert abs(mean_label[0]) > 0.01
    after = step(on_data(matrices, mean_label, w0, a0), eta, shift)
    assert after.readout[0] == pytest.approx(float(readout), abs=1e-7)
    plus, minus = features()
    turned = (moved / moved.norm()).numpy()
    assert (after.overlaps[0][0], after.overlaps[1][0]) == pytest.approx((turned @ plus, turned @ minus), abs=1e-7)


def test_three_coordinates_are_the_whole_neuron_on_the_population():
    w, a, _, mean_label = drawn(width=100)
    plus, minus = features()
    full = on_data(np.tile(population_matrix(), (len(a), 1, 1)), np.zeros_like(mean_label), w, a)
    short = on_population(w @ plus, w @ minus, a)
    one, other = (run_until(aligned_within(0.1), neurons, 0.4, 500) for neurons in (full, short))
    assert one.steps.tolist() == other.steps.tolist()
    assert (one.steps > 0).all()
    np.testing.assert_allclose(one.end.readout, other.end.readout, atol=1e-10)
    np.testing.assert_allclose(one.end.overlaps, other.end.overlaps, atol=1e-10)


def test_the_population_is_the_limit_of_large_data():
    matrices, mean_label = moment_matrices(Parity(DIM, 2), 2**17, Labels.TRUE, 0, np.arange(2))
    np.testing.assert_allclose(matrices, np.tile(population_matrix(), (2, 1, 1)), atol=0.02)
    assert np.abs(mean_label).max() < 0.02


@pytest.mark.parametrize("labels", Labels)
def test_moment_matrices_have_the_mean_and_variance_of_their_distribution(labels):
    num, samples = 4000, 25
    matrices, mean_label = moment_matrices(Parity(DIM, 2), samples, labels, 7, np.arange(num))
    mean = population_matrix() if labels is Labels.TRUE else np.zeros((DIM, DIM))
    np.testing.assert_allclose(matrices.mean(axis=0), mean, atol=5 / np.sqrt(num * samples))
    # Off the diagonal every entry is a mean of N fair signs; with true labels (1, 2) is y^2 = 1, always.
    np.testing.assert_allclose(matrices[:, 2, 3].var() * samples, 1.0, atol=0.12)
    np.testing.assert_allclose(matrices[:, 0, 1].var() * samples, 0.0 if labels is Labels.TRUE else 1.0, atol=0.12)
    np.testing.assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    # The diagonal of y x x^T is y.
    np.testing.assert_allclose(matrices[:, 4, 4], mean_label, atol=1e-12)


def test_initial_weights_are_uniform_on_the_sphere_with_readouts_of_variance_one_over_the_width():
    w, a = initial_weights(DIM, 50, 0, np.arange(20_000))
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1.0)
    np.testing.assert_allclose(w.T @ w / len(w), np.eye(DIM) / DIM, atol=0.01)
    assert a.var() * 50 == pytest.approx(1.0, abs=0.05)
    assert abs(np.corrcoef(a, w[:, 0])[0, 1]) < 0.03


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), eta=st.floats(1e-4, 2.0), samples=st.integers(1, 60), width=st.integers(1, 50))
def test_weights_stay_on_the_sphere_and_readouts_in_their_interval(seed, eta, samples, width):
    w, a, matrices, mean_label = drawn(num=3, samples=samples, width=width, seed=seed)
    neurons = on_data(matrices, mean_label, w, a)
    for _ in range(20):
        neurons = step(neurons, eta, Shift.ACTIVATION)
        np.testing.assert_allclose(np.linalg.norm(neurons.weights, axis=1), 1.0, atol=1e-12)
        assert np.abs(neurons.readout).max() <= 1.0


def test_a_learning_rate_of_zero_changes_nothing():
    w, a, matrices, mean_label = drawn(width=100)
    before = on_data(matrices, mean_label, w, a)
    after = step(before, 0.0)
    np.testing.assert_array_equal(after.readout, before.readout)
    np.testing.assert_allclose(after.weights, before.weights, atol=1e-15)


def test_a_readout_that_is_there_already_takes_no_step():
    w, a, matrices, mean_label = drawn(width=100)
    neurons = on_data(matrices, mean_label, w, a)
    passage = run_until(readout_reaches(float(np.median(np.abs(a)))), neurons, 0.1, 1000)
    largest = np.abs(a).argmax()
    assert passage.steps[largest] == 0
    assert passage.steps[np.abs(a).argmin()] > 0
    np.testing.assert_array_equal(passage.end.weights[largest], neurons.weights[largest])


def test_each_neuron_stops_for_itself_and_one_that_does_not_arrive_says_so():
    w, a, matrices, mean_label = drawn(num=40, width=10**6)
    neurons = on_data(matrices, mean_label, w, a)
    whole = run_until(readout_reaches(0.3), neurons, 0.2, 10_000)
    cut = int(np.median(whole.steps))
    short = run_until(readout_reaches(0.3), neurons, 0.2, cut)
    assert (whole.steps >= 0).all()
    np.testing.assert_array_equal(short.steps, np.where(whole.steps <= cut, whole.steps, -1))
    alone = run_until(readout_reaches(0.3), neurons.take(np.array([7])), 0.2, 10_000)
    assert alone.steps[0] == whole.steps[7]
    assert alone.least_drive[0] == pytest.approx(whole.least_drive[7], abs=1e-14)


def test_passages_record_the_extremes_of_the_trajectory():
    w, a, matrices, mean_label = drawn(num=1, width=100)
    eta = 0.2
    passage = run_until(readout_reaches(0.5), on_data(matrices, mean_label, w, a), eta, 1000)
    path = [(w[0], a[0])]
    while abs(path[-1][1]) < 0.5:
        path.append(plain_step(*path[-1], matrices[0], eta))
    drives = np.array([w @ matrices[0] @ w for w, _ in path])
    readouts = np.array([a for _, a in path])
    norm, sign = np.linalg.norm(matrices[0], 2), np.sign(a[0])
    assert passage.steps[0] == len(path) - 1
    assert passage.least_drive[0] == pytest.approx((sign * drives[:-1]).min(), abs=1e-12)
    assert passage.least_readout[0] == pytest.approx((sign * readouts).min(), abs=1e-12)
    assert passage.largest_pull[0] == pytest.approx((eta * np.abs(readouts[:-1]) * norm).max(), abs=1e-12)
    assert passage.readout_fall[0] == pytest.approx((np.abs(readouts[:-1]) - np.abs(readouts[1:])).max(), abs=1e-12)
    assert passage.worst_fall[0] == pytest.approx((-np.sign(readouts[:-1]) * np.diff(drives)).max(), abs=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 2},
        {"samples": 0},
        {"samples": None, "epsilon": None},
        {"eta": 0.0},
        {"width": 0},
        {"switch": 1.5},
        {"epsilon": 0.6},
        {"delta": 1.0},
        {"num_neurons": 0},
        {"seed": -1},
    ],
)
def test_a_two_phase_simulation_out_of_range_is_refused(change):
    with pytest.raises(HeadstartError, match=next(iter(change))):
        TwoPhase(**{"dim": 10, "samples": 20, "width": 100, **change})


def test_more_samples_than_float32_can_count_are_refused():
    with pytest.raises(HeadstartError, match="samples=16777217"):
        moment_matrices(Parity(DIM, 2), 2**24 + 1, Labels.TRUE, 0, np.arange(1))
