"""What is compared of a pair."""

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.measures import Behaviour, compare_pair

ONE = Behaviour(
    train_loss=np.array([0.1, 0.3]),
    train_error=np.array([0, 0]),
    test_loss=np.array([1.0, 0.5, 0.0, 0.25]),
    test_error=np.array([1, 0, 0, 1]),
    weights={"w": np.array([[3.0, 0.0]]), "b": np.array([4.0])},
)
OTHER = Behaviour(
    train_loss=np.array([9.0, 9.0]),
    train_error=np.array([1, 1]),
    test_loss=np.array([1.5, 0.5, 2.0, 0.0]),
    test_error=np.array([1, 0, 1, 1]),
    weights={"w": np.array([[0.0, 0.0]]), "b": np.array([0.0])},
)


def test_a_pair_is_compared_by_losses_gaps_and_distances():
    assert compare_pair(ONE, OTHER) == {
        "train_loss": pytest.approx(0.2),
        "test_loss": pytest.approx(0.4375),
        "train_error": 0,
        "test_error": 0.5,
        "loss_gap": pytest.approx(0.2375),
        "error_gap": 0.5,
        "stability": 2.0,
        "mean_stability": pytest.approx(2.75 / 4),
        "worst": 2,
        "distance": 5.0,
        "norm": 5.0,
        "other_norm": 0.0,
        "normalised_distance": 2.0,
    }


def test_without_z_its_row_does_not_count():
    found = compare_pair(ONE, OTHER, z=2)
    assert found["stability"] == 2.0
    assert found["stability_without_z"] == 0.5
    assert found["mean_stability_without_z"] == pytest.approx(0.25)


def test_a_network_is_at_no_distance_from_itself():
    found = compare_pair(OTHER, OTHER, z=0)
    names = ("stability", "mean_stability", "stability_without_z", "distance", "normalised_distance")
    assert [found[name] for name in names] == [0.0] * 5


def test_stability_is_the_same_both_ways():
    for name in ("stability", "mean_stability", "distance", "normalised_distance"):
        assert compare_pair(ONE, OTHER)[name] == compare_pair(OTHER, ONE)[name]


def test_z_is_one_of_the_test_rows():
    with pytest.raises(HeadstartError, match=r"z=4.*4 test rows"):
        compare_pair(ONE, OTHER, z=4)
