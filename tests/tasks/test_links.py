"""Links: their slopes, their names, and what is said of a wrong one."""

import numpy as np
import pytest

import headstart as hs
from headstart.tasks import Erf, Hermite, Relu, Series, Sign, Tanh, named_link

Z = np.linspace(-2.6, 2.6, 12)


@pytest.mark.parametrize("link", [Hermite(1), Hermite(4), Series((1, 0, 2, -0.5)), Series((3,)), Erf(), Tanh(), Relu()])
def test_a_slope_is_the_derivative(link):
    h = 1e-6
    np.testing.assert_allclose(link.slope(Z), (link(Z + h) - link(Z - h)) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "link"),
    [
        ("He3", Hermite(3)),
        ("he1 + 0.5*he3", Series((0, 1, 0, 0.5))),
        ("-He2", Series((0, 0, -1))),
        ("2He4-He1", Series((0, -1, 0, 0, 2))),
        ("erf", Erf()),
        ("Tanh", Tanh()),
        ("relu", Relu()),
        ("sign", Sign()),
    ],
)
def test_a_link_has_a_name(name, link):
    assert named_link(name) == link


@pytest.mark.parametrize("name", ["cube", "He", "He1.5", "", "He2+", "He-1", "nan*He2"])
def test_a_name_that_is_none_is_said_with_what_there_is(name):
    with pytest.raises(hs.HeadstartError, match=r"He3|finite"):
        named_link(name)


@pytest.mark.parametrize("coefficients", [(), (0, 0), (1, float("nan"))])
def test_a_series_of_nothing_is_refused(coefficients):
    with pytest.raises(hs.HeadstartError, match="coefficients"):
        Series(coefficients)
