"""Closed forms, series and points: three routes to the same expectations."""

from dataclasses import replace
from math import factorial, pi

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite_e

from headstart.tasks import Committee, Erf, Hermite, Relu, Series, Sign, Tanh
from headstart.theory.hermite import gaussian_rule, hermite_coefficients
from headstart.theory.one_neuron import one_neuron
from headstart.theory.overlap_closed_forms import (
    closed_expectations,
    erf_i2,
    erf_i2_noise,
    erf_i3,
    erf_i4,
    has_closed_form,
    wick,
)
from headstart.theory.overlap_quadrature import covariance_factor, point_expectations, use_sobol
from headstart.theory.overlap_setting import Setting, Wanted

NAMES = ("psi", "gf", "hd", "radial", "own", "cross")


def generator(seed):
    return np.random.Generator(np.random.Philox(key=seed))


def covariance(p, k, scale=1.0, seed=0):
    rows = generator(seed).normal(size=(p, 6))
    rows = scale * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.concatenate((rows, np.eye(6)[:k] / scale))
    return rows @ rows.T


def setting(link, student, p=1, feedback=True, noise=0.1):
    k = getattr(link, "directions", 1)
    return Setting(link, student, tuple(generator(9).uniform(0.3, 1, size=p).tolist()), k, noise, feedback)


def check(one, other, rtol):
    for names in (NAMES[:2], NAMES[2:]):
        scale = max(np.abs(getattr(other, name)).max() for name in names)
        for name in names:
            np.testing.assert_allclose(
                getattr(one, name), getattr(other, name), rtol=0, atol=rtol * max(scale, 1e-3), err_msg=name
            )


@pytest.mark.parametrize("scale", [1.0, 1.2])
@pytest.mark.parametrize(
    ("link", "student", "p", "rtol"),
    [
        (Erf(), Erf(), 1, 1e-9),
        (Erf(), Erf(), 2, 1e-5),
        (Committee(Erf(), 2), Erf(), 1, 2e-4),
        (Hermite(2), Hermite(2), 2, 1e-11),
        (Hermite(3), Hermite(3), 1, 1e-11),
        (Committee(Hermite(3), 2), Hermite(3), 1, 1e-11),
        (Hermite(4), Series((0.3, 1, 0.5)), 2, 1e-9),
    ],
)
def test_closed_forms_are_what_quadrature_finds(link, student, p, rtol, scale):
    for feedback in (True, False):
        case = setting(link, student, p, feedback)
        c = covariance(p, case.num_directions, scale)
        assert has_closed_form(case)
        assert not use_sobol(case)
        check(point_expectations(case, c, Wanted()), closed_expectations(case, c, Wanted()), rtol)


def test_closed_forms_with_four_fields_are_what_sobol_points_find():
    case = setting(Committee(Erf(), 2), Erf(), 2)
    c = covariance(2, 2)
    assert use_sobol(case)
    check(point_expectations(case, c, Wanted()), closed_expectations(case, c, Wanted()), 0.01)


def test_closed_forms_hold_where_the_covariance_is_singular():
    case = setting(Hermite(3), Hermite(3), 2)
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.6, 0.8]])
    c = rows @ rows.T
    assert covariance_factor(c).shape == (3, 2)
    check(point_expectations(case, c, Wanted()), closed_expectations(case, c, Wanted()), 1e-10)


def fields(c, seed=0):
    """Gauss-Hermite points of fields with covariance c, up to three of them."""
    x, w = hermite_e.hermegauss(30)
    points = np.stack(np.meshgrid(*[x] * len(c), indexing="ij"), axis=-1).reshape(-1, len(c))
    weights = np.prod(np.stack(np.meshgrid(*[w / w.sum()] * len(c), indexing="ij"), axis=-1), axis=-1).ravel()
    return (points @ np.linalg.cholesky(c).T).T, weights


def test_the_integrals_of_erf_are_their_closed_forms():
    c = covariance(2, 1, 1.1)
    (a, b, e), w = fields(c)
    s = Erf()
    assert erf_i2(c, 0, 1) == pytest.approx(w @ (s(a) * s(b)), abs=1e-7)
    assert erf_i3(c, 0, 1, 2) == pytest.approx(w @ (s.slope(a) * b * s(e)), abs=1e-7)
    assert erf_i3(c, 0, 0, 1) == pytest.approx(w @ (s.slope(a) * a * s(b)), abs=1e-8)
    assert erf_i2_noise(c, 0, 2) == pytest.approx(w @ (s.slope(a) * s.slope(e)), abs=1e-8)
    assert erf_i4(c, 0, 1, 2, 1) == pytest.approx(w @ (s.slope(a) * s.slope(b) * s(e) * s(b)), abs=1e-7)
    assert erf_i4(c, 0, 0, 2, 2) == pytest.approx(w @ (s.slope(a) ** 2 * s(e) ** 2), abs=1e-7)


def test_the_integrals_of_he_2_are_those_of_the_paper():
    c = covariance(2, 1, 1.3)
    i2 = 1 - c[0, 0] - c[1, 1] + c[0, 0] * c[1, 1] + 2 * c[0, 1] ** 2
    assert wick(c, (0, 1), (2, 2)) == pytest.approx(i2)
    i3 = -2 * c[0, 1] + 4 * c[0, 2] * c[1, 2] + 2 * c[0, 1] * c[2, 2]
    assert 2 * wick(c, (0, 1, 2), (1, 1, 2)) == pytest.approx(i3)
    assert 4 * wick(c, (0, 1), (1, 1)) == pytest.approx(4 * c[0, 1])


@settings(max_examples=25, deadline=None)
@given(st.tuples(*[st.integers(0, 4)] * 3), st.integers(0, 100))
def test_products_of_hermite_polynomials_are_sums_over_graphs(degrees, seed):
    c = covariance(2, 1, 1.15, seed)
    values, w = fields(c + 1e-9 * np.eye(3))
    he = [hermite_e.hermeval(x, [0.0] * k + [1.0]) for x, k in zip(values, degrees, strict=True)]
    np.testing.assert_allclose(wick(c, (0, 1, 2), degrees), w @ np.prod(he, axis=0), atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("m", [-0.6, 0.0, 0.3, 0.9])
@pytest.mark.parametrize(
    ("link", "student"),
    [(Hermite(3), Hermite(3)), (Erf(), Erf()), (Tanh(), Tanh()), (Hermite(4), Erf()), (Erf(), Series((0.2, 1, 0.3)))],
)
def test_the_series_of_one_neuron_is_what_quadrature_finds(link, student, m):
    for feedback in (True, False):
        case = setting(link, student, feedback=feedback)
        c = np.array([[1, m], [m, 1]])
        check(one_neuron(case).at(m), point_expectations(case, c, Wanted()), 1e-6)


@pytest.mark.parametrize("m", [-0.4, 0.3, 0.8])
def test_the_series_does_not_mind_kinks_and_jumps(m):
    # A kink in one field only: a rule of its own for that field, and Gauss-Hermite for the rest of the other.
    rest, weights = hermite_e.hermegauss(60)
    for link, student in ((Sign(), Hermite(3)), (Hermite(3), Relu()), (np.abs, Tanh())):
        case = setting(link, student)
        first = student if isinstance(student, Relu) else link
        x, w = gaussian_rule(first, 20)
        other = (m * x[:, None] + np.sqrt(1 - m * m) * rest).ravel()
        one = np.repeat(x, len(rest))
        w = np.multiply.outer(w, weights / weights.sum()).ravel()
        lam, star = (one, other) if isinstance(student, Relu) else (other, one)
        residual = link(star) - case.readout[0] * student(lam)
        square = student.slope(lam) ** 2 * (residual**2 + case.noise)
        radius = (lam**2 + star**2 - 2 * m * lam * star) / (1 - m * m)
        seen = one_neuron(case).at(m)
        scale = w @ (square * (1 + lam**2))
        assert seen.psi[0, 0] == pytest.approx(w @ (student.slope(lam) * star * residual), abs=1e-6 * scale)
        assert seen.gf[0, 0] == pytest.approx(w @ (student.slope(lam) * lam * residual), abs=1e-6 * scale)
        assert seen.hd[0, 0] == pytest.approx(w @ square, abs=1e-6 * scale)
        assert seen.own[0, 0] == pytest.approx(w @ (square * lam**2), abs=1e-6 * scale)
        assert seen.radial[0, 0] == pytest.approx(w @ (square * (radius - 2)), abs=1e-5 * scale)


@pytest.mark.parametrize("m", [-0.9, 0.0, 0.5, 1.0])
def test_relu_with_relu_is_the_arc_cosine_kernel(m):
    case = setting(Relu(), Relu(), feedback=False, noise=0.0)
    # E[1(lam > 0) lam*^2 1(lam* > 0)].
    known = 0.25 + (np.arcsin(m) + m * np.sqrt(1 - m * m)) / (2 * pi)
    assert one_neuron(case).psi(m) == pytest.approx(known, abs=1e-4 if m == 1 else 1e-8)


def test_the_parts_of_the_gradient_have_their_factorials():
    link, student = Series((0.3, 0.5, 0, 2, -1)), Tanh()
    c, star = hermite_coefficients(student, 30), np.array([0.3, 0.5, 0, 2, -1])
    case = setting(link, student)
    series = one_neuron(case)
    toward = [(k + 1) * factorial(k + 1) * c[k + 1] * star[k + 1] for k in range(4)]
    along = [factorial(k + 2) * c[k + 2] * star[k] for k in range(5)]
    back = gaussian_rule(student)
    along[0] -= case.readout[0] * back[1] @ (back[0] * student(back[0]) * student.slope(back[0]))
    np.testing.assert_allclose(series.toward.terms[:4], toward, atol=1e-10)
    np.testing.assert_allclose(series.along.terms[:5], along, atol=1e-10)
    m = 0.37
    assert series.psi(m) == pytest.approx(series.toward(m) + m * series.along(m))
    assert series.gf(m) == pytest.approx(m * series.toward(m) + series.along(m))


def test_a_rule_with_a_kink_is_given_up_for_sobol_points():
    assert use_sobol(setting(Relu(), Relu(), 2))
    assert not use_sobol(setting(Tanh(), Tanh(), 2))
    assert not has_closed_form(setting(Tanh(), Erf()))
    assert not has_closed_form(setting(Hermite(2), Series((1, 1, 1, 1))))
    one, other = (replace(setting(Relu(), Relu(), 2), noise=noise) for noise in (0.0, 1.0))
    c = covariance(2, 1)
    gap = point_expectations(other, c, Wanted()).hd - point_expectations(one, c, Wanted()).hd
    # D E[s'_j s'_l] is the chance that both fields are above 0.
    known = 0.25 + np.arcsin(np.clip(c[:2, :2], -1, 1)) / (2 * pi)
    np.testing.assert_allclose(gap, known, atol=1e-4)
