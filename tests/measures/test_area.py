"""The area under a curve."""

import pytest

from headstart.measures import area_under


@pytest.mark.parametrize(
    ("axis", "curve", "area"),
    [
        ([0, 10, 20], [0.5, 0.5, 0.5], 0.5),
        ([0, 10], [0, 1], 0.5),
        ([0, 10, 40], [0, 1, 1], 0.875),
        ([5, 10, 40], [2, 2, 2], 2),
        ([0], [0.7], 0.7),
    ],
)
def test_the_area_is_the_mean_value_over_the_axis(axis, curve, area):
    assert area_under(axis, curve) == pytest.approx(area)
