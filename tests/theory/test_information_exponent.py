"""Hermite coefficients against closed forms; exponents, leaps and learnability where they are known."""

from math import factorial, pi, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite_e

from headstart import HeadstartError
from headstart.tasks import Erf, Hermite, Relu, Series, Sign, Tanh
from headstart.theory import (
    Outlook,
    generative_exponent,
    hermite_coefficients,
    information_exponent,
    leap_index,
    learnability,
)
from headstart.theory.hermite import unit_coefficients

DEGREE = 12


def he(k, x):
    return hermite_e.hermeval(x, [0.0] * k + [1.0])


def he_at_zero(k):
    return 0.0 if k % 2 else (-1) ** (k // 2) * factorial(k) / (2 ** (k // 2) * factorial(k // 2))


def relu_coefficient(k):
    """E[relu He_k] = phi(0) He_{k-2}(0) for k >= 2, by two integrations by parts."""
    return {0: 1 / sqrt(2 * pi), 1: 0.5}.get(k) or he_at_zero(k - 2) / sqrt(2 * pi) / factorial(k)


def sign_coefficient(k):
    return 0.0 if k == 0 else 2 * he_at_zero(k - 1) / sqrt(2 * pi) / factorial(k)


def erf_coefficient(k):
    """E[erf^(k)] / k!: the slope is 2 phi, and E[phi^(j)] is the same derivative of a Gaussian of variance 2 at 0."""
    return 0.0 if k == 0 else 2 * he_at_zero(k - 1) / sqrt(4 * pi) / sqrt(2) ** (k - 1) / factorial(k)


@pytest.mark.parametrize(
    ("link", "known"), [(Relu(), relu_coefficient), (Sign(), sign_coefficient), (Erf(), erf_coefficient)]
)
def test_coefficients_of_a_link_are_those_of_its_closed_form(link, known):
    np.testing.assert_allclose(
        hermite_coefficients(link, DEGREE), [known(k) for k in range(DEGREE + 1)], rtol=1e-12, atol=1e-15
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=9).filter(any))
def test_coefficients_of_a_series_are_its_own(coefficients):
    found = hermite_coefficients(lambda z: hermite_e.hermeval(z, coefficients), 10)
    np.testing.assert_allclose(found[: len(coefficients)], coefficients, atol=1e-11)
    np.testing.assert_allclose(found[len(coefficients) :], 0, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(at=st.floats(-3, 3))
@example(at=1e-10)
@example(at=0.501)
def test_a_jump_is_found_wherever_it_is(at):
    found = hermite_coefficients(lambda z: 1.0 * (z > at), 6)[1:]
    density = np.exp(-(at**2) / 2) / sqrt(2 * pi)
    np.testing.assert_allclose(found, [he(k - 1, at) * density / factorial(k) for k in range(1, 7)], atol=1e-12)


def test_squares_of_coefficients_sum_to_the_second_moment_up_to_high_degrees():
    assert (unit_coefficients(Erf(), 300) ** 2).sum() == pytest.approx(2 / pi * np.arcsin(0.5), abs=1e-13)
    # relu^2 has the moment 1/2; its coefficients of degree above K hold a share of order K^(-3/2).
    assert 0 < 0.5 - (unit_coefficients(Relu(), 300) ** 2).sum() < 0.1 * 300**-1.5


def test_a_function_of_single_precision_is_integrated_to_single_precision():
    found = hermite_coefficients(lambda z: np.tanh(z.astype(np.float32)), 7)
    np.testing.assert_allclose(found, hermite_coefficients(Tanh(), 7), atol=1e-7)


@pytest.mark.parametrize(
    ("link", "exponent"),
    [
        *[(Hermite(k), k) for k in range(1, 8)],
        (Erf(), 1),
        (Relu(), 1),
        (Sign(), 1),
        (np.abs, 2),
        (np.cos, 2),
        (Series((7, 0, 0, 0.001, 5)), 3),
        (lambda z: Relu()(z) - z / 2, 2),
    ],
)
def test_the_information_exponent_is_the_least_degree(link, exponent):
    assert information_exponent(link) == exponent


@pytest.mark.parametrize(
    ("link", "exponent"), [(Hermite(3), 1), (Hermite(5), 1), (Hermite(4), 2), (np.abs, 2), (Sign(), 1), (Relu(), 1)]
)
def test_transformed_labels_of_a_polynomial_have_exponent_one_or_two(link, exponent):
    assert generative_exponent(link) == exponent


def test_the_label_z_squared_exp_minus_z_squared_has_generative_exponent_four():
    # Damian et al. (2024): both roots of a level have the same weight with opposite signs in E[He_2 | y].
    assert generative_exponent(lambda z: z**2 * np.exp(-(z**2))) == 4
    assert generative_exponent(lambda z: z**2 * np.exp(-0.9 * z**2)) == 2


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.1, 2), min_size=3, max_size=5), st.integers(1, 3))
def test_the_generative_exponent_is_at_most_the_information_exponent(coefficients, first):
    link = Series((0.0,) * first + tuple(coefficients))
    assert generative_exponent(link) <= information_exponent(link) == first


@pytest.mark.parametrize("exponent", [information_exponent, generative_exponent])
def test_a_constant_has_no_exponent_and_the_error_says_so(exponent):
    with pytest.raises(HeadstartError, match=r"constant|varies"):
        exponent(lambda z: np.full_like(z, 2.0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: information_exponent(Hermite(9), max_degree=8), "max_degree"),
        (lambda: hermite_coefficients(Relu(), 301), "degree"),
        (lambda: hermite_coefficients(lambda z: np.exp(z**4)), "not finite"),
        (lambda: hermite_coefficients(lambda z: 1.0), "elementwise"),
        (lambda: hermite_coefficients("relu"), "not a function"),
        (lambda: information_exponent(Relu(), tolerance=0.0), "tolerance"),
        (lambda: leap_index(Hermite(3), 7), "num_directions"),
        (lambda: leap_index(lambda z: z[:, 0], 2), "coordinate 1"),
        (lambda: leap_index(lambda z: z[:, 0], 2, in_any_basis=True), "1 of 2 directions"),
        (lambda: leap_index(lambda z: np.ones(len(z)), 2), "no monomial"),
        (lambda: leap_index(lambda z: z, 2), "give a callable"),
    ],
)
def test_what_has_no_answer_is_refused_in_words(call, words):
    with pytest.raises(HeadstartError, match=words):
        call()


@pytest.mark.parametrize("in_any_basis", [False, True])
@pytest.mark.parametrize("link", [Hermite(1), Hermite(3), np.abs, Sign(), Series((0, 0, 0, 0, 1, 1))])
def test_the_leap_of_one_direction_is_the_information_exponent(link, in_any_basis):
    assert leap_index(link, 1, in_any_basis=in_any_basis).index == information_exponent(link)


@pytest.mark.parametrize("in_any_basis", [False, True])
@pytest.mark.parametrize(
    ("target", "num_directions", "degrees"),
    [
        (lambda z: z[:, 0] + z[:, 0] * z[:, 1] + z.prod(axis=1), 3, [1, 1, 1]),
        (lambda z: np.tanh(z.prod(axis=1)), 3, [3]),
        (lambda z: z[:, 0] + z[:, 1] * z[:, 2], 3, [1, 2]),
        (lambda z: z[:, 0] + z[:, 0] * he(3, z[:, 1]), 2, [1, 3]),
        (lambda z: np.sign(z).prod(axis=1), 4, [4]),
        (lambda z: np.abs(z).sum(axis=1), 2, [2, 2]),
    ],
)
def test_the_leap_is_the_dearest_step_of_the_best_order(target, num_directions, degrees, in_any_basis):
    leap = leap_index(target, num_directions, in_any_basis=in_any_basis)
    assert leap.index == max(degrees)
    # By subspaces all directions of one degree come at once.
    assert [step.degree for step in leap.steps] == (
        sorted(set(degrees)) if leap.index > 1 and in_any_basis else degrees
    )
    found = np.array([direction for step in leap.steps for direction in step.directions])
    np.testing.assert_allclose(found @ found.T, np.eye(num_directions), atol=1e-9)


def test_steps_name_their_monomials_in_order():
    leap = leap_index(lambda z: z[:, 2] + z[:, 2] * he(2, z[:, 0]) + z[:, 0] * z[:, 1], 3)
    assert [step.monomial for step in leap.steps] == [(0, 0, 1), (1, 1, 0)]
    assert leap.index == 2


def test_isotropic_inputs_see_the_leap_of_the_worst_basis():
    target = lambda z: z[:, 0] + z[:, 1] + z[:, 0] * z[:, 1]  # noqa: E731
    assert leap_index(target, 2).index == 1
    leap = leap_index(target, 2, in_any_basis=True)
    assert leap.index == 2
    np.testing.assert_allclose(np.abs(leap.steps[0].directions), [[sqrt(0.5), sqrt(0.5)]])


@pytest.mark.parametrize(
    ("target", "degrees"),
    [
        (lambda z: z[:, 0] + z[:, 0] * z[:, 1] + z[:, 1] * he(2, z[:, 2]), [1, 1, 2]),
        (lambda z: z[:, 0] * z[:, 1] + z.prod(axis=1), [2, 1]),
    ],
)
def test_the_leap_by_subspaces_does_not_depend_on_the_basis(target, degrees):
    turn, _ = np.linalg.qr(np.random.Generator(np.random.Philox(key=1)).normal(size=(3, 3)))
    plain = leap_index(target, 3, in_any_basis=True)
    turned = leap_index(lambda z: target(z @ turn), 3, in_any_basis=True)
    assert [step.degree for step in plain.steps] == [step.degree for step in turned.steps] == degrees
    for one, other in zip(plain.steps, turned.steps, strict=True):
        ours, theirs = np.array(one.directions), np.array(other.directions) @ turn
        np.testing.assert_allclose(theirs.T @ theirs, ours.T @ ours, atol=1e-9)


@pytest.mark.parametrize(
    ("link", "student", "verdict", "words"),
    [
        (Hermite(1), Erf(), Outlook.LEARNS, "every start"),
        (Hermite(2), Hermite(2), Outlook.LEARNS, "own side"),
        (Hermite(2), Series((0, 0, -1)), Outlook.NO, "opposite signs"),
        (Hermite(4), Relu(), Outlook.NO, "opposite signs"),
        (Hermite(3), Hermite(3), Outlook.HALF, "m0 > 0"),
        (Hermite(3), Erf(), Outlook.HALF, "m0 < 0"),
        (Hermite(3), Relu(), Outlook.NO, "ReLU is: it has no He_3"),
        (Hermite(2), Erf(), Outlook.NO, "odd and has no even"),
        (Hermite(4), Tanh(), Outlook.NO, "odd and has no even"),
        (Hermite(3), np.abs, Outlook.NO, "even and has no odd"),
        (Hermite(3), Series((0, 1, 1, 0, 0, 1)), Outlook.NO, "c_3 = 0"),
        (Series((0, 0, 0, 1, -1)), Relu(), Outlook.SLOWER, "exponent 4 instead of 3"),
        (Series((0, 0, 0, 1, 1)), Relu(), Outlook.NO, "least degree that both have is 4"),
    ],
)
def test_learnability_says_what_a_cold_start_comes_to(link, student, verdict, words):
    said = learnability(link, student)
    assert said.verdict is verdict
    assert words in said.words


def test_learnability_has_the_numbers_behind_its_words():
    said = learnability(Series((0, 0, 0, 1, -1)), Relu())
    assert (said.exponent, said.shared) == (3, 4)
    relu = unit_coefficients(Relu(), 4)
    assert said.product == pytest.approx(-sqrt(24 / 30) * relu[4] / sqrt(0.5 - relu[0] ** 2))
    assert learnability(Hermite(3), Relu()).shared is None
