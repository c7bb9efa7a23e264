"""What every task must do. A new task joins by adding one row to TASKS."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

import numpy as np
import pytest
import torch

from headstart import losses
from headstart.core.errors import HeadstartError
from headstart.core.streams import Stream
from headstart.run import decode, encode
from headstart.tasks import (
    Hermite,
    InContextRegression,
    ModularAddition,
    ModularMultiplication,
    Parity,
    SingleIndex,
    Task,
    held_out,
)


@dataclass(frozen=True)
class Row:
    """A task with the mean and variance of its targets, and the formula of a target given (task, seed, x)."""

    task: Task
    mean: float
    variance: float
    target: Callable


def product(task, seed, x):
    return np.prod(x[:, list(task.support)], axis=1)


def he(k):
    z_to_y = {1: lambda z: z, 2: lambda z: z**2 - 1, 3: lambda z: z**3 - 3 * z}[k]
    return lambda task, seed, x: z_to_y(x.astype(np.float64) @ task.teacher(seed))


def least_squares(task, seed, x):
    """The target of each sequence from its own context, which determines the teacher."""
    tokens = x.astype(np.float64).reshape(len(x), 2 * task.context + 1, task.features)
    xs, ys, query = tokens[:, 0:-1:2], tokens[:, 1::2, 0], tokens[:, -1]
    return np.array([q @ np.linalg.lstsq(a, b)[0] for a, b, q in zip(xs, ys, query, strict=True)])


def arithmetic(operation):
    def target(task, seed, x):
        num = task.dim // 2
        text = ["".join(str(int(digit)) for digit in row) for row in x]
        return np.array([operation(int(t[:num], task.base), int(t[num:], task.base)) % task.modulus for t in text])

    return target


SEQUENCES = [
    pytest.param(Row(InContextRegression(), 0, 4, least_squares), id="in-context regression"),
    pytest.param(Row(InContextRegression(2, 5), 0, 2, least_squares), id="in-context regression of two features"),
]
CLASSES = [
    pytest.param(Row(ModularAddition(49, 7, base=7), 3, 4, arithmetic(lambda x, z: x + z)), id="modular addition"),
    # Zero is the product of 13 of the 49 pairs of residues, the others of 6 each.
    pytest.param(
        Row(ModularMultiplication(49, 7, base=7), 126 / 49, 546 / 49 - (126 / 49) ** 2, arithmetic(lambda x, z: x * z)),
        id="modular multiplication",
    ),
]
TASKS = [
    pytest.param(Row(Parity(8, 3), 0, 1, product), id="sparse parity"),
    pytest.param(Row(Parity(40, 4), 0, 1, product), id="sparse parity beyond one word"),
    pytest.param(Row(Parity(5, 5), 0, 1, product), id="dense parity"),
    pytest.param(Row(Parity(9, 3, support=(8, 1, 4)), 0, 1, product), id="parity of a given support"),
    pytest.param(Row(SingleIndex(7, Hermite(1)), 0, 1, he(1)), id="linear index"),
    pytest.param(Row(SingleIndex(7, Hermite(2)), 0, 2, he(2)), id="quadratic index"),
    pytest.param(Row(SingleIndex(10, Hermite(3)), 0, 6, he(3)), id="cubic index"),
    pytest.param(Row(SingleIndex(7, Hermite(2), norm=2.0), 3, 32, he(2)), id="quadratic index of norm 2"),
    pytest.param(Row(SingleIndex(7, Hermite(3), norm=2.0), 0, 708, he(3)), id="cubic index of norm 2"),
]
LOSSES = {
    kind.name: kind() for kind in (losses.MSE, losses.Hinge, losses.Logistic, losses.Correlation, losses.CrossEntropy)
}
white_inputs = pytest.mark.parametrize("row", TASKS)
one_output = pytest.mark.parametrize("row", TASKS + SEQUENCES)
every_task = pytest.mark.parametrize("row", TASKS + SEQUENCES + CLASSES)


def same(one, two):
    return np.array_equal(one.x, two.x) and np.array_equal(one.y, two.y)


@every_task
def test_a_task_keeps_its_protocol(row):
    assert isinstance(row.task, Task)


@every_task
def test_samples_have_the_stated_shapes_and_types(row):
    for n in (1, 13):
        data = row.task.sample(0, np.arange(n))
        assert data.x.shape == (n, row.task.dim)
        assert data.y.shape == (n,)
        assert data.x.dtype == data.y.dtype == np.float32
        assert len(data) == n


@every_task
def test_a_sample_is_decided_by_its_id_alone(row):
    ids = np.array([5, 0, 3, 10**12, 3])
    together = row.task.sample(1, ids)
    assert same(together, row.task.sample(1, ids))
    for i, id in enumerate(ids):
        alone = row.task.sample(1, np.array([id]))
        assert np.array_equal(alone.x[0], together.x[i])
        np.testing.assert_allclose(alone.y[0], together.y[i], rtol=1e-6)
    order = np.array([4, 2, 0, 1, 3])
    permuted = row.task.sample(1, ids[order])
    assert np.array_equal(permuted.x, together.x[order])
    assert np.array_equal(permuted.y, together.y[order])


@every_task
def test_another_seed_has_other_samples(row):
    assert not same(row.task.sample(0, np.arange(50)), row.task.sample(1, np.arange(50)))


@every_task
def test_evaluation_samples_are_not_data_samples(row):
    test = held_out(row.task, 0)
    assert len(test) == row.task.num_test
    assert same(test, row.task.sample(0, np.arange(row.task.num_test), Stream.EVALUATION))
    train = row.task.sample(0, np.arange(row.task.num_test))
    assert abs(np.corrcoef(test.x.ravel(), train.x.ravel())[0, 1]) < 5 / np.sqrt(test.x.size)


@every_task
def test_targets_have_the_stated_mean_and_variance(row):
    y = row.task.sample(2, np.arange(200_000)).y.astype(np.float64)
    assert abs(y.mean() - row.mean) < 5 * np.sqrt(row.variance / len(y))
    np.testing.assert_allclose(y.var(), row.variance, rtol=0.1)


@white_inputs
def test_inputs_are_centred_white_and_uncorrelated(row):
    x = row.task.sample(3, np.arange(20_000)).x.astype(np.float64)
    assert np.abs(x.mean(axis=0)).max() < 5 / np.sqrt(len(x))
    assert np.abs(x.T @ x / len(x) - np.eye(row.task.dim)).max() < 8 / np.sqrt(len(x))


@every_task
@pytest.mark.parametrize("stream", [Stream.DATA, Stream.EVALUATION])
def test_a_target_is_the_stated_function_of_its_point(row, stream):
    data = row.task.sample(4, np.arange(500), stream)
    np.testing.assert_allclose(data.y, row.target(row.task, 4, data.x), rtol=1e-5, atol=1e-5)


@every_task
def test_the_population_is_every_point_once_labelled_like_the_samples(row):
    if row.task.population_size is None:
        with pytest.raises(HeadstartError, match=r"Fixed\(size=\.\.\.\) or Batch\(\.\.\.\)"):
            row.task.population(0)
        return
    population = row.task.population(0)
    assert len(population) == row.task.population_size == len(np.unique(population.x, axis=0))
    assert population.x.dtype == population.y.dtype == np.float32
    assert population.y.mean() == pytest.approx(row.mean)
    target_of = dict(zip(map(bytes, population.x), population.y, strict=True))
    data = row.task.sample(0, np.arange(300))
    assert [target_of[bytes(x)] for x in data.x] == data.y.tolist()
    some = np.array([row.task.population_size - 1, 0, 3])
    assert same(row.task.population(0, some), type(population)(population.x[some], population.y[some]))


@every_task
def test_every_named_loss_is_there_and_usable(row):
    data = row.task.sample(0, np.arange(20))
    assert row.task.losses
    for name in row.task.losses:
        outputs = getattr(row.task, "num_outputs", 1)
        prediction = torch.zeros((20,) if outputs == 1 else (20, outputs), requires_grad=True)
        value = LOSSES[name](prediction, torch.from_numpy(data.y))
        value.mean().backward()
        assert value.shape == (20,)
        assert torch.isfinite(prediction.grad).all()


@one_output
def test_metrics_are_best_for_the_truth_and_chance_for_one_who_knows_nothing(row):
    data = held_out(row.task, 0)
    coin = np.random.default_rng(0).choice([-1e-6, 1e-6], len(data)).astype(np.float32)
    names = [metric.name for metric in row.task.metrics]
    assert len(set(names)) == len(names) > 0
    for metric in row.task.metrics:
        truth, nothing = (np.mean(metric.score(p, data.y)) for p in (data.y, np.float32(row.mean) + coin))
        assert truth == (1 if metric.higher_is_better else 0)
        np.testing.assert_allclose(nothing, metric.chance, rtol=0.15)


def test_a_prediction_of_zero_has_no_sign_and_is_not_accurate():
    (accuracy,) = Parity(4, 2).metrics
    assert accuracy.score(np.array([0.0, 0.1, -0.1]), np.array([1.0, 1.0, 1.0])).tolist() == [False, True, False]


@pytest.mark.parametrize("row", CLASSES)
def test_the_accuracy_of_classes_is_one_for_the_truth_and_that_of_a_constant_its_share(row):
    data, (metric,) = held_out(row.task, 0), row.task.metrics
    truth = np.eye(row.task.modulus)[data.y.astype(int)]
    assert np.mean(metric.score(truth, data.y)) == 1
    assert np.mean(metric.score(np.roll(truth, 1, axis=1), data.y)) == 0
    always_four = np.tile(np.eye(7)[4], (len(data), 1))
    assert np.mean(metric.score(always_four, data.y)) == np.mean(data.y == 4)
    assert metric.chance == 1 / 7
    assert torch.equal(metric.score(torch.from_numpy(truth), torch.from_numpy(data.y)), torch.ones(len(data)) > 0)


def test_numbers_are_written_in_as_few_digits_as_cover_them():
    assert [ModularAddition(n, 7, base=10).num_digits for n in (2, 10, 11, 100, 101)] == [1, 1, 2, 2, 3]
    assert ModularAddition(100, 7, base=2).dim == 14
    x = ModularAddition(1000, 97).population(0, np.array([123_045])).x
    assert x.tolist() == [[1, 2, 3, 0, 4, 5]]


def test_addition_and_multiplication_have_the_same_inputs_and_large_numbers_do_not_overflow():
    ids = np.arange(100)
    one, two = (kind(2**31, 65_537, base=16).sample(0, ids) for kind in (ModularAddition, ModularMultiplication))
    assert np.array_equal(one.x, two.x)
    digits = [[f"{int(d):x}" for d in row] for row in two.x]
    numbers = [(int("".join(row[:8]), 16), int("".join(row[8:]), 16)) for row in digits]
    assert two.y.tolist() == [(x * z) % 65_537 for x, z in numbers]


@one_output
def test_metrics_score_arrays_and_tensors_alike(row):
    data = row.task.sample(0, np.arange(50))
    guess = np.linspace(-2, 2, 50, dtype=np.float32)
    for metric in row.task.metrics:
        score = metric.score(torch.from_numpy(guess), torch.from_numpy(data.y))
        np.testing.assert_allclose(score.double().numpy(), metric.score(guess, data.y), rtol=1e-6)


@every_task
def test_a_task_survives_json(row):
    assert decode(json.loads(json.dumps(encode(row.task)))) == row.task
    assert hash(row.task) == hash(decode(encode(row.task)))


@pytest.mark.parametrize(("dim", "degree"), [(20, 6), (24, 1)])
def test_the_population_of_parity_has_two_to_the_dim_points(dim, degree):
    assert Parity(dim, degree).population_size == 2**dim


def test_the_population_of_parity_stops_at_dimension_24():
    assert Parity(25, 6).population_size is None
    with pytest.raises(HeadstartError, match=r"dim=25.*24"):
        Parity(25, 6).population(0)


def test_the_default_support_is_the_first_coordinates_in_order():
    assert Parity(6, 2) == Parity(6, 2, support=(1, 0))
    assert Parity(6, 2).support == (0, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Parity(dim=3, degree=5), r"dim=3, degree=5.*at most the dimension 3"),
        (lambda: Parity(dim=0, degree=1), "dim=0"),
        (lambda: Parity(dim=3, degree=0), "degree=0"),
        (lambda: Parity(dim=3.0, degree=1), r"dim=3\.0"),
        (lambda: Parity(5, 2, support=(1, 1)), r"support=\(1, 1\).*2 distinct coordinates in \[0, 5\)"),
        (lambda: Parity(5, 2, support=(1, 5)), r"support=\(1, 5\)"),
        (lambda: Parity(5, 2, support=(1,)), r"support=\(1,\)"),
        (lambda: SingleIndex(dim=0), "dim=0"),
        (lambda: SingleIndex(dim=4, norm=0), "norm=0"),
        (lambda: SingleIndex(dim=4, norm=float("inf")), "norm=inf"),
        (lambda: Hermite(0), "degree=0"),
        (lambda: InContextRegression(features=0), "features=0"),
        (lambda: InContextRegression(context=0), "context=0"),
        (lambda: ModularAddition(0, 7), r"ModularAddition\(max_value=0\)"),
        (lambda: ModularAddition(10, 1), "modulus=1"),
        (lambda: ModularMultiplication(10, 7, base=1), r"ModularMultiplication\(base=1\)"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 6])
def test_the_variance_of_a_hermite_link_is_k_factorial(degree):
    np.testing.assert_allclose(SingleIndex(5, Hermite(degree)).variance, factorial(degree), rtol=1e-10)


@pytest.mark.parametrize("row", [p for p in TASKS if isinstance(p.values[0].task, SingleIndex)])
def test_the_variance_of_a_single_index_model_is_stated(row):
    np.testing.assert_allclose(row.task.variance, row.variance, rtol=1e-10)


def test_the_teacher_has_its_norm_and_is_drawn_anew_for_every_seed():
    task = SingleIndex(6, norm=2.0)
    teachers = np.stack([task.teacher(seed) for seed in range(2_000)])
    np.testing.assert_allclose(np.linalg.norm(teachers, axis=1), 2, rtol=1e-12)
    assert np.abs(teachers.mean(axis=0)).max() < 5 * 2 / np.sqrt(6 * 2_000)
    assert np.array_equal(task.teacher(0), task.teacher(0))
