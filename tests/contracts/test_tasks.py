"""What every task must do. A new task joins by adding one row to TASKS."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import factorial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import special

from headstart import losses
from headstart.core.encoding import decode, encode
from headstart.core.errors import HeadstartError
from headstart.core.metric import sign_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, signs
from headstart.data.directory import Tables, write
from headstart.tasks import (
    Bytes,
    Committee,
    DecisionList,
    Distractors,
    Erf,
    GaussianNoise,
    Hermite,
    HermiteSum,
    Images,
    InContextRegression,
    Language,
    LocalSignal,
    MadeImages,
    Masked,
    ModularArithmetic,
    MultiIndex,
    Parity,
    Pasted,
    Photographs,
    ProductOf,
    Relu,
    Rows,
    SingleIndex,
    Split,
    SwapRow,
    Tanh,
    Task,
    Validation,
    XorClusters,
    held_out,
    row_numbers,
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


def hidden(formula):
    """The target as a formula of the coordinates along the task's directions, z[directions, n]."""
    return lambda task, seed, x: formula(np.atleast_2d(task.teacher(seed)) @ x.T.astype(np.float64))


def least_squares(task, seed, x):
    """The target of each sequence from its own context, which determines the teacher."""
    tokens = x.astype(np.float64)
    xs, ys, query = tokens[:, 0:-1:2], tokens[:, 1::2, 0], tokens[:, -1]
    return np.array([q @ np.linalg.lstsq(a, b)[0] for a, b, q in zip(xs, ys, query, strict=True)])


def arithmetic(operation):
    def target(task, seed, x):
        def number(digits):
            return sum(int(digit) * task.base**k for k, digit in enumerate(reversed(digits)))

        num = task.num_digits
        return np.array([operation(number(row[:num]), number(row[num:])) % task.modulus for row in x])

    return target


def first_of_list(task, seed, x):
    """The label of every position, list by list."""
    return np.array(
        [[task.mapping[next(b for b in task.lists[a] if b in sequence)] for a in sequence] for sequence in x.tolist()]
    )


def inside(target):
    """The target of a split task is that of the task."""
    return lambda split, seed, x: target(split.task, seed, x)


def nearest_pattern(task, seed, x):
    return np.argmax([[u @ image.ravel().astype(np.float64) for u in task.patterns] for image in x], axis=1)


def pasted_pattern(task, seed, x):
    """The class of the made image in a fixed corner."""
    return nearest_pattern(task.task, seed, x[:, :, -task.task.side :, -task.task.side :])


# Rows of real data: three coordinates and a label, in a file of this process.
FILE = Path(tempfile.gettempdir()) / f"headstart_rows_{os.getpid()}.npy"
# The class of these images is their first pixel.
IMAGES = Images("contract", train=40, test=20)


@pytest.fixture(scope="module", autouse=True)
def rows_on_disk():
    x = np.random.default_rng(0).standard_normal((70, 3))
    np.save(FILE, np.column_stack([x, np.sign(x[:, 0] * x[:, 1])]).astype(np.float32))
    yield
    FILE.unlink()


# The alphabet over and over, so that a window is known by one of its letters.
TEXT = Language("alphabet", length=2, vocabulary=Bytes(), test=256)


def by_phase(shift):
    """The letters of windows of which most are as they were: `shift` places further on."""

    def target(task, seed, x):
        phases = (x - ord("a") - np.arange(x.shape[1])) % 26
        seen = zip(phases, x <= ord("z"), strict=True)
        phase = np.array([np.bincount(row[letters], minlength=26).argmax() for row, letters in seen])
        return ord("a") + (phase[:, None] + np.arange(x.shape[1]) + shift) % 26

    return target


@pytest.fixture(scope="module", autouse=True)
def images_on_disk(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSTART_DATA", str(tmp_path_factory.mktemp("data")))
        pixels = np.random.default_rng(0).integers(0, 256, (110, 2, 3, 4), dtype=np.uint8)
        pixels[:, 0, 0, 0] %= 4
        parts = {"train": pixels[:70], "test": pixels[70:]}
        arrays = {f"{part}_x": x for part, x in parts.items()} | {f"{p}_y": x[:, 0, 0, 0] for p, x in parts.items()}
        write(IMAGES.name, Tables(arrays, classes=tuple("abcd")), origin="this file")
        alphabet = np.frombuffer(bytes(range(ord("a"), ord("z") + 1)) * 400, dtype=np.uint8)
        write("alphabet", Tables({"text": alphabet, "starts": np.array([0, len(alphabet)])}), origin="this file")
        squares = np.random.default_rng(1).integers(0, 256, (5, 1, 32, 32), dtype=np.uint8)
        write("squares", Tables({"photographs": squares}), origin="this file")
        yield


@dataclass(frozen=True)
class Measured:
    """Rows in a file, read where they lie: nothing but what is asked for comes into memory."""

    path: str
    num_train: int = 40
    num_test: int = 20

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("mse", "logistic")
    signature: ClassVar[Signature] = Signature((3,))
    metrics: ClassVar = (sign_accuracy(),)

    @property
    def population_size(self):
        return self.num_train

    def sample(self, seed, ids, stream=Stream.DATA):
        table = np.load(self.path, mmap_mode="r")
        assert isinstance(table, np.memmap)
        rows = table[row_numbers("Measured", seed, ids, stream, self.num_train, self.num_test, len(table))]
        return Samples(np.ascontiguousarray(rows[:, :3]), np.ascontiguousarray(rows[:, 3]))

    def population(self, seed, ids=None):
        return self.sample(seed, np.arange(self.num_train) if ids is None else ids)


def corner(task, seed, x):
    return x[:, 0] * x[:, 1]


def signal_row(task, seed, x):
    """The sign of the row that is +-w*."""
    along = x.astype(np.float64) @ task.teacher(seed)
    far = np.linalg.norm(x - np.sign(along)[:, :, None] * task.teacher(seed), axis=2)
    return np.sign(along[np.arange(len(x)), far.argmin(axis=1)])


# Inputs of independent coordinates that are not all of one size.
CLUSTERS = [pytest.param(Row(XorClusters(9, 0.05, num_test=4096), 0, 1, corner), id="xor clusters")]
PATCHES = [
    pytest.param(Row(LocalSignal(3, 4, num_test=4096), 0, 1, signal_row), id="local signal"),
    pytest.param(
        Row(LocalSignal(2, 1, noise=0.3, ties=0, num_test=4096), 0, 1, signal_row), id="local signal on a line"
    ),
]
SEQUENCES = [
    pytest.param(Row(InContextRegression(), 0, 4, least_squares), id="in-context regression"),
    pytest.param(Row(InContextRegression(2, 5), 0, 2, least_squares), id="in-context regression of two features"),
]
CLASSES = [
    pytest.param(Row(ModularArithmetic(49, 7, base=7), 3, 4, arithmetic(lambda x, z: x + z)), id="modular addition"),
    # Zero is the product of 13 of the 49 pairs of residues, the others of 6 each.
    pytest.param(
        Row(
            ModularArithmetic(49, 7, base=7, operation="multiplication"),
            126 / 49,
            546 / 49 - (126 / 49) ** 2,
            arithmetic(lambda x, z: x * z),
        ),
        id="modular multiplication",
    ),
    pytest.param(Row(ModularArithmetic(13, base=13), 6, 14, arithmetic(lambda x, z: x + z)), id="two symbols"),
]
# A label for every position; by symmetry each label is as frequent as the others.
LISTS = [
    pytest.param(Row(DecisionList.cyclic(6, 3, (2, 1, 0), 4), 2.5, 35 / 12, first_of_list), id="decision lists"),
    pytest.param(
        Row(DecisionList.cyclic(7, 3, (3, 1, 0), 2, ordered=False), 3, 4, first_of_list), id="decision lists on sets"
    ),
    pytest.param(Row(DecisionList.cyclic(50, 9), 24.5, 2499 / 12, first_of_list), id="many decision lists"),
]
WINDOWS = [
    pytest.param(Row(TEXT, 109.5, 56.25, by_phase(1)), id="causal language"),
    pytest.param(
        Row(replace(TEXT, length=9, objective=Masked(), test=2304), 109.5, 56.25, by_phase(0)), id="masked language"
    ),
]
# Finite data, of which ids below num_train and num_test are all there is; the moments are those of all rows.
FINITE = [
    pytest.param(
        Row(Split(ModularArithmetic(13, base=13), 0.4), 6, 14, inside(arithmetic(lambda x, z: x + z))),
        id="split modular addition",
    ),
    pytest.param(Row(Split(Parity(6, 2), 0.5), 0, 1, inside(product)), id="split parity"),
    pytest.param(Row(Split(Parity(6, 2), 20, test=30), 0, 1, inside(product)), id="split parity by counts"),
    pytest.param(Row(MadeImages(60, 40, channels=2, rows=130), 4.5, 8.25, nearest_pattern), id="made images"),
    pytest.param(Row(IMAGES, 1.5, 1.25, lambda task, seed, x: np.rint(255 * x[:, 0])), id="images"),
    pytest.param(
        Row(
            replace(IMAGES, train=24, test=12, groups=((1, 3), (0,))),
            1 / 3,
            2 / 9,
            lambda task, seed, x: np.isin(np.rint(255 * x[:, 0]), (0,)),
        ),
        id="images in groups",
    ),
    *(
        pytest.param(
            Row(Pasted(MadeImages(60, 40, 4, rows=130), background, 0.7, 8, "fixed"), 4.5, 8.25, pasted_pattern),
            id=f"images on {name}",
        )
        for name, background in {
            "noise": GaussianNoise(),
            "photographs": Photographs("squares"),
            "distractors": Distractors(MadeImages(30, 30, 4, rows=90)),
        }.items()
    ),
    pytest.param(Row(Validation(Parity(40, 4), 300, 50), 0, 1, inside(product)), id="validation of parity"),
    pytest.param(
        Row(Validation(Split(Parity(6, 2), 30), 20, 10), 0, 1, lambda task, seed, x: x[:, 0] * x[:, 1]),
        id="validation of a split",
    ),
    pytest.param(Row(Measured(str(FILE)), 0, 1, lambda task, seed, x: np.sign(x[:, 0] * x[:, 1])), id="rows on disk"),
]
# Rows that a pair deals and no seed, and one of which is a test row: a stated exception to what `Rows` promise.
PAIRS = [
    pytest.param(Row(SwapRow(IMAGES, pair=3), 1.5, 1.25, lambda task, seed, x: np.rint(255 * x[:, 0])), id="a pair"),
    pytest.param(
        Row(SwapRow(Split(Parity(6, 2), 20), 5, z_in_test=False), 0, 1, lambda task, seed, x: x[:, 0] * x[:, 1]),
        id="a pair without z in the test rows",
    ),
]
TASKS = [
    pytest.param(Row(Parity(8, 3), 0, 1, product), id="sparse parity"),
    pytest.param(Row(Parity(40, 4), 0, 1, product), id="sparse parity beyond one word"),
    pytest.param(Row(Parity(5, 5), 0, 1, product), id="dense parity"),
    pytest.param(Row(Parity(9, 3, support=(8, 1, 4)), 0, 1, product), id="parity of a given support"),
    pytest.param(Row(XorClusters(40, 1.0, num_test=4096), 0, 1, corner), id="xor clusters of noise 1"),
    pytest.param(Row(SingleIndex(7, Hermite(1)), 0, 1, he(1)), id="linear index"),
    pytest.param(Row(SingleIndex(7, Hermite(2)), 0, 2, he(2)), id="quadratic index"),
    pytest.param(Row(SingleIndex(10, Hermite(3)), 0, 6, he(3)), id="cubic index"),
    pytest.param(Row(SingleIndex(7, Hermite(2), norm=2.0), 3, 32, he(2)), id="quadratic index of norm 2"),
    pytest.param(Row(SingleIndex(7, Hermite(3), norm=2.0), 0, 708, he(3)), id="cubic index of norm 2"),
    pytest.param(
        Row(SingleIndex(7, Relu()), (2 * np.pi) ** -0.5, 0.5 - 0.5 / np.pi, hidden(lambda z: np.maximum(z[0], 0))),
        id="rectified index",
    ),
    pytest.param(Row(MultiIndex(7, Hermite(2)), 0, 2, hidden(lambda z: z[0] ** 2 - 1)), id="multi-index of one"),
    # E[erf(z / sqrt 2)^2] = 1/3.
    pytest.param(
        Row(MultiIndex(6, Committee(Erf(), 3)), 0, 1 / 9, hidden(lambda z: special.erf(z / np.sqrt(2)).mean(0))),
        id="committee",
    ),
    pytest.param(
        Row(MultiIndex(8, HermiteSum.staircase(3)), 0, 3, hidden(lambda z: z[0] + z[0] * z[1] + z.prod(0))),
        id="staircase",
    ),
    pytest.param(
        Row(
            MultiIndex(6, HermiteSum(((3, (0,)), (0.5, (2, 1))))),
            3,
            0.5,
            hidden(lambda z: 3 + 0.5 * (z[0] ** 2 - 1) * z[1]),
        ),
        id="hermite sum",
    ),
    # By ten million draws: 0.2005.
    pytest.param(
        Row(MultiIndex(9, ProductOf(Tanh(), 3)), 0, 0.2005, hidden(lambda z: np.tanh(z.prod(0)))), id="product"
    ),
]
LOSSES = {
    kind.name: kind()
    for kind in (
        losses.MSE,
        losses.Hinge,
        losses.Logistic,
        losses.Exponential,
        losses.Correlation,
        losses.CrossEntropy,
    )
}
ENDLESS = TASKS + CLUSTERS + PATCHES + SEQUENCES + CLASSES + LISTS + WINDOWS
white_inputs = pytest.mark.parametrize("row", TASKS)
one_output = pytest.mark.parametrize("row", TASKS + CLUSTERS + PATCHES + SEQUENCES)
endless_task = pytest.mark.parametrize("row", ENDLESS)
finite_task = pytest.mark.parametrize("row", FINITE)
dealt_by_seed = pytest.mark.parametrize("row", ENDLESS + FINITE)
finite_rows = pytest.mark.parametrize("row", FINITE + PAIRS)
every_task = pytest.mark.parametrize("row", ENDLESS + FINITE + PAIRS)


def same(one, two):
    return np.array_equal(one.x, two.x) and np.array_equal(one.y, two.y)


def most(task, num, stream=Stream.DATA):
    """As many ids as there are, up to `num`."""
    if not isinstance(task, Rows):
        return num
    return min(num, task.num_test if stream is Stream.EVALUATION else task.num_train)


@every_task
def test_a_task_keeps_its_protocol(row):
    assert isinstance(row.task, Task)


@every_task
def test_samples_have_the_stated_shapes_and_types(row):
    for n in (1, 13):
        data = row.task.sample(0, np.arange(n))
        signature = row.task.signature
        assert data.x.shape == (n, *signature.inputs)
        assert data.y.shape == (n, *signature.outputs[:-1])
        assert data.x.dtype == (np.int64 if signature.symbols else np.float32)
        assert data.y.dtype == (np.int64 if signature.outputs else np.float32)
        assert signature.symbols is None or 0 <= data.x.min() <= data.x.max() < signature.symbols
        assert len(data) == n


@every_task
def test_a_sample_is_decided_by_its_id_alone(row):
    ids = np.array([5, 0, 3, most(row.task, 10**12) - 1, 3])
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


@dealt_by_seed
def test_another_seed_has_other_samples(row):
    ids = np.arange(most(row.task, 50))
    assert not same(row.task.sample(0, ids), row.task.sample(1, ids))


@endless_task
def test_evaluation_samples_are_not_data_samples(row):
    test = held_out(row.task, 0)
    assert len(test) == row.task.num_test
    assert same(test, row.task.sample(0, np.arange(row.task.num_test), Stream.EVALUATION))
    train = row.task.sample(0, np.arange(row.task.num_test))
    one, two = (data.x - data.x.mean(axis=0) for data in (test, train))
    assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 5 / np.sqrt(test.x.size)


@endless_task
def test_targets_have_the_stated_mean_and_variance(row):
    y = row.task.sample(2, np.arange(200_000)).y.astype(np.float64)
    assert abs(y.mean() - row.mean) < 5 * np.sqrt(row.variance / len(y))
    np.testing.assert_allclose(y.var(), row.variance, rtol=0.1)


@white_inputs
def test_inputs_are_centred_white_and_uncorrelated(row):
    x = row.task.sample(3, np.arange(20_000)).x.astype(np.float64)
    assert np.abs(x.mean(axis=0)).max() < 5 / np.sqrt(len(x))
    assert np.abs(x.T @ x / len(x) - np.eye(row.task.signature.num_inputs)).max() < 8 / np.sqrt(len(x))


@every_task
@pytest.mark.parametrize("stream", [Stream.DATA, Stream.EVALUATION])
def test_a_target_is_the_stated_function_of_its_point(row, stream):
    data = row.task.sample(4, np.arange(most(row.task, 500, stream)), stream)
    np.testing.assert_allclose(data.y, row.target(row.task, 4, data.x), rtol=1e-5, atol=1e-5)


@every_task
def test_the_population_is_every_point_once_labelled_like_the_samples(row):
    if row.task.population_size is None:
        with pytest.raises(HeadstartError, match=r"Fixed\(size=\.\.\.\) or Batch\(\.\.\.\)"):
            row.task.population(0)
        return
    population = row.task.population(0)
    assert len(population) == row.task.population_size == len(np.unique(population.x, axis=0))
    data = row.task.sample(0, np.arange(most(row.task, 300)))
    assert (population.x.dtype, population.y.dtype) == (data.x.dtype, data.y.dtype)
    if not isinstance(row.task, Rows):
        assert population.y.mean() == pytest.approx(row.mean)
    target_of = dict(zip(map(bytes, population.x), population.y, strict=True))
    assert [target_of[bytes(x)].tolist() for x in data.x] == data.y.tolist()
    some = np.array([row.task.population_size - 1, 0, 3])
    assert same(row.task.population(0, some), type(population)(population.x[some], population.y[some]))


@every_task
def test_every_named_loss_is_there_and_usable(row):
    data = row.task.sample(0, np.arange(20))
    assert row.task.losses
    for name in row.task.losses:
        prediction = torch.zeros((20, *row.task.signature.outputs), requires_grad=True)
        value = LOSSES[name](prediction, torch.from_numpy(data.y))
        value.mean().backward()
        assert value.shape == data.y.shape
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


@pytest.mark.parametrize(("task", "tie"), [(Parity(4, 2), 0.5), (Parity(4, 2, ties=0), 0), (Parity(4, 2, ties=1), 1)])
def test_a_prediction_of_zero_has_no_sign_and_counts_as_a_coin_unless_the_task_says_otherwise(task, tie):
    (accuracy,) = task.metrics
    guess, truth = np.array([0.0, 0.1, -0.1, -0.0]), np.array([1.0, 1.0, 1.0, -1.0])
    for kind in (np.asarray, torch.from_numpy):
        assert accuracy.score(kind(guess), kind(truth)).tolist() == [tie, 1, 0, tie]


@pytest.mark.parametrize(("ties", "score"), [(0.5, 0.5), (0, 0.0)])
def test_a_constant_zero_is_as_good_as_a_coin_or_always_wrong(ties, score):
    task = Parity(8, 3, ties=ties)
    data, (accuracy,) = held_out(task, 0), task.metrics
    assert np.mean(accuracy.score(np.zeros(len(data), dtype=np.float32), data.y)) == score


@pytest.mark.parametrize("row", CLASSES)
def test_the_accuracy_of_classes_is_one_for_the_truth_and_that_of_a_constant_its_share(row):
    data, (metric,) = held_out(row.task, 0), row.task.metrics
    (classes,) = row.task.signature.outputs
    truth = np.eye(classes)[data.y]
    assert np.mean(metric.score(truth, data.y)) == 1
    assert np.mean(metric.score(np.roll(truth, 1, axis=1), data.y)) == 0
    always_last = np.tile(np.eye(classes)[-1], (len(data), 1))
    assert np.mean(metric.score(always_last, data.y)) == np.mean(data.y == classes - 1)
    assert metric.chance == 1 / classes
    assert torch.equal(metric.score(torch.from_numpy(truth), torch.from_numpy(data.y)), torch.ones(len(data)) > 0)


def test_numbers_are_written_in_as_few_digits_as_cover_them():
    assert [ModularArithmetic(n, 7, base=10).num_digits for n in (2, 10, 11, 100, 101)] == [1, 1, 2, 2, 3]
    assert ModularArithmetic(100, 7, base=2).signature == Signature((14,), symbols=2, outputs=(7,))
    assert ModularArithmetic(100, base=100).signature == Signature((2,), symbols=100, outputs=(100,))
    x = ModularArithmetic(1000, 97).population(0, np.array([123_045])).x
    assert x.tolist() == [[1, 2, 3, 0, 4, 5]]


def test_addition_and_multiplication_have_the_same_inputs_and_large_numbers_do_not_overflow():
    ids = np.arange(100)
    one, two = (
        ModularArithmetic(2**31, 65_537, 16, operation).sample(0, ids) for operation in ("addition", "multiplication")
    )
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


@finite_task
@pytest.mark.parametrize("seed", [0, 1, 2, 2**32 - 1])
def test_no_test_row_of_finite_data_is_ever_trained_on(row, seed):
    train, test = row.task.sample(seed, np.arange(row.task.num_train)), held_out(row.task, seed)
    trained, tested = ({x.tobytes() for x in data.x} for data in (train, test))
    assert len(trained) == row.task.num_train
    assert len(tested) == row.task.num_test
    assert trained.isdisjoint(tested)


@finite_rows
def test_an_id_beyond_the_rows_is_refused(row):
    for stream, num, kind in (
        (Stream.DATA, row.task.num_train, "training"),
        (Stream.EVALUATION, row.task.num_test, "test"),
    ):
        assert len(row.task.sample(0, np.array([0, num - 1]), stream)) == 2
        assert len(row.task.sample(0, np.array([], dtype=np.int64), stream)) == 0
        for ids in ([0, num], [-1, 0]):
            with pytest.raises(HeadstartError, match=f"there are {num} {kind} rows"):
                row.task.sample(0, np.array(ids), stream)


@finite_rows
def test_the_population_of_finite_data_is_every_training_row_once(row):
    population, drawn = row.task.population(5), row.task.sample(5, np.arange(row.task.num_train))
    assert len(population) == row.task.population_size == row.task.num_train
    assert sorted(map(bytes, population.x)) == sorted(map(bytes, drawn.x))
    assert len(set(map(bytes, population.x))) == row.task.num_train


@finite_task
def test_every_seed_deals_the_rows_anew(row):
    dealt = [frozenset(map(bytes, row.task.population(seed).x)) for seed in range(5)]
    assert len(set(dealt)) == 5


@pytest.mark.parametrize("task", [ModularArithmetic(13, base=13), Parity(6, 2)], ids=["modular addition", "parity"])
def test_the_two_parts_of_a_split_are_the_population_in_the_stated_shares(task):
    whole = sorted(map(bytes, task.population(0).x))
    for train in (0.25, 30):
        split = Split(task, train)
        assert split.num_train == (round(0.25 * len(whole)) if train < 1 else 30)
        parts = [*map(bytes, split.population(3).x), *map(bytes, held_out(split, 3).x)]
        assert sorted(parts) == whole
    fewer = Split(task, 0.25, test=7)
    assert same(held_out(fewer, 3), Split(task, 0.25).sample(3, np.arange(7), Stream.EVALUATION))


@pytest.mark.parametrize("task", [Parity(40, 3), Split(Parity(6, 2), 40)], ids=["endless", "finite"])
def test_a_validation_set_is_cut_from_the_samples_that_others_train_on(task):
    cut, whole = Validation(task, 30, 10), task.sample(7, np.arange(40))
    train, test = cut.population(7), held_out(cut, 7)
    assert np.array_equal(np.concatenate([train.x, test.x]), whole.x)
    assert np.array_equal(np.concatenate([train.y, test.y]), whole.y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Validation(Parity, 30, 10), "give a task, such as Parity"),
        (lambda: Validation(Parity(40, 3), 0, 10), "train=0"),
        (lambda: Validation(Split(Parity(6, 2), 40), 31, 10), "has 40 training rows; use fewer"),
    ],
)
def test_a_validation_set_that_cannot_be_cut_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


def test_a_task_without_rows_keeps_its_streams():
    ids = np.array([0, 7, 10**15])
    for row in (p.values[0] for p in ENDLESS):
        assert not isinstance(row.task, Rows)
        assert row.task.num_test >= 256
    for stream in (Stream.DATA, Stream.EVALUATION):
        assert np.array_equal(Parity(8, 3).sample(2, ids, stream).x, signs(2, stream, ids, 8))
    assert all(isinstance(p.values[0].task, Rows) for p in FINITE)


@every_task
def test_a_task_survives_json(row):
    trust = {type(row.task).__module__}
    assert decode(json.loads(json.dumps(encode(row.task))), trust=trust) == row.task
    assert hash(row.task) == hash(decode(encode(row.task), trust=trust))


@pytest.mark.parametrize("stream", [Stream.DATA, Stream.EVALUATION])
def test_xor_clusters_have_the_signs_of_parity_two_of_them_large_and_the_others_of_the_size_of_the_noise(stream):
    ids = np.array([3, 0, 10**12, *range(100)])
    x, plain = (task.sample(1, ids, stream).x for task in (XorClusters(70, 0.25), Parity(70, 2)))
    assert np.array_equal(np.abs(x), np.tile([1, 1] + 68 * [0.25], (103, 1)))
    assert np.array_equal(np.sign(x), plain)
    assert np.array_equal(XorClusters(70, 1.0).sample(1, ids, stream).x, plain)


def test_labels_that_say_nothing_about_xor_clusters_are_fair_signs_by_id():
    task, ids = XorClusters(9), np.arange(4000)
    data = task.sample(0, ids)
    drawn = task.random_labels(0, ids, data.x)
    assert set(drawn.tolist()) == {-1, 1}
    assert abs(np.mean(drawn * data.y)) < 5 / np.sqrt(len(ids))
    assert np.array_equal(task.random_labels(0, ids[::-1], data.x[::-1]), drawn[::-1])


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
        (lambda: ModularArithmetic(0, 7), r"ModularArithmetic\(max_value=0\)"),
        (lambda: ModularArithmetic(10, 1), "modulus=1"),
        (lambda: ModularArithmetic(10, 7, base=1), r"ModularArithmetic\(base=1\)"),
        (lambda: ModularArithmetic(10, operation="division"), "'division'.*addition or multiplication"),
        (lambda: Parity(5, 2, ties=1.5), r"ties=1\.5"),
        (lambda: LocalSignal(1), r"LocalSignal\(patches=1\).*at least 2"),
        (lambda: LocalSignal(9, noise=0), "noise=0"),
        (lambda: LocalSignal(9, ties=-1), "ties=-1"),
        (lambda: XorClusters(1), r"XorClusters\(dim=1\).*at least 2"),
        (lambda: XorClusters(9, noise=-0.1), r"noise=-0\.1"),
        (lambda: XorClusters(9, num_test=0), "num_test=0"),
        (lambda: XorClusters(9, ties=2), "ties=2"),
        (lambda: Split(SingleIndex(4), 0.5), r"SingleIndex.*give a task with a finite population"),
        (lambda: Split(Parity, 0.5), "give a task with a finite population"),
        (lambda: Split(Parity(4, 2), 0), "train=0.*fraction in"),
        (lambda: Split(Parity(4, 2), 16), "train=16.*below 16"),
        (lambda: Split(Parity(4, 2), 0.01), "0 .* 16 points do not fit"),
        (lambda: Split(Parity(4, 2), 10, test=7), "10 .* 7 points do not fit"),
        (lambda: Split(Parity(4, 2), 10, test=0), "test=0"),
        (lambda: Images("mnist", train=0), "train=0"),
        (lambda: Images("mnist", test=2.5), r"test=2\.5"),
        (lambda: Images("mnist", std=0), r"Images\(std=0\).*above 0"),
        (lambda: Images("mnist", mean=("dark",)), r"Images\(mean=\('dark',\)\)"),
        (lambda: Images("contract", train=71).sample(0, np.arange(3)), "train=71.*has 70 images"),
        (lambda: Images("contract", 40, 20, mean=(0, 0, 0)).sample(0, np.arange(3)), "give one number, or 2"),
        (lambda: Images("cifar10").sample(0, np.arange(3)), "cifar10 is not in .*`headstart data get cifar10`"),
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


def test_images_keep_the_split_of_their_files_whole_or_flattened_and_scaled():
    task = Images("contract", train=70, test=40, flat=False, mean=(0.5, 0.25), std=(1, 2))
    assert task.signature == Signature((2, 3, 4), outputs=(4,))
    flat = Images("contract", train=70, test=40)
    assert flat.signature == Signature((24,), outputs=(4,))
    for seed in (0, 1):
        for whole, pixels in (
            (task.population(seed), flat.population(seed)),
            (held_out(task, seed), held_out(flat, seed)),
        ):
            x = pixels.x.reshape(-1, 2, 3, 4)
            expected = np.stack([x[:, 0] - np.float32(0.5), (x[:, 1] - np.float32(0.25)) / 2], axis=1)
            np.testing.assert_allclose(whole.x, expected, atol=1e-6)
            assert np.array_equal(whole.y, pixels.y)
            assert pixels.x.min() >= 0
            assert pixels.x.max() == 1
    train, test = ({x.tobytes() for x in part(flat, 3).x} for part in (Images.population, held_out))
    assert len(train) == 70
    assert len(test) == 40
    assert train == {x.tobytes() for x in flat.population(4).x}  # all of its training file, whatever the seed


def test_the_form_of_a_known_set_needs_no_file():
    assert Images("mnist").signature == Signature((784,), outputs=(10,))
    assert Images("cifar10", flat=False).signature == Signature((3, 32, 32), outputs=(10,))
    assert Images("svhn").metrics[0].chance == 0.1


def test_a_validation_slice_of_images_is_cut_from_their_training_rows():
    task = Images("contract", train=40, test=20)
    part = Split(task, train=30, test=10)
    rows = [x.tobytes() for x in (*part.population(2).x, *held_out(part, 2).x)]
    assert sorted(rows) == sorted(x.tobytes() for x in task.population(2).x)


def test_shrunk_images_have_the_means_of_squares():
    assert "shrink" not in encode(IMAGES)  # the default does not enter what is stored
    with pytest.raises(HeadstartError, match=r"shrink=2.*\(3, 4\)"):
        assert Images("contract", 40, 20, flat=False, shrink=2).signature
    wide = Images("mnist", flat=False, shrink=2)
    assert wide.signature == Signature((1, 14, 14), outputs=(10,))
    pixels = np.arange(32, dtype=np.uint8).reshape(1, 2, 4, 4)
    means = pixels.astype(np.float64).reshape(1, 2, 2, 2, 2, 2).mean(axis=(3, 5)) / 255
    np.testing.assert_allclose(wide._scaled(pixels), means, rtol=1e-6)


def test_more_made_images_than_there_are_are_refused():
    with pytest.raises(HeadstartError, match=r"train=1900, test=200.*2000 rows"):
        MadeImages(1900)


@pytest.mark.parametrize(
    "task", [Parity(4, 2), SingleIndex(3), InContextRegression(1, 2), ModularArithmetic(10, 2)], ids=repr
)
def test_fewer_test_points_are_the_first_of_more_and_the_usual_number_is_no_part_of_a_cell(task):
    few = replace(task, num_test=5)
    assert np.array_equal(held_out(few, 3).x, held_out(task, 3).x[:5])
    assert "num_test" not in encode(task)
    assert encode(few)["num_test"] == 5
    with pytest.raises(HeadstartError, match="num_test=0"):
        replace(task, num_test=0)
