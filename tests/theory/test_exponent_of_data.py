"""The kernel of Hermite tensors against the tensors, and what data say of their exponent."""

from itertools import product
from math import factorial

import numpy as np
import pytest
from numpy.polynomial import hermite_e

from headstart import HeadstartError
from headstart.tasks import Hermite, Relu, Sign
from headstart.theory import estimate_exponent, whiten
from headstart.theory.exponent_of_data import hermite_kernels


def generator(seed):
    return np.random.Generator(np.random.Philox(key=seed))


def rows(n, dim, link, noise=0.0, seed=0):
    rng = generator(seed)
    x = rng.normal(size=(n, dim))
    return x, link(x[:, 0]) + noise * rng.normal(size=n)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_the_kernel_of_a_degree_is_the_inner_product_of_hermite_tensors(dim):
    x, z = generator(1).normal(size=(2, 5, dim))
    kernels = list(hermite_kernels(x @ z.T, (x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1), dim, 6))
    he = [[hermite_e.hermeval(part, [0.0] * k + [1.0]) for k in range(7)] for part in (x, z)]
    for j, kernel in enumerate(kernels, start=1):
        explicit = np.zeros((5, 5))
        for alpha in product(range(j + 1), repeat=dim):
            if sum(alpha) == j:
                one, other = (np.prod([table[a][:, i] for i, a in enumerate(alpha)], axis=0) for table in he)
                explicit += np.outer(one, other) / np.prod([factorial(a) for a in alpha])
        np.testing.assert_allclose(kernel, explicit, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("link", "n", "dim", "noise", "exponent"),
    [
        (Hermite(1), 400, 10, 1.0, 1),
        (Relu(), 400, 10, 0.1, 1),
        (Sign(), 400, 10, 0.1, 1),
        (Hermite(2), 1000, 8, 1.0, 2),
    ],
)
def test_the_exponent_of_drawn_data_is_found(link, n, dim, noise, exponent):
    found = estimate_exponent(*rows(n, dim, link, noise))
    assert found.exponent == exponent
    assert found.consistent == (exponent,)
    assert not found.above
    assert found.words.startswith(f"The exponent is {exponent}.")
    strength = found.strengths[exponent - 1]
    assert strength.p_value == 1 / 200
    assert strength.low <= strength.share <= max(strength.high, strength.share)


def test_a_cubic_is_found_and_what_is_open_is_said():
    found = estimate_exponent(*rows(2000, 2, Hermite(3), seed=2))
    assert found.exponent == 3
    # Rare labels decide whether degree 1 is there: with this seed it stands out, with an interval that reaches 0.
    assert found.strengths[0].p_value == 1 / 200
    assert found.strengths[0].low == 0
    assert found.consistent == (1, 2, 3)
    assert "lower if degree 1" in found.words


def test_shares_of_the_variance_are_inside_their_intervals():
    # sign: 2/pi of degree 1, 1/(3 pi) of degree 3, none of degrees 2 and 4.
    strengths = estimate_exponent(*rows(800, 5, Sign(), seed=4)).strengths
    for strength, true in zip(strengths, (2 / np.pi, 0, 1 / (3 * np.pi), 0), strict=True):
        assert strength.low <= true <= strength.high
    assert strengths[0].share == pytest.approx(2 / np.pi, abs=0.08)


def test_labels_of_pure_noise_cannot_tell():
    rng = generator(3)
    found = estimate_exponent(rng.normal(size=(300, 10)), rng.normal(size=300))
    assert found.exponent is None
    assert found.above
    assert found.words.startswith("Cannot tell")
    assert 3 in found.consistent
    assert 4 in found.consistent


def test_too_few_rows_for_a_degree_are_said_and_not_guessed():
    found = estimate_exponent(*rows(100, 30, Hermite(3), seed=5))
    assert found.exponent is None
    assert found.strengths[2].detectable > 1
    assert "More rows" in found.words


def test_a_lower_degree_that_may_be_there_stays_consistent():
    found = estimate_exponent(*rows(600, 8, Hermite(2), seed=1), negligible=1e-4)
    assert found.exponent == 2
    assert found.consistent == (1, 2)
    assert "at most 2" in found.words


def test_a_degree_whose_interval_reaches_zero_is_only_perhaps_the_exponent():
    found = estimate_exponent(*rows(400, 4, Hermite(5)), max_degree=2)
    assert found.exponent == 1
    assert found.above
    assert found.words.startswith("Perhaps 1")


def test_the_test_of_a_degree_holds_its_level_when_labels_depend_on_inputs_otherwise():
    # He_2 has no degree 1, but E[y^2 x^2] is five times E[y^2]: permuted labels alone would reject in 30 of 80 tables.
    # 5% is 4; a test at 6% rejects in at most 12 with probability 0.999.
    p_values = [
        estimate_exponent(*rows(200, 1, Hermite(2), seed=seed), max_degree=1, num_permutations=39).strengths[0].p_value
        for seed in range(80)
    ]
    assert sum(p <= 0.05 for p in p_values) <= 12


def test_the_estimate_is_a_function_of_its_seed():
    x, y = rows(200, 3, Relu())
    assert estimate_exponent(x, y, seed=1) == estimate_exponent(x, y, seed=1)
    other = estimate_exponent(x, y, seed=2)
    assert [s.share for s in other.strengths] == [s.share for s in estimate_exponent(x, y, seed=1).strengths]


def test_the_scale_of_labels_does_not_matter():
    x, y = rows(200, 3, Relu())
    one, other = estimate_exponent(x, y), estimate_exponent(x, 3 - 100 * y)
    np.testing.assert_allclose([s.share for s in one.strengths], [s.share for s in other.strengths], atol=1e-12)


def test_whitened_rows_have_mean_zero_and_unit_covariance():
    x = generator(0).normal(size=(300, 4)) @ generator(1).normal(size=(4, 4)) + 5
    white = whiten(x)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(white.T @ white / 300, np.eye(4), atol=1e-10)
    with pytest.raises(HeadstartError, match="whiten"):
        estimate_exponent(x, x[:, 0])
    assert estimate_exponent(white, x[:, 0]).exponent == 1


def test_inputs_with_heavy_tails_and_labels_with_a_few_large_ones_come_with_a_warning():
    x, y = rows(400, 4, Hermite(2))
    heavy = whiten(x * generator(2).exponential(size=(400, 1)))
    assert "not Gaussian" in estimate_exponent(heavy, y).words
    assert "not Gaussian" not in estimate_exponent(x, y).words
    assert "very large" in estimate_exponent(x, x[:, 0] ** 9).words
    assert "very large" not in estimate_exponent(x, Sign()(x[:, 0])).words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.zeros((60, 1))}, "give x"),
        ({"y": np.ones(60)}, "in every row"),
        ({"y": np.full(60, np.nan)}, "NaN"),
        ({"x": np.zeros((20, 2)), "y": np.zeros(20)}, "20 rows are too few"),
        ({"x": generator(0).normal(size=(60, 2)) * 3}, "far from N"),
        ({"num_permutations": 20}, "num_permutations=20"),
        ({"max_degree": 9}, "max_degree"),
        ({"negligible": 0.0}, "negligible"),
        ({"level": 2.0}, "level"),
    ],
)
def test_bad_input_is_refused_with_the_fix(change, words):
    x = generator(0).normal(size=(60, 2))
    with pytest.raises(HeadstartError, match=words):
        estimate_exponent(**{"x": x, "y": x[:, 0], **change})


@pytest.mark.parametrize("x", [np.zeros(5), np.zeros((5, 5)), np.full((5, 2), np.nan)])
def test_rows_that_cannot_be_whitened_are_refused(x):
    with pytest.raises(HeadstartError, match="whiten"):
        whiten(x)
